/**
 * What a consumer tells, on both executors: in its process, on the queue's channel, and where nobody listens.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { DelayError, EmqError, QueueEvents, UnrecoverableError, type Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { CallLog } from './support/calls.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

describe.each(EXECUTORS)('events on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** Everything that is published, from now on. */
  async function ear(): Promise<{
    heard: string[];
    until: (text: string) => Promise<void>;
    close: () => Promise<void>;
  }> {
    const events = new QueueEvents(shop.stage.connector, queue.queue);
    const heard: string[] = [];
    events.on('event', ({ event, job, ...extras }) => heard.push([event, job, ...Object.values(extras)].join(' ')));
    await events.ready();
    const until = async (text: string): Promise<void> => {
      await vi
        .waitUntil(() => heard.some((one) => one.startsWith(text)), PATIENCE)
        .catch(() => {
          throw new Error(`no ${text} in ${heard.join(', ')}`);
        });
    };
    return { heard, until, close: () => events.close() };
  }

  const handler = async ({ payload, attempts }: { payload: unknown; attempts: number }): Promise<unknown> => {
    if (payload === 'retry' && attempts === 1) throw new Error(`later\nplease`);
    if (payload === 'delay' && attempts === 1) throw new DelayError(0);
    if (payload === 'dead') throw new UnrecoverableError('x'.repeat(5_000));
    return Promise.resolve(payload);
  };

  it('are told locally and on the channel, each after the step it tells of', async () => {
    queue = shop.queue();
    const { heard, until, close } = await ear();
    const diary = new Diary(shop.consume(queue, handler));
    const ids: Record<string, string> = {};
    for (const payload of ['good', 'retry', 'delay', 'dead']) {
      ids[payload] = (await queue.enqueue(payload)).id;
      await vi.waitUntil(
        () => ['completed', 'failed'].includes(diary.story(ids[payload] ?? '').at(-1) ?? ''),
        PATIENCE,
      );
    }
    await until(`failed ${ids['dead']}`);
    expect(heard).toEqual([
      `completed ${ids['good']}`,
      `scheduled ${ids['retry']} later\nplease`,
      `completed ${ids['retry']}`,
      `delayed ${ids['delay']}`,
      `completed ${ids['delay']}`,
      `failed ${ids['dead']} ${'x'.repeat(512)}`,
    ]);
    expect(diary.story(ids['retry'] as string)).toEqual(['claimed', 'scheduled', 'claimed', 'completed']);
    expect(diary.story(ids['delay'] as string)).toEqual(['claimed', 'delayed', 'claimed', 'completed']);
    await close();
  });

  it('tell the truth: none is published for an outcome that was refused', async () => {
    queue = shop.queue();
    const { heard, until, close } = await ear();
    const diary = new Diary(
      shop.consume(queue, async ({ id, payload }) => {
        if (payload === 'plain') return;
        await queue.remove(id);
        if (payload === 'throws') throw new Error('no');
        if (payload === 'delays') throw new DelayError(0);
      }),
    );
    await queue.enqueueMany(['resolves', 'throws', 'delays'].map((payload) => ({ payload })));
    await diary.until('stale', 3);
    const { id } = await queue.enqueue('plain');
    await until(`completed ${id}`);
    expect(heard).toEqual([`completed ${id}`]);
    await close();
  });

  it('of a sweep: stalled, and failed for those it kills', async () => {
    queue = shop.queue();
    const { until, close } = await ear();
    const { id } = await queue.enqueue('x');
    const options = { recovery: 'stalled', maxStalled: 2, source: 'lanes', beatMs: 40 } as const;
    shop.consume(queue, handler, options);
    for (const event of [`stalled ${id}`, `failed ${id} stalled`]) {
      await queue.take({ leaseMs: 60_000, count: 1 });
      await shop.stage.lapse(queue.keys.active, id);
      await until(event);
    }
    await close();
  });

  it('of a row that cannot be read', async () => {
    queue = shop.queue();
    const { until, close } = await ear();
    const { id } = await queue.enqueue('x');
    await shop.raw.hset(queue.keys.job(id), 'attempts', '?');
    shop.consume(queue, handler);
    await until(`failed ${id} unreadable: attempts is not an integer`);
    await close();
  });

  it('are not published with publish: false, but told locally; not those of a sweep either', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const { id } = await queue.enqueue('stalls');
    await queue.take({ leaseMs: 60_000, count: 1 });
    await shop.stage.lapse(queue.keys.active, id);
    const { id: bad } = await queue.enqueue('bad');
    await shop.raw.hset(queue.keys.job(bad), 'attempts', '?');
    const diary = new Diary(
      shop.consume(await shop.elsewhere(queue, connector), handler, {
        publish: false,
        recovery: 'stalled',
        beatMs: 40,
      }),
    );
    for (const payload of ['good', 'retry', 'delay', 'dead']) await queue.enqueue(payload);
    await diary.until('completed', 4);
    await Promise.all([diary.until('failed'), diary.until('quarantined'), diary.until('stalled')]);
    expect(log.of('publish')).toEqual([]);
  });

  it('P42: a hundred runs after `ready` lose none', async () => {
    queue = shop.queue();
    const { heard, close } = await ear();
    shop.consume(queue, handler, { concurrency: 4 });
    const ids = (await queue.enqueueMany(Array.from({ length: 100 }, (_, payload) => ({ payload })))).map(
      ({ id }) => id,
    );
    await vi.waitUntil(() => heard.length >= 100, PATIENCE);
    expect(heard.toSorted()).toEqual(ids.map((id) => `completed ${id}`).sort());
    await close();
  });

  it('a connector that is closed under a consumer with jobs in hand is told of', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    await queue.enqueue(1);
    const diary = new Diary(
      shop.consume(await shop.elsewhere(queue, connector), () => new Promise(() => {})),
      { warnings: true },
    );
    await diary.until('claimed');
    await connector.close();
    await diary.until('closed');
    const warnings = diary.of('warning').map(({ args: [error] }) => String(error));
    expect(warnings).toContainEqual(expect.stringMatching(/the connector was closed while 1 jobs? ran/));
  });

  it('a warning that nobody listens to is said by the process, once of a kind', async () => {
    queue = shop.queue();
    const warnings: string[] = [];
    const spy = vi.spyOn(process, 'emitWarning').mockImplementation((text) => void warnings.push(String(text)));
    const consumer = shop.consume(queue, handler);
    for (const code of ['OOM', 'OOM', 'BUSY', 'OOM'] as const) consumer.warn(new EmqError(code, `${code} trouble`));
    expect(warnings).toEqual([
      `consumer of queue ${queue.queue}: OOM trouble`,
      `consumer of queue ${queue.queue}: BUSY trouble`,
    ]);
    const heard = new Promise((resolve) => consumer.once('warning', resolve));
    consumer.warn(new EmqError('OOM', 'OOM trouble'));
    expect(await heard).toMatchObject({ code: 'OOM' });
    expect(warnings).toHaveLength(2);
    spy.mockRestore();
  });
});

describe.each(EXECUTORS)('a user who may not use the channels, on %s', (_executor, wire) => {
  it('is told, once, and the work goes on', async () => {
    await using shop = await Shop.open(wire);
    await shop.raw.acl('SETUSER', 'worker', 'on', '>password-of-the-worker', '+@all', '~*', 'resetchannels');
    const redis = { path: shop.stage.server.socketPath, username: 'worker', password: 'password-of-the-worker' };
    const connector = await shop.connect({ redis });
    const queue = shop.queue({}, connector);
    const diary = new Diary(
      shop.consume(queue, () => 'done'),
      { warnings: true },
    );
    for (let n = 1; n <= 5; n++) {
      await queue.enqueue(n);
      await diary.until('completed', n);
    }
    // one for what it may not publish, one for what it may not hear
    await diary.until('warning', 2);
    await queue.enqueue(6);
    await diary.until('completed', 6);
    const warnings = diary.of('warning').map(({ args: [error] }) => error as EmqError);
    expect(warnings.map(({ code }) => code)).toEqual(['NOPERM', 'NOPERM']);
    expect(new Set(warnings.map(({ message }) => message)).size).toBe(2);
  });
});
