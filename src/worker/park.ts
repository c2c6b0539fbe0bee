/**
 * The one blocked connection of a queue in this process: waits for wake tokens while a slot is free.
 *
 * Invariants: it blocks only while somebody could serve what wakes it; a token that came when all slots had been filled
 * meanwhile is passed on; a connection that breaks, or goes half-open, is replaced with a growing pause, for ever, until
 * it is stopped; a stop ends the block at once.
 * Does not: claim. What is missed while there is no connection is found at the next beat.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Connector } from '../wire/connector.js';
import type { EmqError } from '../wire/errors.js';
import type { Keyspace } from '../wire/keyspace.js';
import type { Link } from '../wire/transport.js';

/** What the park asks and tells. */
export interface ParkSide {
  /** Whether a slot is free. */
  readonly free: boolean;
  /** A token was popped and a slot is free: resolves when the free slots have been served. Never rejects. */
  woken(): Promise<void>;
  /** A token was popped and nobody can serve it. Never rejects. */
  passOn(): Promise<void>;
  trouble(error: EmqError): void;
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** One block; short enough that a lost reply is noticed soon. */
const LONGEST_BLOCK_MS = 1_000;

export class Park {
  readonly #connector: Connector;
  readonly #keys: Keyspace;
  readonly #side: ParkSide;
  readonly #blockMs: number;
  readonly #stopping = new AbortController();
  #link: Link | undefined;
  #freed: (() => void) | undefined;
  /** Ends the wait for whatever a token was popped for. */
  #letGo: (() => void) | undefined;
  readonly #over: Promise<void>;

  constructor(connector: Connector, keys: Keyspace, beatMs: number, side: ParkSide) {
    this.#connector = connector;
    this.#keys = keys;
    this.#side = side;
    this.#blockMs = Math.min(beatMs, LONGEST_BLOCK_MS);
    this.#over = this.#run();
  }

  /** A slot may be free now. */
  freed(): void {
    this.#freed?.();
  }

  /** Ends the block. Resolves when no connection is left. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#freed?.();
    this.#letGo?.();
    await this.#link?.destroy();
    await this.#over;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    let failures = 0;
    while (!signal.aborted) {
      if (!this.#side.free) {
        await new Promise<void>((resolve) => (this.#freed = resolve));
        this.#freed = undefined;
        continue;
      }
      try {
        const woken = await this.#block();
        failures = 0;
        if (!woken) continue;
        const served = this.#side.free && !signal.aborted ? this.#side.woken() : this.#side.passOn();
        // A stop does not wait for a server that answers no call. Not a race with a promise that lives as long as this
        // does: it would hold on to every wake.
        if (signal.aborted) continue;
        await new Promise<void>((resolve) => {
          this.#letGo = resolve;
          void served.then(resolve);
        });
      } catch (error) {
        await this.#link?.destroy();
        this.#link = undefined;
        if (signal.aborted) return;
        if (failures++ > 0) this.#side.trouble(error as EmqError);
        const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 10));
        await pause(longest * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {});
      }
    }
  }

  /** True if a token was popped. @throws EmqError */
  async #block(): Promise<boolean> {
    const { signal } = this.#stopping;
    if (this.#link?.usable !== true) {
      await this.#link?.destroy();
      this.#link = await this.#connector.openDedicated(signal, { queue: this.#keys.queue, blockMs: this.#blockMs });
      // stop() came while it was being opened and could not see it
      if (signal.aborted) await this.#link.destroy();
    }
    const seconds = (this.#blockMs / 1_000).toFixed(3);
    return (await this.#link.ask(this.#keys.queue, 'BLPOP', [this.#keys.wake, seconds])) !== null;
  }
}
