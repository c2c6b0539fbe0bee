/**
 * Publishes lifecycle events of one queue, after the transitions they tell of.
 *
 * Invariants: events of one turn leave in one call; an event is published at most once, and a job never waits for it; a
 * user who may not publish is told once, and no more is tried.
 * Does not: decide what is worth an event.
 */
import { eventText } from '../bus/event.js';
import type { EmqError } from '../wire/errors.js';
import { transitions } from '../wire/transitions.js';
import type { Runner } from './calls.js';

/** So many events go into one call. */
const MOST_AT_ONCE = 1_000;

export class Publisher {
  readonly #runner: Runner;
  readonly #trouble: (error: EmqError) => void;
  #queued: string[] = [];
  #refused = false;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(runner: Runner, trouble: (error: EmqError) => void) {
    this.#runner = runner;
    this.#trouble = trouble;
  }

  publish(event: string, job: string, extras: Readonly<Record<string, string>> = {}): void {
    if (this.#refused) return;
    if (this.#queued.push(eventText(event, job, extras)) === 1) queueMicrotask(() => this.#flush());
  }

  /** Resolves when all that was published has been answered. Never rejects. */
  async settled(): Promise<void> {
    this.#flush();
    await Promise.allSettled(this.#underWay);
  }

  #flush(): void {
    const queued = this.#queued;
    this.#queued = [];
    for (let i = 0; i < queued.length; i += MOST_AT_ONCE) {
      const sent = this.#runner
        .run(transitions.publish, { messages: queued.slice(i, i + MOST_AT_ONCE) })
        .catch((error: unknown) => {
          const { code } = error as EmqError;
          // What was lost with a connection is lost: events are a courtesy, the keyspace is the truth.
          if (code !== 'NOPERM' || this.#refused) return;
          this.#refused = true;
          this.#trouble(error as EmqError);
        })
        .finally(() => this.#underWay.delete(sent));
      this.#underWay.add(sent);
    }
  }
}
