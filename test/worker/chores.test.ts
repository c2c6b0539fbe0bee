/**
 * What whoever consumes a queue does for it now and then: the dead are kept within bounds, the counters become a history,
 * the queue is named; on both executors.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { mint, type ConsumeOptions, type Queue } from '../../src/index.js';
import { REGISTRY_KEY } from '../../src/wire/keyspace.js';
import { EXECUTORS } from '../conformance/stage.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

const DAY = 86_400_000;

describe.each(EXECUTORS)('what a consumer does besides, on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** Dead jobs, the oldest first, one a day. Gives their ids. */
  async function bury(count: number): Promise<string[]> {
    queue = shop.queue();
    const now = await shop.stage.now();
    const ids = Array.from({ length: count }, () => mint());
    const writes = shop.raw.pipeline();
    for (const [n, id] of ids.entries()) {
      writes.hset(queue.keys.job(id), 'state', 'dead', 'attempts', '1', 'payload', '1');
      writes.zadd(queue.keys.dead, now - (count - n) * DAY + DAY / 2, id);
    }
    await writes.exec();
    return ids;
  }

  const dead = () => shop.raw.zrange(queue.keys.dead, '0', '-1');

  /** A consumer whose first beat is over: a job went through it. */
  async function beaten(options: ConsumeOptions): Promise<void> {
    const diary = new Diary(shop.consume(queue, () => 1, options));
    await queue.enqueue(1);
    await diary.until('completed');
  }

  it.each<[string, ConsumeOptions['deadLetter'], (ids: string[]) => string[]]>([
    ['those older than maxAgeMs go', { maxAgeMs: 10 * DAY }, (ids) => ids.slice(-10)],
    ['the oldest go when there are more than maxJobs', { maxJobs: 7 }, (ids) => ids.slice(-7)],
    ['none is kept', { maxJobs: 0 }, () => []],
    ['30 days, where nothing is said', undefined, (ids) => ids.slice(-30)],
  ])('trims the dead: %s', async (_what, deadLetter, left) => {
    const ids = await bury(45);
    await beaten(deadLetter === undefined ? {} : { deadLetter });
    await vi.waitUntil(async () => (await dead()).length === left(ids).length, PATIENCE);
    expect(await dead()).toEqual(left(ids));
    // with all that hangs on them
    expect(await shop.raw.exists(queue.keys.job(ids[0] as string))).toBe(0);
  });

  it('trims as many as there are, in steps, and leaves one that is locked', async () => {
    const ids = await bury(450);
    await shop.raw.set(`${queue.keys.job(ids[0] as string)}:lock`, '1', 'PX', 60_000);
    await beaten({ deadLetter: { maxJobs: 5, maxAgeMs: 10_000 * DAY } });
    const left = [ids[0], ...ids.slice(-5)];
    await vi.waitUntil(async () => (await dead()).length <= left.length, PATIENCE);
    expect((await dead()).slice(-5)).toEqual(left.slice(-5));
    expect(await dead()).toContain(ids[0]);
  });

  it('keeps all where that is wanted', async () => {
    const ids = await bury(45);
    await beaten({ deadLetter: false });
    expect(await dead()).toEqual(ids);
  });

  it('the strictest of two consumers has its way', async () => {
    const ids = await bury(20);
    shop.consume(queue, () => 1, { deadLetter: { maxJobs: 15 } });
    shop.consume(queue, () => 1, { deadLetter: { maxJobs: 3 } });
    shop.consume(queue, () => 1, { deadLetter: false });
    await vi.waitUntil(async () => (await dead()).length === 3, PATIENCE);
    expect(await dead()).toEqual(ids.slice(-3));
  });

  it('has the minutes counted', async () => {
    queue = shop.queue();
    await beaten({});
    await vi.waitUntil(async () => (await shop.raw.exists(`${queue.keys.base}metrics:rolled`)) === 1, PATIENCE);
  });

  it('names the queue, of batches too', async () => {
    queue = shop.queue();
    await beaten({});
    const other = shop.queue();
    shop.closeLater(other.consumeBatch(() => new Map()));
    await vi.waitUntil(async () => {
      const names = await shop.raw.zrange(REGISTRY_KEY, '0', '-1');
      return names.includes(queue.queue) && names.includes(other.queue);
    }, PATIENCE);
  });
});
