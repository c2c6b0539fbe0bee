/**
 * RateLimitError: a handler that says that what it needs is too busy; on both executors, without a beat.
 */
import { runInNewContext } from 'node:vm';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { mint, QueueEvents, RateLimitError, type Queue, type QueueEvent } from '../../../src/index.js';
import { EXECUTORS } from '../../conformance/stage.js';
import { Diary, PATIENCE } from '../../worker/support/diary.js';
import { Shop } from '../../worker/support/shop.js';

const HOUR = 3_600_000;

describe.each(EXECUTORS)('a handler that backs off on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  it('hands its flat job back untried: nothing is claimed for so long, and then it goes on by itself, at once', async () => {
    queue = shop.queue();
    const starts: number[] = [];
    const consumer = shop.consume(queue, ({ payload, attempts }) => {
      starts.push(performance.now());
      if (payload === 1 && attempts === 1) throw new RateLimitError(300);
    });
    const diary = new Diary(consumer);
    const { id } = await queue.enqueue(1);
    await diary.until('delayed');
    const [, { id: other }] = [await queue.get(id), await queue.enqueue(2)];
    expect(diary.info('delayed')).toEqual({
      durationMs: expect.any(Number) as number,
      rateLimit: { ms: 300, scope: 'own' },
    });
    await diary.until('completed', 2);
    expect(diary.story(id)).toEqual(['claimed', 'delayed', 'claimed', 'completed']);
    // the job that was handed back is before the other one still
    expect(diary.of('claimed').map(({ job }) => job)).toEqual([id, id, other]);
    const paused = (starts[1] ?? 0) - (starts[0] ?? 0);
    expect(paused).toBeGreaterThan(295);
    expect(paused).toBeLessThan(1_000);
    expect(consumer.stats()).toMatchObject({ delayed: 1, completed: 2, scheduled: 0 });
  });

  it('costs no try: as often as it likes, at its last try too', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue(1);
    const diary = new Diary(
      shop.consume(
        queue,
        ({ attempts }) => {
          if (attempts <= 10) throw new RateLimitError(5);
          throw new Error('the end');
        },
        { maxAttempts: 1 },
      ),
    );
    await diary.until('failed');
    expect(diary.of('delayed')).toHaveLength(10);
    expect(await queue.get(id)).toMatchObject({ state: 'dead', attempts: 11, credit: 10 });
  });

  it('holds back its lane only, and the lane goes on by itself when the time is up', async () => {
    queue = shop.queue();
    const [slow, quick] = [mint('TEN'), mint('TEN')];
    await queue.enqueue('slow', { group: slow });
    await queue.enqueueMany(Array.from({ length: 5 }, (_, n) => ({ payload: n, ...(n < 3 ? { group: quick } : {}) })));
    const done: unknown[] = [];
    const diary = new Diary(
      shop.consume(queue, ({ payload, attempts }) => {
        if (payload === 'slow' && attempts === 1) throw new RateLimitError(400);
        done.push(payload);
      }),
    );
    await diary.until('completed', 6);
    expect(done).toHaveLength(6);
    expect(done.at(-1)).toBe('slow');
  });

  it('holds back all, lanes too, where it says so', async () => {
    queue = shop.queue();
    const [one, two] = [mint('TEN'), mint('TEN')];
    const diary = new Diary(
      shop.consume(queue, ({ attempts }) => {
        if (attempts === 1) throw new RateLimitError(HOUR, { scope: 'queue' });
      }),
    );
    await queue.enqueue(1, { group: one });
    await diary.until('delayed');
    expect(diary.info('delayed')).toMatchObject({ rateLimit: { ms: HOUR, scope: 'queue' } });
    await queue.enqueue(2, { group: two });
    await queue.enqueue(3);
    expect(await queue.take({ leaseMs: HOUR, count: 10 })).toEqual([]);
    expect(await queue.counts(['active', 'pending'])).toEqual({ active: 0, pending: 1 });
    await expect(queue.consult()).rejects.toMatchObject({ code: 'EMQRATE' });
  });

  it('is told on the queue, as put off because of a rate', async () => {
    queue = shop.queue();
    await using events = new QueueEvents(shop.stage.connector, queue.queue);
    await events.ready();
    const heard: QueueEvent[] = [];
    events.on('delayed', (event) => heard.push(event));
    shop.consume(queue, () => {
      throw new RateLimitError(HOUR);
    });
    const { id } = await queue.enqueue(1);
    await vi.waitUntil(() => heard.length > 0, PATIENCE);
    expect(heard).toEqual([{ event: 'delayed', job: id, reason: 'rate limit' }]);
  });

  it.each([
    ['a copy of the class', () => Object.assign(new Error('x'), { name: 'RateLimitError', ms: HOUR, scope: 'own' })],
    ['one without a scope', () => Object.assign(new Error('x'), { name: 'RateLimitError', ms: HOUR })],
    ['a subclass', () => new (class Busy extends RateLimitError {})(HOUR)],
    [
      'an error of another realm',
      () => runInNewContext(`Object.assign(new Error('x'), { name: 'RateLimitError', ms: ${HOUR} })`) as unknown,
    ],
  ])('by %s', async (_what, make) => {
    queue = shop.queue();
    const { id } = await queue.enqueue(1);
    const diary = new Diary(
      shop.consume(queue, () => {
        throw make();
      }),
    );
    await diary.until('delayed');
    expect(diary.info('delayed')).toMatchObject({ rateLimit: { ms: HOUR, scope: 'own' } });
    expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
  });

  it.each<[string, () => unknown, RegExp]>([
    ['0', () => new RateLimitError(0), /ms of a RateLimitError must be/],
    ['half a ms', () => new RateLimitError(0.5), /ms of a RateLimitError must be/],
    ['an endless time', () => new RateLimitError(Infinity), /ms of a RateLimitError must be/],
    ['text', () => new RateLimitError('5' as never), /ms of a RateLimitError must be/],
    ['nothing', () => new RateLimitError(undefined as never), /ms of a RateLimitError must be/],
    [
      'another scope',
      () => new RateLimitError(5, { scope: 'moon' as never }),
      /scope of a RateLimitError must be queue/,
    ],
    ['no options', () => new RateLimitError(NaN, null as never), /ms of a RateLimitError must be/],
    [
      'a copy whose ms throws',
      () =>
        Object.defineProperty(Object.assign(new Error('x'), { name: 'RateLimitError' }), 'ms', {
          get() {
            throw new Error('no ms');
          },
        }),
      /^no ms/,
    ],
  ])('but not for %s: that is a failure which says so', async (_what, make, says) => {
    queue = shop.queue();
    const { id } = await queue.enqueue(1);
    const diary = new Diary(
      shop.consume(
        queue,
        () => {
          throw make();
        },
        { retryDelayMs: HOUR },
      ),
    );
    await diary.until('scheduled');
    expect((await queue.get(id))?.lastError?.toString()).toMatch(says);
  });
});
