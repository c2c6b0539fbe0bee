/**
 * The options of `consume`, of `NamedQueue.consume` and of `close`: each wrong one is refused with what to give instead,
 * and nothing has been started then.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  closeOnSignal,
  ConsumerMetrics,
  Jobs,
  NamedQueue,
  Queue,
  type Closable,
  type ConsumeOptions,
  type Consumer,
  type Handler,
} from '../../src/index.js';
import { errorOf } from '../conformance/stage.js';
import { Diary } from './support/diary.js';
import { NO_BEAT, Shop } from './support/shop.js';

const LONGEST_TIMER = 2 ** 31 - 1;
const NO_NUMBERS: readonly unknown[] = [0, -1, 1.5, NaN, Infinity, '5', null, true, {}, [1], 5n];

/** [option, wrong values, what the error says]. */
const WRONG: readonly (readonly [keyof ConsumeOptions, readonly unknown[], RegExp])[] = [
  ['concurrency', [...NO_NUMBERS, 2 ** 53], /^concurrency must be an integer from 1 to 2\^52, got/],
  ['leaseMs', [...NO_NUMBERS, LONGEST_TIMER + 1], /^leaseMs must be a whole number of ms from 1 to 2147483647, got/],
  ['beatMs', [...NO_NUMBERS, LONGEST_TIMER + 1], /^beatMs must be a whole number of ms/],
  ['maxAttempts', [...NO_NUMBERS, 2 ** 53], /^maxAttempts must be an integer from 1/],
  ['maxStalled', [...NO_NUMBERS, 2 ** 53], /^maxStalled must be an integer from 1/],
  ['timeoutMs', [...NO_NUMBERS, LONGEST_TIMER + 1], /^timeoutMs must be a whole number of ms/],
  ['killAfterMs', [...NO_NUMBERS, LONGEST_TIMER + 1], /^killAfterMs must be a whole number of ms/],
  ['retryDelayMs', [-1, 1.5, NaN, Infinity, '5', null, {}, LONGEST_TIMER + 1], /^retryDelayMs must be/],
  [
    'backoff',
    [-1, 1.5, null, 'fast', {}, { type: 'linear' }, { type: 'fixed' }, { type: 'exponential', delayMs: 0 }],
    /^backoff(\.\w+)? must be/,
  ],
  [
    'deadLetter',
    [5, 'all', null, true, { maxJobs: -1 }, { maxJobs: 1.5 }, { maxAgeMs: '30 days' }, { days: 3 }],
    /^(the options of deadLetter must be an object|unknown option "days" of deadLetter|max(Jobs|AgeMs) must be an integer)/,
  ],
  ['recovery', ['sweep', null, 1, ''], /^recovery must be one of reap, stalled, none, got/],
  ['source', ['all', null, 1, ''], /^source must be one of flat, lanes, both, got/],
  ['processor', ['fork', null, 1, ''], /^processor must be one of thread, process, got/],
  ['publish', ['yes', null, 1, 0], /^publish must be true or false, got/],
  ['signal', [{}, null, 'abort', new AbortController()], /^signal must be an AbortSignal/],
];

describe('the options of consume', () => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(4);
    queue = shop.queue();
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** A refusal with which nothing was started: no listener, no connection, no timer that would beat. */
  async function refused(act: () => unknown): Promise<string> {
    const { connector } = shop.stage;
    const listeners = () => connector.eventNames().map((name) => [name, connector.listenerCount(name as 'closed')]);
    const [before, calls] = [listeners(), connector.stats().calls];
    const error = await errorOf(act);
    expect(error.code).toBe('EMQ_INPUT');
    await new Promise(setImmediate);
    expect(listeners()).toEqual(before);
    expect(connector.stats().calls).toBe(calls);
    return error.reason;
  }

  it('each has a row here', () => {
    const known = /it takes (.*)$/.exec(refusalOf({ typo: 1 } as ConsumeOptions))?.[1]?.split(', ');
    expect(known?.sort()).toEqual(WRONG.map(([name]) => name).sort());
  });

  function refusalOf(options: ConsumeOptions): string {
    try {
      queue.consume(() => {}, options);
    } catch (error) {
      return (error as Error).message;
    }
    throw new Error('not refused');
  }

  it.each(WRONG)('%s', async (name, values, says) => {
    for (const value of values) {
      const reason = await refused(() => queue.consume(() => {}, { [name]: value }));
      expect(reason).toMatch(says);
    }
  });

  it.each([
    ['an unknown one', { leaseMS: 5 }, /^unknown option "leaseMS" of consume: it takes concurrency, leaseMs,/],
    ['none at all', null, /^the options of consume must be an object, got null/],
    ['text', 'fast', /^the options of consume must be an object, got "fast"/],
    [
      'a processor that is none',
      { processor: 'process' },
      /^processor and killAfterMs are for the URL of a processor file/,
    ],
    ['a time to kill a function', { killAfterMs: 5 }, /^processor and killAfterMs are for the URL of a processor file/],
    ['two pauses', { backoff: 5, retryDelayMs: 5 }, /^give backoff or retryDelayMs, not both/],
  ])('%s', async (_what, options, says) => {
    expect(await refused(() => queue.consume(() => {}, options as ConsumeOptions))).toMatch(says);
  });

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a path as text', './work.js'],
    ['an object', {}],
  ])('a handler that is %s', async (_what, handler) => {
    expect(await refused(() => queue.consume(handler as unknown as Handler))).toMatch(
      /^a handler must be a function or the URL of a processor file, got/,
    );
  });

  it('handlers by name that are none', async () => {
    const named = new NamedQueue(shop.stage.connector, 'named');
    expect(await refused(() => named.consume({ mail: 5 }))).toMatch(/^the handler of "mail" must be a function/);
    expect(await refused(() => named.consume({}))).toMatch(/^handlers must name at least one kind of job/);
    expect(await refused(() => named.consume(null as unknown as () => void))).toMatch(
      /^handlers must be an object of functions, one for each name, got null/,
    );
  });

  it('what cannot be closed, or watched', async () => {
    const before = process.listenerCount('SIGTERM');
    for (const wrong of [shop.stage.connector, [queue], [null], ['consumer']]) {
      const reason = await refused(() => closeOnSignal(wrong as unknown as Closable[]));
      expect(reason).toMatch(/^(closables must be a list|closeOnSignal takes a list of what has a close\(\))/);
    }
    expect(process.listenerCount('SIGTERM')).toBe(before);
    expect(await refused(() => new ConsumerMetrics().watch(queue as never))).toMatch(/^watch takes a consumer/);
  });

  it('a queue on something that is no Connector', async () => {
    const wire = { run: () => Promise.resolve(1), runAll: () => Promise.resolve([]) };
    expect(new Jobs(wire, 'q')).toBeInstanceOf(Jobs);
    expect(await refused(() => new Queue(wire as never, 'q'))).toMatch(/^the first argument of a Queue is a Connector/);
  });

  it.each([[-1], [1.5], [NaN], ['5'], [null], [LONGEST_TIMER + 1]])('close within %s', async (timeoutMs) => {
    const consumer = shop.consume(queue, () => {});
    const error = await errorOf(() => consumer.close({ timeoutMs: timeoutMs as number }));
    expect(error).toMatchObject({ code: 'EMQ_INPUT' });
    expect(error.reason).toMatch(/^timeoutMs must be a whole number of ms from 0 to 2147483647, got/);
    expect(consumer.stats().state).toBe('running');
    expect((await errorOf(() => consumer.close({ force: true } as object))).reason).toMatch(/^unknown option "force"/);
  });

  it('the largest and the smallest that are taken work', async () => {
    const small: ConsumeOptions = { concurrency: 1, maxAttempts: 1, maxStalled: 1, leaseMs: 1_000, retryDelayMs: 0 };
    const most = 2 ** 52;
    const large: ConsumeOptions = {
      ...{ concurrency: most, maxAttempts: most, maxStalled: most, leaseMs: LONGEST_TIMER, beatMs: LONGEST_TIMER },
      ...{ timeoutMs: LONGEST_TIMER, retryDelayMs: LONGEST_TIMER, recovery: 'stalled' },
    };
    for (const options of [small, large]) {
      const own = shop.queue();
      const consumer: Consumer = shop.closeLater(own.consume(() => 'done', options));
      const diary = new Diary(consumer, { warnings: true });
      await own.enqueueMany([{ payload: 1 }, { payload: 2 }]);
      await diary.until('completed', 2);
      expect(diary.of('warning')).toEqual([]);
      await consumer.close();
    }
  });

  it('an aborted signal closes it at once, one that is aborted later then', async () => {
    const own = shop.queue();
    await own.enqueue(1);
    const early = shop.closeLater(own.consume(() => {}, { ...NO_BEAT, signal: AbortSignal.abort() }));
    await early.close();
    expect(early.stats()).toMatchObject({ state: 'closed', claimed: 0 });
    expect(await own.counts(['pending'])).toEqual({ pending: 1 });

    const stop = new AbortController();
    const late = shop.closeLater(own.consume(() => {}, { ...NO_BEAT, signal: stop.signal }));
    const diary = new Diary(late);
    await diary.until('completed');
    stop.abort();
    await diary.until('closed');
    expect(late.stats().state).toBe('closed');
  });
});
