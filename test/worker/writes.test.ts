/**
 * What a job costs on the wire, on both executors: one round trip at most, seen by a proxy and by the connector; and what
 * is left behind: nothing.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { transitions, type Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { Proxy } from '../wire/proxy.js';
import { CallLog } from './support/calls.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

describe.each(EXECUTORS)('a job on the wire, %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire, { port: 'free' });
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** What the bytes of a call of this transition hold. */
  const mark = (name: 'take' | 'complete' | 'fail' | 'publish'): string => {
    const { script, native } = { native: undefined, ...transitions[name] };
    return wire === 6 && native !== undefined ? native : script.sha;
  };

  it.each([
    ['without events', false],
    ['with events', true],
  ])('its settle and the next claim leave in one write, %s', async (_what, publish) => {
    const jobs = 100;
    queue = shop.queue();
    await using proxy = await Proxy.start(shop.stage.server.port as number);
    const connector = await shop.connect({ url: proxy.url, redis: {} });
    const writes: string[] = [];
    proxy.on('request', (bytes) => {
      // At connect the fence names the commands as well, to see whether they are there.
      if (!/\r\nCOMMAND\r\n/i.test(bytes.toString('latin1'))) writes.push(bytes.toString('latin1'));
    });
    await queue.enqueueMany(Array.from({ length: jobs }, (_, payload) => ({ payload })));
    const consumer = shop.consume(
      await shop.elsewhere(queue, connector),
      ({ payload }) =>
        new Promise((resolve, reject) => {
          // a turn of the event loop later, so that nothing is together by chance
          setImmediate(() => (Number(payload) % 10 === 0 ? reject(new Error('no')) : resolve(1)));
        }),
      { publish, maxAttempts: 1 },
    );
    const diary = new Diary(consumer);
    await vi.waitUntil(() => diary.of('completed').length + diary.of('failed').length === jobs, PATIENCE);
    const holding = (...names: Parameters<typeof mark>[0][]) =>
      writes.filter((text) => names.some((name) => text.includes(mark(name))));
    const settles = holding('complete', 'fail');
    expect(settles).toHaveLength(jobs);
    for (const text of settles) expect(text).toContain(mark('take'));
    // The first claim, and one more at most for whatever a token told.
    expect(holding('take').length).toBeLessThanOrEqual(jobs + 1 + 64);
    expect(holding('publish').length).toBeLessThanOrEqual(publish ? jobs : 0);
    if (publish) expect(holding('publish').length).toBeGreaterThan(0);
    await consumer.close();
    await connector.close();
  });

  it('free slots claim together: one call for all that wait', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    await queue.enqueueMany(Array.from({ length: 60 }, (_, payload) => ({ payload })));
    await shop.raw.del(queue.keys.wake);
    const same = await shop.elsewhere(queue, connector);
    const diaries = [1, 2, 3].map(
      () => new Diary(shop.consume(same, () => new Promise(() => {}), { concurrency: 20 })),
    );
    await Promise.all(diaries.map((diary) => diary.until('claimed', 20)));
    expect(log.of('take').map(({ args }) => String(args[1]))).toEqual(['60']);
  });

  it('slots that are free in one turn settle and claim in one write, and never more than 100 at once', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    await queue.enqueueMany(Array.from({ length: 600 }, (_, payload) => ({ payload })));
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const consumer = shop.consume(await shop.elsewhere(queue, connector), () => gate, { concurrency: 250 });
    const diary = new Diary(consumer);
    await diary.until('claimed', 250);
    for (const { args } of log.of('take')) expect(Number(args[1])).toBeLessThanOrEqual(100);
    expect(log.of('take').length).toBeLessThanOrEqual(5);
    const before = log.of('take').length;
    release();
    await diary.until('completed', 600);
    expect(log.of('complete')).toHaveLength(600);
    expect(log.of('take').length - before).toBeLessThan(200);
  });

  it('P36: after 5,000 jobs there are as many keys as before', { timeout: 60_000 }, async () => {
    queue = shop.queue();
    const consumer = shop.consume(queue, () => 'done', { concurrency: 100, beatMs: 1_000 });
    const diary = new Diary(consumer);
    await queue.enqueue(0);
    await diary.until('completed');
    // the history of the counters is of the queue, not of its jobs, and grows with the minutes
    const keys = async () =>
      (await shop.raw.keys(`${queue.keys.base}*`)).filter((key) => !/:(rolled|data)$/.test(key)).sort();
    const before = [queue.keys.meta, queue.keys.metrics('completed')];
    // a token that came while the job was claimed at a beat is popped a moment later
    await vi.waitUntil(async () => String(await keys()) === String(before), PATIENCE);
    let done = 0;
    consumer.on('completed', () => done++);
    for (let n = 0; n < 5; n++) {
      await queue.enqueueMany(Array.from({ length: 1_000 }, (_, payload) => ({ payload, opts: { name: 'n' } })));
    }
    await vi.waitUntil(() => done === 5_000, { ...PATIENCE, timeout: 50_000 });
    await vi.waitUntil(async () => String(await keys()) === String(before), PATIENCE);
    expect(await queue.metrics('completed')).toEqual({ count: 5_001 });
    expect(consumer.stats()).toMatchObject({ held: 0, running: 0, claimed: 5_001 });
  });
});
