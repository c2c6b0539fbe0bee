/**
 * The read plane, the operator plane and the watch plane: conformance scenarios 19-21, 25, 28-34, 38 and 41.
 */
import { once } from 'node:events';
import { expect } from 'vitest';
import { mint, transitions } from '../../src/index.js';
import type { Scenario } from './scenario.js';
import { claimed, MINUTE, MISSING, stale } from './stage.js';

const LEASE = { leaseMs: MINUTE };

export const readPlane: readonly Scenario[] = [
  {
    number: 19,
    name: 'counts',
    shows: 'each set is counted; an unknown state is refused',
    async play({ stage, jobs }) {
      for (const n of [1, 2, 3, 4]) await jobs.enqueue(n);
      await jobs.claim(LEASE);
      await jobs.schedule(5, { inMs: MINUTE });
      const names = ['pending', 'active', 'scheduled', 'dead'] as const;
      expect(await jobs.counts(names)).toEqual({ pending: 3, active: 1, scheduled: 1, dead: 0 });
      const error = await stage.refused('EMQ_INPUT', () => jobs.counts(['wait' as 'pending']));
      expect(error.reason).toMatch(/unknown state "wait"/);
      // And by the server itself, for whoever writes another client.
      const call = { transition: transitions.counts, queue: jobs.queue, keys: [jobs.keys.base], args: ['wait'] };
      expect((await stage.refused('ERR', () => stage.connector.run(call))).reason).toBe('ERR unknown state');
    },
  },
  {
    number: 20,
    name: 'state',
    shows: 'the state is the set that holds the id; a row can be read; a missing job is absent',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, { n: 20 });
      const { id } = await jobs.schedule(1, { inMs: MINUTE });
      await stage.unchanged(async () => {
        expect(await jobs.state(job.id)).toBe('active');
        expect(await jobs.state(id)).toBe('scheduled');
        expect(await jobs.state(MISSING)).toBe('absent');
        const row = await jobs.get(job.id);
        expect(row).toMatchObject({ id: job.id, state: 'active', attempts: 1 });
        expect(row?.fields.get('payload')?.toString()).toBe('{"n":20}');
        expect(await jobs.get(MISSING)).toBeNull();
      });
    },
  },
  {
    number: 21,
    name: 'metrics',
    shows: 'the counter of completed jobs goes from 0 to 1, and is all there is',
    async play({ jobs }) {
      const job = await claimed(jobs, 21);
      expect(await jobs.metrics('completed')).toEqual({ count: 0 });
      await jobs.complete(job);
      expect(await jobs.metrics('completed')).toEqual({ count: 1 });
      expect(await jobs.metrics('failed')).toEqual({ count: 0 });
      await jobs.complete(job);
      expect(await jobs.metrics('completed')).toEqual({ count: 1 });
    },
  },
  {
    number: 38,
    name: 'unknown_state',
    shows: 'a row that no set holds is unknown, not absent',
    async play({ stage: { raw }, jobs }) {
      const { id } = await jobs.enqueue(38);
      await raw.zrem(jobs.keys.pending, id);
      expect(await jobs.state(id)).toBe('unknown');
      expect(await jobs.state(MISSING)).toBe('absent');
    },
  },
];

export const operatorPlane: readonly Scenario[] = [
  {
    number: 25,
    name: 'queue_pause',
    shows: 'a paused queue serves nobody and keeps its jobs; resumed, it serves the head',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue(25);
      await jobs.pause();
      // Contract 9, row 1: the claim itself looks at the flag, on either executor; no host asks first.
      expect(await stage.unchanged(() => jobs.claim(LEASE))).toBeNull();
      expect(await stage.unchanged(() => jobs.claimBatch({ ...LEASE, size: 5 }))).toEqual([]);
      expect(await jobs.counts(['pending', 'active'])).toEqual({ pending: 1, active: 0 });
      await jobs.resume();
      expect(await jobs.claim(LEASE)).toMatchObject({ id, token: 1 });
    },
  },
  {
    number: 28,
    name: 'update_data',
    shows: 'the payload is replaced; a missing job is gone',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue('old');
      expect(await jobs.updateData(id, 'new')).toBe('updated');
      expect(await stage.unchanged(() => jobs.updateData(MISSING, 'new'))).toBe('gone');
      expect(await jobs.claim(LEASE)).toMatchObject({ id, payload: 'new' });
    },
  },
  {
    number: 29,
    name: 'update_progress',
    shows: 'progress is in the row and on the events channel; a missing job is gone and says nothing',
    async play({ stage, jobs }) {
      const subscriber = await stage.client();
      await subscriber.subscribe(jobs.keys.events);
      const heard: unknown[] = [];
      subscriber.on('message', (channel: string, text: string) => heard.push([channel, JSON.parse(text)]));
      const { id } = await jobs.enqueue(29);
      expect(await stage.unchanged(() => jobs.updateProgress(MISSING, 10))).toBe('gone');
      const message = once(subscriber, 'message');
      expect(await jobs.updateProgress(id, 50)).toBe('updated');
      expect((await jobs.get(id))?.progress?.toString()).toBe('50');
      await message;
      // The missing job's call came first: had it spoken, it would stand here too.
      expect(heard).toEqual([[jobs.keys.events, { event: 'progress', job: id, progress: '50' }]]);
    },
  },
  {
    number: 30,
    name: 'job_logs',
    shows: 'lines are appended and counted; keep drops the oldest; a missing job is gone',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue(30);
      expect(await jobs.addLog(id, 'line 1')).toBe(1);
      expect(await jobs.addLog(id, 'line 2')).toBe(2);
      expect(await jobs.addLog(id, 'line 3', { keep: 2 })).toBe(2);
      expect(String(await jobs.logs(id))).toBe('line 2,line 3');
      expect(await stage.unchanged(() => jobs.addLog(MISSING, 'nobody'))).toBe('gone');
      expect(await jobs.logs(MISSING)).toBe('gone');
    },
  },
  {
    number: 31,
    name: 'remove_job',
    shows: 'an unlocked job goes and frees its dedup key; a locked one is refused and stays',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue(31);
      await stage.raw.set(jobs.keys.dedup('order-7'), id, 'PX', MINUTE);
      expect(await jobs.remove(id, { dedupId: 'order-7' })).toBe('removed');
      expect(await stage.raw.exists(jobs.keys.job(id), jobs.keys.dedup('order-7'))).toBe(0);
      expect(await jobs.state(id)).toBe('absent');
      expect(await jobs.remove(id)).toBe('gone');

      const { id: locked } = await jobs.enqueue(31);
      await stage.raw.set(`${jobs.keys.job(locked)}:lock`, 'a worker', 'PX', MINUTE);
      const error = await stage.refused('EMQLOCK', () => jobs.remove(locked));
      expect(error.reason).toBe('EMQLOCK job is locked');
      expect(await jobs.state(locked)).toBe('pending');
    },
  },
  {
    number: 32,
    name: 'reprocess_job',
    shows: 'a dead job waits again without its error; a live one is refused and untouched',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 32);
      await stage.refused('EMQSTATE', () => jobs.reprocess(job.id));
      await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'broken' });
      expect(await jobs.reprocess(job.id)).toBe('pending');
      const row = await jobs.get(job.id);
      expect(row).toMatchObject({ state: 'pending', attempts: 1 });
      expect(row?.fields.has('last_error')).toBe(false);
      const error = await stage.refused('EMQSTATE', () => jobs.reprocess(job.id));
      expect(error.reason).toBe('EMQSTATE not dead');
      expect(await jobs.reprocess(MISSING)).toBe('gone');
      expect(await jobs.claim(LEASE)).toMatchObject({ id: job.id, token: 2 });
    },
  },
];

export const watchPlane: readonly Scenario[] = [
  {
    number: 33,
    name: 'lock_extend',
    shows: 'an extended lease survives the reaper; a wrong token is stale; a missing job is gone',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 33);
      // The original waits until the first 50 ms would be over; here they are over at once.
      await stage.lapse(jobs.keys.active, job.id);
      const before = await stage.now();
      expect(await jobs.extend(job, LEASE)).toBe('extended');
      expect(Number(await stage.raw.zscore(jobs.keys.active, job.id))).toBeGreaterThanOrEqual(before + MINUTE);
      expect(await stage.unchanged(() => jobs.reap())).toBe(0);
      const error = await stage.refused('EMQSTALE', () => jobs.extend(stale(job), LEASE));
      expect(error.reason).toBe('EMQSTALE extend token mismatch');
      expect(await stage.unchanged(() => jobs.extend({ id: MISSING, token: 1 }, LEASE))).toBe('gone');
      // Contract 6: a job that is not active is not put back by its old holder.
      await stage.lapse(jobs.keys.active, job.id);
      await jobs.reap();
      await stage.refused('EMQSTATE', () => jobs.extend(job, LEASE));
    },
  },
  {
    number: 34,
    name: 'stalled',
    shows: 'the first lapse recovers, the second is death, with a limit of 2',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 34);
      // "Is it stalled?" is what the row says: it was counted at least once.
      expect(await jobs.get(job.id)).toMatchObject({ stalled: 0 });
      expect(await stage.unchanged(() => jobs.stalledCheck({ maxStalled: 2 }))).toEqual({ recovered: [], dead: [] });
      await stage.lapse(jobs.keys.active, job.id);
      expect(await jobs.stalledCheck({ maxStalled: 2 })).toEqual({ recovered: [job.id], dead: [] });
      expect(await jobs.get(job.id)).toMatchObject({ state: 'pending', stalled: 1, attempts: 1 });
      expect(await jobs.claim(LEASE)).toMatchObject({ id: job.id, token: 2 });
      await stage.lapse(jobs.keys.active, job.id);
      expect(await jobs.stalledCheck({ maxStalled: 2 })).toEqual({ recovered: [], dead: [job.id] });
      const row = await jobs.get(job.id);
      expect(row).toMatchObject({ state: 'dead', stalled: 2 });
      expect(row?.lastError?.toString()).toBe('stalled');
      expect(await jobs.metrics('failed')).toEqual({ count: 1 });
    },
  },
  {
    number: 41,
    name: 'extend_locks_batch',
    shows: 'of a live job, a wrong token and a missing job, the last two are not extended',
    async play({ stage, jobs }) {
      await jobs.enqueue(1);
      await jobs.enqueue(2);
      const [live, other] = await jobs.claimBatch({ ...LEASE, size: 2 });
      if (live === undefined || other === undefined) throw new Error('two jobs were to be claimed');
      const absent = { id: mint(), token: 1 };
      const score = async (id: string) => Number(await stage.raw.zscore(jobs.keys.active, id));
      const before = [await score(live.id), await score(other.id)];
      expect(await jobs.extendMany([live, stale(other), absent], { leaseMs: 2 * MINUTE })).toEqual([
        other.id,
        absent.id,
      ]);
      expect(await score(live.id)).toBeGreaterThan(Number(before[0]));
      expect(await score(other.id)).toBe(before[1]);
      expect(await stage.raw.exists(jobs.keys.job(absent.id))).toBe(0);
    },
  },
];
