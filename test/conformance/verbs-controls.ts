/**
 * The verbs of lanes, dedup ids, limits and the schedule: rows of the table in verbs.ts.
 *
 * Invariants and limits are those of verbs.ts.
 */
import { mint } from '../../src/index.js';
import { GROUP, lapse, scheduled } from './scenes.js';
import { MINUTE } from './stage.js';
import type { Row } from './verbs.js';

const LEASE = { leaseMs: MINUTE };
const outcome = (word: string) => (answer: unknown) => (answer as { outcome: string }).outcome === word;

export const controlWrites: readonly Row[] = [
  [
    'enqueue',
    'into a lane',
    outcome('enqueued'),
    async () => {
      const id = mint();
      return (jobs) => jobs.enqueue(1, { id, group: GROUP, name: 'mail' });
    },
  ],
  [
    'enqueue',
    'with a dedup id',
    outcome('enqueued'),
    async () => {
      const id = mint();
      return (jobs) => jobs.enqueue(1, { id, dedup: { id: 'd', ttlMs: MINUTE, keep: true } });
    },
  ],
  [
    'enqueue',
    'replacing a waiting payload',
    outcome('replaced'),
    async ({ jobs }) => {
      const [id, dedup] = [mint(), { id: 'd', mode: 'replace', ttlMs: MINUTE } as const];
      await jobs.enqueue(1, { dedup });
      return (by) => by.enqueue(2, { id, name: 'mail', dedup });
    },
  ],
  [
    'schedule',
    'into a lane, with a dedup id',
    outcome('scheduled'),
    async () => {
      const id = mint();
      return (jobs) => jobs.schedule(1, { inMs: MINUTE }, { id, group: GROUP, dedup: { id: 'd' } });
    },
  ],
  [
    'complete',
    'freeing its dedup id',
    'completed',
    async ({ jobs }) => {
      await jobs.enqueue(1, { dedup: { id: 'd' } });
      const job = await jobs.claim(LEASE);
      return (by) => by.complete(job ?? { id: mint(), token: 1 });
    },
  ],
  [
    'fail',
    'at its cap, freeing its dedup id',
    'dead',
    async ({ jobs }) => {
      await jobs.enqueue(1, { dedup: { id: 'd' } });
      const job = await jobs.claim(LEASE);
      return (by) => by.fail(job ?? { id: mint(), token: 1 }, { delayMs: 0, maxAttempts: 1, error: 'no' });
    },
  ],
  [
    'stalledCheck',
    'a death that frees its dedup id',
    (answer: unknown) => (answer as { dead: unknown[] }).dead.length === 1,
    async ({ jobs, raw }) => {
      const { id } = await jobs.enqueue(1, { dedup: { id: 'd' } });
      await jobs.claim(LEASE);
      await lapse(raw, jobs.keys.active, id);
      return (by) => by.stalledCheck({ maxStalled: 1 });
    },
  ],
  [
    'freeDedup',
    '',
    'freed',
    async ({ jobs }) => {
      await jobs.enqueue(1, { dedup: { id: 'd' } });
      return (by) => by.freeDedup('d');
    },
  ],
  [
    'promoteNow',
    '',
    'pending',
    async ({ jobs }) => {
      const { id } = await jobs.schedule(1, { inMs: MINUTE });
      return (by) => by.promoteNow(id);
    },
  ],
  [
    'promoteNow',
    'into a lane',
    'pending',
    async (admin) => {
      const id = await scheduled(admin, GROUP);
      return (by) => by.promoteNow(id);
    },
  ],
  [
    'reschedule',
    '',
    'scheduled',
    async ({ jobs }) => {
      const { id } = await jobs.schedule(1, { inMs: MINUTE });
      return (by) => by.reschedule(id, { inMs: 2 * MINUTE });
    },
  ],
];

export const controlReads: readonly Row[] = [
  ['consult', '', 'ok', async () => (jobs) => jobs.consult()],
  [
    'dedupOwner',
    '',
    (answer: unknown) => (answer as { ttlMs: number }).ttlMs > MINUTE / 2,
    async ({ jobs }) => {
      await jobs.enqueue(1, { dedup: { id: 'd', ttlMs: MINUTE } });
      return (by) => by.dedupOwner('d');
    },
  ],
  [
    'browse',
    'a lane, the first to be served first',
    (answer: unknown) => (answer as unknown[]).length === 2,
    async ({ jobs }) => {
      for (const payload of [1, 2]) await jobs.enqueue(payload, { group: GROUP });
      return (by) => by.browse('pending', { lane: GROUP, order: 'asc' });
    },
  ],
];
