/**
 * What a job brings along, on both executors: its name, its own limits, and what others wrote into its `opts`; the order
 * in which jobs are served; and the cap on claims.
 */
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  DelayError,
  exponential,
  mint,
  NamedQueue,
  type ConsumedJob,
  type HeldJob,
  type Queue,
} from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { printSeed, runs, seed } from '../parity/seed.js';
import { Diary } from './support/diary.js';
import { NO_BEAT, Shop } from './support/shop.js';

interface Work {
  a: { n: number };
  b: { s: string };
}

printSeed('limits');

describe.each(EXECUTORS)('what a job brings along on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  describe('its name', () => {
    let named: NamedQueue<Work>;
    const open = () => (named = new NamedQueue<Work>(shop.stage.connector, shop.queue().queue));

    it('chooses its handler', async () => {
      open();
      const seen: unknown[] = [];
      const consumer = shop.closeLater(
        named.consume(
          {
            a: ({ name, payload }) => seen.push([name, payload.n]),
            b: ({ name, payload }) => seen.push([name, payload.s]),
          },
          NO_BEAT,
        ),
      );
      const diary = new Diary(consumer);
      await named.enqueue('a', { n: 1 });
      await named.schedule('b', { s: 'later' }, { inMs: 0 });
      await named.enqueueMany([
        { name: 'b', payload: { s: 'x' } },
        { name: 'a', payload: { n: 2 } },
      ]);
      await diary.until('completed', 4);
      const text = (list: unknown[]) => list.map((one) => JSON.stringify(one)).sort();
      expect(text(seen)).toEqual(text([['a', 1], ['b', 'later'], ['b', 'x'], ['a', 2]])); // prettier-ignore
    });

    it('is known to a handler for all', async () => {
      open();
      const seen: unknown[] = [];
      const consumer = shop.closeLater(
        named.consume((job) => {
          seen.push(job.name === 'a' ? job.payload.n : job.payload.s);
        }, NO_BEAT),
      );
      await named.enqueue('a', { n: 7 });
      await new Diary(consumer).until('completed');
      expect(seen).toEqual([7]);
    });

    it('is unknown here: the job fails with a text that says so, and is tried again, perhaps elsewhere', async () => {
      open();
      const consumer = shop.closeLater(named.consume({ a: () => {}, b: () => {} }, { ...NO_BEAT, retryDelayMs: 5e5 }));
      const diary = new Diary(consumer);
      const { id } = await named.queue.enqueue(Buffer.from('1'), { name: 'c' });
      const { id: nameless } = await named.queue.enqueue(Buffer.from('1'));
      await named.queue.enqueue(Buffer.from('1'), { name: 'constructor' });
      await diary.until('scheduled', 3);
      const error = async (job: string) => (await named.queue.get(job))?.lastError?.toString().split('\n')[0];
      expect(await error(id)).toBe('no handler here for a job named "c": there are a, b');
      expect(await error(nameless)).toBe('no handler here for a job without a name: there are a, b');
    });
  });

  describe('its own limits', () => {
    it('maxAttempts wins over the consumer, up or down', async () => {
      queue = shop.queue();
      const once = await queue.enqueue(1, { maxAttempts: 1 });
      const often = await queue.enqueue(1, { maxAttempts: 5 });
      const usual = await queue.enqueue(1);
      const diary = new Diary(
        shop.consume(queue, () => {
          throw new Error('no');
        }),
      );
      await diary.until('failed', 3);
      const claims = [once, often, usual].map(
        ({ id }) => diary.story(id).filter((event) => event === 'claimed').length,
      );
      expect(claims).toEqual([1, 5, 3]);
    });

    it('backoff wins over the consumer, and counts failures: a delay is none', async () => {
      queue = shop.queue();
      const policy = exponential(100_000, 250_000);
      await queue.enqueue('policy', { backoff: policy, maxAttempts: 9 });
      await queue.enqueue('number', { backoff: 7_000, maxAttempts: 9 });
      await queue.enqueue('usual', { maxAttempts: 9 });
      const consumer = shop.consume(
        queue,
        ({ payload, attempts }) => {
          if (attempts === 2) throw new DelayError(0);
          throw new Error(`${String(payload)} ${attempts}`);
        },
        { backoff: (attempt) => 500_000 + attempt },
      );
      const diary = new Diary(consumer);
      // Whatever was put off is due at once.
      consumer.on('scheduled', (job) => {
        if (job.attempts < 5)
          void shop.stage.raw.zadd(queue.keys.schedule, 'XX', 1, job.id).then(() => queue.promote());
      });
      await diary.until('scheduled', 12);
      const delays = (payload: string) =>
        diary
          .of('scheduled')
          .filter(({ args: [job] }) => (job as ConsumedJob).payload === payload)
          .map(({ args: [, info] }) => (info as { delayMs: number }).delayMs);
      // the failures 1 2 3 4 are the claims 1 3 4 5
      expect(delays('policy')).toEqual([100_000, 200_000, 250_000, 250_000]);
      expect(delays('number')).toEqual([7_000, 7_000, 7_000, 7_000]);
      expect(delays('usual')).toEqual([500_001, 500_002, 500_003, 500_004]);
    });

    it('a backoff function that fails costs a second, and is told of; the loop goes on', async () => {
      queue = shop.queue();
      const backoffs = [
        () => NaN,
        () => -1,
        () => 'soon',
        () => {
          throw new Error('gotcha');
        },
        async () => Promise.reject(new Error('async')),
      ];
      await queue.enqueueMany(backoffs.map((_, payload) => ({ payload, maxAttempts: 2 })));
      const consumer = shop.consume(
        queue as Queue<number>,
        ({ payload }) => {
          throw new Error(String(payload));
        },
        { backoff: (_attempt, error) => backoffs[Number(error.message)]?.() as number },
      );
      const diary = new Diary(consumer, { warnings: true });
      await diary.until('scheduled', backoffs.length);
      expect(diary.of('scheduled').map(({ args: [, info] }) => (info as { delayMs: number }).delayMs)).toEqual(
        backoffs.map(() => 1_000),
      );
      expect(diary.of('warning')).toHaveLength(backoffs.length);
      expect(String(diary.of('warning')[0]?.args[0])).toMatch(/EMQ_INPUT the backoff of queue q\d+ failed: .*gave NaN/);
    });

    it('timeoutMs wins over the consumer', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue(1, { timeoutMs: 1, maxAttempts: 1 });
      const diary = new Diary(
        shop.consume(queue, (_job, { signal }) => new Promise((resolve) => (signal.onabort = resolve)), {
          timeoutMs: 600_000,
        }),
      );
      await diary.until('failed');
      expect((await queue.get(id))?.lastError?.toString()).toMatch(/^timed out after 1 ms\n/);
    });

    it('are there for the handler to read, with all else that was given', async () => {
      queue = shop.queue();
      await queue.enqueue(1, { name: 'mail', maxAttempts: 7, opts: { tenant: 'x', timeoutMs: 9_000 } });
      let seen: unknown;
      const diary = new Diary(
        shop.consume(queue, ({ name, maxAttempts, opts, queue: of, group, credit, bytes }) => {
          seen = { name, maxAttempts, opts, of, group, credit, bytes: bytes.toString() };
        }),
      );
      await diary.until('completed');
      expect(seen).toEqual({
        ...{ name: 'mail', maxAttempts: 7, of: queue.queue, group: undefined, credit: 0, bytes: '1' },
        opts: { tenant: 'x', timeoutMs: 9_000, name: 'mail', maxAttempts: 7 },
      });
    });
  });

  describe('what a stranger wrote into its opts never hurts', () => {
    const LARGEST = 2 ** 52;
    it.each([
      ['no JSON', '{'],
      ['nothing', ''],
      ['bytes', '\xff\xfe\x00'],
      ['null', 'null'],
      ['a number', '7'],
      ['a list', '[1]'],
      ['text', '"opts"'],
      ['a prototype', '{"__proto__":{"maxAttempts":1},"constructor":1,"toString":2}'],
      ['names that are none', '{"name":7}'],
      ['limits of wrong kinds', '{"name":{},"maxAttempts":"9","backoff":"fast","timeoutMs":null,"trace":[1]}'],
      ['limits out of range', '{"maxAttempts":-1,"backoff":-5,"timeoutMs":1e300}'],
      [
        'limits that are no whole numbers',
        '{"maxAttempts":1.5,"timeoutMs":0.5,"backoff":{"type":"fixed","delayMs":0.1}}',
      ],
      ['a policy that nobody knows', '{"backoff":{"type":"linear","delayMs":1}}'],
      ['policies without end', `{"backoff":${'{"type":"jitter","of":'.repeat(500)}1${'}'.repeat(500)}}`],
      ['a lot of it', JSON.stringify({ name: 'n', blob: 'x'.repeat(1_000_000) })],
    ])('%s', async (_what, opts) => {
      queue = shop.queue();
      const { id } = await queue.enqueue('odd');
      await shop.raw.hset(queue.keys.job(id), 'opts', opts);
      const diary = new Diary(
        shop.consume(
          queue,
          ({ payload }) => {
            if (payload === 'odd') throw new Error('no');
          },
          { timeoutMs: 500_000 },
        ),
      );
      await diary.until('failed');
      expect(diary.story(id).filter((event) => event === 'claimed')).toHaveLength(3);
      await queue.enqueue('ordinary');
      await diary.until('completed');
    });

    it.each([
      ['the largest cap and a credit', { opts: `{"maxAttempts":${LARGEST}}`, credit: '3' }, LARGEST, 'scheduled'],
      ['the largest credit', { credit: String(LARGEST) }, LARGEST, 'scheduled'],
      ['a credit below zero', { credit: '-50' }, 1, 'failed'],
      ['the smallest credit', { credit: String(-LARGEST) }, 1, 'failed'],
    ] as const)('%s', async (_what, fields, cap, end) => {
      queue = shop.queue();
      const { id } = await queue.enqueue(1);
      await shop.raw.hset(queue.keys.job(id), fields);
      let seen = 0;
      const diary = new Diary(
        shop.consume(
          queue,
          ({ maxAttempts }) => {
            seen = maxAttempts;
            throw new Error('no');
          },
          { retryDelayMs: 500_000 },
        ),
        { warnings: true },
      );
      await diary.until(end);
      expect(seen).toBe(cap);
      expect(diary.of('warning')).toEqual([]);
    });
  });

  describe('its priority', () => {
    it('P45: any mix of priorities is served by (priority, age), the two ends included', async () => {
      const last = 2_097_152;
      const priority = fc.oneof(
        fc.constantFrom(undefined, 0, 1, last - 1, last),
        fc.integer({ min: 0, max: last }),
        fc.integer({ min: 0, max: 2 }),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(priority, { minLength: 1, maxLength: 30 }), async (priorities) => {
          queue = shop.queue();
          await queue.pause();
          const items = priorities.map((one, payload) => ({ id: mint(), payload, priority: one }));
          await queue.enqueueMany(items);
          const served: unknown[] = [];
          const consumer = queue.consume(({ payload }) => served.push(payload), NO_BEAT);
          const diary = new Diary(consumer);
          await queue.resume();
          await diary.until('completed', items.length);
          await consumer.close();
          const rank = (n: number) => priorities[n] ?? 0;
          expect(served).toEqual(priorities.map((_, n) => n).sort((a, b) => rank(a) - rank(b) || a - b));
        }),
        { seed, numRuns: runs(15) },
      );
    });
  });

  describe('the cap on its claims', () => {
    /** A job that was claimed so often, each time by somebody who was never heard of again. */
    async function claimedInVain(times: number, options: Parameters<Queue['enqueue']>[1] = {}): Promise<string> {
      const { id } = await queue.enqueue('x', options);
      for (let n = 0; n < times; n++) {
        expect(await queue.take({ leaseMs: 60_000, count: 1 })).toMatchObject([{ id, token: n + 1 }]);
        await shop.stage.lapse(queue.keys.active, id);
        expect(await queue.reap()).toBe(1);
      }
      return id;
    }

    it('P2: a claim spends an attempt, and a job that kills its process does not loop for ever', async () => {
      queue = shop.queue();
      const id = await claimedInVain(3);
      let calls = 0;
      const diary = new Diary(shop.consume(queue, () => void calls++));
      await diary.until('failed');
      expect(calls).toBe(0);
      expect(await queue.get(id)).toMatchObject({ state: 'dead', attempts: 4 });
      expect((await queue.get(id))?.lastError?.toString()).toMatch(
        /^claimed 4 times and 3 are allowed: its earlier tries ended without a word/,
      );
      await queue.enqueue('next');
      await diary.until('completed');
    });

    it('one claim fewer, and it runs once more', async () => {
      queue = shop.queue();
      await claimedInVain(2);
      const diary = new Diary(shop.consume(queue, () => 'done'));
      await diary.until('completed');
    });

    it('the job may have a cap of its own', async () => {
      queue = shop.queue();
      await claimedInVain(3, { maxAttempts: 4 });
      const diary = new Diary(shop.consume(queue, () => 'done'));
      await diary.until('completed');
    });

    it('delays, hand-backs and uncounted recoveries do not count', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue('x', { maxAttempts: 1 });
      const [first] = await queue.take({ leaseMs: 60_000, count: 1 });
      await queue.release(first as HeldJob);
      const [second] = await queue.take({ leaseMs: 60_000, count: 1 });
      await queue.delay(second as HeldJob, { inMs: 0 });
      const diary = new Diary(shop.consume(queue, ({ attempts, credit }) => [attempts, credit]));
      await diary.until('completed');
      expect(diary.info('completed')).toMatchObject({ result: [3, 2] });
      expect(await queue.state(id)).toBe('absent');
    });

    it('a reprocessed job has as many tries as a new one', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue('x');
      let until = Infinity;
      const consumer = shop.consume(queue, ({ attempts }) => {
        if (attempts < until) throw new Error('no');
      });
      const diary = new Diary(consumer);
      await diary.until('failed');
      expect(await queue.reprocess(id)).toBe('pending');
      await diary.until('failed', 2);
      expect(await queue.get(id)).toMatchObject({ state: 'dead', attempts: 6, credit: 3 });
      until = 9;
      await queue.reprocess(id);
      await diary.until('completed');
      expect(diary.story(id).filter((event) => event === 'claimed')).toHaveLength(9);
    });
  });
});
