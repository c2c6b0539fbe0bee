/**
 * Consumers of a limited queue: they claim as soon as the limit allows it, without a beat, and ask no more than they must;
 * on both executors.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { mint, transitions, type Queue } from '../../../src/index.js';
import { QueueRunner } from '../../../src/queue/runner.js';
import type { LaneSettingName, LimitName, Settings } from '../../../src/wire/lane-transitions.js';
import { EXECUTORS } from '../../conformance/stage.js';
import { Diary, PATIENCE } from '../../worker/support/diary.js';
import { Shop } from '../../worker/support/shop.js';

describe.each(EXECUTORS)('a limited queue on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  const limit = (settings: Settings<LimitName>) =>
    new QueueRunner(shop.stage.connector).run(queue.queue, transitions.setLimits, { settings });
  const limitLane = (group: string, settings: Settings<LaneSettingName>) =>
    new QueueRunner(shop.stage.connector).run(queue.queue, transitions.laneSet, { group, settings });

  /** How many scripts the server has run. */
  async function scripts(): Promise<number> {
    const stats = await shop.raw.info('commandstats');
    return [...stats.matchAll(/cmdstat_evalsha(?:_ro)?:calls=(\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  }

  /** More never started within `windowMs` than the bucket holds and what came into it meanwhile. */
  function expectRate(starts: readonly number[], max: number, durationMs: number): void {
    starts.forEach((from, i) => {
      const within = starts.slice(i).filter((at) => at - from < durationMs).length;
      // twice: a full bucket, and what flows in meanwhile; one more for the clocks
      expect(within).toBeLessThanOrEqual(2 * max + 1);
    });
  }

  it.each([1, 10])('is served at its rate, with no beat (concurrency %i)', async (concurrency) => {
    queue = shop.queue();
    await limit([
      ['max', 5],
      ['duration', 250],
    ]);
    const starts: number[] = [];
    const diary = new Diary(shop.consume(queue, () => void starts.push(performance.now()), { concurrency }));
    await queue.enqueueMany(Array.from({ length: 20 }, (_, payload) => ({ payload })));
    const before = await scripts();
    const since = performance.now();
    await diary.until('completed', 20);
    const took = performance.now() - since;
    // five at once, and the others 50 ms apart
    expect(took).toBeGreaterThan(700);
    expect(took).toBeLessThan(3_000);
    expectRate(starts, 5, 250);
    // for each job: a take and a settle, a look when it was short, and a beat: promote, agenda, take, publish
    expect((await scripts()) - before).toBeLessThan(20 * 12);
  });

  it('by two processes is served at one rate', async () => {
    queue = shop.queue();
    await limit([
      ['max', 5],
      ['duration', 250],
    ]);
    const there = await shop.elsewhere(queue);
    const starts: number[] = [];
    const work = () => void starts.push(performance.now());
    const diaries = [queue, there].map((one) => new Diary(shop.consume(one, work, { concurrency: 5 })));
    const since = performance.now();
    await queue.enqueueMany(Array.from({ length: 20 }, (_, payload) => ({ payload })));
    await vi.waitUntil(() => starts.length === 20, PATIENCE);
    expect(performance.now() - since).toBeGreaterThan(700);
    expect(performance.now() - since).toBeLessThan(3_000);
    expectRate(
      starts.sort((a, b) => a - b),
      5,
      250,
    );
    await vi.waitUntil(() => diaries.flatMap((diary) => diary.of('completed')).length === 20, PATIENCE);
  });

  it('of which lanes have rates is served at theirs, and the others at once', async () => {
    queue = shop.queue();
    const [slow, quick] = [mint('TEN'), mint('TEN')];
    await limitLane(slow, [
      ['max', 2],
      ['duration', 200],
    ]);
    const done: string[] = [];
    const diary = new Diary(
      shop.consume(queue, ({ group }) => void done.push(group === slow ? 'slow' : 'quick'), { concurrency: 4 }),
    );
    const since = performance.now();
    await queue.enqueueMany(Array.from({ length: 8 }, (_, payload) => ({ payload, group: slow })));
    await queue.enqueueMany(Array.from({ length: 8 }, (_, payload) => ({ payload, group: quick })));
    await diary.until('completed', 16);
    // two at once, and six that come 100 ms apart
    expect(performance.now() - since).toBeGreaterThan(550);
    expect(performance.now() - since).toBeLessThan(3_000);
    expect(done.slice(0, 11).filter((one) => one === 'quick').length).toBeGreaterThanOrEqual(8);
  });

  it('goes on at once when a ceiling has room again', async () => {
    queue = shop.queue();
    await limit([['concurrency', 2]]);
    let [now, most] = [0, 0];
    const there = await shop.elsewhere(queue);
    const work = async () => {
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now--;
    };
    const diaries = [queue, there].map((one) => new Diary(shop.consume(one, work, { concurrency: 5 })));
    await queue.enqueueMany(Array.from({ length: 50 }, (_, payload) => ({ payload })));
    await vi.waitUntil(() => diaries.flatMap((diary) => diary.of('completed')).length === 50, PATIENCE);
    expect(most).toBeLessThanOrEqual(2);
  });

  it.each([
    [
      'without a token',
      [
        ['max', 1],
        ['duration', 3_600_000],
      ],
      false,
    ],
    [
      'paused and without a token',
      [
        ['max', 1],
        ['duration', 3_600_000],
      ],
      true,
    ],
    ['at its ceiling', [['concurrency', 1]], false],
    ['without jobs', [['max', 1_000]], false],
  ] as [string, Settings<LimitName>, boolean][])('costs nothing while it waits: %s', async (what, settings, paused) => {
    queue = shop.queue();
    await limit(settings);
    let end: () => void = () => {};
    const diary = new Diary(
      shop.consume(
        queue,
        () => (what === 'at its ceiling' ? new Promise<void>((resolve) => (end = resolve)) : undefined),
        {
          concurrency: 5,
        },
      ),
    );
    await queue.enqueueMany(Array.from({ length: what === 'without jobs' ? 1 : 10 }, (_, payload) => ({ payload })));
    await diary.until('claimed');
    if (paused) await queue.pause();
    await vi.waitUntil(async () => (await shop.raw.llen(queue.keys.wake)) === 0, PATIENCE);
    const [since, before] = [performance.now(), await scripts()];
    await vi.waitUntil(() => performance.now() - since > 300, PATIENCE);
    expect((await scripts()) - before).toBeLessThan(12);
    expect(diary.of('claimed')).toHaveLength(1);
    end();
  });

  it('is served at once when its rate is raised', async () => {
    queue = shop.queue();
    await limit([
      ['max', 1],
      ['duration', 3_600_000],
    ]);
    const diary = new Diary(shop.consume(queue, () => 1, { concurrency: 5 }));
    await queue.enqueueMany(Array.from({ length: 10 }, (_, payload) => ({ payload })));
    await diary.until('completed');
    await limit([
      ['max', 100],
      ['duration', 100],
    ]);
    await diary.until('completed', 10);
  });
});
