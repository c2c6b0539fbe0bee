/**
 * `Admin.reprocessAll`: exactly the dead that fit, over many pages, also while jobs die, die again or are taken out.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Admin, mint, type DeadFilter, type Jobs, type Wire } from '../../../src/index.js';
import { EXECUTORS, MINUTE, Stage } from '../../conformance/stage.js';

const LEASE = { leaseMs: MINUTE };

describe.each(EXECUTORS)('reprocessAll on %s', (_executor, wire) => {
  let stage: Stage;
  let jobs: Jobs<unknown>;
  let admin: Admin;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  beforeEach(() => {
    jobs = stage.jobs(`reprocess.${(count += 1)}`);
    admin = new Admin(stage.connector, jobs.queue);
  });
  afterEach(async () => {
    const keys = await stage.raw.keys(`${jobs.keys.base}*`);
    if (keys.length > 0) await stage.raw.del(...keys);
  });

  interface Dead {
    readonly error?: string | undefined;
    readonly name?: string;
    readonly group?: string;
    /** When it died, Unix ms. */
    readonly at?: number;
  }
  async function die(many: readonly Dead[]): Promise<string[]> {
    const items = many.map(({ name, group }) => ({ payload: 1, name, group }));
    const ids = (await jobs.enqueueMany(items)).map(({ id }) => id);
    const taken = await jobs.take({ ...LEASE, count: many.length });
    expect(taken).toHaveLength(many.length);
    await Promise.all(
      taken.map(async (job) => {
        const { error = 'broken', at } = many[ids.indexOf(job.id)] ?? {};
        await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error });
        if (at !== undefined) await stage.raw.zadd(jobs.keys.dead, 'XX', at, job.id);
      }),
    );
    return ids;
  }
  const dead = () => jobs.browse('dead', { limit: 10_000, order: 'asc' });
  const every = (filter?: DeadFilter, limit?: number) =>
    admin.reprocessAll({ ...(filter && { filter }), ...(limit !== undefined && { limit }) });

  it('without a filter: all of them; they wait again as new ones do', async () => {
    const ids = await die([{}, { error: 'x' }]);
    expect(await every()).toEqual({ reprocessed: 2, held: 0, looked: 2 });
    expect(await dead()).toEqual([]);
    expect(await jobs.get(ids[0] ?? '')).toMatchObject({ state: 'pending', attempts: 1, credit: 1 });
    expect(await stage.unchanged(() => every())).toEqual({ reprocessed: 0, held: 0, looked: 0 });
  });

  it('by a part of the error, an expression, the name, the lane, or all of these', async () => {
    const [a, b] = [mint('TEN'), mint('TEN')];
    const errors = ['timeout of mail', 'no such user', 'timeout of letter', 'TIMEOUT'];
    const ids = await die([
      { error: errors[0], name: 'mail' },
      { error: errors[1], name: 'mail', group: a },
      { error: errors[2], name: 'letter', group: a },
      { error: errors[3], group: b },
    ]);
    const back = async (filter: DeadFilter) => {
      const before = await dead();
      const { reprocessed, looked } = await every(filter);
      const left = await dead();
      expect([reprocessed, looked]).toEqual([before.length - left.length, before.length]);
      const went = before.filter((id) => !left.includes(id));
      const waiting = await jobs.take({ ...LEASE, count: 9 });
      expect(waiting.map(({ id }) => id).sort()).toEqual([...went].sort());
      // dead again as they were
      for (const job of waiting) {
        await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: errors[ids.indexOf(job.id)] ?? '' });
      }
      return went.map((id) => ids.indexOf(id)).sort();
    };
    expect(await back({ error: 'timeout' })).toEqual([0, 2]);
    expect(await back({ error: /^timeout$/i })).toEqual([3]);
    expect(await back({ error: /timeout/gi })).toEqual([0, 2, 3]);
    expect(await back({ name: 'mail' })).toEqual([0, 1]);
    expect(await back({ group: a })).toEqual([1, 2]);
    expect(await back({ group: a, error: 'timeout' })).toEqual([2]);
    expect(await back({ group: b, name: 'mail' })).toEqual([]);
  });

  it('by the time of death', async () => {
    const now = await stage.now();
    const ids = await die([{ at: now - 50 * MINUTE }, { at: now - 30 * MINUTE }, { at: now - 10 * MINUTE }]);
    expect(await every({ olderThanMs: 20 * MINUTE, newerThanMs: 40 * MINUTE })).toEqual({
      reprocessed: 1,
      held: 0,
      looked: 3,
    });
    expect(await dead()).toEqual([ids[0], ids[2]]);
    expect(await every({ newerThanMs: 20 * MINUTE })).toMatchObject({ reprocessed: 1 });
    expect(await every({ olderThanMs: 20 * MINUTE })).toMatchObject({ reprocessed: 1 });
  });

  it('over many pages, with those that stay in between; no more than the limit, the oldest deaths first', async () => {
    const ids = await die(Array.from({ length: 330 }, (_, i) => ({ error: i % 3 === 0 ? 'yes' : 'no', at: i + 1 })));
    const fitting = ids.filter((_, i) => i % 3 === 0);
    expect(await every({ error: 'yes' }, 40)).toMatchObject({ reprocessed: 40 });
    expect((await dead()).filter((id) => fitting.includes(id))).toEqual(fitting.slice(40));
    expect(await every({ error: 'yes' })).toEqual({ reprocessed: 70, held: 0, looked: 290 });
    expect(await dead()).toEqual(ids.filter((_, i) => i % 3 !== 0));
    expect(await stage.unchanged(() => every({ error: 'yes' }))).toEqual({ reprocessed: 0, held: 0, looked: 220 });
  });

  it('passes by an id without a row', async () => {
    await stage.raw.zadd(jobs.keys.dead, 1, mint());
    const [id] = await die([{}]);
    expect(await every()).toEqual({ reprocessed: 1, held: 0, looked: 2 });
    expect(await jobs.state(id ?? '')).toBe('pending');
  });

  describe('while others work', () => {
    /** An admin between whose calls something else happens, once. */
    function meanwhile(transition: string, happen: () => Promise<unknown>): Admin {
      let happened = false;
      const { connector } = stage;
      const look = async (name: string | undefined): Promise<void> => {
        if (name !== transition || happened) return;
        happened = true;
        await happen();
      };
      const between: Wire = {
        run: async (call) => {
          const reply = await connector.run(call);
          await look(call.transition.name);
          return reply;
        },
        runAll: async (calls) => {
          const outcomes = await connector.runAll(calls);
          await look(calls[0]?.transition.name);
          return outcomes;
        },
      };
      return new Admin(between, jobs.queue);
    }

    it('jobs that die meanwhile are not looked at, and one that dies again at once is not met twice', async () => {
      await die(Array.from({ length: 150 }, (_, i) => ({ at: i + 1 })));
      let late: string[] = [];
      const busy = meanwhile('reprocess', async () => {
        const again = await jobs.claimBatch({ ...LEASE, size: 5 });
        for (const job of again) {
          await jobs.fail(job, { delayMs: 0, maxAttempts: 1, error: 'again' });
          // not in the millisecond in which the pass began
          await stage.raw.zincrby(jobs.keys.dead, MINUTE, job.id);
        }
        late = [...again.map(({ id }) => id), mint()];
        await stage.raw.zadd(jobs.keys.dead, (await stage.now()) + MINUTE, late[5] ?? '');
      });
      expect(await busy.reprocessAll()).toEqual({ reprocessed: 150, held: 0, looked: 150 });
      expect((await dead()).sort()).toEqual(late.sort());
    });

    it('a trim of the oldest meanwhile hides none', async () => {
      const ids = await die(Array.from({ length: 300 }, (_, i) => ({ error: i < 200 ? 'no' : 'yes', at: i + 1 })));
      const busy = meanwhile('browse', () => admin.trimDead({ keep: 150 }));
      expect(await busy.reprocessAll({ filter: { error: 'yes' } })).toMatchObject({ reprocessed: 100 });
      expect(await dead()).toEqual(ids.slice(150, 200));
    });

    it('one that somebody else brings back first is not counted', async () => {
      const ids = await die([{}, {}]);
      const busy = meanwhile('get', () => admin.reprocess(ids[1] ?? ''));
      expect(await busy.reprocessAll()).toEqual({ reprocessed: 1, held: 0, looked: 2 });
      expect(await dead()).toEqual([]);
    });
  });

  it.each<[string, unknown, RegExp]>([
    ['an unknown part', { filter: { reason: 'x' } }, /unknown option "reason" of a filter of the dead/],
    ['an error of a number', { filter: { error: 5 } }, /error of a filter must be a text or a RegExp, got 5/],
    ['a name of a number', { filter: { name: 5 } }, /name of a filter must be a text/],
    ['a group', { filter: { group: 'a' } }, /group "a" must be a branded id/],
    ['an age', { filter: { olderThanMs: -1 } }, /olderThanMs must be an integer from 0/],
    ['a limit', { limit: 0 }, /limit must be an integer from 1/],
    ['an option', { error: 'x' }, /unknown option "error" of reprocessAll/],
  ])('refuses %s', async (_what, options, text) => {
    const error = await stage.refused('EMQ_INPUT', () => admin.reprocessAll(options as never));
    expect(error.reason).toMatch(text);
  });
});
