/**
 * Dedup ids: what each mode does while the owner waits, is scheduled, runs, is dead or is done; that every exit of the owner
 * frees its id, and no other job's.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Admin, Jobs, Lanes, mint, type DedupOptions, type HeldJob } from '../../../src/index.js';
import { EXECUTORS, MINUTE, Stage } from '../../conformance/stage.js';

const LEASE = { leaseMs: MINUTE };
const NAME = 'order-7';
const DEATH = { delayMs: 0, maxAttempts: 1, error: 'broken' };

describe.each(EXECUTORS)('dedup on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`dedup.${(count += 1)}`);
  });

  const add = (payload: unknown, dedup: Partial<DedupOptions> = {}) =>
    jobs.enqueue(payload, { dedup: { id: NAME, ...dedup } });
  const owner = async () => (await jobs.dedupOwner(NAME))?.id;
  async function claim(): Promise<HeldJob> {
    const job = await jobs.claim(LEASE);
    if (job === null) throw new Error('nothing was claimed');
    return job;
  }

  describe('drop, the default', () => {
    it('admits one job at a time: while it waits, runs, or is put off', async () => {
      const first = await add(1);
      expect(first.outcome).toBe('enqueued');
      const again = { id: first.id, outcome: 'deduplicated' };
      expect(await stage.unchanged(() => add(2))).toEqual(again);
      const job = await claim();
      expect(await stage.unchanged(() => add(2))).toEqual(again);
      await jobs.delay(job, { inMs: MINUTE });
      expect(await stage.unchanged(() => add(2))).toEqual(again);
      expect(await stage.unchanged(() => jobs.schedule(2, { inMs: 1 }, { dedup: { id: NAME } }))).toEqual(again);
      expect(await jobs.counts(['pending', 'active', 'scheduled'])).toEqual({ pending: 0, active: 0, scheduled: 1 });
      expect(await add(2, { id: 'another' })).toMatchObject({ outcome: 'enqueued' });
    });

    it('tells a job of the same id from one of the same dedup id', async () => {
      const id = mint();
      const own = { id, dedup: { id: NAME } };
      expect(await jobs.enqueue(1, own)).toEqual({ id, outcome: 'enqueued' });
      expect(await stage.unchanged(() => jobs.enqueue(1, own))).toEqual({ id, outcome: 'duplicate' });
      expect(await stage.unchanged(() => jobs.enqueue(1, { ...own, id: mint() }))).toEqual({
        id,
        outcome: 'deduplicated',
      });
    });

    it('with a time: the id is free when it is over, and the owner of old does not free the new one', async () => {
      const old = await add(1, { ttlMs: MINUTE });
      expect((await jobs.dedupOwner(NAME))?.ttlMs).toBeGreaterThan(MINUTE / 2);
      // the time is over
      await stage.raw.del(jobs.keys.dedup(NAME));
      const fresh = await add(2, { ttlMs: MINUTE });
      expect(fresh.outcome).toBe('enqueued');
      const [first, second] = [await claim(), await claim()];
      expect([first.id, second.id]).toEqual([old.id, fresh.id]);
      await jobs.complete(first);
      expect(await owner()).toBe(fresh.id);
      await jobs.complete(second);
      expect(await owner()).toBeUndefined();
    });

    it('without a time: an id whose job is not there is nobody’s', async () => {
      await stage.raw.set(jobs.keys.dedup(NAME), mint());
      const next = await add(1);
      expect(next.outcome).toBe('enqueued');
      expect(await owner()).toBe(next.id);
    });

    it('keep: an idempotency key outlives the completion, until its time is over', async () => {
      const { id } = await add(1, { ttlMs: MINUTE, keep: true });
      await jobs.complete(await claim());
      expect(await jobs.get(id)).toBeNull();
      expect(await stage.unchanged(() => add(2, { ttlMs: MINUTE, keep: true }))).toEqual({
        id,
        outcome: 'deduplicated',
      });
      expect(await jobs.freeDedup(NAME)).toBe('freed');
      expect(await jobs.freeDedup(NAME)).toBe('absent');
      expect((await add(3)).outcome).toBe('enqueued');
    });
  });

  describe('throttle', () => {
    it('admits one job in a time, though it is done long since', async () => {
      const throttle = { mode: 'throttle', ttlMs: MINUTE } as const;
      const { id } = await add(1, throttle);
      await jobs.complete(await claim());
      expect(await stage.unchanged(() => add(2, throttle))).toEqual({ id, outcome: 'deduplicated' });
      expect(await stage.raw.pttl(jobs.keys.dedup(NAME))).toBeGreaterThan(MINUTE / 2);
    });

    it('a death frees the id all the same, and keep: false a completion too', async () => {
      await add(1, { mode: 'throttle', ttlMs: MINUTE });
      expect(await jobs.fail(await claim(), DEATH)).toBe('dead');
      expect(await owner()).toBeUndefined();
      await add(2, { mode: 'throttle', ttlMs: MINUTE, keep: false });
      await jobs.complete(await claim());
      expect(await owner()).toBeUndefined();
    });
  });

  describe('replace', () => {
    const replace = { mode: 'replace' } as const;

    it('gives the waiting job the new payload, and the opts if there are any; its place stays', async () => {
      const first = await jobs.enqueue('old', { name: 'mail', dedup: { id: NAME, ...replace } });
      await jobs.enqueue('between');
      expect(await add('new', replace)).toEqual({ id: first.id, outcome: 'replaced' });
      expect(JSON.parse(String((await jobs.get(first.id))?.fields.get('opts')))).toEqual({ name: 'mail' });
      const named = { name: 'letter', dedup: { id: NAME, ...replace } };
      expect(await jobs.enqueue('newer', named)).toEqual({ id: first.id, outcome: 'replaced' });
      const [job] = await jobs.take({ ...LEASE, count: 1 });
      expect(job).toMatchObject({ id: first.id, payload: 'newer', name: 'letter' });
    });

    it('works for one in a lane, and gives the id a new time', async () => {
      const group = mint('TEN');
      const { id } = await jobs.enqueue('old', { group, dedup: { id: NAME, ...replace, ttlMs: MINUTE } });
      await stage.raw.pexpire(jobs.keys.dedup(NAME), 1_000_000);
      expect(await add('new', { ...replace, ttlMs: MINUTE })).toEqual({ id, outcome: 'replaced' });
      expect((await jobs.dedupOwner(NAME))?.ttlMs).toBeLessThanOrEqual(MINUTE);
      expect(await new Lanes(stage.connector, jobs.queue).claim(LEASE)).toMatchObject({ id, payload: 'new' });
    });

    it('puts a scheduled one off again (debounce), and leaves its time where no time is given', async () => {
      const dedup = { id: NAME, ...replace };
      const { id } = await jobs.schedule('old', { at: 1_000 }, { dedup });
      expect(await jobs.schedule('newer', { at: 5_000 }, { dedup })).toEqual({ id, outcome: 'replaced' });
      expect(await stage.raw.zscore(jobs.keys.schedule, id)).toBe('5000');
      expect(await jobs.enqueue('newest', { dedup })).toEqual({ id, outcome: 'replaced' });
      expect(await stage.raw.zscore(jobs.keys.schedule, id)).toBe('5000');
      await jobs.promote();
      expect(await jobs.claim(LEASE)).toMatchObject({ id, payload: 'newest' });
    });

    it('admits a new job beside one that runs; the id is the new one’s, and the old one’s end leaves it so', async () => {
      const old = await add('old', replace);
      const running = await claim();
      const fresh = await add('new', replace);
      expect(fresh.outcome).toBe('enqueued');
      expect(await owner()).toBe(fresh.id);
      expect(running.id).toBe(old.id);
      await jobs.complete(running);
      expect(await owner()).toBe(fresh.id);
    });
  });

  describe('many at once', () => {
    it('of fifty producers on two connections one gets the id', async () => {
      const other = new Jobs(await stage.connect(), jobs.queue);
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? jobs : other).enqueue(n, { dedup: { id: NAME } })),
      );
      expect(results.filter(({ outcome }) => outcome === 'enqueued')).toHaveLength(1);
      expect(new Set(results.map(({ id }) => id))).toEqual(new Set([await owner()]));
      expect(await jobs.counts(['pending'])).toEqual({ pending: 1 });
    });

    it('each item is judged by itself, plain ones go as before, and outcomes are in their order', async () => {
      const group = mint('TEN');
      const results = await jobs.enqueueMany([
        { payload: 1, dedup: { id: 'a' } },
        { payload: 2 },
        { payload: 3, dedup: { id: 'a' } },
        { payload: 4, group },
        { payload: 5, group, dedup: { id: 'a', mode: 'replace' } },
      ]);
      const outcomes = results.map(({ outcome }) => outcome);
      expect(outcomes).toEqual(['enqueued', 'enqueued', 'deduplicated', 'enqueued', 'replaced']);
      const first = results[0]?.id;
      expect([results[2]?.id, results[4]?.id]).toEqual([first, first]);
      expect(await jobs.get(first ?? '')).toMatchObject({ state: 'pending', bytes: Buffer.from('5') });
      expect(await jobs.counts(['pending'])).toEqual({ pending: 2 });
    });
  });

  describe('every exit of the owner frees its id, and only its own', () => {
    type Exit = (id: string, held: () => Promise<HeldJob>) => Promise<unknown>;
    const admin = () => new Admin(stage.connector, jobs.queue);
    const exits: readonly (readonly [string, Exit])[] = [
      ['completed', async (_id, held) => jobs.complete(await held())],
      ['dead at its cap', async (_id, held) => jobs.fail(await held(), DEATH)],
      [
        'stalled out',
        async (_id, held) => {
          await stage.lapse(jobs.keys.active, (await held()).id);
          expect((await jobs.stalledCheck({ maxStalled: 1 })).dead).toHaveLength(1);
        },
      ],
      ['removed', async (id) => jobs.remove(id)],
      ['cancelled', async (id) => jobs.cancel(id)],
      [
        'quarantined',
        async (id) => {
          await stage.raw.hset(jobs.keys.job(id), 'attempts', 'x');
          expect(await jobs.quarantine()).toHaveLength(1);
        },
      ],
      ['drained', async () => admin().drain()],
      [
        'drained while it is scheduled',
        async (_id, held) => {
          await jobs.delay(await held(), { inMs: MINUTE });
          await admin().drain({ scheduled: true });
        },
      ],
      [
        'trimmed, after a reprocess gave nobody the id back',
        async (id, held) => {
          await jobs.fail(await held(), DEATH);
          // as one that died while another client kept its key
          await stage.raw.set(jobs.keys.dedup(NAME), id);
          expect(await admin().trimDead({ keep: 0 })).toEqual({ removed: 1, kept: 0 });
        },
      ],
      [
        'obliterated',
        async () => {
          await jobs.pause();
          await admin().obliterate();
        },
      ],
    ];

    it.each(exits)('%s', async (_how, exit) => {
      const { id } = await add(1);
      expect(await owner()).toBe(id);
      await exit(id, claim);
      expect(await owner()).toBeUndefined();
      expect((await add(2)).outcome).toBe('enqueued');
    });

    it.each(exits.filter(([how]) => !how.startsWith('trimmed')))(
      '%s, when the id is another job’s',
      async (_how, exit) => {
        const { id } = await add(1);
        const other = mint();
        await stage.raw.set(jobs.keys.dedup(NAME), other);
        await exit(id, claim);
        expect(await owner()).toBe(other);
      },
    );
  });
});

describe('wrong input', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(4);
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  it.each([
    ['an id outside the grammar', { id: 'a b' }, /dedup id "a b" must be 1 to 255/],
    ['no id', {}, /dedup id undefined must be/],
    ['an unknown mode', { id: 'a', mode: 'once' }, /mode of dedup must be drop, throttle or replace, got "once"/],
    ['throttle without a time', { id: 'a', mode: 'throttle' }, /throttle needs ttlMs/],
    ['keep without a time', { id: 'a', keep: true }, /keep needs ttlMs/],
    ['a time of 0', { id: 'a', ttlMs: 0 }, /ttlMs of dedup must be an integer from 1/],
    ['keep that is no truth', { id: 'a', ttlMs: 5, keep: 1 }, /keep of dedup must be true or false, got 1/],
    ['an unknown option', { id: 'a', ttl: 5 }, /unknown option "ttl" of dedup/],
    ['no object', 'a', /options of dedup must be an object/],
  ])('%s', async (_what, dedup, text) => {
    const jobs = stage.jobs('wrong');
    const error = await stage.refused('EMQ_INPUT', () => jobs.enqueue(1, { dedup: dedup as DedupOptions }));
    expect(error.reason).toMatch(text);
    const options = { dedup: dedup as DedupOptions };
    await stage.refused('EMQ_INPUT', () => jobs.enqueueMany([{ payload: 1 }, { payload: 2, ...options }]));
    await stage.refused('EMQ_INPUT', () => jobs.schedule(1, { inMs: 1 }, options));
  });

  it('a group that is no branded id', async () => {
    const jobs = stage.jobs('wrong');
    const error = await stage.refused('EMQ_INPUT', () => jobs.enqueue(1, { group: 'tenant-1' }));
    expect(error.reason).toMatch(/group "tenant-1" must be a branded id/);
  });
});
