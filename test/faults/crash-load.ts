/**
 * A load of every kind for a server that will crash: producers and consumers of three queues, in this process, on
 * connections that go through a proxy, with books of all that the server has promised them.
 *
 * Flat jobs with priorities, lanes with a ceiling, scheduled jobs, dedup ids, many in one write, flows of one queue and of
 * two; jobs that are done, retried, put off and dead; a consumer of batches.
 * Invariants: every id is minted here and is in the books before it is sent; producers wait while more than `BACKLOG` jobs
 * are open. Does not: crash anything.
 */
import { setTimeout as pause } from 'node:timers/promises';
import {
  Connector,
  DelayError,
  EmqError,
  Flows,
  Keyspace,
  Lanes,
  mint,
  Queue,
  UnrecoverableError,
  type BatchConsumer,
  type ConsumedJob,
  type Consumer,
  type Flow,
  type FlowChild,
  type PreparedFlow,
  type Verdict,
} from '../../src/index.js';
import { rng, type Rng } from '../../src/parity/prng.js';
import type { WorkerNode } from '../worker/support/nodes.js';
import { FaultyProxy } from '../worker/support/proxy.js';
import { Books, type Fate } from './crash-books.js';

/** So many jobs at most wait for their run, as far as the books know. */
const BACKLOG = 150;
const PRODUCERS = 3;
/** How often a handler may be tried: crashes are no reason to die. */
const MANY = 1_000;

interface Payload {
  readonly fate: Fate;
  readonly ms: number;
  /** Of any size, so that a write is sometimes cut in it. */
  readonly ballast: string;
}

/** The queues of a load: the third is served in batches. */
export const MAIN = new Keyspace('main');
export const SIDE = new Keyspace('side');
export const BULK = new Keyspace('bulk');
export const QUEUES = [MAIN, SIDE, BULK] as const;
/** On wire 6 one stall would be the end: a crash of the server is none. On wire 4 each is counted. */
export const mostStalls = (node: WorkerNode): number => (node.wire === 6 ? 1 : MANY);
const LANES = [mint('TEN'), mint('TEN'), mint('TEN')];

export class CrashLoad implements AsyncDisposable {
  readonly books = new Books();
  readonly #node: WorkerNode;
  readonly #proxy: FaultyProxy;
  /**
   * The end of the log may go. Who is in the middle of several steps then, as those that add a flow over two queues, or
   * take a letter from one to the other, goes on with the next one: there are no such flows.
   */
  readonly #lossy: boolean;
  readonly #connectors: Connector[] = [];
  readonly #consumers: (Consumer<Payload> | BatchConsumer<Payload>)[] = [];
  /** Flows over two queues that have not been answered. */
  readonly #unlanded = new Set<PreparedFlow>();
  #producing: Promise<unknown> = Promise.resolve();
  #flows: Flows<Payload> | undefined;
  #stopped = false;

  private constructor(node: WorkerNode, proxy: FaultyProxy, lossy: boolean) {
    this.#node = node;
    this.#proxy = proxy;
    this.#lossy = lossy;
  }

  /** @param lossy a crash may take back what was answered */
  static async start(node: WorkerNode, seed: number, lossy = false): Promise<CrashLoad> {
    const load = new CrashLoad(node, await FaultyProxy.start(node.port), lossy);
    await load.#consume();
    const connectors = await Promise.all(Array.from({ length: PRODUCERS }, () => load.#connect()));
    const [first] = connectors as [Connector];
    load.#flows = new Flows<Payload>(first, MAIN.queue);
    await new Lanes(first, MAIN.queue).setLimit('*', 2);
    load.#producing = Promise.all(connectors.map((connector, i) => load.#produce(connector, rng(seed + 1 + i))));
    return load;
  }

  /** No client reaches the server from now on, and none is answered. */
  async cutOff(): Promise<void> {
    await this.#proxy.refuse();
  }

  async letIn(): Promise<void> {
    await this.#proxy.accept();
  }

  /** No more jobs. Resolves when those that were being added are there, or were refused. */
  async finish(): Promise<void> {
    this.#stopped = true;
    await this.#producing;
    for (const flow of this.#unlanded) await this.#land(flow, 100);
    this.books.wrong.push(...[...this.#unlanded].map(({ id }) => `flow ${id} could not be added`));
  }

  /** The warnings and refusals that consumers told of, each kind once. */
  readonly told = new Set<string>();

  /** Ends the consumers: what they have been told is in the books. */
  async rest(): Promise<void> {
    await Promise.all(this.#consumers.map((consumer) => consumer.close({ timeoutMs: 0 })));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.rest();
    await Promise.all(this.#connectors.map((connector) => connector.close()));
    await this.#producing;
    await this.#proxy[Symbol.asyncDispose]();
  }

  async #connect(): Promise<Connector> {
    const connector = await Connector.connect({
      ...{ url: this.#proxy.url, wire: this.#node.wire, reconnectMinMs: 20, reconnectMaxMs: 100 },
    });
    this.#connectors.push(connector);
    return connector;
  }

  async #consume(): Promise<void> {
    const maxStalled = mostStalls(this.#node);
    const recovery = { recovery: 'stalled', maxStalled, deadLetter: false } as const;
    const options = { ...recovery, maxAttempts: MANY, retryDelayMs: 5, beatMs: 100 };
    for (const keys of [MAIN, MAIN, SIDE]) {
      const queue = new Queue<Payload>(await this.#connect(), keys.queue);
      this.#watch(queue.consume((job) => this.#work(job), { ...options, concurrency: 4 }));
    }
    const bulk = new Queue<Payload>(await this.#connect(), BULK.queue);
    const batch = async (jobs: readonly ConsumedJob<Payload>[]): Promise<Map<string, Verdict>> => {
      const verdicts = await Promise.allSettled(jobs.map((job) => this.#work(job)));
      return new Map(jobs.map(({ id }, i) => [id, verdictOf(verdicts[i] as PromiseSettledResult<unknown>)]));
    };
    this.#watch(bulk.consumeBatch(batch, { ...options, minSize: 3, maxSize: 10, timeoutMs: 50 }));
  }

  #watch(consumer: Consumer<Payload> | BatchConsumer<Payload>): void {
    this.#consumers.push(consumer);
    const one = consumer as Consumer<Payload>;
    one.on('completed', ({ id }) => this.books.completed(id));
    one.on('failed', ({ id }) => this.books.died(id));
    one.on('warning', ({ code }) => this.told.add(code));
    one.on('stalled', ({ dead }) => {
      if (dead.length > 0) this.books.wrong.push(`the sweep killed ${dead.join(' ')}`);
    });
  }

  async #work({ id, token, credit, attempts, payload }: ConsumedJob<Payload>): Promise<string> {
    this.books.begin(id, token);
    if (payload.ms > 0) await pause(payload.ms);
    switch (payload.fate) {
      case 'retry':
        if (attempts - credit < 2) throw new Error('try again');
        break;
      case 'delay':
        if (credit === 0) throw new DelayError(5);
        break;
      case 'die':
        throw new UnrecoverableError('as it was to be');
      case 'ok':
    }
    this.books.finish(id);
    return id;
  }

  // ---- producers --------------------------------------------------------------------------------------------------

  async #produce(connector: Connector, draw: Rng): Promise<void> {
    const main = new Queue<Payload>(connector, MAIN.queue);
    const bulk = new Queue<Payload>(connector, BULK.queue);
    const flows = new Flows<Payload>(connector, MAIN.queue);
    while (!this.#stopped) {
      if (this.books.open.size > BACKLOG) {
        await pause(2);
        continue;
      }
      const roll = draw.below(100);
      if (roll < 40) await this.#one(main, draw);
      else if (roll < 55) await this.#scheduled(main, draw);
      else if (roll < 75) await this.#many(draw.chance(50) ? bulk : main, draw);
      else if (roll < 90 || this.#lossy) await this.#flow(flows, draw);
      else await this.#wideFlow(draw);
      await pause(draw.below(4));
    }
  }

  /** A job that is in the books. */
  #job(queue: Keyspace, draw: Rng, fate = fateOf(draw)): { readonly id: string; readonly payload: Payload } {
    const id = mint();
    this.books.intend(id, queue, fate);
    return { id, payload: { fate, ms: draw.below(6), ballast: 'x'.repeat(draw.below(120)) } };
  }

  #placed(draw: Rng): { priority?: number; group?: string } {
    const roll = draw.below(10);
    return roll < 4 ? { group: draw.pick(LANES) } : roll < 6 ? { priority: draw.below(3) } : {};
  }

  async #one(queue: Queue<Payload>, draw: Rng): Promise<void> {
    const { id, payload } = this.#job(queue.keys, draw);
    const name = `d${draw.below(5)}`;
    const dedup = draw.chance(20) ? { dedup: { id: name, ...(draw.chance(50) && { ttlMs: 5_000 }) } } : {};
    await this.#note([id], async () => {
      const { outcome } = await queue.enqueue(payload, { id, ...this.#placed(draw), ...dedup });
      return outcome === 'enqueued' ? 'yes' : outcome === 'deduplicated' ? 'deduplicated' : 'unknown';
    });
  }

  async #scheduled(queue: Queue<Payload>, draw: Rng): Promise<void> {
    const { id, payload } = this.#job(queue.keys, draw);
    await this.#note([id], async () => {
      const { outcome } = await queue.schedule(payload, { inMs: draw.below(80) }, { id, ...this.#placed(draw) });
      return outcome === 'scheduled' ? 'yes' : 'unknown';
    });
  }

  async #many(queue: Queue<Payload>, draw: Rng): Promise<void> {
    const jobs = Array.from({ length: 1 + draw.below(12) }, () => this.#job(queue.keys, draw));
    const { era } = this.books;
    // the answers come together, some of them from before a crash
    for (const one of await queue.enqueueMany(jobs)) {
      if (one.outcome === 'enqueued') this.books.admit(one.id, era === this.books.era ? 'yes' : 'unknown');
      else if (one.outcome === 'failed' && one.error.code === 'EMQ_CONNECTION') this.books.admit(one.id, 'refused');
    }
  }

  /** A flow of one queue, which lands whole or not at all. */
  async #flow(flows: Flows<Payload>, draw: Rng): Promise<void> {
    const { flow, ids } = this.#planned(draw, () => MAIN);
    await this.#note(ids, async () => ((await flows.add(flow)).outcome === 'added' ? 'yes' : 'unknown'));
  }

  /** A flow of two queues, which lands in steps: made again until it is there. */
  async #wideFlow(draw: Rng): Promise<void> {
    const { flow } = this.#planned(draw, () => draw.pick([MAIN, SIDE]));
    const prepared = await (this.#flows as Flows<Payload>).prepare(flow);
    this.#unlanded.add(prepared);
    await this.#land(prepared, 3);
  }

  #planned(draw: Rng, where: () => Keyspace): { readonly flow: Flow<Payload>; readonly ids: readonly string[] } {
    const root = this.#job(MAIN, draw, 'ok');
    const children = Array.from({ length: 1 + draw.below(4) }, (): FlowChild & { readonly id: string } => {
      const queue = where();
      const { id, payload } = this.#job(queue, draw);
      return { id, payload, queue: queue.queue, onFailure: draw.pick(['fail', 'ignore', 'remove'] as const) };
    });
    const ids = children.map(({ id }) => id);
    this.books.flows.set(root.id, ids);
    return { flow: { ...root, children }, ids: [root.id, ...ids] };
  }

  async #land(flow: PreparedFlow, tries: number): Promise<void> {
    const ids = [flow.id, ...(this.books.flows.get(flow.id) ?? [])];
    for (let i = 0; i < tries; i++) {
      // it runs when all of it is there: what failed was only the last word
      const there = this.books.of(flow.id).runs.size > 0;
      try {
        if (!there) await (this.#flows as Flows<Payload>).add(flow);
        for (const id of ids) this.books.admit(id, 'yes');
        this.#unlanded.delete(flow);
        return;
      } catch (error) {
        this.#passes(error);
        await pause(20);
      }
    }
  }

  /** Notes what became of an admission that takes effect once or not at all. */
  async #note(ids: readonly string[], add: () => Promise<'yes' | 'deduplicated' | 'unknown'>): Promise<void> {
    try {
      const outcome = await add();
      for (const id of ids) this.books.admit(id, outcome);
    } catch (error) {
      // nothing was sent
      if (this.#passes(error) === 'EMQ_CONNECTION') for (const id of ids) this.books.admit(id, 'refused');
    }
  }

  /** A crash is no excuse for any other error. */
  #passes(error: unknown): string {
    const code = error instanceof EmqError ? error.code : '';
    const passing = ['EMQ_CONNECTION', 'EMQ_UNKNOWN_OUTCOME', 'EMQ_TIMEOUT', 'EMQ_CLOSED', 'LOADING'];
    if (!passing.includes(code)) this.books.wrong.push(`an admission met ${String(error)}`);
    return code;
  }
}

function fateOf(draw: Rng): Fate {
  const roll = draw.below(100);
  return roll < 70 ? 'ok' : roll < 82 ? 'retry' : roll < 94 ? 'delay' : 'die';
}

function verdictOf(settled: PromiseSettledResult<unknown>): Verdict {
  if (settled.status === 'fulfilled') return { complete: settled.value };
  const thrown = settled.reason as Error;
  return thrown instanceof DelayError ? { delay: thrown.runAt } : { fail: thrown };
}
