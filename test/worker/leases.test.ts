/**
 * Leases, on both executors: kept by one call for all jobs, lost with a signal, never settled by the wrong run; and what
 * a handler may ask for meanwhile.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { EmqError, QueueEvents, type JobContext, type Queue } from '../../src/index.js';
import { EXECUTORS } from '../conformance/stage.js';
import { CallLog } from './support/calls.js';
import { Diary, PATIENCE } from './support/diary.js';
import { Shop } from './support/shop.js';

const LEASE = { leaseMs: 60_000 };

/** What a handler waits for. */
function gate(): { readonly open: () => void; readonly wait: Promise<void> } {
  let open: () => void = () => {};
  const wait = new Promise<void>((resolve) => (open = resolve));
  return { open, wait };
}

describe.each(EXECUTORS)('leases on %s', (_executor, wire) => {
  let shop: Shop;
  let queue: Queue;
  beforeAll(async () => {
    shop = await Shop.open(wire);
  });
  afterAll(() => shop[Symbol.asyncDispose]());
  afterEach(() => shop.clear());

  it('P9: a job of ten leases is never swept, and one call at half the lease renews all that a consumer holds', async () => {
    queue = shop.queue();
    const leaseMs = 300;
    const connector = await shop.connect();
    const log = new CallLog(connector);
    const ids = (await queue.enqueueMany(Array.from({ length: 40 }, (_, payload) => ({ payload })))).map(
      ({ id }) => id,
    );
    const { open, wait } = gate();
    const consumer = shop.consume(await shop.elsewhere(queue, connector), () => wait, { leaseMs, concurrency: 40 });
    const diary = new Diary(consumer);
    // Another process sweeps as often as it can.
    const sweeper = new Diary(shop.consume(await shop.elsewhere(queue), () => 'stolen', { beatMs: 25 }));
    await diary.until('claimed', 40);
    await vi.waitUntil(() => log.of('extend_many').length >= 20, PATIENCE);
    open();
    await diary.until('completed', 40);
    expect(diary.of('completed').map(({ args: [job] }) => (job as { token: number }).token)).toEqual(ids.map(() => 1));
    expect(sweeper.of('claimed')).toEqual([]);

    const renewals = log.of('extend_many');
    for (const { args } of renewals) {
      expect(args[0]).toBe(String(leaseMs));
      expect(args.filter((_, n) => n % 2 === 1).map(String).sort()).toEqual(ids.toSorted()); // prettier-ignore
    }
    // At that pace, and no more often, but for a timer's millisecond.
    const { ms, steps } = log.span('extend_many');
    expect(ms).toBeGreaterThan(steps * (leaseMs / 2 - 5));
    // Nothing is held any more, and so nothing is renewed.
    await consumer.renew();
    expect(log.of('extend_many')).toHaveLength(renewals.length);
  });

  it('a renewal that fails is tried again soon, and is told of', async () => {
    queue = shop.queue();
    const connector = await shop.connect();
    let failures = 3;
    const log = new CallLog(connector, ({ transition }) =>
      transition.name === 'extend_many' && failures-- > 0 ? new EmqError('EMQ_CONNECTION', 'no way') : undefined,
    );
    const { open, wait } = gate();
    await queue.enqueue(1);
    const consumer = shop.consume(await shop.elsewhere(queue, connector), () => wait, { leaseMs: 2_000 });
    const diary = new Diary(consumer, { warnings: true });
    await diary.until('claimed');
    const started = performance.now();
    await consumer.renew();
    await vi.waitUntil(() => log.of('extend_many').length >= 4, PATIENCE);
    // a twentieth of the lease each, not half of it
    expect(performance.now() - started).toBeLessThan(900);
    open();
    await diary.until('completed');
    expect(diary.of('lost')).toEqual([]);
    expect(String(diary.of('warning')[0]?.args[0])).toMatch(/no way \(extend_many on queue/);
  });

  it('P6: after a lapse there are two runs and one settle: the late one is stale, and writes nothing', async () => {
    queue = shop.queue();
    await using events = new QueueEvents(shop.stage.connector, queue.queue);
    const heard: string[] = [];
    events.on('event', ({ event, job }) => heard.push(`${event} ${job}`));
    await events.ready();
    const { id } = await queue.enqueue('x');
    const { open, wait } = gate();
    const first = new Diary(shop.consume(queue, () => wait, LEASE));
    await first.until('claimed');
    await shop.stage.lapse(queue.keys.active, id);
    expect(await queue.reap()).toBe(1);
    const second = gate();
    const other = new Diary(shop.consume(await shop.elsewhere(queue), () => second.wait, LEASE));
    await other.until('claimed');
    const before = await queue.get(id);
    expect(before).toMatchObject({ attempts: 2, state: 'active' });
    open();
    await first.until('stale');
    expect(first.info('stale')).toMatchObject({ code: 'EMQSTALE', reason: 'EMQSTALE complete token mismatch' });
    expect(await queue.get(id)).toEqual(before);
    second.open();
    await other.until('completed');
    expect(first.story(id)).toEqual(['claimed', 'stale']);
    expect(other.story(id)).toEqual(['claimed', 'completed']);
    // The next job's event comes after all that this one could have caused.
    const { id: next } = await queue.enqueue('y');
    await vi.waitUntil(() => heard.includes(`completed ${next}`), PATIENCE);
    expect(heard.filter((one) => one.endsWith(id))).toEqual([`completed ${id}`]);
  });

  it('that is lost aborts the signal at the next renewal, and the throw that follows is stale', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('x');
    let reason: unknown;
    const consumer = shop.consume(
      queue,
      (_job, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject((reason = signal.reason) as Error));
        }),
      LEASE,
    );
    const diary = new Diary(consumer);
    await diary.until('claimed');
    await shop.stage.lapse(queue.keys.active, id);
    await queue.reap();
    const [mine] = await queue.take({ leaseMs: 60_000, count: 1 });
    expect(mine?.token).toBe(2);
    await consumer.renew();
    await diary.until('stale');
    expect(diary.story(id)).toEqual(['claimed', 'lost', 'stale']);
    expect(reason).toMatchObject({ name: 'JobAbortedError', kind: 'lost' });
    expect(String(reason)).toMatch(`the lease of ${id} was lost: another worker may have the job`);
    expect(await queue.get(id)).toMatchObject({ state: 'active', attempts: 2 });
    expect(consumer.stats()).toMatchObject({ held: 0, running: 0, stale: 1, scheduled: 0 });
  });

  it('that is lost to nobody yet: who finishes first wins, and the job does not run again', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('x');
    const { open, wait } = gate();
    const consumer = shop.consume(queue, () => wait, LEASE);
    const diary = new Diary(consumer);
    await diary.until('claimed');
    await shop.stage.lapse(queue.keys.active, id);
    await queue.reap();
    await consumer.renew();
    await diary.until('lost');
    open();
    await diary.until('completed');
    expect(await queue.counts(['pending', 'active', 'completed'])).toEqual({ pending: 0, active: 0, completed: 1 });
  });

  it('lapse unseen while nobody sweeps: the next renewal finds the job still there and keeps it', async () => {
    queue = shop.queue();
    const { id } = await queue.enqueue('x');
    const { open, wait } = gate();
    const consumer = shop.consume(queue, () => wait, LEASE);
    const diary = new Diary(consumer);
    await diary.until('claimed');
    await shop.stage.lapse(queue.keys.active, id);
    await consumer.renew();
    expect(await queue.reap()).toBe(0);
    open();
    await diary.until('completed');
    expect(diary.story(id)).toEqual(['claimed', 'completed']);
  });

  describe('and what a handler asks for', () => {
    /** Runs the handler once. */
    async function run(handler: (context: JobContext, id: string) => unknown, leaseMs = 60_000): Promise<Diary> {
      queue = shop.queue();
      await queue.enqueue('x');
      const diary = new Diary(
        shop.consume(queue, (job, context) => handler(context, job.id), { leaseMs, maxAttempts: 1 }),
      );
      await vi.waitUntil(() => diary.of('completed').length + diary.of('failed').length > 0, PATIENCE);
      expect(diary.of('failed').map(({ args }) => String((args[1] as { error: Error }).error))).toEqual([]);
      return diary;
    }

    it('a context may be taken apart', async () => {
      let seen: unknown;
      await run(async ({ signal, progress, log, extend }, id) => {
        await progress(50);
        await progress('half');
        await log('first');
        await log('second');
        await extend(120_000);
        seen = [signal.aborted, await queue.logs(id), (await queue.get(id))?.progress];
      });
      expect(JSON.stringify(seen)).toBe(
        JSON.stringify([false, [Buffer.from('first'), Buffer.from('second')], Buffer.from('half')]),
      );
    });

    it('a longer lease is not made shorter by a renewal, and becomes ordinary when it has run out', async () => {
      const left: number[] = [];
      await run(async ({ extend }, id) => {
        const [held] = shop.consumers;
        const leftNow = async () => {
          const deadline = Number(await shop.raw.zscore(queue.keys.active, id));
          left.push(deadline - (await shop.stage.now()));
        };
        await extend(600_000);
        await held?.renew();
        await leftNow();
        await extend(70_000);
        await held?.renew();
        await leftNow();
        await extend(1_000);
        await held?.renew();
        await leftNow();
      });
      expect(left[0]).toBeGreaterThan(590_000);
      expect(left[1]).toBeGreaterThan(60_000);
      expect(left[1]).toBeLessThanOrEqual(70_000);
      // shorter than its consumer's lease: the renewal makes it whole
      expect(left[2]).toBeGreaterThan(50_000);
    });

    it.each([0, -1, 1.5, NaN, '5', null, 2 ** 53])('extend(%s) is refused', async (leaseMs) => {
      let error: unknown;
      await run(async ({ extend }) => {
        error = await extend(leaseMs as number).catch((cause: unknown) => cause);
      });
      expect(error).toMatchObject({ name: 'EmqError', code: 'EMQ_INPUT' });
      expect(String(error)).toMatch(/leaseMs must be an integer from 1/);
    });

    it.each([null, undefined, {}, true, Symbol('x')])('progress and log of %s are refused', async (value) => {
      let errors: unknown[] = [];
      await run(async ({ progress, log }) => {
        errors = [
          await progress(value as string).catch((cause: unknown) => cause),
          await log(value as string).catch((cause: unknown) => cause),
        ];
      });
      expect(errors).toMatchObject([
        { code: 'EMQ_INPUT', reason: expect.stringMatching(/^progress must be text or a number, got/) as string },
        { code: 'EMQ_INPUT', reason: expect.stringMatching(/^a log line must be text, got/) as string },
      ]);
    });

    it('extend says when the lease is lost', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue('x');
      const codes: unknown[] = [];
      const diary = new Diary(
        shop.consume(queue, async (_job, { extend }) => {
          const ask = () => extend(60_000).catch((error: unknown) => codes.push((error as EmqError).code));
          await shop.stage.lapse(queue.keys.active, id);
          await queue.reap();
          await ask();
          await queue.take({ leaseMs: 60_000, count: 1 });
          await ask();
          await queue.remove(id);
          await ask();
        }),
      );
      await diary.until('stale');
      expect(codes).toEqual(['EMQSTATE', 'EMQSTALE', 'EMQSTALE']);
    });

    it('a signal that is first looked at after the abort is aborted', async () => {
      queue = shop.queue();
      const { id } = await queue.enqueue('x');
      const { open, wait } = gate();
      let seen: [boolean, unknown] | undefined;
      const consumer = shop.consume(queue, async (_job, context) => {
        await wait;
        seen = [context.signal.aborted, context.signal.reason];
        context.signal.throwIfAborted();
      });
      const diary = new Diary(consumer);
      await diary.until('claimed');
      consumer.cancel(id, 'early');
      open();
      await diary.until('failed');
      expect(seen).toEqual([true, expect.objectContaining({ kind: 'cancelled', message: 'cancelled: early' })]);
    });
  });
});
