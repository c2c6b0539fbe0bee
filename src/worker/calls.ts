/**
 * How the worker runs transitions of its queue.
 *
 * Invariants: rejects with `EmqError` only; a call is sent in the turn in which it is made, so that calls made together
 * leave together. Does not: retry (the connector does what is harmless, the worker knows the rest).
 */
import type { Call, Transition } from '../wire/call.js';
import type { Connector } from '../wire/connector.js';
import { EmqError } from '../wire/errors.js';
import type { Keyspace } from '../wire/keyspace.js';

/** Runs transitions on one queue. */
export class Runner {
  readonly #wire: Pick<Connector, 'run'>;
  readonly #keys: Keyspace;

  constructor(wire: Pick<Connector, 'run'>, keys: Keyspace) {
    this.#wire = wire;
    this.#keys = keys;
  }

  /** @throws EmqError; a reply that makes no sense is `ERR`. */
  run<I extends object | void, R>(transition: Transition<I, R>, input: I): Promise<R> {
    return this.#run(transition, input, {});
  }

  /** As `run`, but only on the connection that is up now, and never a second time. */
  runOnce<I extends object | void, R>(transition: Transition<I, R>, input: I): Promise<R> {
    return this.#run(transition, input, { once: true });
  }

  async #run<I extends object | void, R>(transition: Transition<I, R>, input: I, how: Pick<Call, 'once'>): Promise<R> {
    const id = typeof input === 'object' && 'id' in input ? ` ${String(input.id)}` : '';
    try {
      const call: Call = { transition, queue: this.#keys.queue, ...transition.layout(this.#keys, input), ...how };
      return transition.read(await this.#wire.run(call));
    } catch (error) {
      const known = error instanceof EmqError ? error : new EmqError('ERR', (error as Error).message, { cause: error });
      throw known.during(`${transition.name}${id} on queue ${this.#keys.queue}`);
    }
  }
}

/** What passes by itself: the server or the way to it is not ready, nothing is wrong with the call. */
const PASSING: ReadonlySet<string> = new Set([
  ...[
    'EMQ_CONNECTION',
    'EMQ_TIMEOUT',
    'EMQWIRE',
    'EMQ_EVICTION',
    'LOADING',
    'READONLY',
    'MASTERDOWN',
    'CLUSTERDOWN',
    'TRYAGAIN',
  ],
  ...['BUSY', 'MISCONF', 'OOM', 'NOREPLICAS', 'MOVED', 'ASK', 'NOAUTH', 'UNKILLABLE'],
]);

export function mayPass(error: EmqError): boolean {
  return PASSING.has(error.code);
}

/** A stored counter or a key that is not what it should be: what `quarantine` is for. */
export function isUnreadable(error: EmqError): boolean {
  return error.code === 'WRONGTYPE' || (error.code === 'ERR' && / stored .* is not an integer/.test(error.message));
}
