/**
 * Batches: conformance scenarios 62-73.
 */
import { expect } from 'vitest';
import {
  Lanes,
  mint,
  Queue,
  type BatchHandler,
  type BatchPartition,
  type ConsumeBatchOptions,
  type HeldJob,
  type Jobs,
} from '../../src/index.js';
import { BatchWindow } from '../../src/worker/batch-window.js';
import type { Scenario, Scene } from './scenario.js';
import { claimed, MINUTE, MISSING, stale } from './stage.js';

const LEASE = { leaseMs: MINUTE };

async function fill(jobs: Jobs<unknown>, many: number): Promise<string[]> {
  const items = Array.from({ length: many }, (_, payload) => ({ payload }));
  return (await jobs.enqueueMany(items)).map(({ id }) => id);
}

async function fillLane(lanes: Lanes, group: string, many: number): Promise<string[]> {
  const items = Array.from({ length: many }, (_, payload) => ({ group, payload }));
  return (await lanes.enqueueMany(items)).map(({ id }) => id);
}

const idsOf = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

/** The one deadline that all of them have. */
async function deadline({ stage, jobs }: Scene, held: readonly HeldJob[]): Promise<string | null | undefined> {
  const scores = await stage.raw.zmscore(jobs.keys.active, ...idsOf(held));
  expect(new Set(scores).size).toBe(1);
  return scores[0];
}

/** What became of the first batch, and which it was. */
async function firstBatch(
  { stage, jobs }: Scene,
  handler: BatchHandler,
  options: ConsumeBatchOptions,
): Promise<{ readonly parts: BatchPartition; readonly ids: readonly string[] }> {
  const ids: string[] = [];
  const watched: BatchHandler = (batch, context) => {
    ids.push(...idsOf(batch));
    return handler(batch, context);
  };
  await using consumer = new Queue(stage.connector, jobs.queue).consumeBatch(watched, {
    ...{ beatMs: 10 * MINUTE, retryDelayMs: MINUTE },
    ...options,
  });
  const parts = await new Promise<BatchPartition>((resolve) => consumer.once('batch', resolve));
  return { parts, ids };
}

const completeAll: BatchHandler = (batch) => new Map(batch.map(({ id }) => [id, 'complete'] as const));

export const batchPlane: readonly Scenario[] = [
  {
    number: 62,
    name: 'batch_claim',
    shows: 'of eight the four oldest, in order, by token 1, on one deadline',
    async play(scene) {
      const { jobs } = scene;
      const ids = await fill(jobs, 8);
      const batch = await jobs.claimBatch({ ...LEASE, size: 4 });
      expect(batch.map(({ id, token }) => [id, token])).toEqual(ids.slice(0, 4).map((id) => [id, 1]));
      expect(Number(await deadline(scene, batch))).toBeGreaterThan(await scene.stage.now());
      for (const { id } of batch) expect(await jobs.get(id)).toMatchObject({ state: 'active', attempts: 1 });
    },
  },
  {
    number: 63,
    name: 'batch_claim_short',
    shows: 'asked for seven, three come in order, then none; a paused queue gives none and keeps its jobs',
    async play({ stage, jobs }) {
      const ids = await fill(jobs, 3);
      expect(idsOf(await jobs.claimBatch({ ...LEASE, size: 7 }))).toEqual(ids);
      expect(await stage.unchanged(() => jobs.claimBatch({ ...LEASE, size: 7 }))).toEqual([]);
      await fill(jobs, 2);
      await jobs.pause();
      expect(await stage.unchanged(() => jobs.claimBatch({ ...LEASE, size: 7 }))).toEqual([]);
      expect(await jobs.counts(['pending'])).toEqual({ pending: 2 });
    },
  },
  {
    number: 64,
    name: 'batch_partial_failure',
    shows: 'a stale settle is refused, one job is tried again, two are done; only the bad one comes back, by token 2',
    async play({ stage, jobs }) {
      await fill(jobs, 3);
      const [first, second, bad] = await jobs.claimBatch({ ...LEASE, size: 3 });
      if (first === undefined || second === undefined || bad === undefined) throw new Error('three were to be claimed');
      await stage.refused('EMQSTALE', () => jobs.complete(stale(first)));
      expect(await jobs.fail(bad, { delayMs: 0, maxAttempts: 3, error: 'poison' })).toBe('scheduled');
      expect([await jobs.complete(first), await jobs.complete(second)]).toEqual(['completed', 'completed']);
      expect(await jobs.promote()).toBe(1);
      const left = await jobs.claimBatch({ ...LEASE, size: 3 });
      expect(left.map(({ id, token }) => [id, token])).toEqual([[bad.id, 2]]);
    },
  },
  {
    number: 65,
    name: 'batch_shaping_floor',
    shows: 'three of four are left waiting; six are taken together, in order, and all are done',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = new Lanes(stage.connector, jobs);
      const group = mint('PRT');
      await fillLane(lanes, group, 3);
      expect(await stage.unchanged(() => lanes.claimBatch({ ...LEASE, size: 9, min: 4 }))).toEqual([]);
      await fillLane(lanes, group, 3);
      expect(await lanes.claimBatch({ ...LEASE, size: 9, min: 4 })).toHaveLength(6);

      const ids = await fill(jobs, 6);
      const batch = await firstBatch(scene, completeAll, { minSize: 4, timeoutMs: MINUTE });
      expect(batch.ids).toEqual(ids);
      expect(batch.parts.completed).toEqual(ids);
      expect(await jobs.counts(['pending', 'completed'])).toEqual({ pending: 0, completed: 6 });
    },
  },
  {
    number: 66,
    name: 'batch_shaping_timeout',
    shows: 'two of five wait at 199 ms and go at 200; none is no batch, however late it is',
    async play(scene) {
      const window = new BatchWindow(5, 200, false);
      window.claimed(0, 5, false, 2);
      expect([window.least(199), window.least(200)]).toEqual([5, 1]);
      window.claimed(200, 1, true, 0);
      window.claimed(300, 5, false, 0);
      expect([window.open, window.least(900)]).toEqual([false, 5]);

      const ids = await fill(scene.jobs, 2);
      const start = performance.now();
      const batch = await firstBatch(scene, completeAll, { minSize: 5, timeoutMs: 200 });
      expect(performance.now() - start).toBeGreaterThanOrEqual(199);
      expect(batch.parts.completed).toEqual(ids);
    },
  },
  {
    number: 67,
    name: 'batch_shaping_partial_failure',
    shows:
      'an error is tried again with its reason, one is done, one that was left out is tried again too; both by token 2',
    async play(scene) {
      const { stage, jobs } = scene;
      const [bad = '', good = '', omitted = ''] = await fill(jobs, 3);
      const { parts } = await firstBatch(scene, () => ({ [bad]: { fail: 'no such user' }, [good]: 'complete' }), {});
      expect(parts).toMatchObject({ completed: [good], retried: [bad, omitted], dead: [] });
      const why = async (id: string) => String((await jobs.get(id))?.lastError);
      expect(await why(bad)).toMatch(/^no such user/);
      expect(await why(omitted)).toMatch(/^missing verdict/);
      for (const id of [bad, omitted]) await stage.lapse(jobs.keys.schedule, id);
      expect(await jobs.promote()).toBe(2);
      const again = await jobs.claimBatch({ ...LEASE, size: 3 });
      expect(again.map(({ id, token }) => [id, token])).toEqual([
        [bad, 2],
        [omitted, 2],
      ]);
    },
  },
  {
    number: 68,
    name: 'grouped_batch_affinity',
    shows: 'a batch is of one lane, by its reply and by its rows, on one deadline',
    async play(scene) {
      const { stage, jobs } = scene;
      const lanes = new Lanes(stage.connector, jobs);
      const [a, b] = [mint('PRT'), mint('PRT')];
      const ids = await fillLane(lanes, a, 3);
      await fillLane(lanes, b, 3);
      const batch = await lanes.claimBatch({ ...LEASE, size: 6 });
      expect(idsOf(batch)).toEqual(ids);
      for (const { id, group } of batch) expect([group, (await jobs.get(id))?.group]).toEqual([a, a]);
      await deadline(scene, batch);
      expect((await lanes.claimBatch({ ...LEASE, size: 6 })).map(({ group }) => group)).toEqual([b, b, b]);
    },
  },
  {
    number: 69,
    name: 'grouped_batch_ceiling',
    shows: 'with a limit of 3 three of eight come, then none; one completion lets exactly the next oldest go',
    async play({ stage, jobs }) {
      const lanes = new Lanes(stage.connector, jobs);
      const group = mint('PRT');
      await lanes.setLimit(group, 3);
      const ids = await fillLane(lanes, group, 8);
      const batch = await lanes.claimBatch({ ...LEASE, size: 8 });
      expect(idsOf(batch)).toEqual(ids.slice(0, 3));
      expect(await stage.raw.hgetall(`${jobs.keys.base}gactive`)).toEqual({ [group]: '3' });
      expect(await stage.unchanged(() => lanes.claimBatch({ ...LEASE, size: 8 }))).toEqual([]);
      await jobs.complete(batch[0] ?? { id: MISSING, token: 1 });
      expect(idsOf(await lanes.claimBatch({ ...LEASE, size: 8 }))).toEqual([ids[3]]);
    },
  },
  {
    number: 70,
    name: 'grouped_batch_fairness',
    shows: 'with limits of 2, both light lanes are served within 9 turns, and all is served in the end',
    async play({ stage, jobs }) {
      const lanes = new Lanes(stage.connector, jobs);
      const [heavy, first, second] = [mint('PRT'), mint('PRT'), mint('PRT')];
      for (const group of [heavy, first, second]) await lanes.setLimit(group, 2);
      await fillLane(lanes, heavy, 40);
      await fillLane(lanes, first, 4);
      await fillLane(lanes, second, 4);
      const served: string[] = [];
      while (served.length < 48) {
        const batch = await lanes.claimBatch({ ...LEASE, size: 5 });
        if (batch.length === 0) break;
        served.push(batch[0]?.group ?? '');
        for (const job of batch) await jobs.complete(job);
      }
      expect(served.slice(0, 9)).toEqual(expect.arrayContaining([first, second]));
      expect(await jobs.metrics('completed')).toEqual({ count: 48 });
    },
  },
  {
    number: 71,
    name: 'batch_partition',
    shows: 'completed, retried, dead and delayed have each job once; dead is what the server made dead',
    async play(scene) {
      const { jobs } = scene;
      const [done = '', again = '', omitted = '', later = ''] = await fill(jobs, 4);
      const last = (await jobs.enqueue('last', { maxAttempts: 1 })).id;
      const { parts, ids } = await firstBatch(
        scene,
        () => ({
          [done]: { complete: 'a result' },
          [again]: { fail: new Error('once more') },
          [later]: { delay: MINUTE },
          [last]: { fail: 'for good' },
        }),
        {},
      );
      expect(parts).toEqual({
        ...{ completed: [done], retried: [again, omitted], dead: [last], delayed: [later], released: [], stale: [] },
      });
      expect(Object.values(parts).flat().sort()).toEqual([...ids].sort());
      expect(await jobs.counts(['active', 'scheduled', 'dead', 'completed'])).toEqual({
        ...{ active: 0, scheduled: 3, dead: 1, completed: 1 },
      });
    },
  },
  {
    number: 72,
    name: 'batch_delay',
    shows: 'a delay puts an active job into the schedule with its attempts; its next token is 2',
    async play({ stage, jobs }) {
      await fill(jobs, 2);
      const [job] = await jobs.claimBatch({ ...LEASE, size: 2 });
      if (job === undefined) throw new Error('nothing was claimed');
      expect(await jobs.delay(job, { inMs: MINUTE })).toBe('scheduled');
      expect(await jobs.state(job.id)).toBe('scheduled');
      expect(await jobs.get(job.id)).toMatchObject({ attempts: 1, credit: 1 });
      await stage.lapse(jobs.keys.schedule, job.id);
      expect(await jobs.promote()).toBe(1);
      expect(await jobs.claim(LEASE)).toMatchObject({ id: job.id, token: 2 });
    },
  },
  {
    number: 73,
    name: 'batch_delay_stale',
    shows:
      'with all scripts gone, a delay by an old token is stale and leaves the new lease alone; a missing job is gone',
    async play({ stage, jobs }) {
      const old = await claimed(jobs, 73);
      await stage.lapse(jobs.keys.active, old.id);
      await jobs.reap();
      const fresh = await jobs.claim(LEASE);
      const lease = await stage.raw.zscore(jobs.keys.active, old.id);
      await stage.raw.script('FLUSH');
      const error = await stage.refused('EMQSTALE', () => jobs.delay(old, { inMs: 0 }));
      expect(error.reason).toBe('EMQSTALE delay token mismatch');
      expect(await stage.raw.zscore(jobs.keys.active, old.id)).toBe(lease);
      expect(await jobs.delay(fresh ?? old, { inMs: 0 })).toBe('scheduled');
      const missing = await stage.refused('EMQSTALE', () => jobs.delay({ id: MISSING, token: 1 }, { inMs: 0 }));
      expect(missing.reason).toBe('EMQSTALE job gone');
    },
  },
];
