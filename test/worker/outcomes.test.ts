/**
 * Every way in which a handler can end, and what becomes of the job: on both executors, without a beat.
 */
import { runInNewContext } from 'node:vm';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { DelayError, mint, UnrecoverableError, type Consumer, type Handler, type Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { Diary, type EventName } from './support/diary.js';
import { ODD_VALUES } from './support/odd-values.js';
import { Shop } from './support/shop.js';

/** What a handler may resolve with. */
const RESULTS: readonly (readonly [string, () => unknown])[] = [
  ['nothing', () => undefined],
  ['null', () => null],
  ['a number', () => 0],
  ['NaN', () => NaN],
  ['text', () => ''],
  ['an object', () => ({ a: [1] })],
  ['a Buffer', () => Buffer.from([0, 255])],
  ['a bigint', () => 1n],
  ['a symbol', () => Symbol('done')],
  ['a function', () => () => 1],
  ['an Error that is not thrown', () => new Error('kept')],
  ['an object that is not for JSON', () => ({ n: 1n })],
  [
    'an object whose fields throw',
    () =>
      Object.defineProperty({}, 'field', {
        enumerable: true,
        get() {
          throw new Error('gotcha');
        },
      }),
  ],
];

/** A DelayError of another copy of the package. */
class CopiedDelay extends Error {
  override readonly name = 'DelayError';
  constructor(readonly runAt: unknown) {
    super('copied');
  }
}

describe.each(EXECUTORS)('the end of a handler on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** Runs one job to its first end, then shows that the loop goes on. */
  async function first(end: EventName, handler: Handler, maxAttempts = 3): Promise<{ id: string; diary: Diary }> {
    queue = shop.queue();
    const { id } = await queue.enqueue('odd');
    const consumer: Consumer = shop.consume(
      queue,
      (job, context) => (job.payload === 'odd' ? handler(job, context) : undefined),
      { maxAttempts, retryDelayMs: 600_000 },
    );
    const diary = new Diary(consumer);
    await diary.until(end);
    const next = await queue.enqueue('ordinary');
    await diary.until('completed', end === 'completed' ? 2 : 1);
    expect(diary.story(next.id)).toEqual(['claimed', 'completed']);
    expect(diary.story(id)).toEqual(['claimed', end]);
    expect(consumer.stats()).toMatchObject({ state: 'running', running: 0, held: 0, claimed: 2 });
    return { id, diary };
  }

  describe('completes the job', () => {
    it.each(RESULTS)('with %s', async (_what, make) => {
      const result = make();
      const { id, diary } = await first('completed', () => Promise.resolve(result));
      expect(diary.info('completed')).toMatchObject({ durationMs: expect.any(Number) as number });
      expect(diary.info('completed')['result']).toBe(result);
      expect(await queue.state(id)).toBe('absent');
      expect(await queue.metrics('completed')).toEqual({ count: 2 });
    });

    it('by returning without a promise', async () => {
      const { diary } = await first('completed', () => 'at once');
      expect(diary.info('completed')).toMatchObject({ result: 'at once' });
    });

    it('by a thenable that is no promise', async () => {
      const thenable = { then: (resolve: (value: string) => void) => resolve('then') };
      const { diary } = await first('completed', () => thenable);
      expect(diary.info('completed')).toMatchObject({ result: 'then' });
    });
  });

  describe('fails the job, which is tried again', () => {
    it.each([
      [
        'a throw',
        () => {
          throw new Error('broken');
        },
      ],
      ['a rejection', () => Promise.reject(new Error('broken'))],
      [
        'a throw after a while',
        async () => {
          await new Promise(setImmediate);
          throw new Error('broken');
        },
      ],
    ] as [string, Handler][])('by %s', async (_how, handler) => {
      const { id, diary } = await first('scheduled', handler);
      const info = diary.info<{ error: Error; delayMs: number; durationMs: number }>('scheduled');
      expect(info).toMatchObject({ delayMs: 600_000, durationMs: expect.any(Number) as number });
      expect(info.error.message).toBe('broken');
      const row = await queue.get(id);
      expect(row).toMatchObject({ state: 'scheduled', attempts: 1, credit: 0 });
      expect(row?.lastError?.toString()).toBe(`broken\n${String(info.error.stack)}`.slice(0, 4096));
    });

    it('by a payload that is not of the codec', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue(Buffer.from('{not JSON'));
      const diary = new Diary(shop.consume(queue, (job) => job.payload, { retryDelayMs: 600_000 }));
      await diary.until('scheduled');
      expect((await queue.get(id))?.lastError?.toString()).toMatch(/^EMQ_INPUT the payload of .* cannot be decoded/);
    });

    it('by a thenable whose then throws', async () => {
      const thenable = {
        get then(): never {
          throw new Error('no then');
        },
      };
      const { id } = await first('scheduled', () => thenable);
      expect((await queue.get(id))?.lastError?.toString()).toMatch(/^no then\n/);
    });

    it.each(ODD_VALUES.map(({ what, make, says }) => [what, make, says] as const))(
      'whatever it threw: %s',
      async (_what, make, says) => {
        const { id } = await first('scheduled', () => {
          throw make();
        });
        const text = (await queue.get(id))?.lastError ?? Buffer.alloc(0);
        expect(text.length).toBeLessThanOrEqual(4096);
        // what cannot be UTF-8 was made so; half a character there is none
        expect(() => new TextDecoder('utf-8', { fatal: true }).decode(text)).not.toThrow();
        expect(says.test(text.toString().split('\n')[0] ?? '')).toBe(true);
      },
    );

    it('until it has been claimed maxAttempts times: then it is dead', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue(1);
      const seen: [number, number, number][] = [];
      const consumer = shop.consume(queue, ({ attempts, token, maxAttempts }) => {
        seen.push([attempts, token, maxAttempts]);
        throw new Error(`boom ${attempts}`);
      });
      const diary = new Diary(consumer);
      await diary.until('failed');
      expect(seen).toEqual([
        [1, 1, 3],
        [2, 2, 3],
        [3, 3, 3],
      ]);
      expect(diary.story(id)).toEqual(['claimed', 'scheduled', 'claimed', 'scheduled', 'claimed', 'failed']);
      expect(await queue.get(id)).toMatchObject({ state: 'dead', attempts: 3 });
      expect((await queue.get(id))?.lastError?.toString()).toMatch(/^boom 3\nError: boom 3\n/);
      expect(consumer.stats()).toMatchObject({ claimed: 3, scheduled: 2, failed: 1, completed: 0 });
    });
  });

  describe('puts the job off', () => {
    const soon = 600_000;
    const date = new Date(Date.now() + soon);
    it.each([
      ['ms', () => new DelayError(soon), 'in'],
      ['ms in an object', () => new DelayError({ inMs: soon }), 'in'],
      ['a Date', () => new DelayError(date), 'at'],
      ['a Date in an object', () => new DelayError({ at: date }), 'at'],
      ['Unix ms', () => new DelayError({ at: date.getTime() }), 'at'],
      ['a copy of the class', () => new CopiedDelay({ inMs: soon }), 'in'],
      ['a subclass', () => new (class Snooze extends DelayError {})(soon), 'in'],
      [
        'an error of another realm',
        () =>
          runInNewContext(`Object.assign(new Error('x'), { name: 'DelayError', runAt: { inMs: ${soon} } })`) as unknown,
        'in',
      ],
    ])('by a DelayError: %s', async (_what, make, mode) => {
      const before = await shop.stage.now();
      const { id, diary } = await first('delayed', () => {
        throw make();
      });
      expect(diary.info('delayed')).toEqual({ durationMs: expect.any(Number) as number });
      const row = await queue.get(id);
      // a claim is spent and given back: the token grows, the budget does not shrink
      expect(row).toMatchObject({ state: 'scheduled', attempts: 1, credit: 1 });
      expect(row?.lastError).toBeUndefined();
      const due = Number(await shop.raw.zscore(queue.keys.schedule, id));
      if (mode === 'at') expect(due).toBe(date.getTime());
      else {
        expect(due).toBeGreaterThanOrEqual(before + soon);
        expect(due).toBeLessThanOrEqual((await shop.stage.now()) + soon);
      }
    });

    it.each([
      ['the past', new DelayError(new Date(0))],
      ['now', new DelayError(0)],
      ['less than now', new DelayError(-5)],
    ])('until %s: it runs again at once', async (_when, error) => {
      queue = shop.queue();
      const { id } = await queue.enqueue(1);
      const diary = new Diary(
        shop.consume(queue, ({ attempts }) => {
          if (attempts === 1) throw error;
        }),
      );
      await diary.until('completed');
      expect(diary.story(id)).toEqual(['claimed', 'delayed', 'claimed', 'completed']);
    });

    it.each([
      ['NaN', () => new DelayError(NaN)],
      ['an endless time', () => new DelayError(Infinity)],
      ['half a ms', () => new DelayError(0.5)],
      ['an invalid Date', () => new DelayError(new Date(NaN))],
      ['text', () => new DelayError('soon' as unknown as number)],
      ['nothing', () => new DelayError(undefined as unknown as number)],
      ['null', () => new DelayError(null as unknown as number)],
      ['two times', () => new DelayError({ at: 1, inMs: 1 })],
      ['no time in a copy', () => new CopiedDelay(undefined)],
      [
        'a time that throws',
        () =>
          new CopiedDelay({
            get at() {
              throw new Error('no at');
            },
          }),
      ],
    ])('but not until %s: that is a failure which says so', async (_what, make) => {
      const { id } = await first('scheduled', () => {
        throw make();
      });
      const text = (await queue.get(id))?.lastError?.toString() ?? '';
      expect(text.split('\n')[0]).toMatch(/^(EMQ_INPUT (the time to run at|at|inMs) (must be|cannot be read)|no at)/);
    });

    it('as often as it likes, at its last try too', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue(1);
      const diary = new Diary(
        shop.consume(
          queue,
          ({ attempts }) => {
            if (attempts <= 20) throw new DelayError(0);
            throw new Error('the end');
          },
          { maxAttempts: 1 },
        ),
      );
      await diary.until('failed');
      expect(diary.of('delayed')).toHaveLength(20);
      expect(await queue.get(id)).toMatchObject({ state: 'dead', attempts: 21, credit: 20 });
    });
  });

  describe('is the end of the job', () => {
    it.each([
      ['an UnrecoverableError', () => new UnrecoverableError('hopeless')],
      ['a copy of the class', () => Object.assign(new Error('hopeless'), { name: 'UnrecoverableError' })],
      [
        'an error of another realm',
        () => runInNewContext(`Object.assign(new Error('hopeless'), { name: 'UnrecoverableError' })`) as unknown,
      ],
    ])('by %s, at the first try', async (_what, make) => {
      const { id, diary } = await first('failed', () => {
        throw make();
      });
      expect(diary.info<{ error: Error }>('failed').error.message).toBe('hopeless');
      const row = await queue.get(id);
      expect(row).toMatchObject({ state: 'dead', attempts: 1 });
      expect(row?.lastError?.toString()).toMatch(/^hopeless\n/);
      expect(await queue.metrics('failed')).toEqual({ count: 1 });
    });
  });

  it('does not matter when the row is gone meanwhile: the outcome is stale, not lost', async () => {
    const { diary } = await first('stale', async (job) => {
      await queue.remove(job.id);
    });
    expect(diary.info('stale')).toMatchObject({ code: 'EMQSTALE' });
    // nothing came back to life
    expect(await queue.counts(['pending', 'active', 'scheduled', 'dead'])).toEqual({
      pending: 0,
      active: 0,
      scheduled: 0,
      dead: 0,
    });
  });

  it('of a job that failed is stale too when the row is gone', async () => {
    const { diary } = await first('stale', async (job) => {
      await queue.remove(job.id);
      throw new Error('too late');
    });
    expect(diary.info('stale')).toMatchObject({ code: 'EMQSTALE', reason: 'EMQSTALE job gone' });
  });

  it('a listener that throws breaks nothing: it is thrown where nobody of ours stands in between', async () => {
    queue = shop.queue();
    const caught: unknown[] = [];
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => caught.push(error));
    try {
      const consumer = shop.consume(queue, () => 1);
      const diary = new Diary(consumer);
      consumer.on('completed', () => {
        throw new Error('a bad listener');
      });
      await queue.enqueueMany([{ payload: 1 }, { payload: 2 }]);
      await diary.until('completed', 2);
      expect(caught).toHaveLength(2);
    } finally {
      process.removeAllListeners('uncaughtException');
      for (const other of others) process.on('uncaughtException', other);
    }
  });

  it('of one job does not hold up another: a job that never ends leaves the other slots working', async () => {
    queue = shop.queue();
    const stuck = mint();
    const diary = new Diary(
      shop.consume(queue, ({ id }) => (id === stuck ? new Promise(() => {}) : undefined), { concurrency: 2 }),
    );
    await queue.enqueue(0, { id: stuck });
    await queue.enqueueMany(Array.from({ length: 20 }, (_, n) => ({ payload: n })));
    await diary.until('completed', 20);
    expect(diary.story(stuck)).toEqual(['claimed']);
  });
});
