/**
 * How lapsed leases come back, on both executors: by the leg that is kept for the queue, whoever asked for which.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { mint, type ConsumeOptions, type Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { CallLog } from './support/calls.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

const BEAT = { beatMs: 40 } as const;

describe.each(EXECUTORS)('recovery on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  const kept = () => shop.raw.hget(queue.keys.meta, 'recovery');

  async function start(options: ConsumeOptions, from: Queue = queue): Promise<Diary> {
    return new Diary(
      shop.consume(from, () => 'done', { ...BEAT, ...options }),
      { warnings: true },
    );
  }

  /** A job whose worker is gone; in one step, since a consumer that works here would take one that waits. */
  async function lapsed(): Promise<string> {
    const id = mint();
    const row = { state: 'active', attempts: '1', payload: '"x"' };
    await shop.raw.multi().hset(queue.keys.job(id), row).zadd(queue.keys.active, 1, id).exec();
    return id;
  }

  it('the choice of the first consumer is kept for the queue; one that differs is told, and goes along', async () => {
    queue = shop.queue();
    await start({ recovery: 'stalled' });
    await vi.waitUntil(async () => (await kept()) === 'stalled', PATIENCE);
    const other = await start({}, await shop.elsewhere(queue));
    const same = await start({ recovery: 'reap' });
    await other.until('warning');
    await same.until('warning');
    for (const { args } of [...other.of('warning'), ...same.of('warning')]) {
      expect(String(args[0])).toMatch(
        /recovers by stalled \(kept in its meta\), this consumer asked for reap: stalled it is; queue.setRecovery\('reap'\)/,
      );
    }
    expect(await kept()).toBe('stalled');
    const id = await lapsed();
    await vi.waitUntil(async () => (await queue.state(id)) === 'absent', PATIENCE);
    expect([...other.of('stalled'), ...same.of('stalled')].length).toBeLessThanOrEqual(2);
  });

  it('reap lets a job wait again, uncounted', async () => {
    queue = shop.queue();
    const id = await lapsed();
    const diary = await start({});
    await diary.until('completed');
    expect(diary.of('completed')[0]?.args[0]).toMatchObject({ id, token: 2, credit: 0 });
    expect(diary.of('stalled')).toEqual([]);
    expect(await kept()).toBe('reap');
  });

  it('P3: stalled counts, and at maxStalled the job is dead with its row, its reason and its count', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const id = await lapsed();
    // It recovers, and has no slot to claim with: nobody ever finishes the job.
    const consumer = shop.consume(await shop.elsewhere(queue, connector), () => 'done', {
      ...BEAT,
      ...{ recovery: 'stalled', maxStalled: 2, source: 'lanes' },
    });
    const diary = new Diary(consumer);
    await diary.until('stalled');
    expect(diary.of('stalled')[0]?.args).toEqual([{ recovered: [id], dead: [] }]);
    expect(await queue.get(id)).toMatchObject({ state: 'pending', stalled: 1 });
    await queue.take({ leaseMs: 60_000, count: 1 });
    await shop.stage.lapse(queue.keys.active, id);
    await diary.until('stalled', 2);
    expect(diary.of('stalled')[1]?.args).toEqual([{ recovered: [], dead: [id] }]);
    const row = await queue.get(id);
    expect(row).toMatchObject({ state: 'dead', stalled: 2 });
    expect(row?.lastError?.toString()).toBe('stalled');
    expect(await queue.browse('dead')).toEqual([id]);
    expect(await queue.metrics('failed')).toEqual({ count: 1 });
  });

  it('none neither sweeps nor chooses', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const id = await lapsed();
    await start({ recovery: 'none' }, await shop.elsewhere(queue, connector));
    await vi.waitUntil(() => log.of('agenda').length >= 3, PATIENCE);
    expect(log.names.filter((name) => ['reap', 'stalled_check', 'recovery'].includes(name))).toEqual([]);
    expect(await kept()).toBeNull();
    expect(await queue.state(id)).toBe('active');
    // A consumer of the same process that does take part sweeps for both.
    const diary = await start({}, await shop.elsewhere(queue, connector));
    await vi.waitUntil(async () => (await queue.state(id)) === 'absent', PATIENCE);
    expect(diary.of('warning')).toEqual([]);
  });

  it('setRecovery changes it for consumers that are running', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    await start({}, await shop.elsewhere(queue, connector));
    await vi.waitUntil(() => log.of('reap').length >= 1, PATIENCE);
    await queue.setRecovery('stalled');
    await vi.waitUntil(() => log.of('stalled_check').length >= 1, PATIENCE);
    const reaps = log.of('reap').length;
    await vi.waitUntil(() => log.of('stalled_check').length >= 3, PATIENCE);
    expect(log.of('reap')).toHaveLength(reaps);
    await queue.setRecovery('reap');
    await vi.waitUntil(() => log.of('reap').length > reaps, PATIENCE);
  });

  it('a crash in the middle of a claim: the lease lapses, and another consumer serves the job', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('x');
    await queue.take({ leaseMs: 100, count: 1 }); // by somebody who is never heard of again
    const diary = await start({});
    await diary.until('completed');
    expect(diary.story(id)).toEqual(['claimed', 'completed']);
    expect(await shop.raw.zcard(queue.keys.active)).toBe(0);
  });

  it('P4: a sweep never loops on an active row that is in no set', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const { id } = await queue.enqueue('x');
    await queue.take({ leaseMs: 60_000, count: 1 });
    await shop.raw.zrem(queue.keys.active, id);
    await start({}, await shop.elsewhere(queue, connector));
    await vi.waitUntil(() => log.of('reap').length >= 5, PATIENCE);
    // a beat is a beat: it does not come faster for it
    const { ms, steps } = log.span('reap');
    expect(ms / steps).toBeGreaterThan(15);
    expect(await queue.state(id)).toBe('unknown');
  });
});
