/**
 * The lock as a field of the row: conformance scenarios 58 and 59.
 *
 * A client that has hash field expiry may hold a job by a field `lock` of its row with a time of its own, instead of, or beside,
 * the key `:lock`. This client writes neither; every verb of an operator that takes jobs out respects both.
 * Where a server cannot let a field expire (before Valkey 9) nobody can hold by one, and the scenarios are not run.
 */
import { expect, vi } from 'vitest';
import { Admin, type Jobs } from '../../src/index.js';
import type { Scenario } from './scenario.js';
import { claimed, MINUTE, type Stage } from './stage.js';

const PATIENCE = { timeout: 10_000, interval: 2 };

/** Holds a job by the field, as that client does: the token, and a time for this one field. */
async function hold({ raw }: Stage, jobs: Jobs, id: string, ms: number): Promise<void> {
  await raw.hset(jobs.keys.job(id), 'lock', '1');
  expect(await expireIn({ raw }, jobs, id, ms)).toEqual([1]);
}

/** Gives the field another time to live. */
function expireIn({ raw }: Pick<Stage, 'raw'>, jobs: Jobs, id: string, ms: number): Promise<unknown> {
  return raw.call('HPEXPIRE', jobs.keys.job(id), ms, 'FIELDS', 1, 'lock');
}

/** How long the field has to live, in ms; -1 without end, -2 when it is gone. */
async function ttl({ raw }: Stage, jobs: Jobs, id: string): Promise<number> {
  const [left] = (await raw.call('HPTTL', jobs.keys.job(id), 'FIELDS', 1, 'lock')) as [number];
  return left;
}

/** Lets its time come, and waits until the server has let it go by itself. */
async function letGo(stage: Stage, jobs: Jobs, id: string): Promise<void> {
  await expireIn(stage, jobs, id, 1);
  await vi.waitUntil(async () => (await ttl(stage, jobs, id)) === -2, PATIENCE);
}

export const lockPlane: readonly Scenario[] = [
  {
    number: 58,
    name: 'native_lock_field',
    needs: 'hash field expiry',
    shows:
      'a field lock with a time goes by itself at its end; the rest of the row stays, and no step takes its time away',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 58);
      const row = jobs.keys.job(job.id);
      const before = await stage.raw.hgetall(row);
      await hold(stage, jobs, job.id, MINUTE);
      expect(await ttl(stage, jobs, job.id)).toBeGreaterThan(0);
      // Unknown fields survive every step (contract 3), and so does the time of this one.
      await jobs.release(job);
      const again = await jobs.claim({ leaseMs: MINUTE });
      expect(again).toMatchObject({ id: job.id, token: 2 });
      const left = await ttl(stage, jobs, job.id);
      expect(left).toBeGreaterThan(0);
      expect(left).toBeLessThanOrEqual(MINUTE);

      await letGo(stage, jobs, job.id);
      const { lock, ...rest } = await stage.raw.hgetall(row);
      expect(lock).toBeUndefined();
      expect(rest).toEqual({ ...before, attempts: '2', credit: '1' });
      // The lock is no lease: the job is still its worker's.
      expect(await jobs.state(job.id)).toBe('active');
      expect(await jobs.complete(again!)).toBe('completed');
      expect(await stage.raw.exists(row)).toBe(0);
    },
  },
  {
    number: 59,
    name: 'native_lock_refuses',
    needs: 'hash field expiry',
    shows:
      'where only the field holds, remove and cancel refuse and a drain leaves the job; when it is gone they do not',
    async play({ stage, jobs }) {
      const admin = new Admin(stage.connector, jobs.queue);
      const ids: string[] = [];
      for (const n of [1, 2, 3]) ids.push((await jobs.enqueue(n)).id);
      const [removed = '', cancelled = '', drained = ''] = ids;
      for (const id of ids) {
        await hold(stage, jobs, id, MINUTE);
        expect(await stage.raw.exists(`${jobs.keys.job(id)}:lock`)).toBe(0);
      }
      expect((await stage.refused('EMQLOCK', () => jobs.remove(removed))).reason).toBe('EMQLOCK job is locked');
      await stage.refused('EMQLOCK', () => jobs.cancel(cancelled));
      expect(await stage.unchanged(() => admin.drain())).toEqual({ removed: 0, kept: 3 });
      expect(await jobs.counts(['pending'])).toEqual({ pending: 3 });

      for (const id of ids) await letGo(stage, jobs, id);
      expect(await jobs.remove(removed)).toBe('removed');
      expect(await jobs.cancel(cancelled)).toBe('removed');
      expect(await admin.drain()).toEqual({ removed: 1, kept: 0 });
      for (const id of [removed, cancelled, drained]) expect(await jobs.state(id)).toBe('absent');
    },
  },
];
