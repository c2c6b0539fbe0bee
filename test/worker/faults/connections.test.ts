/** P13 and P15: who is without a server hears so in time, and many queues need few connections. */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Queue, type Consumer, type EmqError } from '../../../src/index.js';
import { Stopwatch } from '../support/clock.js';
import { Monitor } from '../support/monitor.js';
import { WIRES, WorkerNode, freshQueue } from '../support/nodes.js';
import { FaultyProxy } from '../support/proxy.js';

const SOON = { timeout: 20_000, interval: 10 };

describe.each(WIRES)('wire %i', (wire) => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  describe('P13: without a server', () => {
    it('an enqueue rejects with a typed error within its time, and the worker goes on trying without a noise', async () => {
      await using proxy = await FaultyProxy.start(node.port);
      const connector = await node.connect({ url: proxy.url });
      const queue = new Queue<number>(connector, freshQueue('down'));
      const noise = [vi.spyOn(process, 'emitWarning'), vi.spyOn(console, 'error'), vi.spyOn(console, 'warn')];
      const onRejection = vi.fn();
      process.on('unhandledRejection', onRejection);
      try {
        for (const spy of noise) spy.mockImplementation(() => {});
        const consumer = queue.consume(() => {});
        await Promise.all([once(consumer, 'completed'), queue.enqueue(0)]);
        await Promise.all([once(connector, 'disconnected'), proxy.refuse()]);
        for (let i = 0; i < 4; i++) {
          using watch = new Stopwatch();
          const error = await queue.enqueue(i).then(
            () => undefined,
            (cause: unknown) => cause as EmqError,
          );
          expect(error?.code).toBe('EMQ_CONNECTION');
          expect(error?.message).toMatch(/^EMQ_CONNECTION no connection to 127\.0\.0\.1:\d+ in time, nothing was sent/);
          // waitMs, and a little for the timer
          expect(watch.ms).toBeLessThan(1_250);
        }
        // About four beats have passed. Nobody listens to the worker's warnings: each kind is said once, by Node.
        const [warnings, ...silent] = noise;
        const kinds = warnings?.mock.calls.map(([, about]) => (about as { code?: string }).code) ?? [];
        expect(kinds.filter((code) => code === 'EMQ_CONNECTION')).toHaveLength(1);
        expect(new Set(kinds).size).toBe(kinds.length);
        for (const spy of silent) expect(spy).not.toHaveBeenCalled();
        expect(onRejection).not.toHaveBeenCalled();

        await proxy.accept();
        const completed = once(consumer, 'completed');
        await vi.waitFor(() => queue.enqueue(9), SOON);
        await completed;
        await consumer.close();
      } finally {
        process.off('unhandledRejection', onRejection);
        for (const spy of noise) spy.mockRestore();
      }
    });
  });

  it('a consumer that is started right after a reconnect does not sweep: others may still be on their way back', async () => {
    await using proxy = await FaultyProxy.start(node.port);
    const connector = await node.connect({ url: proxy.url, reconnectMinMs: 10, reconnectMaxMs: 20 });
    const now = new Queue<number>(connector, freshQueue('sweep'));
    const later = new Queue<number>(connector, freshQueue('sweep'));
    async function leftBehind(queue: Queue<number>): Promise<void> {
      await queue.enqueue(1);
      await queue.claim({ leaseMs: 60_000 });
      expect(await node.lapse(queue.queue)).toBe(1);
    }
    for (const queue of [now, later]) await leftBehind(queue);
    // The contrast: with no break before, at the first beat.
    const first = now.consume(() => {}, { beatMs: 20 });
    first.on('warning', () => {});
    await vi.waitUntil(() => first.stats().completed === 1, SOON);

    const back = once(connector, 'connected');
    proxy.reset();
    await back;
    using monitor = await Monitor.start(node);
    const second = later.consume(() => {}, { beatMs: 20 });
    // ten beats of it at least
    await vi.waitUntil(() => monitor.seen.filter(({ name }) => name === 'agenda').length > 30, SOON);
    expect(monitor.seen.filter(({ name }) => name === 'reap')).toEqual([]);
    expect(await later.counts(['active'])).toEqual({ active: 1 });
    await Promise.all([first.close(), second.close()]);
  });

  describe('P15: 50 queues in one process', () => {
    it.each([1, 4])('with %i consumers each need 52 connections, and none after their close', async (each) => {
      await vi.waitUntil(async () => (await node.clients()) === 0, SOON);
      const warned = vi.fn();
      process.on('warning', warned);
      const connector = await node.connect();
      const queues = Array.from({ length: 50 }, () => new Queue<number>(connector, freshQueue('many')));
      const consumers: Consumer<number>[] = [];
      let done = 0;
      for (const queue of queues) {
        for (let i = 0; i < each; i++) consumers.push(queue.consume(() => void done++, { beatMs: 200 }));
      }
      // one for all calls, one ear for all cancels, one blocked for each queue
      await vi.waitUntil(async () => (await node.clients()) === 52, SOON);
      let most = 0;
      for (let round = 1; round <= 5; round++) {
        await Promise.all(queues.map((queue) => queue.enqueue(round)));
        await vi.waitUntil(async () => {
          most = Math.max(most, await node.clients());
          return done === 50 * round;
        }, SOON);
      }
      expect(most).toBe(52);
      await Promise.all(consumers.map((consumer) => consumer.close()));
      await vi.waitUntil(async () => (await node.clients()) === 1, SOON);
      await connector.close();
      await vi.waitUntil(async () => (await node.clients()) === 0, SOON);
      process.off('warning', warned);
      // of too many listeners, say
      expect(warned).not.toHaveBeenCalled();
    });
  });
});
