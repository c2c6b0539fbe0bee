/**
 * Dedup ids, limits, repeats, drain and obliterate: conformance scenarios 16, 22, 23, 26, 27 and 40.
 */
import { expect } from 'vitest';
import { Admin, mint, Repeats } from '../../src/index.js';
import type { Scenario, Scene } from './scenario.js';
import { claimed, MINUTE } from './stage.js';

const LEASE = { leaseMs: MINUTE };
const adminOf = ({ stage, jobs }: Scene): Admin => new Admin(stage.connector, jobs.queue);

export const controlPlane: readonly Scenario[] = [
  {
    number: 16,
    name: 'repeat',
    shows: 'one repeat makes a job for each of two slots, with ids of their own, the first before the second',
    async play({ stage, jobs }) {
      const repeats = new Repeats(stage.connector, jobs.queue);
      await repeats.upsert('tick', { everyMs: 10, immediately: true }, { payload: 'tick' });
      // The original waits for the second slot; here the first is made to be over.
      expect(await repeats.fire()).toMatchObject({ fired: 1, errors: [] });
      const next = Number(await stage.raw.zscore(jobs.keys.repeat, 'tick'));
      await stage.raw.zadd(jobs.keys.repeat, 'XX', next - MINUTE, 'tick');
      await stage.raw.hset(`${jobs.keys.base}repeat:tick`, 'next', next - MINUTE);
      expect(await repeats.fire()).toMatchObject({ fired: 1, errors: [] });
      const [first, second] = await jobs.take({ ...LEASE, count: 5 });
      expect(first?.id !== undefined && second?.id !== undefined && first.id < second.id).toBe(true);
      expect([first?.payload, second?.payload]).toEqual(['tick', 'tick']);
      expect(await repeats.get('tick')).toMatchObject({ count: 2 });
    },
  },
  {
    number: 22,
    name: 'dedup',
    shows: 'a dedup id tells which job has it; one that nobody has tells nobody',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue(22, { dedup: { id: 'order-22', ttlMs: MINUTE } });
      const owner = await stage.unchanged(() => jobs.dedupOwner('order-22'));
      expect(owner?.id).toBe(id);
      expect(owner?.ttlMs).toBeGreaterThan(0);
      expect(await jobs.dedupOwner('order-23')).toBeNull();
    },
  },
  {
    number: 23,
    name: 'rate',
    shows: 'with a concurrency of 1 the gate is open before, and EMQRATE at the ceiling; claims look at it themselves',
    async play(scene) {
      const { stage, jobs } = scene;
      await adminOf(scene).setLimits({ concurrency: 1 });
      expect(await stage.unchanged(() => jobs.consult())).toBe('ok');
      const job = await claimed(jobs, 23);
      await jobs.enqueue(24);
      const error = await stage.refused('EMQRATE', () => jobs.consult());
      expect(error.reason).toBe('EMQRATE at concurrency ceiling');
      expect(await stage.unchanged(() => jobs.claim(LEASE))).toBeNull();
      await jobs.complete(job);
      expect(await jobs.consult()).toBe('ok');
    },
  },
  {
    number: 26,
    name: 'drain',
    shows: 'three waiting jobs go with their rows; the one in flight stays',
    async play(scene) {
      const { stage, jobs } = scene;
      const held = await claimed(jobs, 26);
      await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }, { payload: 3 }]);
      expect(await adminOf(scene).drain()).toEqual({ removed: 3, kept: 0 });
      expect(await stage.raw.keys(`${jobs.keys.base}job:*`)).toEqual([jobs.keys.job(held.id)]);
      expect(await jobs.complete(held)).toBe('completed');
    },
  },
  {
    number: 27,
    name: 'obliterate',
    shows: 'a queue that is not paused is refused and unchanged; paused, nothing is left of it',
    async play(scene) {
      const { stage, jobs } = scene;
      const admin = adminOf(scene);
      await jobs.fail(await claimed(jobs, 27), { delayMs: 0, maxAttempts: 1, error: 'no' });
      await jobs.enqueue(1);
      await jobs.schedule(2, { inMs: MINUTE });
      const error = await stage.refused('EMQSTATE', () => admin.obliterate());
      expect(error.reason).toMatch(/^EMQSTATE not paused/);
      await admin.pause();
      await admin.obliterate();
      expect(await jobs.counts(['pending', 'active', 'scheduled', 'dead'])).toEqual({
        ...{ pending: 0, active: 0, scheduled: 0, dead: 0 },
      });
      expect(await stage.raw.keys(`${jobs.keys.base}*`)).toEqual([]);
    },
  },
  {
    number: 40,
    name: 'dedup_release',
    shows: 'a removal frees the dedup key that holds its job, and leaves one that holds another',
    async play({ stage, jobs }) {
      const own = await jobs.enqueue(1, { dedup: { id: 'own' } });
      expect(await jobs.remove(own.id)).toBe('removed');
      expect(await jobs.dedupOwner('own')).toBeNull();
      // And a key that is named with the removal, as in the original.
      const named = await jobs.enqueue(2);
      const other = mint();
      await stage.raw.mset(jobs.keys.dedup('named'), named.id, jobs.keys.dedup('other'), other);
      expect(await jobs.remove(named.id, { dedupId: 'named' })).toBe('removed');
      expect(await jobs.dedupOwner('named')).toBeNull();
      const last = await jobs.enqueue(3);
      expect(await jobs.remove(last.id, { dedupId: 'other' })).toBe('removed');
      expect((await jobs.dedupOwner('other'))?.id).toBe(other);
    },
  },
];
