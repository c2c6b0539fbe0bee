/**
 * The verbs that a consumer calls besides the settles, and those that bear on it: rows of the table in verbs.ts.
 *
 * Invariants and limits are those of verbs.ts.
 */
import { mint } from '../../src/index.js';
import { child, GROUP, inLane, lapse, lastInLane, scheduled, type Admin } from './scenes.js';
import { claimed, MINUTE } from './stage.js';
import type { Row } from './verbs.js';

const LEASE = { leaseMs: MINUTE };
const many = (count: number) => (answer: unknown) => (answer as unknown[]).length === count;

/** A lane on the ring with two jobs that wait, below its limit. */
async function openLane({ jobs, raw }: Admin): Promise<void> {
  const { base } = jobs.keys;
  for (let i = 0; i < 2; i += 1) {
    const { id } = await jobs.enqueue('waits in the lane');
    await raw.zrem(jobs.keys.pending, id);
    await raw.hset(jobs.keys.job(id), 'group', GROUP);
    await raw.zadd(`${base}g:${GROUP}:pending`, 0, id);
  }
  await raw.hset(`${base}glimit`, GROUP, 9);
  await raw.rpush(`${base}ring`, GROUP);
  await raw.del(jobs.keys.wake);
}

/** One more job, whose row cannot be read. */
async function unreadable({ jobs, raw }: Admin, set: string, id: string): Promise<void> {
  await raw.hset(jobs.keys.job(id), 'credit', 'x');
  if (set !== jobs.keys.pending) await lapse(raw, set, id);
}

export const workerWrites: readonly Row[] = [
  [
    'take',
    '',
    many(1),
    async ({ jobs }) => {
      await jobs.enqueue(1, { opts: { name: 'mail' } });
      return (by) => by.take({ ...LEASE, count: 5, source: 'flat' });
    },
  ],
  [
    'take',
    'a lease of another executor',
    many(1),
    async ({ jobs, raw }) => {
      const { id } = await jobs.enqueue(1);
      await raw.hset(jobs.keys.job(id), 'lease_epoch', 'another');
      return (by) => by.take({ ...LEASE, count: 5, source: 'flat' });
    },
  ],
  [
    'take',
    'a ghost',
    [],
    async ({ jobs, raw }) => {
      await raw.zadd(jobs.keys.pending, 0, mint());
      return (by) => by.take({ ...LEASE, count: 1 });
    },
  ],
  [
    'take',
    'and more wait',
    many(1),
    async ({ jobs, raw }) => {
      await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }]);
      await raw.del(jobs.keys.wake);
      return (by) => by.take({ ...LEASE, count: 1 });
    },
  ],
  [
    'take',
    'from a lane, and more wait',
    many(1),
    async (admin) => {
      await openLane(admin);
      return (by) => by.take({ ...LEASE, count: 1, source: 'lanes' });
    },
  ],
  [
    'take',
    'the last of a lane',
    many(1),
    async (admin) => {
      await lastInLane(admin);
      return (by) => by.take({ ...LEASE, count: 5 });
    },
  ],
  [
    'release',
    '',
    'released',
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.release(job);
    },
  ],
  [
    'release',
    'in a lane',
    'released',
    async (admin) => {
      const job = await inLane(admin);
      return (by) => by.release(job);
    },
  ],
  [
    'quarantine',
    '',
    many(1),
    async (admin) => {
      const { id } = await admin.jobs.enqueue(1);
      await unreadable(admin, admin.jobs.keys.pending, id);
      return (by) => by.quarantine();
    },
  ],
  [
    'quarantine',
    'in flight in a lane',
    many(1),
    async (admin) => {
      const { id } = await inLane(admin);
      await unreadable(admin, admin.jobs.keys.active, id);
      return (by) => by.quarantine();
    },
  ],
  [
    'quarantine',
    'the last of a lane',
    many(1),
    async (admin) => {
      const { id } = await lastInLane(admin);
      await admin.raw.hset(admin.jobs.keys.job(id), 'stalled', 'x');
      return (by) => by.quarantine();
    },
  ],
  [
    'quarantine',
    'the only one in flight of its lane, a flow child',
    many(1),
    async (admin) => {
      const { id } = await child(admin);
      await admin.raw.hset(admin.jobs.keys.job(id), 'group', GROUP);
      await admin.raw.hset(`${admin.jobs.keys.base}gactive`, GROUP, 1);
      await unreadable(admin, admin.jobs.keys.active, id);
      return (by) => by.quarantine();
    },
  ],
  [
    'cancel',
    '',
    'removed',
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.cancel(id);
    },
  ],
  [
    'cancel',
    'running',
    'signalled',
    async ({ jobs }) => {
      const { id } = await claimed(jobs, 1);
      return (by) => by.cancel(id, 'no longer wanted');
    },
  ],
  [
    'cancel',
    'last in its lane',
    'removed',
    async (admin) => {
      const { id } = await lastInLane(admin);
      return (by) => by.cancel(id);
    },
  ],
  [
    'cancel',
    'a scheduled flow child',
    'removed',
    async (admin) => {
      const id = await scheduled(admin);
      await admin.raw.hset(admin.jobs.keys.job(id), 'parent', mint());
      return (by) => by.cancel(id);
    },
  ],
  ['setRecovery', '', undefined, async () => (by) => by.setRecovery('stalled')],
];
