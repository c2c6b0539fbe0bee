/**
 * Batches under limits and of many lanes: fewer than minSize are left waiting though a few could be claimed, all lanes are
 * looked at, and none waits for ever beside one that fills; on both executors. What is waited for is told by the consumer,
 * and a limit on time is a bound from above.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi, type MockInstance } from 'vitest';
import { Admin, Lanes, mint, type Connector, type Queue } from '../../../src/index.js';
import type { ConsumeBatchOptions } from '../../../src/worker/batch-options.js';
import { EXECUTORS } from '../../conformance/stage.js';
import { PATIENCE } from '../../worker/support/diary.js';
import { NO_BEAT, Shop } from '../../worker/support/shop.js';

const HOUR = 3_600_000;

describe.each(EXECUTORS)('batches on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  let run: MockInstance<Connector['run']>;
  let batches: { readonly group: string | undefined; readonly size: number; readonly at: number }[];
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  beforeEach(() => {
    run = vi.spyOn(shop.stage.connector, 'run');
  });
  afterEach(async () => {
    run.mockRestore();
    await shop.clear();
  });

  function consume(options: ConsumeBatchOptions): void {
    batches = [];
    const consumer = queue.consumeBatch(
      (jobs) => {
        batches.push({ group: jobs[0]?.group, size: jobs.length, at: performance.now() });
        return new Map(jobs.map(({ id }) => [id, 'complete']));
      },
      { ...NO_BEAT, ...options },
    );
    shop.closeLater(consumer);
  }

  const enqueue = (count: number, group?: string) =>
    queue.enqueueMany(Array.from({ length: count }, (_, payload) => (group ? { payload, group } : { payload })));
  const sizes = () => batches.map(({ size }) => size);
  const taken = (count: number) => vi.waitUntil(() => batches.length >= count, PATIENCE);
  /** How often a batch was asked for. */
  const asks = () => run.mock.calls.filter(([{ transition }]) => transition.name === 'take_batch').length;
  /** The consumer has heard of all that happened so far, and asks for nothing any more. */
  const quiet = async () => {
    await vi.waitUntil(async () => (await shop.raw.llen(queue.keys.wake)) === 0, PATIENCE);
    let [seen, since] = [-1, 0];
    const still = () => {
      if (asks() !== seen) [seen, since] = [asks(), performance.now()];
      return performance.now() - since > 100;
    };
    await vi.waitUntil(still, { ...PATIENCE, interval: 20 });
  };

  describe('under a limit', () => {
    it('a rate gives whole batches: no token is claimed by itself', async () => {
      queue = shop.queue();
      await new Admin(shop.stage.connector, queue.queue).setLimits({ rate: { max: 100, durationMs: 1_000 } });
      await enqueue(400);
      await shop.raw.del(queue.keys.wake);
      consume({ minSize: 50, maxSize: 100, timeoutMs: HOUR, beatMs: 100 });
      await taken(3);
      expect(sizes()[0]).toBe(100);
      expect(Math.min(...sizes())).toBeGreaterThanOrEqual(50);
      // two asks a batch, one a beat, and one when the first token comes; 100 tokens came meanwhile
      const ms = (batches[2]?.at ?? 0) - (batches[0]?.at ?? 0);
      expect(asks()).toBeLessThan(10 + 2 * (ms / 100));
    });

    it('the end of the window takes what may be claimed then', async () => {
      queue = shop.queue();
      await new Admin(shop.stage.connector, queue.queue).setLimits({ rate: { max: 100, durationMs: 1_000 } });
      await enqueue(200);
      consume({ minSize: 90, maxSize: 100, timeoutMs: 300 });
      await taken(2);
      expect(sizes()[0]).toBe(100);
      expect(sizes()[1]).toBeGreaterThan(20);
      expect(sizes()[1]).toBeLessThan(90);
    });

    it('the ceiling of the queue leaves room for minSize, or none is taken', async () => {
      queue = shop.queue();
      await new Admin(shop.stage.connector, queue.queue).setLimits({ concurrency: 6 });
      await enqueue(12);
      const others = await queue.claimBatch({ leaseMs: HOUR, size: 3 });
      consume({ minSize: 5, timeoutMs: HOUR });
      await quiet();
      expect(batches).toEqual([]);
      for (const job of others) await queue.complete(job);
      await enqueue(1);
      await taken(1);
      expect(sizes()[0]).toBe(6);
    });

    it('a lane with headroom or tokens for fewer does not count as one that has enough', async () => {
      queue = shop.queue();
      const lanes = new Lanes(shop.stage.connector, queue);
      const [narrow, slow, open] = [mint('TEN'), mint('TEN'), mint('TEN')];
      await lanes.setLimit(narrow, 2);
      await lanes.setRate(slow, { max: 2, durationMs: HOUR });
      for (const group of [narrow, slow, open]) await enqueue(4, group);
      consume({ minSize: 3, timeoutMs: 700, source: 'lanes' });
      await taken(1);
      await quiet();
      expect(batches.map(({ group, size }) => [group, size])).toEqual([[open, 4]]);
      await taken(3);
      expect(batches.slice(1, 3).map(({ group, size }) => [group, size])).toEqual(
        expect.arrayContaining([
          [narrow, 2],
          [slow, 2],
        ]),
      );
    });
  });

  describe('of many lanes', () => {
    const MANY = 300;

    it('one that is full is found behind all that are not, without a beat', async () => {
      queue = shop.queue();
      for (let n = 0; n < MANY; n++) await enqueue(1, mint('TEN'));
      const full = mint('TEN');
      await enqueue(10, full);
      await shop.raw.del(queue.keys.wake);
      consume({ minSize: 10, timeoutMs: HOUR, source: 'lanes' });
      await taken(1);
      expect(batches).toMatchObject([{ group: full, size: 10 }]);
    });

    it.each([
      ['', null],
      [' that have rates', { max: 1_000, durationMs: HOUR }],
    ])('where none%s fills they are gone round once, and again when somebody asks', async (_such, rate) => {
      queue = shop.queue();
      await new Lanes(shop.stage.connector, queue).setRate('*', rate);
      for (let n = 0; n < MANY; n++) await enqueue(1, mint('TEN'));
      await shop.raw.del(queue.keys.wake);
      consume({ minSize: 10, timeoutMs: HOUR, source: 'lanes' });
      await quiet();
      // five calls of 64
      expect(asks()).toBe(5);
      expect(batches).toEqual([]);
      const full = mint('TEN');
      await enqueue(10, full);
      await taken(1);
      expect(batches).toMatchObject([{ group: full, size: 10 }]);
    });

    it('the end of the window comes to those that were passed over', async () => {
      queue = shop.queue();
      for (let n = 0; n < 70; n++) await enqueue(1, mint('TEN'));
      consume({ minSize: 10, timeoutMs: 200, source: 'lanes' });
      await taken(70);
      expect(new Set(batches.map(({ group }) => group)).size).toBe(70);
    });

    it('one that holds too few is served when its wait is over, beside one that is filled all the time', async () => {
      queue = shop.queue();
      const [slow, busy] = [mint('TEN'), mint('TEN')];
      await enqueue(1, slow);
      consume({ minSize: 5, timeoutMs: 300, source: 'lanes' });
      const since = performance.now();
      const served = () => batches.find(({ group }) => group === slow);
      // as fast as they are taken
      for (let n = 1; served() === undefined && performance.now() - since < 3_000; n++) {
        await enqueue(5, busy);
        await vi.waitUntil(() => batches.length >= n, PATIENCE);
      }
      const { at = Infinity } = served() ?? {};
      expect(at - since).toBeGreaterThan(250);
      expect(at - since).toBeLessThan(1_500);
      // and busy was served meanwhile
      expect(batches.filter(({ group }) => group === busy).length).toBeGreaterThan(2);
    });
  });
});
