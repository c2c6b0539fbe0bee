/**
 * A load for a place that loses its primary: producers with and without durability, and consumers, with books of what was
 * promised and what was run.
 *
 * Invariants: every id is minted here and in the books before it is sent. A durable producer repeats an admission under its
 * id until it is confirmed; a plain one never does. Connections have the options that a user's have.
 * Does not: fail anything over.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { vi } from 'vitest';
import {
  Connector,
  EmqError,
  mint,
  Queue,
  type ConnectorOptions,
  type Consumer,
  type Durability,
} from '../../src/index.js';
import type { Rng } from '../../src/parity/prng.js';
import type { Wire } from '../worker/support/nodes.js';

/** What a caller may be told while a primary is lost: all of it typed, all of it true. */
const EXPECTED: ReadonlySet<string> = new Set([
  ...['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME', 'EMQ_DURABILITY', 'EMQ_TIMEOUT'],
  ...['READONLY', 'LOADING', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'MOVED'],
]);
const BACKLOG = 60;
const PRODUCERS = 2;
/** No job is to die of a failover where its stalls are not counted: the first that is counted would be its end. */
export const mostStalls = (wire: Wire): number => (wire === 6 ? 1 : 1_000);

interface Entry {
  readonly queue: string;
  readonly durable: boolean;
  /** The producer was told that it is there. */
  confirmed: boolean;
  runs: number;
}

/** The first of each kind that began after a moment and went well, and how long after it that was, ms. */
export interface Back {
  readonly enqueued: number;
  readonly done: number;
}

export class FailoverLoad implements AsyncDisposable {
  readonly jobs = new Map<string, Entry>();
  /** What producers were told, by code. */
  readonly told = new Map<string, number>();
  /** What nobody should have been told. */
  readonly wrong: string[] = [];
  /** When a durable admission was last confirmed. */
  lastConfirmed = 0;
  readonly #connectors: readonly Connector[];
  readonly #consumers: Consumer<number>[] = [];
  readonly #producers: Promise<void>[] = [];
  readonly #claimed = new Map<string, number>();
  #open = 0;
  #producing = true;
  #disposed = false;
  #since = Infinity;
  #enqueued: number | undefined;
  #done: number | undefined;

  private constructor(connectors: readonly Connector[]) {
    this.#connectors = connectors;
  }

  static async start(
    wire: Wire,
    options: ConnectorOptions,
    queues: readonly string[],
    durability: Durability,
    draw: Rng,
  ): Promise<FailoverLoad> {
    const connectors: Connector[] = [];
    for (let i = 0; i < 3; i++) connectors.push(await Connector.connect({ ...options, wire }));
    const load = new FailoverLoad(connectors);
    const [producers, ...consumers] = connectors as [Connector, ...Connector[]];
    for (const queue of queues) {
      for (const connector of consumers) load.#consume(new Queue<number>(connector, queue), wire, draw);
      for (let i = 0; i < PRODUCERS; i++) {
        load.#producers.push(load.#plain(new Queue<number>(producers, queue), draw));
        load.#producers.push(load.#durable(new Queue<number>(producers, queue, { durability }), draw));
      }
    }
    return load;
  }

  /** Resolves when an enqueue and a run have gone well that began after that moment. */
  async back(at: number): Promise<Back> {
    this.#enqueued = this.#done = undefined;
    this.#since = at;
    // some may be lost for good
    this.#open = 0;
    await vi.waitUntil(() => this.#enqueued !== undefined && this.#done !== undefined, {
      timeout: 30_000,
      interval: 5,
    });
    this.#since = Infinity;
    return { enqueued: (this.#enqueued ?? 0) - at, done: (this.#done ?? 0) - at };
  }

  /** No more jobs. Resolves when every durable admission that was begun is confirmed. */
  async finish(): Promise<void> {
    this.#producing = false;
    await Promise.all(this.#producers);
  }

  /** Jobs that were confirmed and never ran. */
  unrun(durable: boolean): string[] {
    return [...this.jobs]
      .filter(([, one]) => one.durable === durable && one.confirmed && one.runs === 0)
      .map(([id, { queue }]) => `${id} of ${queue}`);
  }

  count(which: (entry: Entry) => boolean): number {
    return [...this.jobs.values()].filter(which).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#producing = false;
    this.#disposed = true;
    await Promise.all(this.#consumers.map((consumer) => consumer.close({ timeoutMs: 1_000 })));
    await Promise.all(this.#connectors.map((connector) => connector.close()));
    await Promise.allSettled(this.#producers);
  }

  #consume(queue: Queue<number>, wire: Wire, draw: Rng): void {
    const consumer = queue.consume(
      async (job) => {
        const entry = this.jobs.get(job.id);
        if (entry === undefined) this.wrong.push(`a job that nobody added ran: ${job.id}`);
        else if (entry.runs++ === 0 && entry.confirmed) this.#open--;
        // some are held by their consumers when the primary goes
        await pause(draw.chance(20) ? draw.below(1_500) : draw.below(5));
      },
      {
        ...{ concurrency: 4, leaseMs: 5_000, beatMs: 200, recovery: 'stalled' },
        ...{ maxStalled: mostStalls(wire), maxAttempts: 1_000, retryDelayMs: 10 },
      },
    );
    consumer.on('claimed', ({ id }) => this.#claimed.set(id, performance.now()));
    consumer.on('completed', ({ id }) => {
      if ((this.#claimed.get(id) ?? 0) > this.#since) this.#done ??= performance.now();
    });
    this.#consumers.push(consumer);
  }

  async #plain(queue: Queue<number>, draw: Rng): Promise<void> {
    while (this.#producing) {
      const entry = await this.#next(queue.queue, false, draw);
      await this.#enqueue(queue, ...entry);
    }
  }

  async #durable(queue: Queue<number>, draw: Rng): Promise<void> {
    while (this.#producing) {
      const [id, entry] = await this.#next(queue.queue, true, draw);
      for (const deadline = performance.now() + 60_000; !(await this.#enqueue(queue, id, entry));) {
        if (this.#disposed) return;
        if (performance.now() > deadline) return void this.wrong.push(`${id} was not confirmed within a minute`);
        await pause(20);
      }
      this.lastConfirmed = performance.now();
    }
  }

  async #next(queue: string, durable: boolean, draw: Rng): Promise<[string, Entry]> {
    await pause(draw.below(12));
    while (this.#open > BACKLOG && this.#producing) await pause(10);
    const id = mint();
    const entry: Entry = { queue, durable, confirmed: false, runs: 0 };
    this.jobs.set(id, entry);
    return [id, entry];
  }

  /** True: the server has said that the job is there. */
  async #enqueue(queue: Queue<number>, id: string, entry: Entry): Promise<boolean> {
    const begun = performance.now();
    try {
      await queue.enqueue(1, { id });
      if (!entry.durable && begun > this.#since) this.#enqueued ??= performance.now();
      if (!entry.confirmed && entry.runs === 0) this.#open++;
      entry.confirmed = true;
      return true;
    } catch (error) {
      const code = error instanceof EmqError ? error.code : String(error);
      this.told.set(code, (this.told.get(code) ?? 0) + 1);
      if (!EXPECTED.has(code)) this.wrong.push(`a producer was told ${String(error)}`);
      return false;
    }
  }
}
