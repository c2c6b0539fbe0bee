/**
 * Many jobs at once, and what becomes of an id that was minted here and is taken already.
 *
 * A minted id is foreseen by holding the minter's clock still: then it counts on by one from its last id, so the rows of
 * the next ids can be put there beforehand. For that the process's minter is one on a clock of the test's own here.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { encodeId, Jobs, mint, parseId, type EnqueuedMany, type Wire } from '../../src/index.js';
import { errorOf, EXECUTORS, MINUTE, ORDER, Stage } from './stage.js';

const clock = vi.hoisted(() => ({ nowMs: Date.now() }));
vi.mock(import('../../src/ids/mint.js'), async (original) => {
  const actual = await original();
  const minter = new actual.Minter({ node: 7, clock: () => clock.nowMs });
  return { ...actual, mint: (namespace?: string) => minter.mint(namespace) };
});

const LEASE = { leaseMs: MINUTE };

describe.each(EXECUTORS)('many jobs on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`many.${(count += 1)}`);
  });
  afterEach(async () => {
    await stage.raw.config('SET', 'maxmemory', '0');
  });

  const ids = (results: readonly EnqueuedMany[]) => results.map(({ id }) => id);
  const outcomes = (results: readonly EnqueuedMany[]) => results.map(({ outcome }) => outcome);
  const numbers = (length: number) => Array.from({ length }, (_, n) => ({ payload: n }));

  describe('enqueueMany', () => {
    it('2,500 items: each at its place, in order, none lost, none doubled', async () => {
      const results = await jobs.enqueueMany(numbers(2_500));
      expect(new Set(outcomes(results))).toEqual(new Set(['enqueued']));
      expect(new Set(ids(results)).size).toBe(2_500);
      expect(await jobs.counts(['pending'])).toEqual({ pending: 2_500 });
      const claims = await jobs.claimBatch({ ...LEASE, size: 2_500 });
      expect(claims.map(({ payload }) => payload)).toEqual(numbers(2_500).map(({ payload }) => payload));
      expect(claims.map(({ id }) => id)).toEqual(ids(results));
      // Far fewer tokens than jobs: the list is capped.
      expect(await stage.raw.llen(jobs.keys.wake)).toBe(64);
    });

    it('of nothing is nothing', async () => {
      const { calls } = stage.connector.stats();
      expect(await stage.unchanged(() => jobs.enqueueMany([]))).toEqual([]);
      expect(stage.connector.stats().calls).toBe(calls);
    });

    it('keeps ids, priorities and opts item by item', async () => {
      const own = mint();
      const [last, first] = await jobs.enqueueMany([
        { payload: 'last', id: own, priority: 9 },
        { payload: 'first', opts: { name: 'x' } },
      ]);
      expect(last).toEqual({ id: own, outcome: 'enqueued' });
      expect(String((await jobs.get(String(first?.id)))?.fields.get('opts'))).toBe('{"name":"x"}');
      expect((await jobs.claimBatch({ ...LEASE, size: 9 })).map(({ payload }) => payload)).toEqual(['first', 'last']);
    });

    it('an id that is taken, before or among the items, is a duplicate and changes nothing', async () => {
      const taken = (await jobs.enqueue('before')).id;
      const twice = mint();
      const items = [
        { payload: 'a', id: taken },
        { payload: 'b', id: twice },
        { payload: 'c', id: twice },
        { payload: 'd' },
      ];
      const results = await jobs.enqueueMany(items);
      expect(outcomes(results)).toEqual(['duplicate', 'enqueued', 'duplicate', 'enqueued']);
      expect(ids(results).slice(0, 3)).toEqual([taken, twice, twice]);
      const payloads = (await jobs.claimBatch({ ...LEASE, size: 9 })).map(({ payload }) => payload);
      expect(payloads).toEqual(['before', 'b', 'd']);
    });

    it('one id of another kind is refused by itself', async () => {
      const results = await jobs.enqueueMany([{ payload: 1 }, { payload: 2, id: ORDER }, { payload: 3 }]);
      expect(outcomes(results)).toEqual(['enqueued', 'failed', 'enqueued']);
      expect(results[1]).toMatchObject({ id: ORDER, error: { code: 'EMQKIND' } });
      expect(await stage.raw.exists(jobs.keys.job(ORDER))).toBe(0);
      expect((await jobs.claimBatch({ ...LEASE, size: 9 })).map(({ payload }) => payload)).toEqual([1, 3]);
    });

    it('one wrong item refuses all of them, before the first is sent', async () => {
      const error = await stage.refused('EMQ_INPUT', () =>
        jobs.enqueueMany([...numbers(1_500), { payload: undefined }]),
      );
      expect(error.message).toMatch(/no JSON form/);
    });

    it('a full server refuses item by item, typed, and takes the rest when there is room', async () => {
      await jobs.enqueue('before');
      await stage.raw.config('SET', 'maxmemory', '1');
      const full = await stage.unchanged(() => jobs.enqueueMany(numbers(3)));
      expect(outcomes(full)).toEqual(['failed', 'failed', 'failed']);
      for (const result of full) expect(result).toMatchObject({ error: { name: 'EmqError', code: 'OOM' } });
      await stage.raw.config('SET', 'maxmemory', '0');
      expect(new Set(outcomes(await jobs.enqueueMany(numbers(3))))).toEqual(new Set(['enqueued']));
    });

    it('a server that fills up half-way took what it says it took', async () => {
      // Room for some of forty payloads of 256 KiB each, not for all.
      const used = Number(/^used_memory:(\d+)/m.exec(await stage.raw.info('memory'))?.[1]);
      await stage.raw.config('SET', 'maxmemory', String(used + 5_000_000));
      const results = await jobs.enqueueMany(
        Array.from({ length: 40 }, (_, n) => ({ payload: Buffer.alloc(262_144, n) })),
      );
      await stage.raw.config('SET', 'maxmemory', '0');
      expect(new Set(outcomes(results))).toEqual(new Set(['enqueued', 'failed']));
      for (const result of results) {
        if (result.outcome === 'failed') expect(result.error.code).toBe('OOM');
        expect(await jobs.state(result.id)).toBe(result.outcome === 'failed' ? 'absent' : 'pending');
      }
    });
  });

  describe('a minted id that is taken', () => {
    /** Puts rows where the next `n` minted ids would go; gives those ids and the one after. */
    async function take(n: number): Promise<{ taken: string[]; next: string }> {
      // A fresh millisecond begins below 1024 of its 4096 numbers, and the clock stands still after that.
      clock.nowMs += 1_000;
      const last = parseId(mint()).snowflake;
      const foreseen = Array.from({ length: n + 1 }, (_, i) => encodeId('JOB', last + BigInt(i + 1)));
      const next = String(foreseen.pop());
      for (const id of foreseen)
        await stage.raw.hset(jobs.keys.job(id), 'state', 'active', 'attempts', 1, 'payload', 'theirs');
      return { taken: foreseen, next };
    }

    const admits: readonly (readonly [string, string, () => Promise<{ id: string; outcome: string }>])[] = [
      ['enqueue', 'enqueued', () => jobs.enqueue('ours')],
      ['schedule', 'scheduled', () => jobs.schedule('ours', { inMs: MINUTE })],
    ];
    it.each(admits)('%s mints again', async (_verb, outcome, act) => {
      const { taken, next } = await take(2);
      expect(await act()).toEqual({ id: next, outcome });
      for (const id of taken) expect(String((await jobs.get(id))?.bytes)).toBe('theirs');
      expect(String((await jobs.get(next))?.bytes)).toBe('"ours"');
    });

    it.each(admits)('%s never says that an id of its own making is a duplicate', async (_verb, _outcome, act) => {
      // More collisions than anybody would have patience for: then it is an error, since nothing was enqueued.
      await take(100);
      const error = await stage.unchanged(() => errorOf(act));
      expect(error.message).toMatch(/mint|node id/i);
    });

    it('enqueueMany mints again for that item only, and keeps the order of the answers', async () => {
      const { taken, next } = await take(1);
      const results = await jobs.enqueueMany([{ payload: 'a' }, { payload: 'b' }]);
      const after = encodeId('JOB', parseId(next).snowflake + 1n);
      expect(results).toEqual([
        { id: after, outcome: 'enqueued' },
        { id: next, outcome: 'enqueued' },
      ]);
      expect(String((await jobs.get(String(taken[0])))?.bytes)).toBe('theirs');
      expect(String((await jobs.get(after))?.bytes)).toBe('"a"');
    });

    it('an id of the caller’s own is not minted again', async () => {
      const { taken } = await take(1);
      const id = String(taken[0]);
      expect(await stage.unchanged(() => jobs.enqueue('ours', { id }))).toEqual({ id, outcome: 'duplicate' });
      expect(await stage.unchanged(() => jobs.enqueueMany([{ payload: 'ours', id }]))).toEqual([
        { id, outcome: 'duplicate' },
      ]);
    });

    it('a refusal of the second try is that item’s own: the others keep their answers', async () => {
      const { next } = await take(1);
      const full: Wire = {
        runAll: (calls) => stage.connector.runAll(calls),
        // The server fills up between the two tries.
        run: async (call) => {
          await stage.raw.config('SET', 'maxmemory', '1');
          return stage.connector.run(call);
        },
      };
      const results = await new Jobs(full, jobs.queue).enqueueMany([{ payload: 'a' }, { payload: 'b' }]);
      expect(outcomes(results)).toEqual(['failed', 'enqueued']);
      expect(results[0]).toMatchObject({ error: { code: 'OOM' } });
      expect(results[1]?.id).toBe(next);
      expect(await jobs.counts(['pending'])).toEqual({ pending: 1 });
    });
  });
});
