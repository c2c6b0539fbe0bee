/**
 * Connections that fail in five ways, under a worker that has work: it is back and working within 5 s of the moment
 * from which a new connection would do, no job runs twice without its attempt counted, a close during the fault ends in
 * time, and nothing is left open. For the quick and the long suite.
 *
 * Several lanes side by side, each a worker with a proxy of its own: most of the time is spent waiting.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { Queue } from '../../../src/index.js';
import { rng, type Rng } from '../../../src/parity/prng.js';
import { seed } from '../../parity/seed.js';
import { Stopwatch, timed } from '../support/clock.js';
import { WorkerNode, freshQueue, type Wire } from '../support/nodes.js';
import { FaultyProxy } from '../support/proxy.js';

interface Fault {
  readonly name: string;
  /**
   * Lets it happen. Resolves when connecting works again, or works still; the clock starts then.
   * @param work enqueues a few jobs
   */
  strike(proxy: FaultyProxy, work: () => Promise<unknown>, draw: Rng): Promise<void>;
  /** Lets only its beginning happen, for a close in the middle of it. */
  begin(proxy: FaultyProxy): Promise<void> | void;
  /** Ends what does not end by itself. */
  end(proxy: FaultyProxy): Promise<void> | void;
}

const BACK_WITHIN_MS = 5_000;
const CLOSE_MS = 1_000;
/** What the last words may add to a close. */
const CLOSE_WITHIN_MS = CLOSE_MS + 3_000;
const BEATS_REFUSED = 3;
const BEAT_MS = 1_000;
const nothing = (): void => {};

export const FAULTS: readonly Fault[] = [
  {
    name: 'cut in the middle of a reply',
    strike: async (proxy, work, draw) => {
      const cut = proxy.cutMidReply(draw.below(400));
      await work();
      await cut;
    },
    begin: (proxy) => void proxy.cutMidReply(3),
    end: nothing,
  },
  {
    name: 'half-open',
    strike: async (proxy) => proxy.halfOpen(),
    begin: (proxy) => proxy.halfOpen(),
    end: (proxy) => proxy.heal(),
  },
  {
    name: 'slow (250 ms each way)',
    strike: async (proxy) => void (proxy.slowMs = 250),
    begin: (proxy) => void (proxy.slowMs = 250),
    end: (proxy) => void (proxy.slowMs = 0),
  },
  { name: 'reset', strike: async (proxy) => proxy.reset(), begin: (proxy) => proxy.reset(), end: nothing },
  {
    name: `refused for ${BEATS_REFUSED} beats`,
    strike: async (proxy) => {
      await proxy.refuse();
      // How long it lasts is what this fault is.
      await pause(BEATS_REFUSED * BEAT_MS);
      await proxy.accept();
    },
    begin: (proxy) => proxy.refuse(),
    end: nothing,
  },
];

/** @param times how often each fault strikes, in all lanes together */
export function connectionSuite(wire: Wire, fault: Fault, times: number, lanes: number): void {
  it.concurrent(
    `${fault.name}, ${times} times: the worker is back within 5 s, each run has its own token, close ends, nothing is left open`,
    async () => {
      await using node = await WorkerNode.start(wire);
      const watches = Array.from({ length: lanes }, (_, lane) => rng(seed + lane));
      await Promise.all(watches.map((draw) => lane(node, fault, Math.ceil(times / lanes), draw)));
      await vi.waitUntil(async () => (await node.clients()) === 0, { timeout: 10_000 });
    },
    240_000,
  );
}

async function lane(node: WorkerNode, fault: Fault, times: number, draw: Rng): Promise<void> {
  await using proxy = await FaultyProxy.start(node.port);
  const name = freshQueue('faulty');
  const direct = await node.connect();
  const producer = new Queue<number>(direct, name);
  const connector = await node.connect({ url: proxy.url });
  const queue = new Queue<number>(connector, name);
  const runs: string[] = [];
  const completed: string[] = [];
  const ids: string[] = [];
  const enqueue = async (count: number): Promise<string[]> => {
    const added = await producer.enqueueMany(Array.from({ length: count }, (_, payload) => ({ payload })));
    ids.push(...added.map(({ id }) => id));
    return added.map(({ id }) => id);
  };
  const consumer = queue.consume(
    async (job) => {
      runs.push(`${job.id} ${job.token}`);
      await pause(draw.below(10));
    },
    // a lost reply to a claim spends a try
    { concurrency: 2, leaseMs: 3_000, beatMs: BEAT_MS, maxAttempts: 100 },
  );
  consumer.on('completed', ({ id }) => completed.push(id));
  consumer.on('warning', () => {});

  for (let i = 0; i < times; i++) {
    await enqueue(draw.below(4));
    await fault.strike(proxy, () => enqueue(6), draw);
    const ended = closeInIt(node, fault);
    using watch = new Stopwatch();
    // One claim may still be lost with the connection; then there is enough for the next one.
    const fresh = new Set(await enqueue(6));
    await vi.waitUntil(() => completed.some((id) => fresh.has(id)), { timeout: 15_000, interval: 5 });
    expect(watch.ms, 'back and working').toBeLessThan(BACK_WITHIN_MS);
    await fault.end(proxy);
    await ended;
  }

  // What was lost on the way comes back when its lease has lapsed.
  await vi.waitUntil(async () => (await producer.metrics('completed')).count === ids.length, {
    timeout: 30_000,
    interval: 20,
  });
  expect(new Set(runs).size, 'no run without a token of its own').toBe(runs.length);
  expect(new Set(runs.map((run) => run.split(' ')[0]))).toEqual(new Set(ids));
  expect(await timed(() => consumer.close()), 'close when idle').toBeLessThan(1_000);
  // Every job was reported, and once.
  expect([...completed].sort()).toEqual([...ids].sort());
  await connector.close();
  await direct.close();
}

/** A worker of its own that is closed while the fault lasts, with a job in hand. */
async function closeInIt(node: WorkerNode, fault: Fault): Promise<void> {
  await using proxy = await FaultyProxy.start(node.port);
  const connector = await node.connect({ url: proxy.url });
  const queue = new Queue<number>(connector, freshQueue('closing'));
  let end: () => void = nothing;
  const consumer = queue.consume(() => new Promise<void>((resolve) => (end = resolve)));
  consumer.on('warning', () => {});
  await Promise.all([once(consumer, 'claimed'), queue.enqueue(1)]);
  await fault.begin(proxy);
  const closing = timed(() => consumer.close({ timeoutMs: CLOSE_MS }));
  end();
  expect(await closing, 'close in the fault').toBeLessThan(CLOSE_WITHIN_MS);
  await connector.close();
  await fault.end(proxy);
}
