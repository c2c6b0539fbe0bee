/**
 * Runs transitions on whatever queue a flow's jobs are in.
 *
 * Invariants: rejects with `EmqError` only, which names the transition and the queue; a call is sent in the turn in which it
 * is made. Does not: repeat anything.
 */
import type { Call, Transition } from '../wire/call.js';
import { EmqError } from '../wire/errors.js';
import { Keyspace } from '../wire/keyspace.js';
import type { Wire } from './jobs.js';
import type { Runs } from './child.js';

export class QueueRunner {
  readonly wire: Wire;
  readonly #keys = new Map<string, Keyspace>();

  constructor(wire: Wire) {
    this.wire = wire;
  }

  /** @throws EmqError `EMQ_INPUT` for a queue name outside the grammar. */
  keys(queue: string): Keyspace {
    const known = this.#keys.get(queue);
    if (known !== undefined) return known;
    const keys = new Keyspace(queue);
    // letters may name any number of queues
    if (this.#keys.size >= 1_000) this.#keys.clear();
    this.#keys.set(queue, keys);
    return keys;
  }

  call<I, R>(queue: string, transition: Transition<I, R>, input: I): Call {
    return { transition, queue, ...transition.layout(this.keys(queue), input) };
  }

  async run<I, R>(queue: string, transition: Transition<I, R>, input: I): Promise<R> {
    try {
      return transition.read(await this.wire.run(this.call(queue, transition, input)));
    } catch (error) {
      const known = error instanceof EmqError ? error : new EmqError('ERR', (error as Error).message, { cause: error });
      throw known.during(`${transition.name} on queue ${queue}`);
    }
  }

  /** The same for one queue. */
  on(queue: string): Runs {
    return { run: (transition, input) => this.run(queue, transition, input) };
  }
}
