/**
 * Batches on a server: when one is taken, what becomes of its jobs, and what a batch consumer does besides; on both executors.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Flows, mint, RateLimitError, UnrecoverableError, type ConsumedJob, type Queue } from '../../../src/index.js';
import type { BatchConsumer } from '../../../src/worker/batch-consumer.js';
import type { BatchContext, BatchHandler } from '../../../src/worker/batch-handler.js';
import type { ConsumeBatchOptions } from '../../../src/worker/batch-options.js';
import type { BatchPartition, Verdict } from '../../../src/worker/batch-verdicts.js';
import { EXECUTORS } from '../../conformance/stage.js';
import { Diary, PATIENCE } from '../../worker/support/diary.js';
import { NO_BEAT, Shop } from '../../worker/support/shop.js';

const HOUR = 3_600_000;
const NOTHING: BatchPartition = { completed: [], retried: [], dead: [], delayed: [], released: [], stale: [] };

describe.each(EXECUTORS)('batches on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  let batches: string[][];
  let partitions: BatchPartition[];
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  const all = (jobs: readonly ConsumedJob[], verdict: Verdict = 'complete') =>
    new Map(jobs.map(({ id }) => [id, verdict]));

  /** A batch consumer that keeps what it was given and what became of it, closed after the test. */
  function consume(handler: BatchHandler, options: ConsumeBatchOptions = {}): BatchConsumer {
    batches = [];
    partitions = [];
    const consumer = queue.consumeBatch(
      (jobs, context) => {
        batches.push(jobs.map(({ id }) => id));
        return handler(jobs, context);
      },
      { ...NO_BEAT, ...(options.backoff === undefined ? { retryDelayMs: HOUR } : {}), ...options },
    );
    consumer.on('batch', (partition) => partitions.push(partition));
    return shop.closeLater(consumer);
  }

  async function enqueue(count: number, options: { group?: string } = {}): Promise<string[]> {
    const items = Array.from({ length: count }, (_, payload) => ({ payload, ...options }));
    return (await queue.enqueueMany(items)).map(({ id }) => id);
  }

  const settled = (count: number) => vi.waitUntil(() => partitions.length >= count, PATIENCE);

  /** How many scripts the server has run. */
  async function scripts(): Promise<number> {
    const stats = await shop.raw.info('commandstats');
    return [...stats.matchAll(/cmdstat_evalsha(?:_ro)?:calls=(\d+)/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  }

  describe('is taken', () => {
    it('when enough jobs wait, in their order, and not before', async () => {
      queue = shop.queue();
      consume((jobs) => all(jobs), { minSize: 5, timeoutMs: HOUR });
      const first = await enqueue(4);
      await vi.waitUntil(async () => (await shop.raw.llen(queue.keys.wake)) === 0, PATIENCE);
      expect(batches).toEqual([]);
      const [fifth] = await enqueue(1);
      await settled(1);
      expect(batches).toEqual([[...first, fifth]]);
      expect(partitions).toEqual([{ ...NOTHING, completed: [...first, fifth] }]);
      expect(await queue.metrics('completed')).toEqual({ count: 5 });
    });

    it('when fewer have waited for timeoutMs since the first was seen', async () => {
      queue = shop.queue();
      consume((jobs) => all(jobs), { minSize: 5, timeoutMs: 300 });
      let since = performance.now();
      const ids = await enqueue(2);
      await settled(1);
      expect(performance.now() - since).toBeGreaterThan(295);
      expect(batches).toEqual([ids]);
      // the next ones have a time of their own
      since = performance.now();
      const next = await enqueue(1);
      await settled(2);
      expect(performance.now() - since).toBeGreaterThan(295);
      expect(batches[1]).toEqual(next);
    });

    it('of jobs that waited before it came', async () => {
      queue = shop.queue();
      const ids = await enqueue(3);
      await shop.raw.del(queue.keys.wake);
      consume((jobs) => all(jobs), { minSize: 5, timeoutMs: 50 });
      await settled(1);
      expect(batches).toEqual([ids]);
    });

    it('at once, of whatever waits, where nothing else is said', async () => {
      queue = shop.queue();
      consume((jobs) => all(jobs));
      const ids = await enqueue(1);
      await settled(1);
      expect(batches).toEqual([ids]);
    });

    it('of maxSize jobs at most, one after the other', async () => {
      queue = shop.queue();
      const ids = await enqueue(25);
      consume((jobs) => all(jobs), { minSize: 5, maxSize: 10, timeoutMs: 50 });
      await settled(3);
      expect(batches.map(({ length }) => length)).toEqual([10, 10, 5]);
      expect(batches.flat()).toEqual(ids);
    });

    it('as many at once as concurrency says', async () => {
      queue = shop.queue();
      await enqueue(30);
      let [now, most] = [0, 0];
      const consumer = consume(
        async (jobs) => {
          most = Math.max(most, ++now);
          await vi.waitUntil(() => most === 2, PATIENCE);
          now--;
          return all(jobs);
        },
        { maxSize: 5, concurrency: 2 },
      );
      await settled(6);
      expect(most).toBe(2);
      expect(consumer.stats()).toMatchObject({ batches: 6, claimed: 30, completed: 30, running: 0, held: 0 });
    });

    it('of one lane, by turns; once the time is up each lane that waited is served', async () => {
      queue = shop.queue();
      const lanes = Array.from({ length: 4 }, () => mint('TEN'));
      const big = mint('TEN');
      const ids = await Promise.all(lanes.map((group) => enqueue(2, { group })));
      const more = await enqueue(12, { group: big });
      const flat = await enqueue(3);
      const at: number[] = [];
      const note: BatchHandler = (jobs) => {
        at.push(performance.now());
        return all(jobs);
      };
      consume(note, { minSize: 6, maxSize: 6, timeoutMs: 1_000, source: 'lanes' });
      await settled(6);
      // all that waited, and not one lane a window
      expect((at[5] ?? 0) - (at[2] ?? 0)).toBeLessThan(900);
      expect(batches.slice(0, 2)).toEqual([more.slice(0, 6), more.slice(6)]);
      expect(batches.slice(2).sort()).toEqual(ids.sort());
      expect(await queue.browse('pending')).toEqual([...flat].reverse());
    });

    it('with a scheduled job when that is due, and with one whose worker is gone', async () => {
      queue = shop.queue();
      const { id: lapsed } = await queue.enqueue(1);
      await queue.claim({ leaseMs: HOUR });
      await shop.stage.lapse(queue.keys.active, lapsed);
      consume((jobs) => all(jobs));
      await settled(1);
      const { id } = await queue.schedule(1, { inMs: 100 });
      await settled(2);
      expect(batches).toEqual([[lapsed], [id]]);
    });
  });

  describe('where nothing can be claimed', () => {
    it.each([1, 5])('a paused queue costs nothing, and is served when it goes on (minSize %i)', async (minSize) => {
      queue = shop.queue();
      await queue.pause();
      const ids = await enqueue(7);
      consume((jobs) => all(jobs), { minSize, timeoutMs: 20 });
      await vi.waitUntil(async () => (await shop.raw.llen(queue.keys.wake)) === 0, PATIENCE);
      // its window is over by then
      const [since, before] = [performance.now(), await scripts()];
      await vi.waitUntil(() => performance.now() - since > 300, PATIENCE);
      expect((await scripts()) - before).toBeLessThan(20);
      expect(batches).toEqual([]);
      await queue.resume();
      await settled(1);
      expect(batches).toEqual([ids]);
    });

    it('a flood of single jobs is looked at now and then, not at each', async () => {
      queue = shop.queue();
      consume((jobs) => all(jobs), { minSize: 2_000, maxSize: 2_000, timeoutMs: HOUR });
      const before = await scripts();
      const since = performance.now();
      for (let n = 0; n < 2_000; n++) await queue.enqueue(n);
      const [took, ran] = [performance.now() - since, (await scripts()) - before - 2_000];
      await settled(1);
      // besides the enqueues: a look is three scripts or four, one each 5 ms, and the first beat
      expect(ran).toBeLessThan(4 * (took / 5) + 50);
      expect(batches.map(({ length }) => length)).toEqual([2_000]);
    });
  });

  describe('settles each job by its verdict', () => {
    it('and tells which went where', async () => {
      queue = shop.queue();
      const [done, result, failed, hopeless, later, missing, limited, odd] = await enqueue(8);
      const ids = [done, result, failed, hopeless, later, missing, limited, odd] as string[];
      const consumer = consume(
        () => ({
          [done as string]: 'complete',
          [result as string]: { complete: { rows: 3 } },
          [failed as string]: { fail: 'no such table' },
          [hopeless as string]: { fail: new UnrecoverableError('hopeless') },
          [later as string]: { delay: HOUR },
          [limited as string]: { fail: new RateLimitError(HOUR) },
          [odd as string]: 'done' as 'complete',
        }),
        { minSize: 8 },
      );
      const diary = new Diary(consumer);
      await settled(1);
      expect(batches).toEqual([ids]);
      expect(partitions).toEqual([
        {
          ...NOTHING,
          completed: [done, result],
          retried: [failed, missing, odd],
          dead: [hopeless],
          delayed: [later, limited],
        },
      ]);
      const error = async (id = '') => (await queue.get(id))?.lastError?.toString();
      // what was only said has no stack; what the handler made has its own
      expect(await error(failed)).toBe('no such table');
      expect(await error(hopeless)).toMatch(/^hopeless\nUnrecoverableError: hopeless\n {4}at /);
      expect(await error(missing)).toBe('missing verdict');
      expect(await error(odd)).toMatch(/^bad verdict: it must be 'complete', .* it was "done"$/);
      expect(await queue.get(later as string)).toMatchObject({ state: 'scheduled', credit: 1 });
      expect(await queue.get(limited as string)).toMatchObject({ state: 'pending', credit: 1 });
      expect(diary.story(result as string)).toEqual(['claimed', 'completed']);
      expect((diary.of('completed')[1]?.args[1] as { result: unknown }).result).toEqual({ rows: 3 });
      expect(consumer.stats()).toMatchObject({ completed: 2, scheduled: 3, failed: 1, delayed: 2, batches: 1 });
    });

    it.each<[string, BatchHandler, RegExp]>([
      [
        'a throw',
        () => {
          throw new Error('broken');
        },
        /^broken/,
      ],
      ['a rejection', () => Promise.reject(new Error('broken')), /^broken/],
      ['no map', () => 'complete' as never, /^bad verdict: a batch handler must return/],
    ])('%s fails them all, and the loop goes on', async (_what, handler, says) => {
      queue = shop.queue();
      const ids = await enqueue(3);
      let calls = 0;
      consume((jobs, context) => (calls++ === 0 ? handler(jobs, context) : all(jobs)), { minSize: 3, timeoutMs: 50 });
      await settled(1);
      expect(partitions[0]).toEqual({ ...NOTHING, retried: ids });
      for (const id of ids) expect((await queue.get(id))?.lastError?.toString()).toMatch(says);
      const next = await enqueue(3);
      await settled(2);
      expect(partitions[1]).toEqual({ ...NOTHING, completed: next });
    });

    it('and is dead at its last try', async () => {
      queue = shop.queue();
      const ids = await enqueue(2);
      consume((jobs) => all(jobs, { fail: 'no' }), { minSize: 2, maxAttempts: 2, backoff: 0 });
      await settled(2);
      expect(partitions).toEqual([
        { ...NOTHING, retried: ids },
        { ...NOTHING, dead: ids },
      ]);
    });

    it('one that is gone leaves the others as they are', async () => {
      queue = shop.queue();
      const [gone, ...others] = await enqueue(3);
      const consumer = consume(
        async (jobs) => {
          await queue.remove(gone as string);
          return all(jobs);
        },
        { minSize: 3 },
      );
      const diary = new Diary(consumer);
      await settled(1);
      expect(partitions).toEqual([{ ...NOTHING, completed: others, stale: [gone] }]);
      expect(diary.of('stale')).toHaveLength(1);
    });

    it('a verdict for a stranger is ignored, with a warning', async () => {
      queue = shop.queue();
      const [id] = await enqueue(1);
      const consumer = consume((jobs) => all(jobs).set('JOB0KHTOWnGLuC', 'complete'));
      const diary = new Diary(consumer, { warnings: true });
      await settled(1);
      expect(partitions).toEqual([{ ...NOTHING, completed: [id] }]);
      expect((diary.of('warning')[0]?.args[0] as Error).message).toMatch(
        /verdict for "JOB0KHTOWnGLuC", no job of its batch/,
      );
    });

    it('one that was claimed too often is dead, and never shown to the handler', async () => {
      queue = shop.queue();
      const [worn, fresh] = await enqueue(2);
      await shop.raw.hset(queue.keys.job(worn as string), 'attempts', '3');
      consume((jobs) => all(jobs), { minSize: 2 });
      await settled(1);
      expect(batches).toEqual([[fresh]]);
      expect(partitions).toEqual([{ ...NOTHING, completed: [fresh], dead: [worn] }]);
    });

    it('children of a flow give their results to their parent', async () => {
      queue = shop.queue();
      const { id: parent } = await new Flows(shop.stage.connector, queue).add({
        payload: 'parent',
        children: [{ payload: 1 }, { payload: 2 }],
      });
      let results: unknown;
      consume(async (jobs, context) => {
        const last = jobs.find(({ id }) => id === parent);
        if (last !== undefined) results = [...(await context.of(last).children()).values.values()];
        return new Map(jobs.map((job) => [job.id, { complete: `did ${String(job.payload)}` }]));
      });
      await vi.waitUntil(() => results !== undefined, PATIENCE);
      expect((results as string[]).sort()).toEqual(['did 1', 'did 2']);
    });
  });

  describe('while the handler runs', () => {
    /** Claims a batch and lets it run until `end`. */
    async function running(count: number, options: ConsumeBatchOptions = {}) {
      queue = shop.queue();
      const ids = await enqueue(count);
      let context: BatchContext | undefined;
      let end: () => void = () => {};
      const consumer = consume(
        async (jobs, given) => {
          context = given;
          await new Promise<void>((resolve) => (end = resolve));
          return all(jobs);
        },
        { minSize: count, ...options },
      );
      await vi.waitUntil(() => context !== undefined, PATIENCE);
      return { ids, consumer, context: context as BatchContext, end: () => end() };
    }

    it('the leases of all are renewed', async () => {
      const { ids, end } = await running(3, { leaseMs: 400 });
      const deadlines = async () => {
        const scores = await shop.raw.zmscore(queue.keys.active, ...ids);
        return scores.map(Number);
      };
      const first = await deadlines();
      await vi.waitUntil(async () => (await deadlines()).every((one, i) => one > (first[i] ?? 0) + 400), PATIENCE);
      end();
      await settled(1);
      expect(partitions).toEqual([{ ...NOTHING, completed: ids }]);
    });

    it('a cancel aborts the signal of its job; that of the batch when it was the last', async () => {
      const { ids, context, end } = await running(2);
      const [one, two] = ids.map((id) => context.of({ id }).signal);
      expect(await queue.cancel(ids[0] as string, 'not wanted')).toBe('signalled');
      await vi.waitUntil(() => one?.aborted === true, PATIENCE);
      expect((one?.reason as Error).message).toBe('cancelled: not wanted');
      expect([two?.aborted, context.signal.aborted]).toEqual([false, false]);
      await queue.cancel(ids[1] as string);
      await vi.waitUntil(() => context.signal.aborted, PATIENCE);
      expect(() => context.of({ id: 'JOB0KHTOWnGLuC' })).toThrow(/is no job of this batch/);
      end();
      // a handler that does not look completes as if nothing had been
      await settled(1);
    });

    it('a cancelled job that then fails is dead', async () => {
      queue = shop.queue();
      const ids = await enqueue(2);
      consume(
        async (jobs, context) => {
          const { signal } = context.of(jobs[0] as ConsumedJob);
          const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve));
          await queue.cancel(ids[0] as string);
          await aborted;
          return all(jobs, { fail: 'stopped' });
        },
        { minSize: 2 },
      );
      await settled(1);
      expect(partitions).toEqual([{ ...NOTHING, dead: [ids[0]], retried: [ids[1]] }]);
    });

    it('a close waits for it, and claims no more', async () => {
      const { ids, consumer, end } = await running(2);
      const closed = consumer.close();
      const later = await enqueue(2);
      expect(consumer.stats()).toMatchObject({ state: 'closing', running: 1, held: 2 });
      end();
      await closed;
      expect(partitions).toEqual([{ ...NOTHING, completed: ids }]);
      expect(await queue.counts(['pending'])).toEqual({ pending: later.length });
      expect(consumer.stats().state).toBe('closed');
    });

    it('a forced close hands all of it back', async () => {
      const { ids, consumer, context, end } = await running(2);
      const { signal } = context;
      await consumer.close({ timeoutMs: 0 });
      expect(signal.aborted).toBe(true);
      for (const id of ids) expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
      end();
      await new Promise(setImmediate);
      expect(partitions).toEqual([]);
      expect(consumer.stats()).toMatchObject({ released: 2, completed: 0 });
    });
  });

  it('works beside a consumer of single jobs in the same process', async () => {
    queue = shop.queue();
    const group = mint('TEN');
    const diary = new Diary(shop.consume(queue, () => 1, { source: 'lanes' }));
    consume((jobs) => all(jobs), { minSize: 3, timeoutMs: 100 });
    const flat = await enqueue(4);
    await enqueue(5, { group });
    await diary.until('completed', 5);
    await vi.waitUntil(() => partitions.flatMap(({ completed }) => completed).length === 4, PATIENCE);
    expect(batches.flat()).toEqual(flat);
  });
});

describe('the options of consumeBatch', () => {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.open(4);
  });
  afterAll(() => shop[Symbol.asyncDispose]());

  it.each<[string, unknown, RegExp]>([
    ['an unknown one', { minsize: 1 }, /unknown option "minsize" of consumeBatch/],
    ['one of consume', { processor: 'thread' }, /unknown option "processor"/],
    ['minSize 0', { minSize: 0 }, /minSize must be an integer from 1/],
    ['maxSize as text', { maxSize: '5' }, /maxSize must be an integer/],
    ['too large a batch', { maxSize: 10_001 }, /maxSize must be at most 10000/],
    ['more than maxSize', { minSize: 6, maxSize: 5 }, /minSize \(6\) must not be more than maxSize \(5\)/],
    ['no time', { timeoutMs: 0 }, /timeoutMs must be a whole number of ms/],
    ['both sources', { source: 'both' }, /source must be one of flat, lanes/],
    ['a wrong shared one', { leaseMs: -1 }, /leaseMs must be/],
    ['a wrong bound', { deadLetter: { maxJobs: -1 } }, /maxJobs must be an integer from 0/],
  ])('%s is refused', (_what, options, says) => {
    expect(() => shop.queue().consumeBatch(() => new Map(), options as ConsumeBatchOptions)).toThrow(says);
  });

  it('a handler must be a function', () => {
    expect(() => shop.queue().consumeBatch('x' as never)).toThrow(/a batch handler must be a function, got "x"/);
  });
});
