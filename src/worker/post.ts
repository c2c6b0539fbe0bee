/**
 * Delivers a queue's letters from this process, when it is told that there are some.
 *
 * Invariants: one pass at a time; what is told during a pass makes another after it; it never rejects and holds nothing
 * open. Does not: look for letters by itself (the metronome does, at every beat).
 */
import { Courier } from '../queue/flow-delivery.js';
import { QueueRunner } from '../queue/runner.js';
import type { Connector } from '../wire/connector.js';
import { EmqError } from '../wire/errors.js';

/** Whom it tells. */
export interface PostSide {
  /** Something is wrong that may pass. */
  trouble(error: EmqError): void;
  /** A letter was moved aside for good. */
  poison(error: EmqError): void;
}

export class Post {
  readonly #courier: Courier;
  readonly #queue: string;
  readonly #side: PostSide;
  #pass: Promise<void> | undefined;
  #again = false;
  #troubled = false;

  constructor(connector: Connector, queue: string, side: PostSide) {
    this.#courier = new Courier(new QueueRunner(connector), queue);
    this.#queue = queue;
    this.#side = side;
  }

  /** The last pass could not deliver all: what it met has been told, and lasts. */
  get troubled(): boolean {
    return this.#troubled;
  }

  deliver(): void {
    if (this.#pass !== undefined) this.#again = true;
    else this.#pass = this.#deliver();
  }

  /** Resolves when the pass that is under way has ended. */
  async settled(): Promise<void> {
    this.#again = false;
    await this.#pass;
  }

  async #deliver(): Promise<void> {
    do {
      this.#again = false;
      const { poison, errors, more } = await this.#courier.deliver();
      for (const { why } of poison) {
        const text = `ERR a letter on flow:outbox of queue ${this.#queue} was moved aside to flow:poison: ${why}`;
        this.#side.poison(new EmqError('ERR', text));
      }
      this.#troubled = errors.length > 0;
      for (const error of errors) this.#side.trouble(error);
      this.#again ||= more && errors.length === 0;
    } while (this.#again);
    this.#pass = undefined;
  }
}
