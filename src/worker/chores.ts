/**
 * What a queue needs now and then, and who works for it does: the dead are kept within bounds, the counters of finished
 * jobs become a history.
 *
 * Invariants: it is done at beats, in bounded steps that other calls come between, and never holds up a beat; it never
 * rejects. Any number of processes may do it: whoever finds nothing to do writes nothing.
 * Does not: keep time by itself (metronome.ts calls it).
 */
import type { EmqError } from '../wire/errors.js';
import { transitions } from '../wire/transitions.js';
import type { Runner } from './calls.js';
import type { DeadLetter } from './options.js';

const TRIM_EVERY_MS = 60_000;
/** The server counts whole minutes: asked more often than that, so that none is missed. */
const ROLL_EVERY_MS = 20_000;
/** So many of the dead are looked at in one step. */
const STEP = 100;

export class Chores {
  readonly #runner: Runner;
  readonly #trouble: (error: EmqError) => void;
  #trimmedAt = -Infinity;
  #rolledAt = -Infinity;
  #trimming: Promise<boolean> | undefined;
  #troubled = false;
  #stopped = false;

  constructor(runner: Runner, trouble: (error: EmqError) => void) {
    this.#runner = runner;
    this.#trouble = trouble;
  }

  /** The last trim met something that it has told, and that lasts. */
  get troubled(): boolean {
    return this.#troubled;
  }

  /** Does what is due. @param bounds undefined: nobody here trims. */
  attend(bounds: DeadLetter | undefined): void {
    const now = performance.now();
    if (now - this.#rolledAt >= ROLL_EVERY_MS) {
      this.#rolledAt = now;
      // a minute of history is not worth a warning
      this.#runner.run(transitions.metricsRoll, undefined).catch(() => {});
    }
    if (bounds === undefined || this.#trimming !== undefined || now - this.#trimmedAt < TRIM_EVERY_MS) return;
    this.#trimmedAt = now;
    this.#trimming = this.#trim(bounds).finally(() => (this.#trimming = undefined));
  }

  stop(): void {
    this.#stopped = true;
  }

  /** True when all is within bounds. */
  async #trim({ maxJobs, maxAgeMs }: DeadLetter): Promise<boolean> {
    const input = { place: 'dead', reason: 'trimmed', limit: STEP, ageMs: maxAgeMs, keep: maxJobs } as const;
    try {
      // those that are locked stay, before others that can go
      for (let offset = 0, full = true; full && !this.#stopped;) {
        const { removed, kept } = await this.#runner.run(transitions.purge, { ...input, offset });
        offset += kept;
        full = removed + kept >= STEP;
      }
      this.#troubled = false;
    } catch (error) {
      this.#troubled = true;
      if (!this.#stopped) this.#trouble(error as EmqError);
    }
    return !this.#troubled;
  }
}
