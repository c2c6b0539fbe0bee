/**
 * The scenes of verbs.ts: jobs in the places and conditions in which a verb does something of its own.
 *
 * Invariants: set by an administrator, on a queue that was empty. Does not: call the verb.
 */
import type { Redis } from 'ioredis';
import { mint, type Jobs } from '../../src/index.js';
import { claimed, MINUTE } from './stage.js';

/** Who sets the scene: the verbs of the same queue with all rights, and a raw client. */
export interface Admin {
  readonly jobs: Jobs<unknown>;
  readonly raw: Redis;
}

export const GROUP = 'GRP0KHTOWnGLuC';
export const RETRY = { delayMs: MINUTE, maxAttempts: 5, error: 'no' };
export const DEATH = { delayMs: MINUTE, maxAttempts: 1, error: 'no' };

/** A claimed job of a lane that has `inFlight` jobs in flight and one more that waits. */
export async function inLane({ jobs, raw }: Admin, inFlight = 2): Promise<{ id: string; token: number }> {
  const job = await claimed(jobs, 'in a lane');
  const { id: waiting } = await jobs.enqueue('waits in the lane');
  const { base } = jobs.keys;
  await raw
    .multi()
    .hset(jobs.keys.job(job.id), 'group', GROUP)
    .hset(`${base}gactive`, GROUP, inFlight)
    .zrem(jobs.keys.pending, waiting)
    .hset(jobs.keys.job(waiting), 'group', GROUP)
    .zadd(`${base}g:${GROUP}:pending`, 0, waiting)
    .del(jobs.keys.wake)
    .exec();
  return { id: job.id, token: job.token };
}

/** The only waiting job of a lane on the ring, claimed once and swept since: whoever settles it empties the lane. */
export async function lastInLane({ jobs, raw }: Admin): Promise<{ id: string; token: number }> {
  const job = await claimed(jobs, 'last in its lane');
  const { base } = jobs.keys;
  await raw
    .multi()
    .hset(jobs.keys.job(job.id), 'group', GROUP, 'state', 'pending')
    .zrem(jobs.keys.active, job.id)
    .zadd(`${base}g:${GROUP}:pending`, 0, job.id)
    .rpush(`${base}ring`, GROUP)
    .exec();
  return { id: job.id, token: job.token };
}

/** A claimed child of a flow. */
export async function child({ jobs, raw }: Admin): Promise<{ id: string; token: number }> {
  const job = await claimed(jobs, 'a child');
  await raw.hset(jobs.keys.job(job.id), 'parent', mint());
  return { id: job.id, token: job.token };
}

/** A lease, or the waiting time, is over. */
export const lapse = (raw: Redis, set: string, id: string) => raw.zadd(set, 'XX', 1, id);

export async function scheduled({ jobs, raw }: Admin, group?: string): Promise<string> {
  const { id } = await jobs.schedule('later', { inMs: MINUTE });
  if (group !== undefined) await raw.hset(jobs.keys.job(id), 'group', group);
  await lapse(raw, jobs.keys.schedule, id);
  return id;
}

export async function dead(admin: Admin, group?: string): Promise<string> {
  const job = await claimed(admin.jobs, 'dies');
  await admin.jobs.fail(job, DEATH);
  if (group !== undefined) await admin.raw.hset(admin.jobs.keys.job(job.id), 'group', group);
  return job.id;
}
