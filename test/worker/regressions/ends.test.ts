/**
 * What once broke at the end of a run or of a consumer, on both executors: a run that goes on after its outcome, a lost
 * lease that nobody told of, warnings of leaks that are none, a connector that is closed already.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Queue, type Connector, type Consumer, type ConsumeOptions, type Handler } from '../../../src/index.js';
import { freshQueue, WIRES, WorkerNode } from '../support/nodes.js';
import { FaultyProxy } from '../support/proxy.js';

const PATIENCE = { timeout: 10_000, interval: 5 };
const never = new Promise<never>(() => {});

describe.each(WIRES)('the end of runs and consumers, on wire %i', (wire) => {
  let node: WorkerNode;
  const consumers: Consumer<unknown>[] = [];
  const warnings: string[] = [];
  const onWarning = ({ name, message }: Error): void => void warnings.push(`${name}: ${message}`);
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
    process.on('warning', onWarning);
  });
  afterEach(async () => {
    await Promise.all(consumers.splice(0).map((consumer) => consumer.close({ timeoutMs: 0 })));
    warnings.length = 0;
  });
  afterAll(async () => {
    process.off('warning', onWarning);
    await node[Symbol.asyncDispose]();
  });

  async function workers(): Promise<{ connector: Connector; queue: Queue; outside: Queue }> {
    const name = freshQueue();
    const connector = await node.connect();
    return { connector, queue: new Queue(connector, name), outside: await node.queue(name) };
  }

  function consume(queue: Queue, handler: Handler, options: ConsumeOptions = {}): Consumer<unknown> {
    const consumer = queue.consume(handler, options);
    consumers.push(consumer);
    return consumer;
  }

  it('refuses what a run writes to its row after its time was up', async () => {
    const { queue, outside } = await workers();
    let write!: (what: 'progress' | 'log') => Promise<void>;
    const consumer = consume(queue, (_job, context) => {
      write = (what) => context[what]('of the first run');
      return never;
    });
    const { id } = await outside.enqueue(1, { timeoutMs: 50, backoff: 0 });
    await vi.waitUntil(() => consumer.stats().scheduled === 1, PATIENCE);
    consume(queue, (_job, context) => context.progress('of the second run').then(() => never));
    await vi.waitUntil(async () => (await outside.get(id))?.progress !== undefined, PATIENCE);
    await expect(write('progress')).rejects.toMatchObject({ code: 'EMQSTALE' });
    await expect(write('log')).rejects.toMatchObject({ code: 'EMQSTALE' });
    expect((await outside.get(id))?.progress?.toString()).toBe('of the second run');
  });

  it('does not wait at a forced close for a run whose outcome is known', async () => {
    const { queue, outside } = await workers();
    const consumer = consume(queue, () => never, { maxAttempts: 1 });
    await outside.enqueue(1, { timeoutMs: 20 });
    await vi.waitUntil(() => consumer.stats().failed === 1, PATIENCE);
    const started = performance.now();
    await consumer.close({ timeoutMs: 0 });
    expect(performance.now() - started).toBeLessThan(1_500);
  });

  it('tells a run that its lease was lost when the same consumer has claimed the job again', async () => {
    const { queue, outside } = await workers();
    const signals: AbortSignal[] = [];
    const consumer = consume(
      queue,
      (_job, { signal }) => {
        signals.push(signal);
        return never;
      },
      { concurrency: 2, leaseMs: 600_000 },
    );
    const lost: number[] = [];
    consumer.on('lost', ({ token }) => lost.push(token));
    await outside.enqueue(1);
    await vi.waitUntil(() => signals.length === 1, PATIENCE);
    await node.lapse(queue.queue);
    await outside.reap({ limit: 1 });
    await vi.waitUntil(() => signals.length === 2, PATIENCE);
    await vi.waitUntil(() => lost.length > 0, PATIENCE);
    expect(lost).toEqual([1]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('may be closed many times, and many consumers may share a signal', async () => {
    const { queue } = await workers();
    const all = new AbortController();
    const many = Array.from({ length: 12 }, () => consume(queue, () => never, { signal: all.signal }));
    for (let n = 0; n < 12; n++) void many[0]?.close();
    all.abort();
    await vi.waitUntil(() => many.every((one) => one.stats().state === 'closed'), PATIENCE);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  });

  it('keeps many outcomes through an outage without a word of leaks', async () => {
    await using proxy = await FaultyProxy.start(node.port);
    const { outside } = await workers();
    const connector = await node.connect({ url: proxy.url });
    const queue = new Queue(connector, outside.queue);
    await outside.enqueueMany(Array.from({ length: 20 }, (_, n) => ({ payload: n })));
    let finish!: () => void;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const consumer = consume(queue, () => finished, { concurrency: 20 });
    consumer.on('warning', () => {});
    await vi.waitUntil(() => consumer.stats().running === 20, PATIENCE);
    await proxy.refuse();
    finish();
    await vi.waitUntil(() => consumer.stats().running === 0, PATIENCE);
    await proxy.accept();
    await vi.waitUntil(() => consumer.stats().completed === 20, PATIENCE);
    expect(warnings).toEqual([]);
  });

  it('refuses to consume on a connector that is closed', async () => {
    const { connector, queue } = await workers();
    await connector.close();
    expect(() => queue.consume(() => 1)).toThrow(expect.objectContaining({ code: 'EMQ_CLOSED' }));
  });
});
