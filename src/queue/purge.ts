/**
 * Taking out many jobs, in bounded steps.
 *
 * Invariants: no step looks at more than 100 jobs; each is expelled as by a cancel: its dedup id is freed, flow parents are
 * told, its own open children are to be cancelled. Cut short, what was done stays done: begin again.
 * Does not: touch jobs in flight.
 */
import type { PurgePlace } from '../wire/control-transitions.js';
import { transitions } from '../wire/transitions.js';
import type { Runs } from './child.js';
import { STEP } from './lane-walk.js';

export interface Purged {
  /** Jobs that are gone. */
  readonly removed: number;
  /** Jobs that stay, since a `:lock`, or a field `lock` of the row, holds them. */
  readonly kept: number;
}

/**
 * @param reason what letters to flow parents say.
 * @param bounds only jobs of a score that is so long past (ms), or of which there are more than so many.
 */
export async function purge(
  runs: Runs,
  place: PurgePlace,
  reason: string,
  bounds: { readonly ageMs?: number | undefined; readonly keep?: number | undefined } = {},
): Promise<Purged> {
  let [removed, kept] = [0, 0];
  for (;;) {
    const step = await runs.run(transitions.purge, { place, reason, offset: kept, limit: STEP, ...bounds });
    removed += step.removed;
    kept += step.kept;
    if (step.removed + step.kept < STEP) return { removed, kept };
  }
}
