/**
 * Rows that cannot be read, and ids without a row, on both executors: they stand in nobody's way.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { mint, type ConsumeOptions, type Queue } from '../../src/index.js';
import { GROUP } from '../conformance/scenes.js';
import { EXECUTORS } from '../conformance/stage.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

/** What is wrong with a row, and what is then said of it. */
const WRONG: readonly (readonly [string, (key: string) => readonly (readonly string[])[], string])[] = [
  ['attempts that are no number', (key) => [['HSET', key, 'attempts', 'many']], 'attempts is not an integer'],
  ['attempts that are a fraction', (key) => [['HSET', key, 'attempts', '1.5']], 'attempts is not an integer'],
  ['a credit that is no number', (key) => [['HSET', key, 'credit', '']], 'credit is not an integer'],
  ['text where the row should be', (key) => [['DEL', key], ['SET', key, 'not a row']], 'row is not a hash'], // prettier-ignore
  ['a list where the row should be', (key) => [['DEL', key], ['RPUSH', key, 'x']], 'row is not a hash'], // prettier-ignore
];

describe.each(EXECUTORS)('a row that cannot be read on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  async function spoil(id: string, how: (key: string) => readonly (readonly string[])[]): Promise<void> {
    for (const [command, ...args] of how(queue.keys.job(id))) await shop.raw.call(command as string, ...args);
  }

  function consume(options: ConsumeOptions = {}): Diary {
    return new Diary(
      shop.consume(queue, () => 'done', options),
      { warnings: true },
    );
  }

  async function toldAndDead(diary: Diary, id: string, why: string): Promise<void> {
    await diary.until('quarantined');
    expect(diary.of('quarantined').map(({ args: [row] }) => row)).toEqual([{ id, why }]);
    expect(await queue.browse('dead')).toEqual([id]);
    expect(await queue.metrics('failed')).toEqual({ count: 1 });
    if (why !== 'row is not a hash') {
      const row = await queue.get(id);
      expect([row?.state, row?.lastError?.toString()]).toEqual(['dead', `unreadable: ${why}`]);
    }
    expect(diary.of('warning')).toEqual([]);
  }

  it.each(WRONG)('at the head of the waiting jobs: %s', async (_what, how, why) => {
    queue = shop.queue();
    const { id } = await queue.enqueue('bad');
    await queue.enqueueMany([1, 2, 3].map((payload) => ({ payload })));
    await spoil(id, how);
    const diary = consume();
    await diary.until('completed', 3);
    await toldAndDead(diary, id, why);
  });

  it.each(WRONG)('at the head of a lane: %s', async (_what, how, why) => {
    queue = shop.queue();
    const lane = `${queue.keys.base}g:${GROUP}:pending`;
    const ids = [mint(), mint(), mint()];
    for (const id of ids) {
      await shop.raw.hset(queue.keys.job(id), { state: 'pending', attempts: '0', payload: '1', group: GROUP });
      await shop.raw.zadd(lane, 0, id);
    }
    await shop.raw.rpush(queue.keys.ring, GROUP);
    await queue.enqueue('flat');
    await spoil(ids[0] as string, how);
    const diary = consume();
    await diary.until('completed', 3);
    await toldAndDead(diary, ids[0] as string, why);
    // The lane is empty: it left the ring, and nothing of it is counted as in flight.
    expect(await shop.raw.exists(queue.keys.ring, lane, `${queue.keys.base}gactive`)).toBe(0);
  });

  it.each([
    ['due, a row that is no hash', 'schedule', 'reap', 'text where the row should be'],
    ['lapsed, a row that is no hash', 'active', 'reap', 'a list where the row should be'],
    ['lapsed and counted, a row that is no hash', 'active', 'stalled', 'text where the row should be'],
    ['lapsed and counted, a stall count that is no number', 'active', 'stalled', 'stalled'],
  ] as const)('%s: the sweep goes on within a beat', async (_what, set, recovery, what) => {
    queue = shop.queue();
    const ids = (await queue.enqueueMany([1, 2, 3].map((payload) => ({ payload })))).map(({ id }) => id);
    const claimed = await queue.take({ leaseMs: 60_000, count: 3 });
    if (set === 'schedule') for (const job of claimed) await queue.delay(job, { inMs: 60_000 });
    // The bad one is the first to be looked at.
    for (const [n, id] of ids.entries()) await shop.raw.zadd(queue.keys[set], 'XX', n + 1, id);
    const [bad] = ids as [string];
    const [, how, why] = WRONG.find(([name]) => name === what) ?? [
      '',
      (key: string) => [['HSET', key, 'stalled', '-0']],
      'stalled is not an integer',
    ];
    await spoil(bad, how);
    const diary = consume({ recovery, beatMs: 50 });
    await diary.until('completed', 2);
    await toldAndDead(diary, bad, why);
  });

  it('of many: hundreds at the head are all gone before the first beat, and each is told of once', async () => {
    queue = shop.queue();
    const bad = (await queue.enqueueMany(Array.from({ length: 350 }, (_, payload) => ({ payload })))).map(
      (one) => one.id,
    );
    const pipeline = shop.raw.pipeline();
    for (const id of bad) pipeline.hset(queue.keys.job(id), 'attempts', '?');
    await pipeline.exec();
    await queue.enqueue('good');
    const diary = consume({ concurrency: 3 });
    await diary.until('completed');
    expect(
      diary
        .of('quarantined')
        .map(({ args: [row] }) => (row as { id: string }).id)
        .sort(),
    ).toEqual(bad.sort());
    expect(await queue.counts(['pending', 'active', 'dead'])).toEqual({ pending: 0, active: 0, dead: bad.length });
    expect(diary.of('warning')).toEqual([]);
  });

  it('brought back by an operator who mended it, it runs like any other', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('bad');
    await shop.raw.hset(queue.keys.job(id), 'attempts', 'x');
    const diary = consume();
    await diary.until('quarantined');
    await shop.raw.hset(queue.keys.job(id), 'attempts', '0');
    await queue.reprocess(id);
    await diary.until('completed');
  });

  it('a count of a lane that cannot be read is told of once, and served again when it is mended', async () => {
    queue = shop.queue();
    const id = mint();
    await shop.raw.hset(queue.keys.job(id), { state: 'pending', attempts: '0', payload: '1', group: GROUP });
    await shop.raw.zadd(`${queue.keys.base}g:${GROUP}:pending`, 0, id);
    await shop.raw.rpush(queue.keys.ring, GROUP);
    await shop.raw.hset(`${queue.keys.base}glimit`, GROUP, 'few');
    const diary = consume();
    await diary.until('warning');
    expect(String(diary.of('warning')[0]?.args[0])).toMatch(`lane ${GROUP} cannot be served: glimit is not an integer`);
    await shop.raw.hdel(`${queue.keys.base}glimit`, GROUP);
    await diary.until('completed');
    expect(diary.of('quarantined')).toEqual([]);
    expect(diary.of('warning')).toHaveLength(1);
  });

  it('a whole set of the wrong type is told of once, and looked at again until it is mended', async () => {
    queue = shop.queue();
    await shop.raw.set(queue.keys.pending, 'not a set');
    const diary = consume();
    await diary.until('warning');
    expect(String(diary.of('warning')[0]?.args[0])).toMatch(/WRONGTYPE/);
    await shop.raw.del(queue.keys.pending);
    // Without a token: nothing but the retry of the refused claim finds it.
    const { id } = await queue.enqueue(1);
    await shop.raw.del(queue.keys.wake);
    await diary.until('completed');
    expect(diary.story(id)).toEqual(['claimed', 'completed']);
  });
});

describe.each(EXECUTORS)('P5: an id without a row on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  it('at the head does not keep the job behind it waiting: one claim drops the first and takes the second', async () => {
    queue = shop.queue();
    const diary = new Diary(shop.consume(queue, () => 'done'));
    await vi.waitUntil(async () => /cmd=blpop/.test((await shop.raw.client('LIST')) as string), PATIENCE);
    const ghosts = [mint(), mint(), mint()];
    const real = mint();
    await shop.raw
      .multi()
      .zadd(queue.keys.pending, ...ghosts.flatMap((id) => [0, id]), 0, real)
      .hset(queue.keys.job(real), { state: 'pending', attempts: '0', payload: '1' })
      .lpush(queue.keys.wake, '1')
      .exec();
    // One token, no beat: had the ghosts been the answer to the claim, the job would wait for ever.
    await diary.until('completed');
    expect(diary.story(real)).toEqual(['claimed', 'completed']);
    expect(await shop.raw.zcard(queue.keys.pending)).toBe(0);
  });

  it('only ghosts: nothing is claimed, nothing is counted, and the next job starts', async () => {
    queue = shop.queue();
    await shop.raw.zadd(queue.keys.pending, 0, mint(), 0, mint());
    const consumer = shop.consume(queue, () => 'done');
    const diary = new Diary(consumer);
    await vi.waitUntil(async () => (await shop.raw.zcard(queue.keys.pending)) === 0, PATIENCE);
    expect(consumer.stats().claimed).toBe(0);
    await queue.enqueue(1);
    await diary.until('completed');
    expect(await queue.metrics('failed')).toEqual({ count: 0 });
  });

  it.each(['active', 'schedule'] as const)('in %s: the sweep drops it', async (set) => {
    queue = shop.queue();
    await shop.raw.zadd(queue.keys[set], 1, mint());
    new Diary(shop.consume(queue, () => 'done'));
    await vi.waitUntil(async () => (await shop.raw.zcard(queue.keys[set])) === 0, PATIENCE);
    expect(await shop.raw.keys(`${queue.keys.base}job:*`)).toEqual([]);
  });

  it('that a handler still works on: none of its late calls brings a row to life', async () => {
    queue = shop.queue();
    const answers: unknown[] = [];
    const { id } = await queue.enqueue(1);
    const consumer = shop.consume(queue, async (job, { progress, log, extend }) => {
      await shop.raw.del(queue.keys.job(job.id));
      for (const call of [() => progress(1), () => log('x'), () => extend(60_000)]) {
        answers.push(await call().catch((error: unknown) => (error as { code: string }).code));
      }
      throw new Error('too late');
    });
    const diary = new Diary(consumer);
    await diary.until('stale');
    expect(answers).toEqual(['EMQSTALE', 'EMQSTALE', 'EMQSTALE']);
    await consumer.renew();
    expect(await shop.raw.keys(`${queue.keys.base}job:*`)).toEqual([]);
    expect(await queue.state(id)).toBe('active'); // its entry lapses, and is dropped then
    await shop.stage.lapse(queue.keys.active, id);
    expect(await queue.reap()).toBe(0);
    expect(await queue.state(id)).toBe('absent');
  });
});
