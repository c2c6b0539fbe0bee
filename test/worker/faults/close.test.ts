/**
 * close() always ends: idle, with jobs that never end or never stop putting themselves off, with the server down or
 * paused; what is in hand is finished or handed back, never left behind.
 */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { DelayError, Keyspace, Queue, type Connector, type Consumer } from '../../../src/index.js';
import { timed } from '../support/clock.js';
import { WIRES, WorkerNode, freshQueue } from '../support/nodes.js';
import { FaultyProxy } from '../support/proxy.js';

/** What a forced close may take for its last words. */
const LAST_WORDS_MS = 3_000;
const SOON = { timeout: 10_000, interval: 5 };

describe.each(WIRES)('wire %i', (wire) => {
  let node: WorkerNode;
  beforeAll(async () => {
    node = await WorkerNode.start(wire);
  });
  afterAll(() => node[Symbol.asyncDispose]());

  async function fresh(connector?: Connector): Promise<Queue<number>> {
    return new Queue<number>(connector ?? (await node.connect()), freshQueue('close'));
  }

  const hang = (): Promise<void> => new Promise(() => {});

  /** Enqueues a job and waits until the consumer has it in hand. */
  async function inHand(queue: Queue<number>, consumer: Consumer<number>): Promise<string> {
    const [[job]] = await Promise.all([once(consumer, 'claimed') as Promise<[{ id: string }]>, queue.enqueue(1)]);
    return job.id;
  }

  describe('P17: close', () => {
    it('of an idle consumer takes less than a second, and leaves no connection of its own', async () => {
      const queue = await fresh();
      const before = await node.clients();
      const consumer = queue.consume(() => {});
      // blocked, and listening for cancels
      await vi.waitUntil(async () => (await node.clients()) === before + 2, SOON);
      expect(await timed(() => consumer.close())).toBeLessThan(1_000);
      expect(consumer.stats()).toMatchObject({ state: 'closed', running: 0, held: 0 });
      await vi.waitUntil(async () => (await node.clients()) === before, SOON);
    });

    it('ends with a job that always puts itself off, which then waits for another worker', async () => {
      const queue = await fresh();
      const consumer = queue.consume(() => {
        throw new DelayError(0);
      });
      await Promise.all([once(consumer, 'delayed'), queue.enqueue(1)]);
      await vi.waitUntil(() => consumer.stats().delayed > 10, SOON);
      expect(await timed(() => consumer.close())).toBeLessThan(1_000);
      const { pending, scheduled, active } = await queue.counts();
      expect({ waiting: pending + scheduled, active }).toEqual({ waiting: 1, active: 0 });
    });

    it('may be called twice, also with a shorter time, and again when it is over', async () => {
      const queue = await fresh();
      const consumer = queue.consume(() => new Promise(() => {}));
      await inHand(queue, consumer);
      const slow = consumer.close({ timeoutMs: 600_000 });
      expect(consumer.close({ timeoutMs: 0 })).toBe(slow);
      expect(await timed(() => slow)).toBeLessThan(LAST_WORDS_MS);
      expect(consumer.close()).toBe(slow);
      expect(consumer.stats()).toMatchObject({ state: 'closed', released: 1 });
    });

    it('hands back a job that never ends, and another worker runs it at once', async () => {
      const queue = await fresh();
      const stuck = queue.consume(() => new Promise(() => {}));
      const id = await inHand(queue, stuck);
      const released = once(stuck, 'released');
      const elapsed = await timed(() => stuck.close({ timeoutMs: 50 }));
      expect(elapsed).toBeLessThan(50 + LAST_WORDS_MS);
      await released;
      expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
      expect(await node.admin.zrange(new Keyspace(queue.queue).pending, '0', '-1')).toEqual([id]);

      const other = queue.consume(() => {});
      const [job] = (await once(other, 'completed')) as [{ id: string; token: number; credit: number }];
      expect(job).toMatchObject({ id, token: 2, credit: 1 });
      await other.close();
    });

    it('aborts what it hands back, and what the handler says then no longer counts', async () => {
      const queue = await fresh();
      let ended: () => void = () => {};
      const over = new Promise<void>((resolve) => (ended = resolve));
      const consumer = queue.consume(async (_job, { signal }) => {
        await once(signal, 'abort');
        ended();
        throw signal.reason;
      });
      const id = await inHand(queue, consumer);
      await consumer.close({ timeoutMs: 0 });
      await over;
      expect(consumer.stats()).toMatchObject({ released: 1, scheduled: 0, failed: 0, stale: 0, held: 0 });
      expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
    });

    it('hands back what a claim brought that was under way', async () => {
      await using proxy = await FaultyProxy.start(node.port);
      const queue = await fresh(await node.connect({ url: proxy.url }));
      const direct = new Queue<number>(await node.connect(), queue.queue);
      const ran: string[] = [];
      const consumer = queue.consume(({ id }) => void ran.push(id));
      await vi.waitUntil(async () => (await direct.counts()) && proxy.open === 3, SOON);
      proxy.slowMs = 200;
      const { id } = await direct.enqueue(1);
      // claimed on the server, and the answer is not here yet
      await vi.waitUntil(async () => (await direct.counts(['active'])).active === 1, SOON);
      await consumer.close();
      expect(ran).toEqual([]);
      expect(await direct.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
    });

    it.concurrent.each(['a job that ends', 'a job that never ends'] as const)(
      'ends with the server down and %s',
      async (what) => {
        await using proxy = await FaultyProxy.start(node.port);
        const connector = await node.connect({ url: proxy.url });
        const queue = await fresh(connector);
        let end: () => void = () => {};
        const consumer = queue.consume(() => new Promise<void>((resolve) => (end = resolve)));
        consumer.on('warning', () => {});
        await inHand(queue, consumer);
        await proxy.refuse();
        const closing = timed(() => consumer.close({ timeoutMs: 500 }));
        if (what === 'a job that ends') end();
        expect(await closing).toBeLessThan(500 + LAST_WORDS_MS);
        expect(await timed(() => connector.close())).toBeLessThan(LAST_WORDS_MS);
        expect(consumer.stats()).toMatchObject({ state: 'closed', running: what === 'a job that ends' ? 0 : 1 });
      },
    );

    const pauses = [
      ['stopped (SIGSTOP)', async (on: WorkerNode) => on.stop(), async (on: WorkerNode) => on.go()],
      [
        'paused (CLIENT PAUSE)',
        async (on: WorkerNode) => void (await on.admin.client('PAUSE', 60_000)),
        // Its end cannot be asked for: that too would wait for it. The server goes as it is.
        async () => {},
      ],
      [
        'paused for writes (CLIENT PAUSE WRITE)',
        async (on: WorkerNode) => void (await on.admin.call('CLIENT', 'PAUSE', '60000', 'WRITE')),
        async (on: WorkerNode) => void (await on.admin.client('UNPAUSE')),
      ],
    ] as const;
    it.concurrent.each(pauses)(
      'ends with the server %s: idle, with a job in hand, with jobs waiting',
      async (_, pause, go) => {
        await using own = await WorkerNode.start(wire);
        const connector = await own.connect();
        const queues = await Promise.all([fresh(connector), fresh(connector), fresh(connector)]);
        // while somebody else on the same connector goes on listening
        const staying = (await fresh(connector)).consume(hang);
        staying.on('warning', () => {});
        const [idle, busy, waiting] = queues;
        const consumers = [idle.consume(hang), busy.consume(hang), waiting.consume(hang, { concurrency: 2 })];
        for (const consumer of consumers) consumer.on('warning', () => {});
        await inHand(busy, consumers[1] as Consumer<number>);
        await inHand(waiting, consumers[2] as Consumer<number>);
        await pause(own);
        try {
          // a token wakes it, and its claim gets no answer
          void waiting.enqueue(2).catch(() => {});
          const closings = consumers.map((consumer) => timed(() => consumer.close({ timeoutMs: 500 })));
          for (const closing of await Promise.all(closings)) expect(closing).toBeLessThan(500 + LAST_WORDS_MS);
          expect(await timed(() => staying.close({ timeoutMs: 0 }))).toBeLessThan(LAST_WORDS_MS);
          expect(await timed(() => connector.close())).toBeLessThan(LAST_WORDS_MS);
        } finally {
          await go(own);
        }
      },
    );
  });

  describe('P8: a job that runs for three leases while close waits for it', () => {
    const LEASE_MS = 400;

    async function threeLeases(queue: Queue<number>): Promise<void> {
      // The deadline moves on with every renewal: three leases are over when it has passed by as much.
      const first = (await node.deadlines(queue.queue))[0] as number;
      await vi.waitUntil(async () => ((await node.deadlines(queue.queue))[0] ?? 0) >= first + 3 * LEASE_MS, SOON);
    }

    it('completes', async () => {
      const queue = await fresh();
      const consumer = queue.consume(() => threeLeases(queue), { leaseMs: LEASE_MS, beatMs: 50 });
      await inHand(queue, consumer);
      const completed = once(consumer, 'completed');
      await consumer.close({ timeoutMs: 20_000 });
      const [job] = (await completed) as [{ token: number }];
      expect(job.token).toBe(1);
      expect(consumer.stats()).toMatchObject({ completed: 1, stale: 0, released: 0 });
      expect(await queue.counts()).toMatchObject({ pending: 0, active: 0, scheduled: 0, dead: 0 });
    });

    it.each([
      ['is tried again later', 3, 'scheduled'],
      ['is dead after its last try', 1, 'dead'],
    ] as const)('and throws, %s, and is never left in active', async (_, maxAttempts, state) => {
      const queue = await fresh();
      const consumer = queue.consume(
        async () => {
          await threeLeases(queue);
          throw new Error('no luck');
        },
        { leaseMs: LEASE_MS, beatMs: 50, maxAttempts, retryDelayMs: 60_000 },
      );
      const id = await inHand(queue, consumer);
      await consumer.close({ timeoutMs: 20_000 });
      expect(await queue.get(id)).toMatchObject({ state, attempts: 1 });
      expect(await queue.counts()).toMatchObject({ active: 0, [state]: 1 });
    });
  });
});
