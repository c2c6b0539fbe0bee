/**
 * Draining a queue and making time pass in it: what runs and what is told of it, on both executors.
 */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest';
import {
  Admin,
  DelayError,
  exponential,
  Lanes,
  mint,
  RateLimitError,
  transitions,
  UnrecoverableError,
  type ConsumeOptions,
  type Queue,
} from '../../src/index.js';
import {
  advanceTime,
  drain,
  testNode,
  type DrainedJob,
  type DrainOptions,
  type TestNode,
} from '../../src/testing/index.js';
import { putInLane } from './lanes.js';
import { processor } from '../worker/sandbox/support.js';
import { freshQueue, WIRES } from '../worker/support/nodes.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const plain = (ran: readonly DrainedJob<unknown>[]): unknown[] =>
  ran.map(({ job, outcome, result, error }) => [job.payload, outcome, error?.message ?? result]);

describe.each(WIRES)('on wire %i', (wire) => {
  let node: TestNode;
  let queue: Queue<unknown>;
  beforeAll(async () => {
    node = await testNode({ wire });
  });
  afterAll(() => node.close());
  beforeEach(() => {
    queue = node.queue(freshQueue());
  });

  describe('drain', () => {
    it('runs all that waits, in order, and tells what became of it', async () => {
      await queue.enqueue('third', { priority: 5 });
      await queue.enqueue('first');
      await queue.enqueue('second', { name: 'mail' });
      const ran = await drain(queue, (job) => `${String(job.payload)} done`);
      expect(plain(ran)).toEqual([
        ['first', 'completed', 'first done'],
        ['second', 'completed', 'second done'],
        ['third', 'completed', 'third done'],
      ]);
      expect(ran[1]?.job).toMatchObject({ name: 'mail', attempts: 1 });
      expect(await queue.counts()).toMatchObject({ pending: 0, active: 0, completed: 3 });
    });

    it('of an empty queue runs nothing', async () => {
      expect(await drain(queue, () => expect.unreachable())).toEqual([]);
    });

    it('runs what is due, and what comes up meanwhile, but nothing that is for later', async () => {
      await queue.schedule('due', { at: 1 });
      await queue.schedule('later', { inMs: MINUTE });
      const ran = await drain(queue, async ({ payload }) => {
        if (payload === 'due') await queue.enqueue('child');
        if (payload === 'child') await queue.schedule('grandchild', { inMs: 0 });
      });
      expect(ran.map(({ job }) => job.payload)).toEqual(['due', 'child', 'grandchild']);
      expect(await queue.counts(['scheduled'])).toEqual({ scheduled: 1 });
    });

    it('tells every outcome', async () => {
      for (const what of ['retry', 'unrecoverable', 'delay', 'gone']) await queue.enqueue(what, { maxAttempts: 2 });
      const ran = await drain(queue, async ({ payload, id }) => {
        if (payload === 'retry') throw new Error('not now');
        if (payload === 'unrecoverable') throw new UnrecoverableError('never');
        if (payload === 'delay') throw new DelayError(MINUTE);
        await node.reset();
        expect(await queue.get(id)).toBeNull();
      });
      expect(plain(ran)).toEqual([
        ['retry', 'scheduled', 'not now'],
        ['unrecoverable', 'failed', 'never'],
        ['delay', 'delayed', undefined],
        ['gone', 'stale', expect.stringMatching(/^EMQSTALE/)],
      ]);
    });

    it('runs a job that is to be tried again at once until it is dead', async () => {
      await queue.enqueue('job');
      const ran = await drain(queue, () => Promise.reject(new Error('no')), { retryDelayMs: 0 });
      expect(ran.map(({ job, outcome }) => [job.attempts, outcome])).toEqual([
        [1, 'scheduled'],
        [2, 'scheduled'],
        [3, 'failed'],
      ]);
    });

    it('takes what a worker left behind, in the way the queue keeps', async () => {
      await queue.enqueue('reaped');
      await queue.claim({ leaseMs: MINUTE });
      expect(await drain(queue, () => 1)).toEqual([]);
      await advanceTime(queue, MINUTE);
      expect((await drain(queue, () => 1)).map(({ job }) => job.attempts)).toEqual([2]);

      await queue.setRecovery('stalled');
      const { id } = await queue.enqueue('stalled');
      await queue.claim({ leaseMs: MINUTE });
      await advanceTime(queue, MINUTE);
      expect(await drain(queue, () => 1, { maxStalled: 1 })).toEqual([]);
      expect(await queue.get(id)).toMatchObject({ state: 'dead', stalled: 1 });
    });

    it('decides nothing for the queue', async () => {
      await queue.enqueue(1);
      await drain(queue, () => 1);
      const layout = transitions.agenda.layout(queue.keys);
      const reply = await node.connector.run({ transition: transitions.agenda, queue: queue.queue, ...layout });
      expect(transitions.agenda.read(reply).recovery).toBeNull();
    });

    it('runs the jobs of lanes that can be served, unless it is for flat ones, or for those only', async () => {
      const run = async (options?: DrainOptions): Promise<unknown[]> =>
        (await drain(queue, () => 1, options)).map(({ job }) => job.payload);
      await putInLane(node, queue, 'in a lane', 'ring');
      await putInLane(node, queue, 'in a paused lane', 'paused');
      await queue.enqueue('flat');
      expect(await run({ source: 'flat' })).toEqual(['flat']);
      await queue.enqueue('flat');
      expect(await run({ source: 'lanes' })).toEqual(['in a lane']);
      await putInLane(node, queue, 'in a lane', 'ring');
      expect((await run()).sort()).toEqual(['flat', 'in a lane']);
    });

    it('waits for the rate of a lane, as it does for that of the queue', async () => {
      const [mine, group] = [new Lanes(node.connector, queue), mint('TEN')];
      await mine.setRate(group, { max: 2, durationMs: 100 });
      for (let n = 0; n < 6; n++) await queue.enqueue(n, { group });
      expect((await drain(queue, () => 1)).map(({ job }) => job.payload)).toEqual([0, 1, 2, 3, 4, 5]);
      await node.reset();
      await new Admin(node.connector, queue.queue).setLimits({ rate: { max: 2, durationMs: 100 } });
      for (let n = 0; n < 6; n++) await queue.enqueue(n);
      expect(await drain(queue, () => 1)).toHaveLength(6);
    });

    it('waits for a lane that backs off', async () => {
      const { id } = await queue.enqueue('job', { group: mint('TEN') });
      const outcomes = async (ms: number) => {
        let calls = 0;
        const ran = drain(queue, () => (calls++ === 0 ? Promise.reject(new RateLimitError(ms)) : 1), {
          withinMs: 2_000,
        });
        return (await ran).map(({ outcome }) => outcome);
      };
      expect(await outcomes(60)).toEqual(['delayed', 'completed']);
      const { id: later } = await queue.enqueue('job', { group: mint('TEN') });
      await expect(outcomes(HOUR)).rejects.toMatchObject({ code: 'EMQ_TIMEOUT' });
      expect([await queue.get(id), (await queue.get(later))?.state]).toEqual([null, 'pending']);
    });

    it('does not wait for the rate of a lane that is paused besides, at its limit, or empty', async () => {
      const [paused, full, empty] = await Promise.all(
        ['paused', 'full', 'empty'].map((payload) => putInLane(node, queue, payload, 'waits')),
      );
      const raw = new Redis({ path: node.server.socketPath });
      const { base } = queue.keys;
      await raw.sadd(`${base}paused`, paused?.group ?? '');
      await raw.hset(`${base}glimit`, full?.group ?? '', '2', '*', '9');
      await raw.hset(`${base}gactive`, full?.group ?? '', '2');
      await raw.del(`${base}g:${empty?.group}:pending`);
      raw.disconnect();
      expect(await drain(queue, () => 1, { withinMs: 2_000 })).toEqual([]);
    });

    it('leaves the jobs of others to them', async () => {
      await queue.enqueue('theirs');
      const theirs = await queue.claim({ leaseMs: MINUTE });
      await queue.enqueue('ours');
      expect((await drain(queue, () => 1)).map(({ job }) => job.payload)).toEqual(['ours']);
      expect(await queue.complete(theirs!)).toBe('completed');
    });

    it('runs several at once when asked to, and processor files too', async () => {
      let running = 0;
      let most = 0;
      for (let i = 0; i < 6; i++) await queue.enqueue({ do: 'echo', value: i });
      await drain(
        queue,
        async () => {
          most = Math.max(most, (running += 1));
          await new Promise(setImmediate);
          running -= 1;
        },
        { concurrency: 3 },
      );
      expect(most).toBeGreaterThan(1);
      await queue.enqueue({ do: 'echo', value: 'from a child' });
      const [ran] = await drain(queue, processor('work.mjs'));
      expect(ran).toMatchObject({ outcome: 'completed', result: 'from a child' });
    });

    it('ends with an error when a job always comes back', async () => {
      const { id } = await queue.enqueue('for ever');
      const drained = drain(queue, () => Promise.reject(new DelayError(0)), { limit: 5 });
      await expect(drained).rejects.toMatchObject({
        code: 'EMQ_INPUT',
        message: expect.stringContaining(`took more than 5 runs, the last of ${id} (delayed)`),
      });
    });

    it('runs as many as the limit says without one', async () => {
      for (let i = 0; i < 5; i++) await queue.enqueue(i);
      expect(await drain(queue, () => 1, { limit: 5 })).toHaveLength(5);
    });

    it('ends with an error when a handler does not, and hands its job back', async () => {
      const { id } = await queue.enqueue('endless');
      const drained = drain(queue, () => new Promise(() => {}), { withinMs: 100 });
      await expect(drained).rejects.toMatchObject({
        code: 'EMQ_TIMEOUT',
        message: expect.stringContaining(`took longer than 100 ms: ${id} still run`),
      });
      expect(await queue.get(id)).toMatchObject({ state: 'pending', credit: 1 });
    });

    it('of a paused queue is an error', async () => {
      await queue.enqueue(1);
      await queue.pause();
      await expect(drain(queue, () => 1)).rejects.toThrow('is paused, so nothing would run: resume it first');
      await queue.resume();
      const ran = await drain(queue, () => queue.pause());
      expect(ran).toHaveLength(1);
    });

    it.each<[object, string]>([
      [{ limit: 0 }, 'limit must be an integer from 1'],
      [{ withinMs: 0 }, 'withinMs must be'],
      [{ recovery: 'reap' }, 'drain takes no recovery'],
      [{ beatMs: 5 }, 'drain takes no beatMs'],
      [{ size: 5 }, 'unknown option "size" of consume'],
    ])('refuses %j', async (options, reason) => {
      await expect(drain(queue, () => 1, options as DrainOptions)).rejects.toThrow(reason);
    });

    it('refuses what is no queue, and leaves no consumer behind', async () => {
      await expect(drain({ queue } as unknown as Queue, () => 1)).rejects.toMatchObject({ code: 'EMQ_INPUT' });
      await drain(queue, () => 1);
      await queue.enqueue('nobody takes it');
      expect(await queue.counts(['pending'])).toEqual({ pending: 1 });
    });
  });

  describe('advanceTime', () => {
    it('lets what is scheduled come due, each when its time has come', async () => {
      await queue.schedule('in an hour', { inMs: HOUR });
      await queue.schedule('in two', { inMs: 2 * HOUR });
      const run = async (): Promise<unknown[]> => (await drain(queue, () => 1)).map(({ job }) => job.payload);
      expect(await advanceTime(queue, HOUR - MINUTE)).toEqual({ due: 0, lapsed: 0 });
      expect(await run()).toEqual([]);
      expect(await advanceTime(queue, MINUTE)).toEqual({ due: 1, lapsed: 0 });
      expect(await run()).toEqual(['in an hour']);
      expect(await advanceTime(queue, HOUR)).toEqual({ due: 1, lapsed: 0 });
      expect(await run()).toEqual(['in two']);
    });

    it('walks through the retries of a job by its backoff', async () => {
      await queue.enqueue('job', { maxAttempts: 4, backoff: exponential(MINUTE) });
      const attempt = async (): Promise<unknown[]> =>
        (await drain(queue, () => Promise.reject(new Error('no')))).map(({ outcome }) => outcome);
      expect(await attempt()).toEqual(['scheduled']);
      for (const minutes of [1, 2]) {
        await advanceTime(queue, minutes * MINUTE - 10_000);
        expect(await attempt()).toEqual([]);
        await advanceTime(queue, 10_000);
        expect(await attempt()).toEqual(['scheduled']);
      }
      await advanceTime(queue, 4 * MINUTE);
      expect(await attempt()).toEqual(['failed']);
    });

    it('lets leases lapse', async () => {
      await queue.enqueue(1);
      await queue.claim({ leaseMs: MINUTE });
      expect(await advanceTime(queue, MINUTE - 10_000)).toEqual({ due: 0, lapsed: 0 });
      expect(await queue.reap()).toBe(0);
      expect(await advanceTime(queue, 10_000)).toEqual({ due: 0, lapsed: 1 });
      expect(await queue.reap()).toBe(1);
    });

    it('wakes a consumer that waits for the next due time', async () => {
      const consumer = queue.consume(() => 1, { beatMs: 10 * MINUTE });
      const completed = new Promise((resolve) => consumer.once('completed', resolve));
      await queue.schedule('job', { inMs: HOUR });
      // it has learnt of that, and waits
      const raw = new Redis({ path: node.server.socketPath });
      await vi.waitUntil(
        async () => /blocked_clients:1/.test(await raw.info('clients')) && node.connector.stats().pending === 0,
        { timeout: 10_000, interval: 5 },
      );
      raw.disconnect();
      await advanceTime(queue, HOUR);
      await completed;
      await consumer.close();
    });

    it('keeps the order of what comes due together', async () => {
      for (const [payload, minutes] of [
        ['c', 3],
        ['a', 1],
        ['b', 2],
      ] as const) {
        await queue.schedule(payload, { inMs: minutes * MINUTE });
      }
      await advanceTime(queue, HOUR);
      const scores = await Promise.all((await queue.browse('scheduled')).map((id) => queue.get(id)));
      expect(scores.map((row) => row?.bytes.toString()).reverse()).toEqual(['"a"', '"b"', '"c"']);
    });

    it.each([0, -5, 1.5, NaN, '5'])('refuses %s', async (ms) => {
      await expect(advanceTime(queue, ms as number)).rejects.toMatchObject({ code: 'EMQ_INPUT' });
    });
  });
});

it('has types: what a queue carries is what a handler and the list get', () => {
  expectTypeOf(drain<{ n: number }, { n: number }>).returns.resolves.toEqualTypeOf<DrainedJob<{ n: number }>[]>();
  expectTypeOf<DrainOptions>().not.toHaveProperty('recovery');
  expectTypeOf<DrainOptions['concurrency']>().toEqualTypeOf<ConsumeOptions['concurrency']>();
});
