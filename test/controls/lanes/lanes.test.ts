/**
 * `Lanes`: every verb, the listing of lanes in each condition, settings of their own and for all, and what goes over many
 * jobs in steps.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Lanes, mint, type Jobs, type LaneState } from '../../../src/index.js';
import { EXECUTORS, MINUTE, MISSING, Stage } from '../../conformance/stage.js';

const LEASE = { leaseMs: MINUTE };

describe.each(EXECUTORS)('Lanes on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let lanes: Lanes;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`lanes.${(count += 1)}`);
    lanes = new Lanes(stage.connector, jobs.queue);
  });
  // thousands of keys would be looked at by every test that proves that nothing changed
  afterEach(async () => {
    const keys = await stage.raw.keys(`${jobs.keys.base}*`);
    if (keys.length > 0) await stage.raw.del(...keys);
  });

  async function fill(group: string, many: number): Promise<string[]> {
    const items = Array.from({ length: many }, (_, n) => ({ group, payload: n }));
    return (await lanes.enqueueMany(items)).map(({ id }) => id);
  }
  async function all(options: { configured?: boolean } = {}): Promise<LaneState[]> {
    const found: LaneState[] = [];
    for await (const lane of lanes.list(options)) found.push(lane);
    return found.sort((a, b) => (a.group < b.group ? -1 : 1));
  }
  const ring = () => stage.raw.lrange(jobs.keys.ring, 0, -1);
  const [a, b, c, d, e] = ['TEN', 'TEN', 'TEN', 'TEN', 'TEN'].map((name) => mint(name)) as [
    ...[string, string, string, string, string],
  ];

  describe('admission and claims', () => {
    it('serves lanes in turn, each in the order of its own', async () => {
      const [a1, a2, a3] = await fill(a, 3);
      const b1 = (await lanes.enqueue(b, 'b')).id;
      const order: (string | undefined)[] = [];
      for (let i = 0; i < 4; i += 1) order.push((await lanes.claim(LEASE))?.id);
      expect(order).toEqual([a1, b1, a2, a3]);
      expect(await lanes.claim(LEASE)).toBeNull();
    });

    it('priority holds within a lane, a duplicate is one, and options are those of a job', async () => {
      const late = await lanes.enqueue(a, 1, { priority: 5 });
      const first = await lanes.enqueue(a, 2, { name: 'mail', maxAttempts: 2 });
      expect(await stage.unchanged(() => lanes.enqueue(a, 3, { id: late.id }))).toEqual({
        ...{ id: late.id, outcome: 'duplicate' },
      });
      expect(await lanes.claim(LEASE)).toMatchObject({ id: first.id, group: a, name: 'mail' });
      expect(await jobs.get(late.id)).toMatchObject({ group: a, priority: 5 });
    });

    it('a scheduled job goes to its lane when its time has come', async () => {
      const { id, outcome } = await lanes.schedule(a, 1, { at: 1_000 });
      expect(outcome).toBe('scheduled');
      expect(await lanes.claim(LEASE)).toBeNull();
      expect(await jobs.promote()).toBe(1);
      expect(await lanes.claim(LEASE)).toMatchObject({ id, group: a, token: 1 });
    });

    it('a batch is of one lane: the first in turn that holds enough', async () => {
      await fill(a, 1);
      const ids = await fill(b, 3);
      const batch = await lanes.claimBatch({ ...LEASE, size: 5, min: 2 });
      expect(batch.map(({ id, group, token }) => [id, group, token])).toEqual(ids.map((id) => [id, b, 1]));
      const deadlines = await stage.raw.zmscore(jobs.keys.active, ...ids);
      expect(new Set(deadlines).size).toBe(1);
      expect(await lanes.claimBatch({ ...LEASE, size: 5, min: 2 })).toEqual([]);
      expect(await lanes.claimBatch({ ...LEASE, size: 5 })).toHaveLength(1);
    });

    it('a batch is no larger than the lane’s ceiling and its tokens', async () => {
      await fill(a, 9);
      await lanes.setLimit(a, 3);
      expect(await lanes.claimBatch({ ...LEASE, size: 9 })).toHaveLength(3);
      await lanes.setLimit(a, null);
      await lanes.setRate(a, { max: 2, durationMs: 10 * MINUTE });
      expect(await lanes.claimBatch({ ...LEASE, size: 9 })).toHaveLength(2);
    });
  });

  describe('settings', () => {
    it('a limit holds at once, and its end lets the lane on again; a settle makes room', async () => {
      await fill(a, 4);
      const first = await lanes.claim(LEASE);
      await lanes.setLimit(a, 1);
      expect(await lanes.claim(LEASE)).toBeNull();
      await jobs.complete(first ?? { id: MISSING, token: 1 });
      expect(await lanes.claim(LEASE)).not.toBeNull();
      expect(await lanes.claim(LEASE)).toBeNull();
      await lanes.setLimit(a, null);
      expect(await lanes.claim(LEASE)).not.toBeNull();
    });

    it('a weight is how many jobs a lane gives in its turn', async () => {
      await fill(a, 4);
      await fill(b, 4);
      await lanes.setWeight(a, 3);
      const order: (string | undefined)[] = [];
      for (let i = 0; i < 6; i += 1) order.push((await lanes.claim(LEASE))?.group);
      expect(order).toEqual([a, a, a, b, a, b]);
      await lanes.setWeight(a, null);
      expect(await lanes.info([a])).toMatchObject([{ weight: 1 }]);
    });

    it('a rate lets so many go, then the lane waits; unset, it is ready at once', async () => {
      await fill(a, 5);
      await lanes.setRate(a, { max: 2, durationMs: 10 * MINUTE });
      const now = await stage.now();
      expect(await lanes.claim(LEASE)).not.toBeNull();
      expect(await lanes.claim(LEASE)).not.toBeNull();
      expect(await lanes.claim(LEASE)).toBeNull();
      const [state] = await lanes.info([a]);
      expect(state).toMatchObject({ state: 'waits', rate: { max: 2, durationMs: 10 * MINUTE }, waiting: 3 });
      expect(state?.waitsUntil).toBeGreaterThan(now + 4 * MINUTE);
      await lanes.setRate(a, null);
      expect(await lanes.info([a])).toMatchObject([{ state: 'ready', rate: null, waitsUntil: null }]);
      expect(await lanes.claim(LEASE)).not.toBeNull();
    });

    it('what is set for * holds for every lane without its own, at once, also for those that are held back', async () => {
      const groups = Array.from({ length: 250 }, () => mint('TEN')).sort();
      await lanes.enqueueMany(
        groups.flatMap((group) => [
          { group, payload: 1 },
          { group, payload: 2 },
        ]),
      );
      await lanes.setLimit(groups[0] ?? '', 2);
      await lanes.setLimit('*', 1);
      expect(await jobs.take({ ...LEASE, count: 1_000, source: 'lanes' })).toHaveLength(251);
      expect(await ring()).toEqual([]);
      expect((await all()).filter(({ state }) => state === 'at limit')).toHaveLength(250);
      await lanes.setLimit('*', 2);
      expect((await ring()).sort()).toEqual(groups.slice(1));
      await lanes.setLimit('*', 1);
      expect(await ring()).toEqual([]);
      await lanes.setLimit('*', null);
      expect(await ring()).toHaveLength(249);
      await lanes.setRate('*', { max: 1, durationMs: 10 * MINUTE });
      expect(await lanes.info([groups[5] ?? ''])).toMatchObject([{ rate: { max: 1, durationMs: 10 * MINUTE } }]);
      await lanes.setRate('*', null);
      await lanes.setWeight('*', 4);
      expect(await lanes.info([groups[5] ?? ''])).toMatchObject([{ rate: null, weight: 4 }]);
    });

    it('unset leaves no field behind', async () => {
      await fill(a, 1);
      for (const group of [a, '*']) {
        await lanes.setLimit(group, 3);
        await lanes.setWeight(group, 3);
        await lanes.setRate(group, { max: 3 });
        await lanes.setLimit(group, null);
        await lanes.setWeight(group, null);
        await lanes.setRate(group, null);
      }
      const keys = await stage.raw.keys(`${jobs.keys.base}*`);
      expect(keys.filter((key) => /g(limit|weight|max|duration)$|limiter$/.test(key))).toEqual([]);
    });
  });

  describe('pause', () => {
    it('a paused lane keeps its jobs and is passed over, until it is resumed', async () => {
      await fill(a, 2);
      expect(await lanes.pause(a)).toBe('paused');
      expect(await lanes.pause(a)).toBe('was paused');
      await fill(a, 1);
      expect(await lanes.claim(LEASE)).toBeNull();
      expect(await lanes.depth(a)).toBe(3);
      expect(await lanes.resume(a)).toBe('resumed');
      expect(await lanes.resume(a)).toBe('not paused');
      expect(await lanes.claim(LEASE)).toMatchObject({ group: a });
    });
  });

  describe('reassign', () => {
    it('moves a waiting job to its place in the other lane', async () => {
      const [id] = await fill(a, 1);
      const [other] = await fill(b, 1);
      expect(await lanes.reassign(id ?? '', b)).toBe('reassigned');
      expect(await lanes.depths([a, b])).toEqual(
        new Map([
          [a, 0],
          [b, 2],
        ]),
      );
      expect(await ring()).toEqual([b]);
      expect(await jobs.get(id ?? '')).toMatchObject({ group: b });
      expect(await stage.unchanged(() => lanes.reassign(id ?? '', b))).toBe('noop');
      // older than the lane's own, and so before it
      expect((await lanes.claimBatch({ ...LEASE, size: 2 })).map((job) => job.id)).toEqual([id, other]);
    });

    it('leaves jobs alone that do not wait in a lane', async () => {
      const flat = await jobs.enqueue(1);
      await fill(a, 1);
      const held = await lanes.claim(LEASE);
      const later = await lanes.schedule(a, 1, { inMs: MINUTE });
      const move = (id: string) => stage.unchanged(() => lanes.reassign(id, b));
      expect(await move(flat.id)).toBe('not found');
      expect(await move(MISSING)).toBe('not found');
      expect(await move(held?.id ?? '')).toBe('not pending');
      expect(await move(later.id)).toBe('not pending');
    });
  });

  describe('drain', () => {
    it('takes out all that waits, in steps, and leaves jobs in flight, locked ones, settings and other lanes', async () => {
      const ids = await fill(a, 350);
      await fill(b, 1);
      await lanes.setLimit(a, 7);
      const held = await lanes.claim(LEASE);
      const locked = ids.slice(100, 103);
      for (const id of locked) await stage.raw.set(`${jobs.keys.job(id)}:lock`, 'w', 'PX', MINUTE);
      expect(await lanes.drain(a)).toEqual({ removed: 346, kept: 3 });
      expect(await lanes.info([a, b])).toMatchObject([
        { waiting: 3, active: 1, limit: 7 },
        { waiting: 1, active: 0 },
      ]);
      expect(await jobs.complete(held ?? { id: MISSING, token: 1 })).toBe('completed');
      await stage.raw.del(...locked.map((id) => `${jobs.keys.job(id)}:lock`));
      expect(await lanes.drain(a)).toEqual({ removed: 3, kept: 0 });
      expect(await lanes.drain(a)).toEqual({ removed: 0, kept: 0 });
      expect(await ring()).toEqual([b]);
      expect(await stage.raw.keys(`${jobs.keys.base}job:*`)).toHaveLength(1);
    });
  });

  describe('reap', () => {
    it('brings back the lapsed jobs of one lane, though 100 of others come before them', async () => {
      await fill(b, 130);
      const others = await lanes.claimBatch({ ...LEASE, size: 130 });
      await fill(a, 3);
      const mine = await lanes.claimBatch({ ...LEASE, size: 3 });
      expect(others).toHaveLength(130);
      const scores = [...others.map(({ id }) => [1, id]), ...mine.slice(0, 2).map(({ id }) => [2, id])];
      await stage.raw.zadd(jobs.keys.active, 'XX', ...(scores.flat() as [number, string]));
      expect(await lanes.reap(a)).toBe(2);
      expect(await lanes.reap(a)).toBe(0);
      expect(await lanes.info([a, b])).toMatchObject([
        { waiting: 2, active: 1 },
        { waiting: 0, active: 130 },
      ]);
      expect(await lanes.claim(LEASE)).toMatchObject({ group: a, token: 2 });
      expect(await lanes.reap(mint('TEN'))).toBe(0);
      expect(await lanes.reap(b)).toBe(130);
    });
  });

  describe('listing', () => {
    it('has lanes in every condition, each once; configured ones by option', async () => {
      await fill(a, 2); // ready
      await fill(b, 1); // paused
      await lanes.pause(b);
      await fill(c, 2); // at its limit
      await lanes.setLimit(c, 1);
      await fill(d, 1); // in flight, nothing waits
      await lanes.setRate(e, { max: 1, durationMs: 10 * MINUTE });
      await fill(e, 2); // waits for its rate
      const taken = await jobs.take({ ...LEASE, count: 5, source: 'lanes' });
      expect(taken).toHaveLength(5);
      // nothing of that lane is in flight then
      for (const job of taken) if (job.group === e) await jobs.complete(job);
      await fill(a, 1);
      const configured = mint('ZZZ');
      await lanes.setWeight(configured, 2);
      const states = new Map((await all()).map(({ group, ...lane }) => [group, lane] as const));
      expect(states.size).toBe(5);
      expect(states.get(a)).toEqual({
        ...{ waiting: 1, active: 2, limit: null, weight: 1, rate: null, state: 'ready', waitsUntil: null },
      });
      expect(states.get(b)).toMatchObject({ waiting: 1, active: 0, state: 'paused' });
      expect(states.get(c)).toMatchObject({ waiting: 1, active: 1, limit: 1, state: 'at limit' });
      expect(states.get(d)).toMatchObject({ waiting: 0, active: 1, state: 'empty' });
      expect(states.get(e)).toMatchObject({ waiting: 1, active: 0, state: 'waits' });
      expect((await all({ configured: true })).at(-1)).toMatchObject({ group: configured, weight: 2, waiting: 0 });
      expect(await all({ configured: true })).toHaveLength(6);
    });

    it('goes over a thousand lanes, in flight and on the ring', async () => {
      const groups = Array.from({ length: 1_000 }, () => mint('TEN')).sort();
      await lanes.enqueueMany(groups.map((group) => ({ group, payload: 1 })));
      await jobs.take({ ...LEASE, count: 700, source: 'lanes' });
      const found = await all();
      expect(found.map(({ group }) => group)).toEqual(groups);
      expect(found.filter(({ active, state }) => active === 1 && state === 'empty')).toHaveLength(700);
    });

    it('asks nothing when it is not read', async () => {
      const before = stage.connector.stats().calls;
      lanes.list();
      expect(stage.connector.stats().calls).toBe(before);
      expect(await all()).toEqual([]);
    });
  });

  describe('wrong input', () => {
    it.each<[string, () => Promise<unknown>, RegExp]>([
      ['a group', () => lanes.enqueue('tenant', 1), /group "tenant" must be a branded id/],
      ['an item without a group', () => lanes.enqueueMany([{ payload: 1 } as never]), /group undefined must be/],
      ['a group in the options', () => lanes.enqueue(a, 1, { group: b } as never), /unknown option "group"/],
      ['* where one lane is meant', () => lanes.pause('*'), /group "\*" must be/],
      ['* drained', () => lanes.drain('*'), /group "\*" must be/],
      ['a limit of 0', () => lanes.setLimit(a, 0), /limit must be an integer from 1/],
      ['a weight that is no number', () => lanes.setWeight(a, '2' as never), /weight must be an integer/],
      ['a rate without max', () => lanes.setRate(a, {} as never), /max of rate must be an integer/],
      ['a window of a month', () => lanes.setRate(a, { max: 1, durationMs: 2 ** 31 }), /durationMs of rate must be/],
      ['an unknown part of a rate', () => lanes.setRate(a, { max: 1, per: 1 } as never), /unknown option "per"/],
      ['min above size', () => lanes.claimBatch({ ...LEASE, size: 2, min: 3 }), /min must not be more than size/],
      ['a job id', () => lanes.reassign('1', a), /job id "1" must be a branded id/],
      ['an option of list', () => all({ configured: 1 as never }), /configured must be true or false/],
    ])('%s', async (_what, act, text) => {
      expect((await stage.refused('EMQ_INPUT', act)).reason).toMatch(text);
    });

    it('a queue, as for flows', () => {
      const of =
        (...words: unknown[]) =>
        () =>
          new Lanes(...(words as [never, never]));
      expect(of(stage.connector, 'a b')).toThrow(/queue name "a b"/);
      expect(of(stage.connector, 5)).toThrow(/queue of Lanes must be a name, a Jobs or a Queue/);
      expect(of('q', 'q')).toThrow(/first argument of Lanes is a Connector/);
      expect(of({}, 'q')).toThrow(/first argument of Lanes is a Connector/);
      expect(of(stage.connector, jobs, { maxPayloadBytes: 1 })).toThrow(/brings its codec/);
      expect(of({ run() {}, runAll() {} }, jobs)).toThrow(/another connector/);
      expect(of(stage.connector, jobs)).not.toThrow();
    });
  });
});
