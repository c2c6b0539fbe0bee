/**
 * `Jobs`, method by method, on both executors: what each answers, and what it leaves. Wrong input is jobs-input.test.ts,
 * payloads are jobs-payload.test.ts, many jobs at once and minted ids jobs-many.test.ts.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { encodeId, JobControls, Jobs, mint, parseId, transitions, type Job, type Transition } from '../../src/index.js';
import { claimed, EXECUTORS, MINUTE, MISSING, Stage, stale } from './stage.js';
import { titleOf, verbs } from './verbs.js';

const LEASE = { leaseMs: MINUTE };

it('has every method of Jobs in the table', () => {
  const own = [JobControls, Jobs].map(({ prototype }) => Object.getOwnPropertyDescriptors(prototype));
  const methods = own
    .flatMap((descriptors) => Object.entries<PropertyDescriptor>(descriptors))
    .filter(([name, { value }]) => name !== 'constructor' && typeof value === 'function')
    .map(([name]) => name);
  expect([...new Set<string>(verbs.map(({ verb }) => verb))].sort()).toEqual(methods.sort());
});

describe.each(EXECUTORS)('Jobs on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`jobs.${(count += 1)}`);
  });

  it.each(verbs.map((verb) => [titleOf(verb), verb] as const))('%s', async (_title, { scene, gives, writes }) => {
    const act = await scene({ jobs, raw: stage.raw });
    const answer = await (writes ? act(jobs) : stage.unchanged(() => act(jobs)));
    if (typeof gives === 'function') expect(gives(answer)).toBe(true);
    else expect(answer).toEqual(gives);
  });

  describe('admission', () => {
    it('keeps priority and opts in the row, and claims by priority, then by age', async () => {
      const late = await jobs.enqueue('late', { priority: 2_097_152 });
      const second = await jobs.enqueue('second', { priority: 1, opts: { name: 'mail', limits: { tries: 2 } } });
      const first = await jobs.enqueue('first', { priority: 0 });
      const row = await jobs.get(second.id);
      expect(row).toMatchObject({ priority: 1 });
      expect(JSON.parse(String(row?.fields.get('opts')))).toEqual({ name: 'mail', limits: { tries: 2 } });
      const order = (await jobs.claimBatch({ ...LEASE, size: 9 })).map(({ id }) => id);
      expect(order).toEqual([first.id, second.id, late.id]);
    });

    it('mints an id where none is given, and takes one that is', async () => {
      const { id } = await jobs.enqueue(1);
      expect(parseId(id)).toMatchObject({ namespace: 'JOB' });
      const own = encodeId('JOB', 7n);
      expect(await jobs.enqueue(1, { id: own })).toEqual({ id: own, outcome: 'enqueued' });
      expect(await stage.unchanged(() => jobs.schedule(2, { inMs: 1 }, { id: own }))).toEqual({
        id: own,
        outcome: 'duplicate',
      });
    });

    it('schedules at a time, a Date or a number, or so many ms from now', async () => {
      const at = (await stage.now()) + MINUTE;
      const scores: number[] = [];
      for (const when of [{ at }, { at: new Date(at) }, { inMs: MINUTE }, { inMs: -MINUTE }]) {
        const { id } = await jobs.schedule(1, when);
        scores.push(Number(await stage.raw.zscore(jobs.keys.schedule, id)));
      }
      expect(scores.slice(0, 2)).toEqual([at, at]);
      expect(Number(scores[2]) - at).toBeGreaterThanOrEqual(0);
      expect(Number(scores[2]) - at).toBeLessThan(MINUTE);
      expect(Number(scores[3])).toBeLessThan(at - MINUTE);
      // The past is due at once.
      expect(await jobs.promote()).toBe(1);
    });
  });

  describe('claims', () => {
    it('answers null or nothing where nothing waits', async () => {
      expect(await stage.unchanged(() => jobs.claim(LEASE))).toBeNull();
      expect(await stage.unchanged(() => jobs.claimBatch({ ...LEASE, size: 3 }))).toEqual([]);
    });

    it('gives a batch in order, on one deadline, never more than asked for', async () => {
      const minted = (await jobs.enqueueMany([1, 2, 3].map((payload) => ({ payload })))).map(({ id }) => id);
      const batch = await jobs.claimBatch({ ...LEASE, size: 2 });
      expect(batch.map(({ id, token, payload }) => [id, token, payload])).toEqual([
        [minted[0], 1, 1],
        [minted[1], 1, 2],
      ]);
      const deadlines = await stage.raw.zmscore(jobs.keys.active, ...batch.map(({ id }) => id));
      expect(deadlines[0]).toBe(deadlines[1]);
      expect(await jobs.counts(['pending', 'active'])).toEqual({ pending: 1, active: 2 });
    });

    it('drops an id without a row and mints none', async () => {
      const ghost = mint();
      await stage.raw.zadd(jobs.keys.pending, 0, ghost);
      expect(await jobs.claim(LEASE)).toBeNull();
      expect(await stage.raw.keys(`${jobs.keys.base}*`)).toEqual([]);
    });

    it('the longest lease there can be is 2^52 ms', async () => {
      await jobs.enqueue(1);
      const before = await stage.now();
      const job = (await jobs.claim({ leaseMs: 2 ** 52 })) as Job<unknown>;
      const deadline = Number(await stage.raw.zscore(jobs.keys.active, job.id));
      expect(deadline).toBeGreaterThanOrEqual(2 ** 52 + before);
    });
  });

  describe('settles', () => {
    const retry = { delayMs: MINUTE, maxAttempts: 2, error: 'no' };

    it.each([
      ['complete', 'complete', (held: Job<unknown>) => jobs.complete(stale(held))],
      ['fail', 'retry', (held: Job<unknown>) => jobs.fail(stale(held), retry)],
      ['delay', 'delay', (held: Job<unknown>) => jobs.delay(stale(held), { inMs: 0 })],
      ['extend', 'extend', (held: Job<unknown>) => jobs.extend(stale(held), LEASE)],
    ])('%s by another token is EMQSTALE', async (_name, word, act) => {
      const job = await claimed(jobs, 1);
      const error = await stage.refused('EMQSTALE', () => act(job));
      expect(error.reason).toBe(`EMQSTALE ${word} token mismatch`);
    });

    it.each([
      ['complete', 'gone', () => jobs.complete({ id: MISSING, token: 1 })],
      ['extend', 'gone', () => jobs.extend({ id: MISSING, token: 1 }, LEASE)],
      ['extendMany', [MISSING], () => jobs.extendMany([{ id: MISSING, token: 1 }], LEASE)],
      ['updateData', 'gone', () => jobs.updateData(MISSING, 1)],
      ['updateProgress', 'gone', () => jobs.updateProgress(MISSING, 1)],
      ['addLog', 'gone', () => jobs.addLog(MISSING, 'x')],
      ['logs', 'gone', () => jobs.logs(MISSING)],
      ['remove', 'gone', () => jobs.remove(MISSING)],
      ['reprocess', 'gone', () => jobs.reprocess(MISSING)],
      ['get', null, () => jobs.get(MISSING)],
      ['state', 'absent', () => jobs.state(MISSING)],
    ])('%s of a job that is not there answers %j', async (_name, answer, act) => {
      expect(await stage.unchanged<unknown>(act)).toEqual(answer);
    });

    it.each([
      ['fail', () => jobs.fail({ id: MISSING, token: 1 }, retry)],
      ['delay', () => jobs.delay({ id: MISSING, token: 1 }, { inMs: 0 })],
    ])('%s of a job that is not there is EMQSTALE job gone', async (_name, act) => {
      expect((await stage.refused('EMQSTALE', act)).reason).toBe('EMQSTALE job gone');
    });

    it('keeps the bytes of an error, and takes 2^52 attempts', async () => {
      const job = await claimed(jobs, 1);
      const error = Buffer.from([0, 255, 10, 13, 0xc3, 0x28]);
      expect(await jobs.fail(job, { delayMs: -1, maxAttempts: 2 ** 52, error })).toBe('scheduled');
      expect((await jobs.get(job.id))?.lastError).toEqual(error);
    });

    it("a flow child is refused by the plain settles, and then settled with its parent's keys", async () => {
      const [job, other] = [await claimed(jobs, 1), await claimed(jobs, 2)];
      for (const { id } of [job, other]) await stage.raw.hset(jobs.keys.job(id), 'parent', mint());
      const [complete, fail] =
        wire === 6
          ? ['EMQSTATE complete flow not native', 'EMQSTATE fail flow not native']
          : ['EMQSTATE complete flow keys', 'EMQSTATE retry flow keys'];
      const plain = <I, R>(transition: Transition<I, R>, input: I): Promise<unknown> =>
        jobs.wire.run({ transition, queue: jobs.queue, ...transition.layout(jobs.keys, input) });
      const failure = { id: other.id, token: 1, ...retry };
      expect(
        (await stage.refused('EMQSTATE', () => plain(transitions.complete, { id: job.id, token: 1 }))).reason,
      ).toBe(complete);
      expect((await stage.refused('EMQSTATE', () => plain(transitions.fail, failure))).reason).toBe(fail);
      // there is no parent to tell
      expect(await jobs.complete(job)).toBe('completed');
      expect(await jobs.fail(other, retry)).toBe('scheduled');
    });

    it('a delayed job keeps its token count and has a credit', async () => {
      const job = await claimed(jobs, 1);
      const at = (await stage.now()) + MINUTE;
      expect(await jobs.delay(job, { at })).toBe('scheduled');
      expect(await jobs.get(job.id)).toMatchObject({ state: 'scheduled', attempts: 1, credit: 1 });
      expect(Number(await stage.raw.zscore(jobs.keys.schedule, job.id))).toBe(at);
      await stage.refused('EMQSTATE', () => jobs.delay(job, { at }));
    });
  });

  describe('sweeps', () => {
    it.each([
      ['promote', async (limit: number) => jobs.promote({ limit }), 'schedule'],
      ['reap', async (limit: number) => jobs.reap({ limit }), 'active'],
      ['stalledCheck', async (limit: number) => (await jobs.stalledCheck({ limit })).recovered.length, 'active'],
    ] as const)('%s takes the earliest, up to its limit, and no ghost', async (_name, sweep, set) => {
      const ids = (await jobs.enqueueMany([1, 2, 3].map((payload) => ({ payload })))).map(({ id }) => id);
      await stage.raw.del(jobs.keys.pending);
      for (const [i, id] of ids.entries()) await stage.raw.zadd(jobs.keys[set], 10 + i, id);
      await stage.raw.zadd(jobs.keys[set], 1, MISSING);
      // The ghost is the earliest: it takes a place in the limit and is in no answer.
      expect(await sweep(2)).toBe(1);
      expect(await jobs.browse('pending')).toEqual([ids[0]]);
      expect(await sweep(100)).toBe(2);
      expect(await stage.raw.exists(jobs.keys[set], jobs.keys.job(MISSING))).toBe(0);
    });

    it('on wire 6 a lease from before a restart of the server is not counted', async () => {
      const job = await claimed(jobs, 1);
      await stage.raw.hset(jobs.keys.job(job.id), 'lease_epoch', 'f'.repeat(40));
      await stage.lapse(jobs.keys.active, job.id);
      const answer = await jobs.stalledCheck({ maxStalled: 1 });
      const row = await jobs.get(job.id);
      if (wire === 6) {
        expect(answer).toEqual({ recovered: [job.id], dead: [] });
        expect(row).toMatchObject({ state: 'pending', stalled: 0, credit: 1 });
        expect(row?.leaseEpoch).toBeUndefined();
      } else {
        expect(answer).toEqual({ recovered: [], dead: [job.id] });
        expect(row).toMatchObject({ state: 'dead', stalled: 1, credit: 0 });
      }
    });
  });

  describe('reads and controls', () => {
    it('resume of a queue that is not paused changes nothing', async () => {
      await stage.unchanged(() => jobs.resume());
      await jobs.pause();
      await stage.unchanged(() => jobs.pause());
    });

    it('browses by rank, the last to be served first', async () => {
      const ids = (await jobs.enqueueMany([1, 2, 3, 4].map((payload) => ({ payload })))).map(({ id }) => id).reverse();
      expect(await jobs.browse('pending')).toEqual(ids);
      expect(await jobs.browse('pending', { offset: 1, limit: 2 })).toEqual(ids.slice(1, 3));
      expect(await jobs.browse('pending', { offset: 4 })).toEqual([]);
      for (const state of ['active', 'scheduled', 'dead'] as const) expect(await jobs.browse(state)).toEqual([]);
    });

    it('counts what it is asked for, and by itself everything', async () => {
      await jobs.complete(await claimed(jobs, 1));
      await jobs.fail(await claimed(jobs, 1), { delayMs: 0, maxAttempts: 1, error: '' });
      const all = { pending: 0, active: 0, scheduled: 0, dead: 1, awaiting_children: 0, completed: 1, failed: 1 };
      expect(await jobs.counts()).toEqual(all);
      expect(await jobs.counts(['failed'])).toEqual({ failed: 1 });
      expect(await jobs.counts([])).toEqual({});
    });

    it('reads a slice of the log, byte for byte', async () => {
      const { id } = await jobs.enqueue(1);
      const line = Buffer.from([0, 1, 254, 255]);
      for (const one of ['a', line, '']) await jobs.addLog(id, one);
      expect(await jobs.logs(id)).toEqual([Buffer.from('a'), line, Buffer.alloc(0)]);
      expect(await jobs.logs(id, { first: -2, last: -2 })).toEqual([line]);
      expect(await jobs.logs(id, { first: 9 })).toEqual([]);
    });

    it('shows a whole row, fields that it does not know included', async () => {
      const { id } = await jobs.enqueue(1, { priority: 7 });
      await stage.raw.hset(jobs.keys.job(id), 'group', 'GRP0KHTOWnGLuC', 'stalled', 2, 'colour', 'red');
      const row = await jobs.get(id);
      expect(row).toMatchObject({ id, state: 'pending', attempts: 0, priority: 7, stalled: 2, credit: 0 });
      expect(row?.group).toBe('GRP0KHTOWnGLuC');
      expect(row?.bytes).toEqual(Buffer.from('1'));
      expect(row?.fields.get('colour')).toEqual(Buffer.from('red'));
      await jobs.claim(LEASE);
      expect(String((await jobs.get(id))?.fields.get('colour'))).toBe('red');
    });

    it('remove frees a dedup key only if it holds this job', async () => {
      const { id } = await jobs.enqueue(1);
      await stage.raw.set(jobs.keys.dedup('theirs'), MISSING);
      expect(await jobs.remove(id, { dedupId: 'theirs' })).toBe('removed');
      expect(await stage.raw.get(jobs.keys.dedup('theirs'))).toBe(MISSING);
    });

    it('a lock in the row holds a job against removal as well', async () => {
      const { id } = await jobs.enqueue(1);
      await stage.raw.hset(jobs.keys.job(id), 'lock', 'a worker');
      await stage.refused('EMQLOCK', () => jobs.remove(id));
    });
  });
});
