/**
 * What has to be done for a queue at every beat: due jobs are promoted, lapsed leases recovered.
 *
 * Invariants: a leg that fails does not keep the others from running, now or at the next beat; a sweep is sent on the
 * connection that is up or not at all, so that it is never the first thing after a reconnect; every leg is bounded, and
 * says when more is left.
 * Does not: keep time (metronome.ts), or know who works.
 */
import type { EmqError } from '../wire/errors.js';
import { transitions } from '../wire/transitions.js';
import type { Runner } from './calls.js';

/** How lapsed leases are recovered. */
export type Leg = 'reap' | 'stalled';

/** What one pass found. */
export interface Swept {
  /** Jobs that wait again, due ones and recovered ones. */
  readonly moved: number;
  /** A leg has reached its limit: there is more to do now. */
  readonly more: boolean;
  /** When the next scheduled job is due, in ms from now; null when none is, undefined when that could not be read. */
  readonly dueInMs: number | null | undefined;
  /** When the next repeat is due, in ms from now; as above. */
  readonly repeatInMs: number | null | undefined;
  /** The queue or a lane has a rate. */
  readonly limited: boolean | undefined;
  /** The recovery leg that is kept for the queue; null when none is, undefined when that could not be read. */
  readonly leg: Leg | null | undefined;
  /** Letters that wait to be delivered; null when their key is no list, undefined when that could not be read. */
  readonly letters: number | null | undefined;
  /** What the counted sweep recovered, and what it killed. */
  readonly stalled: { readonly recovered: readonly string[]; readonly dead: readonly string[] };
  readonly errors: readonly EmqError[];
}

/** What is due and when, read between two passes. */
export type Due = Pick<Swept, 'letters'> & {
  readonly dueInMs: number | null;
  readonly repeatInMs: number | null;
  readonly limited: boolean;
  readonly leg: Leg | null;
};

/** How many jobs one leg moves at one beat. */
const LIMIT = 100;
const NOTHING = { recovered: [], dead: [] };

export class Pump {
  readonly #runner: Runner;

  constructor(runner: Runner) {
    this.#runner = runner;
  }

  /** One pass; all its calls leave together. Never rejects. */
  async sweep(leg: Leg | undefined, maxStalled: number): Promise<Swept> {
    const errors: EmqError[] = [];
    const failed = (error: unknown): undefined => void errors.push(error as EmqError);
    const [promoted, recovered, agenda] = await Promise.all([
      this.#runner.run(transitions.promote, { limit: LIMIT }).catch(failed),
      this.#recover(leg, maxStalled).catch(failed),
      this.agenda().catch(failed),
    ]);
    const { count = 0, stalled = NOTHING } = recovered ?? {};
    return {
      moved: (promoted ?? 0) + count,
      more: (promoted ?? 0) >= LIMIT || count === LIMIT,
      dueInMs: agenda?.dueInMs,
      repeatInMs: agenda?.repeatInMs,
      limited: agenda?.limited,
      leg: agenda?.leg,
      letters: agenda?.letters,
      stalled,
      errors,
    };
  }

  /** @throws EmqError */
  async agenda(): Promise<Due> {
    const { recovery, ...due } = await this.#runner.run(transitions.agenda, undefined);
    return { ...due, leg: recovery === 'reap' || recovery === 'stalled' ? recovery : null };
  }

  /** Keeps the leg for the queue unless one is kept already; gives the one that stands. @throws EmqError */
  async keep(leg: Leg): Promise<Leg> {
    const stands = await this.#runner.run(transitions.recovery, { leg, mode: 'keep' });
    return stands === 'stalled' ? 'stalled' : 'reap';
  }

  async #recover(
    leg: Leg | undefined,
    maxStalled: number,
  ): Promise<{ count: number; stalled?: Swept['stalled'] } | undefined> {
    if (leg === undefined) return undefined;
    if (leg === 'reap') return { count: await this.#runner.runOnce(transitions.reap, { limit: LIMIT }) };
    const stalled = await this.#runner.runOnce(transitions.stalledCheck, { maxStalled, limit: LIMIT });
    return { count: stalled.recovered.length + stalled.dead.length, stalled };
  }
}
