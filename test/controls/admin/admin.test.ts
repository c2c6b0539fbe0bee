/**
 * `Admin`: limits, drain, trim, single jobs, pages both ways, one job whole, numbers and history. Obliterate, reprocess by
 * filter and the registry have files of their own.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Admin, Flows, Lanes, mint, type Jobs } from '../../../src/index.js';
import { claimed, EXECUTORS, MINUTE, MISSING, Stage } from '../../conformance/stage.js';

const LEASE = { leaseMs: MINUTE };
const DEATH = { delayMs: 0, maxAttempts: 1, error: 'broken' };

describe.each(EXECUTORS)('Admin on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let admin: Admin;
  let lanes: Lanes;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`admin.${(count += 1)}`);
    admin = new Admin(stage.connector, jobs.queue);
    lanes = new Lanes(stage.connector, jobs.queue);
  });
  afterEach(async () => {
    const keys = await stage.raw.keys(`${jobs.keys.base}*`);
    if (keys.length > 0) await stage.raw.del(...keys);
  });

  async function many(n: number): Promise<string[]> {
    const items = Array.from({ length: n }, (_, payload) => ({ payload }));
    return (await jobs.enqueueMany(items)).map(({ id }) => id);
  }
  /** So many dead jobs, the first of which died first, at 1000, 2000 ... */
  async function dead(n: number, error: (i: number) => string = () => 'broken'): Promise<string[]> {
    await many(n);
    const batch = await jobs.claimBatch({ ...LEASE, size: n });
    for (const [i, job] of batch.entries()) {
      await jobs.fail(job, { ...DEATH, error: error(i) });
      await stage.raw.zadd(jobs.keys.dead, 'XX', 1_000 * (i + 1), job.id);
    }
    return batch.map(({ id }) => id);
  }

  describe('limits', () => {
    it('are none at first, hold when set, and go with null; what is not given stays', async () => {
      const none = { concurrency: null, rate: null, nextTokenMs: 0 };
      expect(await admin.limits()).toEqual(none);
      await admin.setLimits({ concurrency: 2, rate: { max: 3, durationMs: 10 * MINUTE } });
      expect(await admin.limits()).toEqual({ ...none, concurrency: 2, rate: { max: 3, durationMs: 10 * MINUTE } });
      await many(9);
      expect(await jobs.claimBatch({ ...LEASE, size: 9 })).toHaveLength(2);
      expect((await stage.refused('EMQRATE', () => jobs.consult())).reason).toBe('EMQRATE at concurrency ceiling');
      await admin.setLimits({ concurrency: null });
      expect(await jobs.consult()).toBe('ok');
      expect(await jobs.claimBatch({ ...LEASE, size: 9 })).toHaveLength(1);
      expect((await stage.refused('EMQRATE', () => jobs.consult())).reason).toBe('EMQRATE at rate ceiling');
      expect((await admin.limits()).nextTokenMs).toBeGreaterThan(MINUTE);
      await admin.setLimits({ rate: null });
      expect(await admin.limits()).toEqual(none);
      expect(await jobs.claimBatch({ ...LEASE, size: 9 })).toHaveLength(6);
    });

    it('a rate has a window of a second unless it is said', async () => {
      await admin.setLimits({ rate: { max: 3 } });
      expect((await admin.limits()).rate).toEqual({ max: 3, durationMs: 1000 });
    });
  });

  describe('drain', () => {
    it('takes out what waits, flat and in lanes, in steps; the rest stays', async () => {
      const [a, b] = [mint('TEN'), mint('TEN')];
      await many(1);
      const held = await jobs.claim(LEASE);
      await dead(1);
      await many(250);
      await lanes.enqueueMany(
        [a, b].flatMap((group) => [
          { group, payload: 1 },
          { group, payload: 2 },
        ]),
      );
      await lanes.pause(b);
      const later = await jobs.schedule(1, { inMs: MINUTE });
      expect(await admin.drain({ lanes: false })).toEqual({ removed: 250, kept: 0 });
      expect(await lanes.depths([a, b])).toEqual(new Map([[a, 2], [b, 2]])); // prettier-ignore
      expect(await admin.drain()).toEqual({ removed: 4, kept: 0 });
      expect(await admin.counts()).toMatchObject({ pending: 0, active: 1, scheduled: 1, dead: 1 });
      expect(await jobs.state(later.id)).toBe('scheduled');
      expect(await admin.drain({ scheduled: true })).toEqual({ removed: 1, kept: 0 });
      expect(await jobs.complete(held ?? { id: MISSING, token: 1 })).toBe('completed');
      expect(await stage.raw.keys(`${jobs.keys.base}job:*`)).toHaveLength(1);
    });

    it('passes by jobs that a lock holds', async () => {
      const ids = await many(230);
      for (const id of [ids[0], ids[150]]) await stage.raw.set(`${jobs.keys.job(id ?? '')}:lock`, 'w', 'PX', MINUTE);
      expect(await admin.drain()).toEqual({ removed: 228, kept: 2 });
      expect(await jobs.browse('pending', { order: 'asc' })).toEqual([ids[0], ids[150]]);
    });

    it('takes lanes too whose group no client of ours would give', async () => {
      const { id } = await lanes.enqueue(mint('TEN'), 1);
      await stage.raw.hset(jobs.keys.job(id), 'group', 'acme');
      await stage.raw.rename(jobs.keys.lane((await stage.raw.lindex(jobs.keys.ring, 0)) ?? ''), jobs.keys.lane('acme'));
      await stage.raw.lset(jobs.keys.ring, 0, 'acme');
      expect((await admin.stats()).lanes).toEqual({ count: 1, waiting: 1 });
      expect(await admin.drain()).toEqual({ removed: 1, kept: 0 });
      expect(await stage.raw.exists(jobs.keys.ring, jobs.keys.lane('acme'), jobs.keys.job(id))).toBe(0);
    });

    it('a flow child that is drained tells its parent', async () => {
      const flows = new Flows(stage.connector, jobs);
      const flow = await flows.add({ payload: 'parent', children: [{ payload: 1, onFailure: 'ignore' }] });
      await admin.drain();
      await flows.deliver();
      expect(await jobs.claim(LEASE)).toMatchObject({ id: flow.id });
    });
  });

  describe('trimDead', () => {
    it('by count: the oldest go first, in steps', async () => {
      const ids = await dead(230);
      expect(await admin.trimDead({ keep: 20 })).toEqual({ removed: 210, kept: 0 });
      expect(await jobs.browse('dead', { order: 'asc' })).toEqual(ids.slice(210));
      expect(await stage.unchanged(() => admin.trimDead({ keep: 20 }))).toEqual({ removed: 0, kept: 0 });
    });

    it('by age, and by either', async () => {
      const ids = await dead(6);
      const now = await stage.now();
      await stage.raw.zadd(jobs.keys.dead, 'XX', now + MINUTE, ids[4] ?? '', now + MINUTE, ids[5] ?? '');
      expect(await admin.trimDead({ olderThanMs: now - 2_500 })).toEqual({ removed: 2, kept: 0 });
      expect(await admin.trimDead({ olderThanMs: 0, keep: 1 })).toEqual({ removed: 3, kept: 0 });
      expect(await jobs.browse('dead')).toHaveLength(1);
      expect(await admin.trimDead({ keep: 0 })).toEqual({ removed: 1, kept: 0 });
    });
  });

  describe('one job', () => {
    it('is promoted, put off, changed, cancelled, removed, brought back', async () => {
      const { id } = await jobs.schedule(1, { inMs: MINUTE });
      expect(await admin.reschedule(id, { at: 5_000 })).toBe('scheduled');
      expect(await stage.raw.zscore(jobs.keys.schedule, id)).toBe('5000');
      expect(await admin.promoteNow(id)).toBe('pending');
      expect((await stage.refused('EMQSTATE', () => admin.promoteNow(id))).reason).toBe('EMQSTATE not scheduled');
      await stage.refused('EMQSTATE', () => admin.reschedule(id, { inMs: 1 }));
      expect(await admin.updateData(id, { n: 2 })).toBe('updated');
      const job = await jobs.claim(LEASE);
      expect(job).toMatchObject({ id, payload: { n: 2 } });
      await jobs.fail(job ?? { id, token: 1 }, DEATH);
      expect(await admin.reprocess(id)).toBe('pending');
      expect(await admin.cancel(id, 'no')).toBe('removed');
      const other = await jobs.enqueue(1, { dedup: { id: 'd' } });
      expect(await admin.remove(other.id)).toBe('removed');
      expect(await jobs.dedupOwner('d')).toBeNull();
      const gone = [admin.promoteNow(id), admin.reschedule(id, { inMs: 1 }), admin.remove(id), admin.cancel(id)];
      expect(await Promise.all(gone)).toEqual(['gone', 'gone', 'gone', 'gone']);
    });

    it('a promoted job of a lane waits in its lane', async () => {
      const group = mint('TEN');
      const { id } = await lanes.schedule(group, 1, { inMs: MINUTE });
      await admin.promoteNow(id);
      expect(await lanes.claim(LEASE)).toMatchObject({ id, group });
    });

    it('is shown whole: row, place, own limits, last log lines, its flow', async () => {
      const flows = new Flows(stage.connector, jobs);
      const before = Date.now();
      const flow = await flows.add({ name: 'sum', payload: 'p', children: [{ payload: 1 }, { payload: 2 }] });
      await jobs.addLog(flow.id, 'first');
      for (let i = 0; i < 100; i += 1) await jobs.addLog(flow.id, `line ${i}`);
      const found = await stage.unchanged(() => admin.job(flow.id));
      expect(found).toMatchObject({ id: flow.id, state: 'awaiting_children', own: { name: 'sum' } });
      expect(found?.row.bytes.toString()).toBe('"p"');
      expect(found?.logs.map(String)).toEqual(Array.from({ length: 100 }, (_, i) => `line ${i}`));
      expect(found?.flow).toMatchObject({ open: 2 });
      expect(found?.mintedAt).toBeGreaterThanOrEqual(before - 1_000);
      expect(await admin.job(MISSING)).toBeNull();
      expect(await admin.logs(flow.id, { first: 0, last: 0 })).toEqual([Buffer.from('first')]);
    });
  });

  describe('pages', () => {
    it('of each state, both ways, with what each is sorted by', async () => {
      const deaths = await dead(5);
      const low = await jobs.enqueue('low', { priority: 9 });
      const [first, second] = await many(2);
      const later = await jobs.schedule('later', { at: 7_000 });
      const page = async (state: 'dead' | 'pending' | 'scheduled' | 'active', order?: 'asc' | 'desc', offset = 0) =>
        (await admin.jobs({ state, ...(order && { order }), offset, limit: 2 })).map(({ id, score }) => [id, score]);
      expect(await page('dead')).toEqual([[deaths[0], 1_000], [deaths[1], 2_000]]); // prettier-ignore
      expect(await page('dead', 'asc', 4)).toEqual([[deaths[4], 5_000]]);
      expect(await page('dead', 'desc')).toEqual([[deaths[4], 5_000], [deaths[3], 4_000]]); // prettier-ignore
      expect(await page('dead', 'desc', 4)).toEqual([[deaths[0], 1_000]]);
      expect(await page('pending')).toEqual([[first, 0], [second, 0]]); // prettier-ignore
      expect(await page('pending', 'desc')).toEqual([[low.id, 9], [second, 0]]); // prettier-ignore
      expect(await page('scheduled')).toEqual([[later.id, 7_000]]);
      const before = await stage.now();
      const job = await jobs.claim(LEASE);
      const [[id, lease] = []] = await page('active');
      expect(id).toBe(job?.id);
      expect(lease).toBeGreaterThanOrEqual(before + MINUTE);
      expect(await admin.jobs({ state: 'dead', limit: 1 })).toMatchObject([{ state: 'dead', attempts: 1 }]);
    });

    it('of a lane, and of flow parents that wait', async () => {
      const group = mint('TEN');
      const { id } = await lanes.enqueue(group, 1);
      const flow = await new Flows(stage.connector, jobs).add({ payload: 1, children: [{ payload: 2 }] });
      expect(await admin.jobs({ state: 'pending', lane: group })).toMatchObject([{ id, group }]);
      expect(await admin.jobs({ state: 'awaiting_children' })).toMatchObject([{ id: flow.id }]);
    });

    it('leave out an id without a row', async () => {
      await stage.raw.zadd(jobs.keys.dead, 1, mint());
      expect(await stage.unchanged(() => admin.jobs({ state: 'dead' }))).toEqual([]);
    });
  });

  describe('numbers', () => {
    it('stats: everything at a glance, and nothing is written', async () => {
      const group = mint('TEN');
      expect(await stage.unchanged(() => admin.stats())).toEqual({
        counts: { pending: 0, active: 0, scheduled: 0, dead: 0, awaiting_children: 0, completed: 0, failed: 0 },
        paused: false,
        limits: { concurrency: null, rate: null, nextTokenMs: 0 },
        lanes: { count: 0, waiting: 0 },
        ...{ nextJobAgeMs: null, dueInMs: null, letters: 0, recovery: null },
      });
      await dead(1);
      await many(2);
      await lanes.enqueueMany(Array.from({ length: 230 }, () => ({ group: mint('TEN'), payload: 1 })));
      await lanes.enqueue(group, 1);
      await jobs.schedule(1, { inMs: MINUTE });
      await admin.pause();
      await jobs.setRecovery('stalled');
      await admin.setLimits({ concurrency: 4 });
      await stage.raw.rpush(jobs.keys.outbox, 'a letter');
      const stats = await admin.stats();
      expect(stats).toMatchObject({
        counts: { pending: 2, scheduled: 1, dead: 1, failed: 1 },
        paused: true,
        limits: { concurrency: 4 },
        lanes: { count: 231, waiting: 231 },
        ...{ letters: 1, recovery: 'stalled' },
      });
      expect(stats.dueInMs).toBeGreaterThan(0);
      expect(stats.nextJobAgeMs).toBeLessThan(MINUTE);
      await admin.resume();
      expect((await admin.stats()).paused).toBe(false);
    });

    it('metrics: what was counted, minute by minute, oldest first', async () => {
      const first = await admin.metrics({ minutes: 3 });
      expect(first).toMatchObject({ completed: [0, 0, 0], failed: [0, 0, 0], total: { completed: 0, failed: 0 } });
      expect(first.from % MINUTE).toBe(0);
      for (let i = 0; i < 3; i += 1) await jobs.complete(await claimed(jobs, i));
      await dead(1);
      // two minutes go by
      const rolled = `${jobs.keys.base}metrics:rolled`;
      await stage.raw.hincrby(rolled, 'minute', -2);
      const second = await admin.metrics({ minutes: 4 });
      expect(second.completed).toEqual([0, 0, 0, 3]);
      expect(second.failed).toEqual([0, 0, 0, 1]);
      expect(second.total).toEqual({ completed: 3, failed: 1 });
      const open = Number(await stage.raw.hget(rolled, 'minute'));
      expect(second.from).toBe((open - 4) * MINUTE);
      await jobs.complete(await claimed(jobs, 1));
      await stage.raw.hincrby(rolled, 'minute', -1);
      const third = await admin.metrics({ minutes: 4 });
      // the minute that ends meanwhile, at the worst, comes as one of 0
      expect(third.completed.filter((n) => n > 0)).toEqual([3, 1]);
      expect(third.total.completed).toBe(4);
    });

    it('lanes and repeats are at hand', async () => {
      const group = mint('TEN');
      await lanes.enqueue(group, 1);
      const found: string[] = [];
      for await (const lane of admin.lanes()) found.push(lane.group);
      expect(found).toEqual([group]);
      await admin.repeats.upsert('nightly', { everyMs: MINUTE }, { payload: 1 });
      expect(await admin.repeats.get('nightly')).toMatchObject({ name: 'nightly', paused: false });
    });
  });

  describe('wrong input', () => {
    it.each<[string, () => Promise<unknown>, RegExp]>([
      ['no limit', () => admin.setLimits({}), /setLimits needs concurrency or rate/],
      ['concurrency of 0', () => admin.setLimits({ concurrency: 0 }), /concurrency must be an integer .* null/],
      ['a rate of text', () => admin.setLimits({ rate: 'x' as never }), /options of rate must be an object/],
      ['an unknown limit', () => admin.setLimits({ max: 1 } as never), /unknown option "max" of setLimits/],
      ['a drain of dead', () => admin.drain({ dead: true } as never), /unknown option "dead" of drain/],
      ['a drain by number', () => admin.drain({ scheduled: 1 as never }), /scheduled must be true or false/],
      ['a trim of nothing', () => admin.trimDead({}), /trimDead needs olderThanMs or keep/],
      ['a trim of less', () => admin.trimDead({ keep: -1 }), /keep must be an integer from 0/],
      ['force', () => admin.obliterate({ force: 'yes' as never }), /force must be true or false/],
      ['no state', () => admin.jobs({} as never), /unknown state undefined: use pending/],
      ['a state', () => admin.jobs({ state: 'wait' as never }), /unknown state "wait": use pending/],
      ['a lane of the dead', () => admin.jobs({ state: 'dead', lane: mint('TEN') }), /lane goes with pending/],
      ['an order', () => admin.jobs({ state: 'dead', order: 'up' as never }), /order must be asc .* got "up"/],
      ['a page of all', () => admin.jobs({ state: 'dead', limit: 5_000 }), /limit must be an integer from 1 to 1000/],
      ['minutes', () => admin.metrics({ minutes: 1_441 }), /minutes must be an integer from 1 to 1440/],
      ['a job id', () => admin.job('7'), /job id "7" must be a branded id/],
      ['a time', () => admin.reschedule(MISSING, {} as never), /the time to run at must be/],
    ])('%s', async (_what, act, text) => {
      expect((await stage.refused('EMQ_INPUT', act)).reason).toMatch(text);
    });
  });
});
