/**
 * Every verb of `Jobs`, each with a scene in which it does its work, and variants that reach every command a verb may
 * run: a late settle, a job in a lane, a flow child, a ghost, a job at its cap.
 *
 * The scene is set by an administrator, the verb is then called by whoever is under test: on either executor, by a user
 * with few rights, on a replica. Invariants: a scene needs nothing but an empty queue; `gives` is the outcome where the
 * verb may do what it wants; jobs.test.ts fails if a method of `Jobs` is missing here.
 * Does not: hand in wrong input.
 */
import { mint, type Jobs } from '../../src/index.js';
import { child, dead, DEATH, GROUP, inLane, lapse, lastInLane, RETRY, scheduled, type Admin } from './scenes.js';
import { claimed, MINUTE } from './stage.js';
import { controlReads, controlWrites } from './verbs-controls.js';
import { workerWrites } from './verbs-worker.js';

export type VerbName = Exclude<keyof Jobs, 'queue' | 'keys'>;

export interface Verb {
  readonly verb: VerbName;
  /** What is special about this scene; empty for the plain one. */
  readonly variant: string;
  /** False for a read. */
  readonly writes: boolean;
  /** What it answers; a function judges it. */
  readonly gives: unknown;
  /** Sets the scene, and gives the call. */
  readonly scene: (admin: Admin) => Promise<(jobs: Jobs<unknown>) => Promise<unknown>>;
}

/** The title of a row: `fail (in a lane)`. */
export const titleOf = ({ verb, variant }: Pick<Verb, 'verb' | 'variant'>): string =>
  variant === '' ? verb : `${verb} (${variant})`;

const LEASE = { leaseMs: MINUTE };

const ofOutcome = (outcome: string) => (answer: unknown) => (answer as { outcome: string }).outcome === outcome;
const anyJob = (answer: unknown) => typeof (answer as { id: string } | null)?.id === 'string';

/** The verb, the variant, what it gives, the scene. */
export type Row = readonly [VerbName, string, unknown, Verb['scene']];

const writes: readonly Row[] = [
  ['enqueue', '', ofOutcome('enqueued'), async () => (jobs) => jobs.enqueue(1)],
  [
    'enqueue',
    'own id, priority and opts',
    ofOutcome('enqueued'),
    async () => {
      const options = { id: mint(), priority: 3, opts: { name: 'mail' } };
      return (jobs) => jobs.enqueue(1, options);
    },
  ],
  [
    'enqueueMany',
    '',
    (answer: unknown) => (answer as unknown[]).every(ofOutcome('enqueued')),
    async () => (jobs) => jobs.enqueueMany([{ payload: 1 }, { payload: 2, priority: 1 }]),
  ],
  ['schedule', '', ofOutcome('scheduled'), async () => (jobs) => jobs.schedule(1, { inMs: MINUTE })],
  [
    'schedule',
    'own id, at a time',
    ofOutcome('scheduled'),
    async () => {
      const id = mint();
      return (jobs) => jobs.schedule(1, { at: Date.now() + MINUTE }, { id });
    },
  ],
  [
    'claim',
    '',
    anyJob,
    async ({ jobs }) => {
      await jobs.enqueue(1);
      return (by) => by.claim(LEASE);
    },
  ],
  [
    'claim',
    'a lease of another executor',
    anyJob,
    async ({ jobs, raw }) => {
      const { id } = await jobs.enqueue(1);
      await raw.hset(jobs.keys.job(id), 'lease_epoch', 'another');
      return (by) => by.claim(LEASE);
    },
  ],
  [
    'claim',
    'a ghost',
    null,
    async ({ jobs, raw }) => {
      await raw.zadd(jobs.keys.pending, 0, mint());
      return (by) => by.claim(LEASE);
    },
  ],
  [
    'claimBatch',
    '',
    (answer: unknown) => (answer as unknown[]).length === 2,
    async ({ jobs }) => {
      await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }]);
      return (by) => by.claimBatch({ ...LEASE, size: 5 });
    },
  ],
  [
    'complete',
    '',
    'completed',
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.complete(job);
    },
  ],
  [
    'complete',
    'late, after a reap',
    'completed',
    async ({ jobs, raw }) => {
      const job = await claimed(jobs, 1);
      await lapse(raw, jobs.keys.active, job.id);
      await jobs.reap();
      return (by) => by.complete(job);
    },
  ],
  [
    'complete',
    'in a lane',
    'completed',
    async (admin) => {
      const job = await inLane(admin);
      return (by) => by.complete(job);
    },
  ],
  [
    'complete',
    'last in flight of its lane',
    'completed',
    async (admin) => {
      const job = await inLane(admin, 1);
      return (by) => by.complete(job);
    },
  ],
  [
    'complete',
    'late, last in its lane',
    'completed',
    async (admin) => {
      const job = await lastInLane(admin);
      return (by) => by.complete(job);
    },
  ],
  [
    'fail',
    '',
    'scheduled',
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.fail(job, RETRY);
    },
  ],
  [
    'fail',
    'at its cap',
    'dead',
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.fail(job, DEATH);
    },
  ],
  [
    'fail',
    'late, after a reap',
    'scheduled',
    async ({ jobs, raw }) => {
      const job = await claimed(jobs, 1);
      await lapse(raw, jobs.keys.active, job.id);
      await jobs.reap();
      return (by) => by.fail(job, RETRY);
    },
  ],
  [
    'fail',
    'in a lane',
    'scheduled',
    async (admin) => {
      const job = await inLane(admin);
      return (by) => by.fail(job, RETRY);
    },
  ],
  [
    'fail',
    'late, last in its lane',
    'scheduled',
    async (admin) => {
      const job = await lastInLane(admin);
      return (by) => by.fail(job, RETRY);
    },
  ],
  [
    'delay',
    '',
    'scheduled',
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.delay(job, { inMs: MINUTE });
    },
  ],
  [
    'delay',
    'in a lane',
    'scheduled',
    async (admin) => {
      const job = await inLane(admin);
      return (by) => by.delay(job, { inMs: MINUTE });
    },
  ],
  [
    'extend',
    '',
    'extended',
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.extend(job, { leaseMs: 2 * MINUTE });
    },
  ],
  [
    'extendMany',
    '',
    [],
    async ({ jobs }) => {
      const job = await claimed(jobs, 1);
      return (by) => by.extendMany([job], { leaseMs: 2 * MINUTE });
    },
  ],
  [
    'promote',
    '',
    1,
    async (admin) => {
      await scheduled(admin);
      return (by) => by.promote();
    },
  ],
  [
    'promote',
    'into a lane',
    1,
    async (admin) => {
      await scheduled(admin, GROUP);
      return (by) => by.promote();
    },
  ],
  [
    'reap',
    '',
    1,
    async ({ jobs, raw }) => {
      const job = await claimed(jobs, 1);
      await lapse(raw, jobs.keys.active, job.id);
      return (by) => by.reap();
    },
  ],
  [
    'reap',
    'in a lane',
    1,
    async (admin) => {
      const job = await inLane(admin);
      await lapse(admin.raw, admin.jobs.keys.active, job.id);
      return (by) => by.reap();
    },
  ],
  [
    'stalledCheck',
    '',
    (answer: unknown) => (answer as { recovered: unknown[] }).recovered.length === 1,
    async ({ jobs, raw }) => {
      const job = await claimed(jobs, 1);
      await lapse(raw, jobs.keys.active, job.id);
      return (by) => by.stalledCheck();
    },
  ],
  [
    'stalledCheck',
    'a lane',
    (answer: unknown) => (answer as { recovered: unknown[] }).recovered.length === 1,
    async (admin) => {
      const job = await inLane(admin);
      await lapse(admin.raw, admin.jobs.keys.active, job.id);
      return (by) => by.stalledCheck();
    },
  ],
  [
    'stalledCheck',
    'a flow child dies',
    (answer: unknown) => (answer as { dead: unknown[] }).dead.length === 1,
    async (admin) => {
      const job = await child(admin);
      await lapse(admin.raw, admin.jobs.keys.active, job.id);
      return (by) => by.stalledCheck({ maxStalled: 1 });
    },
  ],
  ['pause', '', undefined, async () => (by) => by.pause()],
  [
    'resume',
    '',
    undefined,
    async ({ jobs }) => {
      await jobs.pause();
      return (by) => by.resume();
    },
  ],
  [
    'updateData',
    '',
    'updated',
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.updateData(id, 2);
    },
  ],
  [
    'updateProgress',
    '',
    'updated',
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.updateProgress(id, 50);
    },
  ],
  [
    'addLog',
    '',
    1,
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.addLog(id, 'line');
    },
  ],
  [
    'addLog',
    'dropping the oldest',
    1,
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      await jobs.addLog(id, 'first');
      return (by) => by.addLog(id, 'second', { keep: 1 });
    },
  ],
  [
    'remove',
    '',
    'removed',
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.remove(id);
    },
  ],
  [
    'remove',
    'with its dedup key',
    'removed',
    async ({ jobs, raw }) => {
      const { id } = await jobs.enqueue(1);
      await raw.set(jobs.keys.dedup('d'), id, 'PX', MINUTE);
      return (by) => by.remove(id, { dedupId: 'd' });
    },
  ],
  [
    'remove',
    'in flight in a lane',
    'removed',
    async (admin) => {
      const { id } = await inLane(admin);
      return (by) => by.remove(id);
    },
  ],
  [
    'remove',
    'last in its lane',
    'removed',
    async (admin) => {
      const { id } = await lastInLane(admin);
      return (by) => by.remove(id);
    },
  ],
  [
    'remove',
    'a flow child',
    'removed',
    async (admin) => {
      const { id } = await child(admin);
      return (by) => by.remove(id);
    },
  ],
  [
    'reprocess',
    '',
    'pending',
    async (admin) => {
      const id = await dead(admin);
      return (by) => by.reprocess(id);
    },
  ],
  [
    'reprocess',
    'into a lane',
    'pending',
    async (admin) => {
      const id = await dead(admin, GROUP);
      return (by) => by.reprocess(id);
    },
  ],
];

const reads: readonly Row[] = [
  [
    'get',
    '',
    anyJob,
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.get(id);
    },
  ],
  [
    'state',
    '',
    'pending',
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      return (by) => by.state(id);
    },
  ],
  [
    'state',
    'in a lane',
    'pending',
    async (admin) => {
      const { id } = await lastInLane(admin);
      return (by) => by.state(id);
    },
  ],
  [
    'browse',
    '',
    (answer: unknown) => (answer as unknown[]).length === 1,
    async ({ jobs }) => {
      await jobs.enqueue(1);
      return (by) => by.browse('pending');
    },
  ],
  [
    'counts',
    '',
    { pending: 1, active: 0, scheduled: 0, dead: 0, awaiting_children: 0, completed: 0, failed: 0 },
    async ({ jobs }) => {
      await jobs.enqueue(1);
      return (by) => by.counts();
    },
  ],
  [
    'metrics',
    '',
    { count: 1 },
    async ({ jobs }) => {
      await jobs.complete(await claimed(jobs, 1));
      return (by) => by.metrics('completed');
    },
  ],
  [
    'logs',
    '',
    (answer: unknown) => String(answer) === 'line',
    async ({ jobs }) => {
      const { id } = await jobs.enqueue(1);
      await jobs.addLog(id, 'line');
      return (by) => by.logs(id);
    },
  ],
];

const verb =
  (writing: boolean) =>
  ([name, variant, gives, scene]: Row): Verb => ({ verb: name, variant, writes: writing, gives, scene });

export const verbs: readonly Verb[] = [
  ...[...writes, ...workerWrites, ...controlWrites].map(verb(true)),
  ...[...reads, ...controlReads].map(verb(false)),
];
