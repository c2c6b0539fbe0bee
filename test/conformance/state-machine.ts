/**
 * The state machine: conformance scenarios 1-11, 15 and 17.
 */
import { expect } from 'vitest';
import type { Job } from '../../src/index.js';
import { BRANDS } from '../../src/wire/fence.js';
import type { Scenario } from './scenario.js';
import { claimed, MINUTE, ORDER, stale } from './stage.js';

const LEASE = { leaseMs: MINUTE };

export const stateMachine: readonly Scenario[] = [
  {
    number: 1,
    name: 'fence',
    shows: "the node carries the connector's own brand",
    async play({ stage }) {
      expect(await stage.raw.get('{emq}:version')).toBe(BRANDS[stage.connector.wire]);
      expect(stage.connector.stats()).toMatchObject({ state: 'up', wire: stage.wire, perQueueBrand: false });
    },
  },
  {
    number: 2,
    name: 'mint',
    shows: 'enqueue writes state, attempts and payload, and nothing else',
    async play({ stage: { raw }, jobs }) {
      const { id, outcome } = await jobs.enqueue({ n: 1 });
      expect(outcome).toBe('enqueued');
      expect(await raw.hgetall(jobs.keys.job(id))).toEqual({ state: 'pending', attempts: '0', payload: '{"n":1}' });
      // Contract 9, row 16: the score is the priority, 0 unless asked otherwise.
      expect(await raw.zrange(jobs.keys.pending, '0', '-1', 'WITHSCORES')).toEqual([id, '0']);
      // Row 6: flat work wakes.
      expect(await raw.lrange(jobs.keys.wake, 0, -1)).toEqual(['1']);
    },
  },
  {
    number: 3,
    name: 'duplicate',
    shows: 'a second enqueue of an id is a duplicate and changes nothing',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue('first');
      const second = await stage.unchanged(() => jobs.enqueue('second', { id, priority: 9 }));
      expect(second).toEqual({ id, outcome: 'duplicate' });
      expect((await jobs.get(id))?.bytes.toString()).toBe('"first"');
    },
  },
  {
    number: 4,
    name: 'kind',
    shows: 'an ORD id is refused and has no row',
    async play({ stage, jobs }) {
      const error = await stage.refused('EMQKIND', () => jobs.enqueue(1, { id: ORDER }));
      expect(error.reason).toBe('EMQKIND job id must be JOB-namespaced');
      await stage.refused('EMQKIND', () => jobs.schedule(1, { inMs: 1 }, { id: ORDER }));
      expect(await stage.raw.exists(jobs.keys.job(ORDER))).toBe(0);
    },
  },
  {
    number: 5,
    name: 'order',
    shows: 'pending by lex, reversed, is the reverse order of minting',
    async play({ stage: { raw }, jobs }) {
      const minted: string[] = [];
      for (const n of [1, 2, 3]) minted.push((await jobs.enqueue(n)).id);
      expect([...minted].sort()).toEqual(minted);
      const newestFirst = [...minted].reverse();
      expect(await raw.zrevrangebylex(jobs.keys.pending, '+', '-')).toEqual(newestFirst);
      expect(await jobs.browse('pending')).toEqual(newestFirst);
    },
  },
  {
    number: 6,
    name: 'claim',
    shows: 'the first claim gives id, payload and token 1, and the row is active',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue({ n: 6 });
      const before = await stage.now();
      const job = await jobs.claim(LEASE);
      expect(job).toMatchObject({ id, token: 1, attempts: 1, payload: { n: 6 } });
      const row = await jobs.get(id);
      expect(row).toMatchObject({ state: 'active', attempts: 1 });
      // The one field by which the executors differ (contract 7): the native claim leaves the server's run_id.
      const runId = /^run_id:(\w+)/m.exec(await stage.raw.info('server'))?.[1];
      expect(row?.leaseEpoch).toBe(stage.wire === 6 ? runId : undefined);
      const deadline = Number(await stage.raw.zscore(jobs.keys.active, id));
      expect(deadline).toBeGreaterThanOrEqual(before + MINUTE);
      expect(deadline).toBeLessThanOrEqual((await stage.now()) + MINUTE);
    },
  },
  {
    number: 7,
    name: 'stale',
    shows: 'after SCRIPT FLUSH a wrong token is stale and the right one completes',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 7);
      await stage.raw.script('FLUSH');
      const error = await stage.refused('EMQSTALE', () => jobs.complete({ id: job.id, token: 99 }));
      expect(error.reason).toBe('EMQSTALE complete token mismatch');
      await stage.raw.script('FLUSH');
      expect(await jobs.complete({ id: job.id, token: 1 })).toBe('completed');
    },
  },
  {
    number: 8,
    name: 'complete',
    shows: 'nothing of a completed job stays, in a row or in active',
    async play({ stage: { raw }, jobs }) {
      const job = await claimed(jobs, 8);
      await jobs.addLog(job.id, 'a line');
      await raw.set(`${jobs.keys.job(job.id)}:lock`, 'worker', 'PX', MINUTE);
      expect(await jobs.complete(job)).toBe('completed');
      // Contract 9, row 7: the log and the lock go with the row.
      expect((await raw.keys(`${jobs.keys.base}*`)).sort()).toEqual([
        `${jobs.keys.base}metrics:completed`,
        jobs.keys.wake,
      ]);
      expect(await jobs.complete(job)).toBe('gone');
    },
  },
  {
    number: 9,
    name: 'retry',
    shows: 'a failed job is scheduled with its error, comes back with token 2 and completes',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 9);
      // The original waits 10 ms; here the time passes when the test says so.
      expect(await jobs.fail(job, { delayMs: MINUTE, maxAttempts: 3, error: 'no luck' })).toBe('scheduled');
      const row = await jobs.get(job.id);
      expect(row).toMatchObject({ state: 'scheduled', attempts: 1 });
      expect(row?.lastError?.toString()).toBe('no luck');
      expect(await jobs.promote()).toBe(0);
      await stage.lapse(jobs.keys.schedule, job.id);
      expect(await jobs.promote()).toBe(1);
      const again = await jobs.claim(LEASE);
      expect(again).toMatchObject({ id: job.id, token: 2, payload: 9 });
      expect(await jobs.complete(again as Job<unknown>)).toBe('completed');
    },
  },
  {
    number: 10,
    name: 'dead',
    shows: 'a failure at the cap is death: the error stays and the morgue lists it',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 10);
      const before = await stage.now();
      expect(await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'the end' })).toBe('dead');
      expect(await jobs.state(job.id)).toBe('dead');
      expect((await jobs.get(job.id))?.lastError?.toString()).toBe('the end');
      expect(await jobs.browse('dead')).toEqual([job.id]);
      expect(await jobs.metrics('failed')).toEqual({ count: 1 });
      // Contract 9, row 15: the score is the time of death, where the original has 0.
      const died = Number(await stage.raw.zscore(jobs.keys.dead, job.id));
      expect(died).toBeGreaterThanOrEqual(before);
      expect(died).toBeLessThanOrEqual(await stage.now());
      // Row 4: a dead job cannot be settled again.
      await stage.refused('EMQSTATE', () => jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'twice' }));
    },
  },
  {
    number: 11,
    name: 'reap',
    shows: 'a lapsed lease is reaped: pending again, and the next claim has token 2',
    async play({ stage, jobs }) {
      const job = await claimed(jobs, 11);
      expect(await jobs.reap()).toBe(0);
      await stage.lapse(jobs.keys.active, job.id);
      expect(await jobs.reap()).toBe(1);
      expect(await jobs.state(job.id)).toBe('pending');
      expect(await jobs.get(job.id)).toMatchObject({ state: 'pending', attempts: 1 });
      expect(await jobs.claim(LEASE)).toMatchObject({ id: job.id, token: 2 });
      // The one who lost the lease is fenced off.
      await stage.refused('EMQSTALE', () => jobs.complete(job));
    },
  },
  {
    number: 15,
    name: 'schedule',
    shows: 'a scheduled job cannot be claimed until its time has come and promote has run',
    async play({ stage, jobs }) {
      const { id, outcome } = await jobs.schedule(15, { inMs: MINUTE });
      expect(outcome).toBe('scheduled');
      expect(await jobs.state(id)).toBe('scheduled');
      expect(await jobs.claim(LEASE)).toBeNull();
      // Contract 9, row 18: a nearer due time wakes whoever is parked.
      expect(await stage.raw.llen(jobs.keys.wake)).toBe(1);
      await stage.lapse(jobs.keys.schedule, id);
      expect(await jobs.claim(LEASE)).toBeNull();
      expect(await jobs.promote()).toBe(1);
      expect(await jobs.claim(LEASE)).toMatchObject({ id, token: 1, payload: 15 });
    },
  },
  {
    number: 17,
    name: 'backoff',
    shows: 'a poison job with an exponential back-off dies exactly at its third attempt',
    async play({ stage, jobs }) {
      const { id } = await jobs.enqueue('poison');
      const delays: number[] = [];
      const outcomes: string[] = [];
      // The loop has no end of its own: only the death of the job ends it, or a claim that finds nothing.
      while (outcomes.at(-1) !== 'dead') {
        const job = await jobs.claim(LEASE);
        expect(job?.id).toBe(id);
        const { token } = job as Job<unknown>;
        const delayMs = exponential(1, 10, token);
        delays.push(delayMs);
        const failure = { delayMs, maxAttempts: 3, error: `boom ${token}` };
        outcomes.push(await jobs.fail(job as Job<unknown>, failure));
        if (outcomes.at(-1) !== 'scheduled') continue;
        const due = Number(await stage.raw.zscore(jobs.keys.schedule, id));
        expect(due).toBeLessThanOrEqual((await stage.now()) + delayMs);
        await stage.lapse(jobs.keys.schedule, id);
        expect(await jobs.promote()).toBe(1);
      }
      expect(outcomes).toEqual(['scheduled', 'scheduled', 'dead']);
      expect(delays).toEqual([1, 2, 4]);
      expect([4, 5, 60].map((attempt) => exponential(1, 10, attempt))).toEqual([8, 10, 10]);
      const row = await jobs.get(id);
      expect(row).toMatchObject({ state: 'dead', attempts: 3 });
      expect(row?.lastError?.toString()).toBe('boom 3');
      expect(await jobs.browse('dead')).toEqual([id]);
      await stage.refused('EMQSTALE', () => jobs.complete(stale({ id, token: 3 })));
    },
  },
];

/** The delay after the given attempt, in ms: base, twice that, four times ..., never more than the cap. */
function exponential(base: number, cap: number, attempt: number): number {
  return Math.min(cap, base * 2 ** (attempt - 1));
}
