/**
 * Taking a whole queue away, in bounded steps.
 *
 * Invariants: no step takes more than 100 jobs; what is cut short goes on with the next call, wherever it stopped; letters
 * to flow parents in other queues are delivered before the outbox goes, or it stays (without `force`).
 * Does not: stop consumers or producers: a queue that is used again is there again.
 */
import { EmqError } from '../wire/errors.js';
import { transitions } from '../wire/transitions.js';
import type { Runs } from './child.js';
import type { Courier } from './flow-delivery.js';
import { STEP } from './lane-walk.js';

export interface Obliterated {
  /** Calls that it took. */
  readonly steps: number;
  /** Letters to flow parents in other queues that were delivered on the way. */
  readonly delivered: number;
}

const WHAT_TO_DO: Readonly<Record<string, string>> = {
  'EMQSTATE not paused': 'everything goes with it, so pause the queue first (pause())',
  'EMQSTATE active jobs present':
    'wait until they are settled, or give force: their handlers run on, and their settles find nothing',
};

/** @throws EmqError `EMQSTATE` that says what to do. */
export async function obliterate(runs: Runs, courier: Courier, force: boolean): Promise<Obliterated> {
  let [steps, delivered, idle] = [0, 0, false];
  for (;;) {
    steps += 1;
    const now = await step(runs, force);
    if (now === 'done') return { steps, delivered };
    if (now === 'more' && !force) {
      idle = false;
      continue;
    }
    // With force the outbox goes with the last step, whatever is in it: what can be delivered is delivered before.
    const report = await courier.deliver();
    const went = report.delivered + report.poison.length;
    delivered += report.delivered;
    if (force) continue;
    if (went === 0 && idle) throw undelivered(report.left, report.errors[0]);
    idle = went === 0;
  }
}

async function step(runs: Runs, force: boolean): Promise<'more' | 'letters' | 'done'> {
  try {
    return await runs.run(transitions.obliterate, { force, limit: STEP });
  } catch (error) {
    const what = error instanceof EmqError ? WHAT_TO_DO[error.reason] : undefined;
    if (what === undefined) throw error;
    const { code, reason } = error as EmqError;
    throw new EmqError(code, `${reason}: ${what}`, { cause: error });
  }
}

function undelivered(left: number, cause: EmqError | undefined): EmqError {
  const why = cause === undefined ? '' : ` (${cause.message})`;
  return new EmqError(
    'EMQSTATE',
    `EMQSTATE ${left} letters to flow parents in other queues cannot be delivered${why}: the jobs are gone, the letters stay. Mend what stops them and call again, or give force: those parents then wait until somebody removes them`,
    { cause },
  );
}
