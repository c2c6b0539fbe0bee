/**
 * A working day on a version, by the public API alone: consumers, lanes, a flow over two queues, batches, repeats, a job that is
 * cancelled, one that retries, one that dies; then what an operator or a network does to a node (scripts flushed, connections
 * killed), and a job for the parked consumer. By ioredis 6 (RESP3 and RESP2) and by ioredis 5, on each wire.
 *
 * Invariants: nothing is waited for but what has to happen. Does not: lose a server; the borrowed suites do.
 */
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import type { Connector } from '../../src/index.js';
import {
  Flows,
  Lanes,
  Queue,
  QueueEvents,
  Repeats,
  UnrecoverableError,
  type ConnectorOptions,
  type ConsumedJob,
  type JobContext,
} from '../../src/index.js';
import { WorkerNode } from '../worker/support/nodes.js';
import type { Version } from './servers.js';

const PATIENCE = { timeout: 20_000, interval: 5 };
const LANES = ['PRT0KHTOWnGLu1', 'PRT0KHTOWnGLu2', 'PRT0KHTOWnGLu3'] as const;

type Library = (path: string) => { readonly client: Redis | Redis5; readonly protocol?: 2 | 3 };
/** The client libraries, and the RESP version that each speaks. */
const LIBRARIES: readonly (readonly [string, 2 | 3, Library])[] = [
  ['ioredis 6, RESP3', 3, (path) => ({ client: new Redis({ path, lazyConnect: true }) })],
  ['ioredis 6, RESP2', 2, (path) => ({ client: new Redis({ path, lazyConnect: true }), protocol: 2 })],
  ['ioredis 5, RESP2', 2, (path) => ({ client: new Redis5({ path, lazyConnect: true }) })],
];

export function clientSuite({ wires }: Version): void {
  describe.each(wires.map((wire) => [wire] as const))('a working day, wire %i', (wire) => {
    let node: WorkerNode;
    beforeAll(async () => {
      node = await WorkerNode.start(wire);
    });
    afterAll(() => node[Symbol.asyncDispose]());

    test.each(LIBRARIES)('by %s', { timeout: 60_000 }, async (name, protocol, library) => {
      const connect = (options: ConnectorOptions = {}): Promise<Connector> =>
        node.connect({ ...library(node.server.socketPath), reconnectMinMs: 10, reconnectMaxMs: 50, ...options });
      await using connector = await connect();
      expect(connector.stats()).toMatchObject({ wire, protocol, state: 'up' });
      await new Day(node, connector, name.replace(/\W+/g, '-')).live();
    });
  });
}

/** What a handler is to do with a job. */
type Work = 'plain' | 'flaky' | 'broken' | 'hopeless' | 'endless' | 'parent';

class Day {
  readonly #queue: Queue<Work>;
  readonly #side: Queue<Work>;
  readonly #bulk: Queue<number>;
  readonly #ran = new Map<string, number>();
  #children: unknown;

  constructor(
    readonly node: WorkerNode,
    readonly connector: Connector,
    name: string,
  ) {
    this.#queue = new Queue(connector, name);
    this.#side = new Queue(connector, `${name}.side`);
    this.#bulk = new Queue(connector, `${name}.bulk`);
  }

  async live(): Promise<void> {
    const queue = this.#queue;
    const options = { concurrency: 5, retryDelayMs: 0, beatMs: 200, maxAttempts: 2 };
    const handler = this.#work.bind(this);
    await using events = new QueueEvents(this.connector, queue.queue);
    const heard = new Set<string>();
    events.on('completed', ({ job }) => void heard.add(String(job)));
    await events.ready();
    await using consumer = queue.consume(handler, options);
    await using side = this.#side.consume(handler, options);
    // That connections are killed is what is done here, and no news.
    for (const one of [consumer, side]) one.on('warning', () => {});

    const done = [
      ...(await this.#plain()),
      ...(await this.#inLanes()),
      (await queue.enqueue('flaky')).id,
      await this.#flow(),
    ];
    const dead = [(await queue.enqueue('broken')).id, (await queue.enqueue('hopeless')).id];
    await this.#cancelled(dead);
    await vi.waitUntil(() => done.every((id) => heard.has(id)), PATIENCE);
    await this.#repeated(done.length);
    await this.#batches();

    await vi.waitFor(async () => expect(await queue.counts(['dead'])).toEqual({ dead: 3 }), PATIENCE);
    for (const id of dead) expect(await queue.state(id)).toBe('dead');
    expect(this.#ran.get(done.at(-2)!)).toBe(2);
    expect(this.#children).toEqual(['"plain"', '"plain"']);
    const all = ['pending', 'active', 'scheduled', 'completed', 'awaiting_children'] as const;
    // With the child of the flow that is here.
    const completed = done.length + 1 + 2;
    await vi.waitFor(
      async () =>
        expect(await queue.counts(all)).toEqual({
          ...{ pending: 0, active: 0, scheduled: 0, awaiting_children: 0 },
          completed,
        }),
      PATIENCE,
    );
    expect(consumer.stats()).toMatchObject({ running: 0, held: 0 });
    await this.#hardship(heard);
  }

  /** What each job is made for. */
  async #work(job: ConsumedJob<Work>, { signal, children, progress, log }: JobContext): Promise<unknown> {
    const times = (this.#ran.get(job.id) ?? 0) + 1;
    this.#ran.set(job.id, times);
    if (job.payload === 'broken' || (job.payload === 'flaky' && times === 1)) throw new Error('not today');
    if (job.payload === 'hopeless') throw new UnrecoverableError('never');
    if (job.payload === 'endless') await new Promise((resolve) => signal.addEventListener('abort', resolve));
    signal.throwIfAborted();
    if (job.payload === 'parent') {
      const { values } = await children();
      this.#children = [...values.values()].map((value) => JSON.stringify(value));
    }
    await progress(100);
    await log('done');
    return job.payload;
  }

  /** One by one, many at once, by priority, due and brought forward. */
  async #plain(): Promise<string[]> {
    const queue = this.#queue;
    const one = await queue.enqueue('plain', { priority: 7 });
    const many = await queue.enqueueMany(Array.from({ length: 20 }, () => ({ payload: 'plain' as const })));
    const due = await queue.schedule('plain', { at: 1 });
    const later = await queue.schedule('plain', { inMs: 3_600_000 });
    expect(await queue.promoteNow(later.id)).toBe('pending');
    expect(many.map(({ outcome }) => outcome)).toEqual(many.map(() => 'enqueued'));
    return [one, ...many, due, later].map(({ id }) => id);
  }

  async #inLanes(): Promise<string[]> {
    const lanes = new Lanes<Work>(this.connector, this.#queue);
    await lanes.setLimit(LANES[0], 1);
    await lanes.setWeight(LANES[1], 3);
    const ids: string[] = [];
    for (const lane of LANES) {
      for (let i = 0; i < 4; i += 1) ids.push((await lanes.enqueue(lane, 'plain')).id);
    }
    return ids;
  }

  /** A parent with a child here and a child in another queue, whose end comes by the outbox. */
  async #flow(): Promise<string> {
    const flows = new Flows<Work>(this.connector, this.#queue);
    const children = [{ payload: 'plain' }, { payload: 'plain', queue: this.#side }];
    const { id, outcome } = await flows.add({ payload: 'parent', children });
    expect(outcome).toBe('added');
    return id;
  }

  /** A job that would never end is told to, and is dead then. */
  async #cancelled(dead: string[]): Promise<void> {
    const { id } = await this.#queue.enqueue('endless');
    await vi.waitUntil(() => this.#ran.has(id), PATIENCE);
    // Where consumers listen for cancels they may just be about to.
    await vi.waitFor(async () => {
      const [, listeners] = (await this.node.admin.pubsub('NUMSUB', this.#queue.keys.cancel)) as [string, number];
      expect(listeners).toBe(1);
    }, PATIENCE);
    expect(await this.#queue.cancel(id, 'enough')).toBe('signalled');
    dead.push(id);
  }

  /** Two slots that were missed, one job for each. */
  async #repeated(before: number): Promise<void> {
    const repeats = new Repeats<Work>(this.connector, this.#queue);
    const [seconds] = (await this.node.admin.time()).map(Number) as [number];
    const startAt = (seconds - 10_000) * 1_000;
    const schedule = { everyMs: 1_000, startAt, limit: 2, missed: 'catchUp' } as const;
    expect(await repeats.upsert('nightly', schedule, { payload: 'plain' })).toMatchObject({ outcome: 'created' });
    await vi.waitFor(async () => expect((await this.#queue.metrics('completed')).count).toBe(before + 1 + 2), PATIENCE);
  }

  async #batches(): Promise<void> {
    const seen: number[] = [];
    await using consumer = this.#bulk.consumeBatch(
      (jobs) => {
        seen.push(...jobs.map(({ payload }) => payload));
        return new Map(jobs.map(({ id }) => [id, 'complete' as const]));
      },
      { maxSize: 10, beatMs: 200 },
    );
    await this.#bulk.enqueueMany(Array.from({ length: 25 }, (_, payload) => ({ payload })));
    await vi.waitFor(async () => expect(await this.#bulk.metrics('completed')).toEqual({ count: 25 }), PATIENCE);
    expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, i) => i));
    expect(consumer.stats()).toMatchObject({ held: 0 });
  }

  /** Scripts flushed, connections killed: the next job runs all the same, woken and not by a beat alone. */
  async #hardship(heard: ReadonlySet<string>): Promise<void> {
    const { admin } = this.node;
    await admin.call('SCRIPT', 'FLUSH', 'SYNC');
    const flushed = await this.#queue.enqueue('plain');
    await vi.waitUntil(() => heard.has(flushed.id), PATIENCE);

    const before = this.connector.stats().reconnects;
    await vi.waitUntil(() => this.#parked(), PATIENCE);
    const own = await admin.client('ID');
    for (const line of String(await admin.client('LIST')).split('\n')) {
      const id = /^id=(\d+)/.exec(line)?.[1];
      if (id !== undefined && id !== String(own)) await admin.client('KILL', 'ID', id);
    }
    await vi.waitUntil(() => this.connector.stats().reconnects > before, PATIENCE);
    const { id } = await vi.waitFor(() => this.#queue.enqueue('plain'), PATIENCE);
    await vi.waitUntil(() => this.#ran.has(id), PATIENCE);
    await vi.waitFor(async () => expect(await this.#queue.state(id)).toBe('absent'), PATIENCE);
    await vi.waitUntil(() => this.#parked(), PATIENCE);
  }

  /** A blocking read of this day waits at the server. */
  async #parked(): Promise<boolean> {
    return / flags=\w*b\w* .* cmd=blpop /.test(String(await this.node.admin.client('LIST')));
  }
}
