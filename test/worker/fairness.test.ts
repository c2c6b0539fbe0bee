/**
 * Who gets how much, on both executors: jobs among consumers, and the sweeps under steady load.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { ConsumeOptions, Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { CallLog } from './support/calls.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

describe.each(EXECUTORS)('fairness on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** How many of forty jobs each of four consumers of one process gets. */
  async function shares(options: ConsumeOptions, add: () => Promise<unknown>): Promise<number[]> {
    queue = shop.queue();
    const handler = () => new Promise((resolve) => setTimeout(resolve, 3));
    const diaries = Array.from({ length: 4 }, () => new Diary(shop.consume(queue, handler, options)));
    const shares = () => diaries.map((diary) => diary.of('completed').length);
    await add();
    await vi.waitUntil(() => shares().reduce((a, b) => a + b) === 40, PATIENCE);
    return shares();
  }

  const forty = Array.from({ length: 40 }, (_, payload) => ({ payload }));

  it.each([
    ['one slot each, all at once', { concurrency: 1 }, () => queue.enqueueMany(forty)],
    ['fifty slots each, all at once', { concurrency: 50 }, () => queue.enqueueMany(forty)],
    [
      'one slot each, one after the other',
      { concurrency: 1 },
      async () => {
        for (const { payload } of forty) await queue.enqueue(payload);
      },
    ],
    [
      'fifty slots each, one after the other',
      { concurrency: 50 },
      async () => {
        for (const { payload } of forty) await queue.enqueue(payload);
      },
    ],
  ])('of four consumers none gets more than three times its share of forty jobs: %s', async (_how, options, add) => {
    const found = await shares(options, add);
    expect(Math.max(...found)).toBeLessThanOrEqual(30);
    expect(Math.min(...found)).toBeGreaterThan(0);
  });

  it('a burst for idle consumers is dealt one by one', async () => {
    queue = shop.queue();
    await queue.pause();
    await queue.enqueueMany(forty);
    const diaries = Array.from(
      { length: 4 },
      () => new Diary(shop.consume(queue, () => new Promise(() => {}), { concurrency: 50 })),
    );
    await queue.resume();
    await vi.waitUntil(() => diaries.every((diary) => diary.of('claimed').length === 10), PATIENCE);
  });

  it('a queue that never empties is swept at every beat: what is due and what has lapsed is served within two', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const lapsed = (await queue.enqueue('lapsed', { priority: 0 })).id;
    await queue.take({ leaseMs: 60_000, count: 1 });
    const due = (await queue.schedule('due', { inMs: 3_600_000 })).id;
    const served = new Map<string, number>();
    const beats = () => log.of('reap').length;
    const busy = await shop.elsewhere(queue, connector);
    // Every job that ends is followed by two, so that there is always one for whoever asks.
    const consumer = shop.consume(
      busy,
      async ({ id, payload }) => {
        served.set(id, beats());
        if (payload === 'load' && served.size < 4_000) {
          await busy.enqueueMany([1, 2].map(() => ({ payload: 'load', priority: 5 })));
        }
      },
      { beatMs: 100, concurrency: 4, publish: false },
    );
    await queue.enqueueMany(Array.from({ length: 50 }, () => ({ payload: 'load', priority: 5 })));
    await vi.waitUntil(() => consumer.stats().completed > 20, PATIENCE);
    const [from] = [beats(), await shop.stage.lapse(queue.keys.active, lapsed), await shop.raw.zadd(queue.keys.schedule, 'XX', 1, due)]; // prettier-ignore
    await vi.waitUntil(() => served.has(lapsed) && served.has(due), PATIENCE);
    expect((served.get(lapsed) as number) - from).toBeLessThanOrEqual(2);
    expect((served.get(due) as number) - from).toBeLessThanOrEqual(2);
    const { ms, steps } = log.span('reap');
    expect(ms / steps).toBeLessThan(1_000);
  });
});
