/**
 * A slot that moves while everything goes on in it: producers, consumers, lanes, flows with children elsewhere, repeats and
 * batches. For the bounded and the long suite.
 *
 * What holds: every call is answered as if nothing had happened; each job that was added runs, and runs once, since no lease
 * lapses; each parent hears of each child once; in the end nothing is left over, and the audit finds nothing. Does not: lose a
 * node.
 */
import { expect, vi } from 'vitest';
import { Admin, Connector, Flows, Lanes, mint, Queue, Repeats, type Consumer, type EmqError } from '../../src/index.js';
import { flowViolations } from '../../src/parity/flow-invariants.js';
import { violations } from '../../src/parity/invariants.js';
import { readKeys, type Keys } from '../../src/parity/keyspace-dump.js';
import { slotOf, type Move, type Nodes } from './nodes.js';

type Wire = 4 | 6;

const SOON = { timeout: 30_000, interval: 20 };
/** Between two jobs of one kind, ms. */
const PACE_MS = 5;

/** What was added, and what ran. */
class Ledger {
  readonly added = new Set<string>();
  /** By payload: how often it ran. */
  readonly ran = new Map<string, number>();
  readonly children = new Map<string, number>();
  readonly troubles: EmqError[] = [];

  run(name: string): void {
    this.ran.set(name, (this.ran.get(name) ?? 0) + 1);
  }

  /** Those that are missing, and those that ran more than once. */
  get wrong(): { missing: string[]; twice: string[] } {
    const missing = [...this.added].filter((name) => !this.ran.has(name));
    return { missing, twice: [...this.ran].filter(([, times]) => times > 1).map(([name]) => name) };
  }
}

/** Everything that works on one queue until it is told to stop. */
class Works implements AsyncDisposable {
  readonly ledger = new Ledger();
  readonly #consumers: Consumer<string>[] = [];
  readonly #batches: { close(): Promise<void> }[] = [];
  readonly #producers: Promise<void>[] = [];
  #going = true;

  constructor(
    readonly producer: Connector,
    readonly consumer: Connector,
    readonly queue: string,
    readonly elsewhere: string,
  ) {}

  async begin(): Promise<void> {
    const { ledger } = this;
    const at = (name: string): Queue<string> => new Queue<string>(this.consumer, name);
    const options = { concurrency: 5, beatMs: 100 };
    for (const name of [this.queue, this.elsewhere]) {
      const consumer = at(name).consume(async (job, context) => {
        ledger.run(job.payload.startsWith('tick') ? job.id : job.payload);
        if (!/^parent \d+$/.test(job.payload)) return job.payload;
        ledger.children.set(job.payload, (await context.children()).values.size);
        return undefined;
      }, options);
      consumer.on('warning', (error) => ledger.troubles.push(error));
      this.#consumers.push(consumer);
    }
    const batches = at(this.queue).consumeBatch(
      (jobs) => {
        for (const { id, payload } of jobs) ledger.run(payload.startsWith('tick') ? id : payload);
        return Object.fromEntries(jobs.map(({ id, payload }) => [id, { complete: payload }]));
      },
      // lanes only: a parent of the flat ones asks for its children
      { source: 'lanes', maxSize: 5, timeoutMs: 20, beatMs: 100 },
    );
    batches.on('warning', (error) => ledger.troubles.push(error));
    this.#batches.push(batches);
    await new Repeats<string>(this.producer, this.queue).upsert('ticks', { everyMs: 50 }, { payload: 'tick' });
    const groups = [mint('TEN'), mint('TEN'), mint('TEN')];
    const lanes = new Lanes<string>(this.producer, this.queue);
    const jobs = new Queue<string>(this.producer, this.queue);
    const flows = new Flows<string>(this.producer, this.queue);
    this.#produce('flat', (name) => jobs.enqueue(name));
    this.#produce('late', (name) => jobs.schedule(name, { inMs: 30 }));
    this.#produce('lane', (name, i) => lanes.enqueue(groups[i % 3] ?? '', name));
    this.#produce('parent', async (name) => {
      const children = [this.queue, this.elsewhere, this.elsewhere].map((queue, i) => ({
        payload: `${name}/child ${i}`,
        queue,
      }));
      for (const { payload } of children) ledger.added.add(payload);
      await flows.add({ payload: name, children });
    });
  }

  /** How many jobs have run. */
  get done(): number {
    return this.ledger.ran.size;
  }

  /** No more is added, and what was is done. */
  async finish(): Promise<void> {
    this.#going = false;
    await Promise.all(this.#producers);
    await new Repeats(this.producer, this.queue).remove('ticks');
    await vi.waitUntil(() => this.ledger.wrong.missing.length === 0, SOON).catch(() => {});
    for (const name of [this.queue, this.elsewhere]) {
      const admin = new Admin(this.producer, name);
      const empty = async (): Promise<boolean> => {
        const { counts, lanes } = await admin.stats();
        return counts.pending + counts.active + counts.scheduled + lanes.waiting === 0;
      };
      await vi.waitUntil(empty, SOON);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#going = false;
    await Promise.allSettled(this.#producers);
    await Promise.all([...this.#consumers, ...this.#batches].map((one) => one.close()));
  }

  #produce(kind: string, add: (name: string, i: number) => Promise<unknown>): void {
    this.#producers.push(
      (async () => {
        for (let i = 0; this.#going; i++) {
          const name = `${kind} ${i}`;
          // whatever it rejects with ends the test: in a move no call fails
          await add(name, i);
          this.ledger.added.add(name);
          await new Promise((resolve) => setTimeout(resolve, PACE_MS));
        }
      })(),
    );
  }
}

/** Moves the queue's slot to and fro, so often, while all that goes on. Resolves when all of it was right. */
export async function moveUnderLoad(nodes: Nodes, wire: Wire, times: number, move: Move = {}): Promise<void> {
  await nodes.empty();
  const queue = nodes.queueOn(0, `moving${wire}-`);
  const elsewhere = nodes.queueOn(2, `children${wire}-`);
  const options = { cluster: { nodes: nodes.start }, wire };
  await using producer = await Connector.connect(options);
  await using consumer = await Connector.connect(options);
  await using works = new Works(producer, consumer, queue, elsewhere);
  const { ledger } = works;
  const slot = slotOf(queue);
  const moved = await nodes.said('MOVED');
  await works.begin();
  try {
    for (let i = 0; i < times; i++) {
      const before = works.done;
      await vi.waitUntil(() => works.done > before + 20, SOON);
      await nodes.move(slot, i % 2 === 0 ? 1 : 0, { step: 2, pauseMs: 20, ...move });
    }
    await works.finish();
    expect(ledger.wrong).toEqual({ missing: [], twice: [] });
    expect([...ledger.children].filter(([, count]) => count !== 3)).toEqual([]);
    for (const one of [producer, consumer]) expect(one.stats()).toMatchObject({ connects: 1, unknownOutcomes: 0 });
    // what was met: a slot that is open, or at least one that is elsewhere
    if (move.atomic !== true) expect(producer.stats().retries + consumer.stats().retries).toBeGreaterThan(0);
    expect(await nodes.said('MOVED')).toBeGreaterThan(moved);
    // what is said once, while it lasts: that the node is not ready
    expect(ledger.troubles.filter(({ code }) => !['TRYAGAIN', 'ASK', 'MOVED'].includes(code))).toEqual([]);
    expect(await nodes.ownerOf(slot)).toBe(times % 2);
    await sound(nodes, producer, queue, elsewhere);
  } finally {
    await nodes.move(slot, 0);
  }
}

/** The audit finds nothing, nor do the invariants over the keys as they lie on their nodes now. */
export async function sound(nodes: Nodes, connector: Connector, ...queues: string[]): Promise<void> {
  const keys: Keys = new Map();
  for (const queue of queues) {
    const audit = await new Admin(connector, queue).check();
    expect([audit.findings, audit.skipped]).toEqual([[], []]);
    const owner = nodes.admin(await nodes.ownerOf(slotOf(queue)));
    for (const [key, entry] of await readKeys(owner, `emq:{${queue}}:*`)) keys.set(key, entry);
  }
  const bases = queues.map((queue) => `emq:{${queue}}:`);
  expect(bases.flatMap((base) => violations(keys, base))).toEqual([]);
  expect(flowViolations(keys, bases)).toEqual([]);
  expect([...keys.keys()].filter((key) => key.includes(':job:'))).toEqual([]);
}
