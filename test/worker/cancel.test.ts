/**
 * Jobs that are stopped, on both executors: cancelled from anywhere, or out of time.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Handler, JobContext, Queue } from '../../src/index.js';
import { EXECUTORS, MISSING } from '../conformance/stage.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

/** Runs until its signal is aborted, and throws what that says. */
const obedient = (_job: unknown, { signal }: JobContext): Promise<unknown> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

describe.each(EXECUTORS)('cancel on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  /** A job that runs in another process, whose consumer hears of cancels. */
  async function running(handler: Handler): Promise<{ id: string; diary: Diary }> {
    queue = shop.queue();
    const { id } = await queue.enqueue('x');
    const diary = new Diary(shop.consume(await shop.elsewhere(queue), handler));
    await diary.until('claimed');
    await vi.waitUntil(async () => {
      const [, listeners] = (await shop.raw.pubsub('NUMSUB', queue.keys.cancel)) as [string, number];
      return listeners === 1;
    }, PATIENCE);
    return { id, diary };
  }

  it.each(['waits', 'is scheduled'])('of a job that %s removes it', async (where) => {
    queue = shop.queue();
    const { id } = where === 'waits' ? await queue.enqueue(1) : await queue.schedule(1, { inMs: 60_000 });
    expect(await queue.cancel(id, 'why not')).toBe('removed');
    expect(await queue.state(id)).toBe('absent');
    expect(await queue.cancel(id)).toBe('gone');
    expect(await queue.cancel(MISSING)).toBe('gone');
  });

  it('of a job that runs elsewhere aborts its signal within ms, and it ends dead with the reason', async () => {
    let aborted = NaN;
    const { id, diary } = await running(async (job, context) => {
      context.signal.addEventListener('abort', () => (aborted = performance.now()));
      await obedient(job, context);
    });
    const asked = performance.now();
    expect(await queue.cancel(id, 'not needed')).toBe('signalled');
    await diary.until('failed');
    expect(aborted - asked).toBeLessThan(500); // ms on a machine of one's own
    const row = await queue.get(id);
    expect(row).toMatchObject({ state: 'dead', attempts: 1 });
    expect(row?.lastError?.toString()).toMatch(/^cancelled: not needed\nJobAbortedError: cancelled: not needed/);
    expect(diary.info<{ error: Error }>('failed').error).toMatchObject({ kind: 'cancelled' });
    expect(await queue.cancel(id, 'again')).toBe('dead');
  });

  it('without a reason says just that', async () => {
    const { id, diary } = await running(obedient);
    await queue.cancel(id);
    await diary.until('failed');
    expect((await queue.get(id))?.lastError?.toString()).toMatch(/^cancelled\n/);
  });

  it('is cooperative: whatever the handler then throws, the job is dead, and if it finishes, it is completed', async () => {
    const thrower = await running((job, context) => obedient(job, context).catch(() => { throw new Error('other'); })); // prettier-ignore
    await queue.cancel(thrower.id, 'r');
    await thrower.diary.until('failed');
    expect((await queue.get(thrower.id))?.lastError?.toString()).toMatch(/^cancelled: r\n/);
    const finisher = await running((job, context) => obedient(job, context).catch(() => 'saved'));
    await queue.cancel(finisher.id, 'r');
    await finisher.diary.until('completed');
    expect(finisher.diary.info('completed')).toMatchObject({ result: 'saved' });
  });

  it('stops one job, not its neighbours', async () => {
    queue = shop.queue();
    const ids = (await queue.enqueueMany([1, 2, 3].map((payload) => ({ payload })))).map(({ id }) => id);
    const consumer = shop.consume(queue, obedient, { concurrency: 3 });
    const diary = new Diary(consumer);
    await diary.until('claimed', 3);
    await vi.waitUntil(async () => (await shop.raw.pubsub('NUMSUB', queue.keys.cancel))[1] === 1, PATIENCE);
    await queue.cancel(ids[1] as string);
    await diary.until('failed');
    expect(diary.of('failed').map(({ job }) => job)).toEqual([ids[1]]);
    expect(consumer.stats()).toMatchObject({ running: 2, held: 2 });
  });

  it.each([
    ['no JSON', 'stop!'],
    ['null', 'null'],
    ['a list', '[]'],
    ['a job that is none', '{"job":5}'],
    ['a stranger', `{"job":"${MISSING}","reason":"x"}`],
  ])('whatever a stranger says on the channel breaks nothing: %s', async (_what, message) => {
    const { id, diary } = await running(obedient);
    await shop.raw.publish(queue.keys.cancel, message);
    // Heard in order: this one comes after it.
    await shop.raw.publish(queue.keys.cancel, JSON.stringify({ job: id, reason: 5 }));
    await diary.until('failed');
    expect((await queue.get(id))?.lastError?.toString()).toMatch(/^cancelled\n/);
  });

  it('a cancelled job that does not listen and runs out of time stays cancelled', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('x', { timeoutMs: 300 });
    const consumer = shop.consume(queue, () => new Promise(() => {}));
    const diary = new Diary(consumer);
    await diary.until('claimed');
    consumer.cancel(id, 'enough');
    await diary.until('failed');
    expect((await queue.get(id))?.lastError?.toString()).toMatch(/^cancelled: enough\n/);
  });
});

describe.each(EXECUTORS)('timeoutMs on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  it('aborts the signal and fails the job at once; the slot is free when the handler has ended', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('slow', { timeoutMs: 20 });
    let end: () => void = () => {};
    let reason: unknown;
    const consumer = shop.consume(
      queue,
      async ({ payload }, { signal }) => {
        if (payload !== 'slow') return;
        signal.addEventListener('abort', () => (reason = signal.reason));
        await new Promise<void>((resolve) => (end = resolve));
      },
      { retryDelayMs: 600_000 },
    );
    const diary = new Diary(consumer);
    await diary.until('scheduled');
    expect(reason).toMatchObject({ name: 'JobAbortedError', kind: 'timeout', message: 'timed out after 20 ms' });
    expect(await queue.get(id)).toMatchObject({ state: 'scheduled', attempts: 1 });
    expect((await queue.get(id))?.lastError?.toString()).toMatch(/^timed out after 20 ms\n/);
    expect(consumer.stats()).toMatchObject({ running: 1, held: 0 });
    await queue.enqueue('next');
    // It would be claimed at once if the slot were free: the process is told that there is none.
    await queue.promote();
    expect(diary.of('completed')).toEqual([]);
    end();
    await diary.until('completed');
    // what the late handler gave counts for nothing
    expect(diary.story(id)).toEqual(['claimed', 'scheduled']);
    expect(consumer.stats()).toMatchObject({ completed: 1, scheduled: 1, stale: 0 });
  });

  it('at the last try the job is dead', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('slow', { maxAttempts: 2 });
    const diary = new Diary(shop.consume(queue, obedient, { timeoutMs: 10 }));
    await diary.until('failed');
    expect(diary.story(id)).toEqual(['claimed', 'scheduled', 'claimed', 'failed']);
  });

  it('does not touch a job that is quicker, and leaves no timer', async () => {
    queue = shop.queue();
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const signals: AbortSignal[] = [];
    const consumer = shop.consume(queue, (_job, { signal }) => void signals.push(signal), { timeoutMs: 600_000 });
    const diary = new Diary(consumer);
    const before = timers();
    await queue.enqueueMany(Array.from({ length: 50 }, (_, payload) => ({ payload })));
    await diary.until('completed', 50);
    expect(signals.filter(({ aborted }) => aborted)).toEqual([]);
    // one for each job would be many more; a few come and go with the calls
    expect(timers()).toBeLessThan(before + 20);
  });
});
