/**
 * Nodes and keys that are not what `Jobs` needs: a read-only replica, a foreign brand, a server without the module, keys
 * of a wrong type or of two queues. Each is a typed error, and nothing is written.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  Connector,
  EmqError,
  encodeId,
  Jobs,
  transitions,
  type Arg,
  type Transition,
  type Wire,
} from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { claimed, errorOf, EXECUTORS, MINUTE, Stage } from './stage.js';
import { titleOf, verbs } from './verbs.js';

const LEASE = { leaseMs: MINUTE };
const BRAND = { 4: 'echomq:4.0.0', 6: 'echomq:6.0.0' } as const;
// enqueueMany refuses item by item, by the same script as enqueue.
const titled = verbs.filter(({ verb }) => verb !== 'enqueueMany').map((verb) => [titleOf(verb), verb] as const);

describe.each(EXECUTORS)('a read-only replica, %s', (_executor, wire) => {
  let primary: Stage;
  let replica: Stage;
  let count = 0;

  beforeAll(async () => {
    primary = await Stage.start(wire, { port: 'free', args: ['--repl-diskless-sync-delay', '0'] });
    // A short pause: after each READONLY the connector looks for a new connection, since the old one may lead to a
    // primary that was one.
    const connector = { reconnectMinMs: 1, reconnectMaxMs: 5 };
    const args = ['--replicaof', '127.0.0.1', String(primary.server.port)];
    const before = async () => {
      await primary.raw.set('{emq}:version', BRAND[wire]);
      expect(await primary.raw.wait(1, 20_000)).toBe(1);
    };
    replica = await Stage.start(wire, { args, connector, before });
  });
  afterAll(async () => {
    await replica[Symbol.asyncDispose]();
    await primary[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    await primary.raw.flushall();
    await primary.raw.set('{emq}:version', BRAND[wire]);
  });

  it.each(titled)('%s', async (_title, { scene, writes, gives }) => {
    const queue = `replica.${(count += 1)}`;
    const act = await scene({ jobs: primary.jobs(queue), raw: primary.raw });
    expect(await primary.raw.wait(1, 20_000)).toBe(1);
    const jobs = replica.jobs(queue);
    if (writes) return void (await replica.refused('READONLY', () => act(jobs)));
    const answer = await replica.unchanged(() => act(jobs));
    if (typeof gives === 'function') expect(gives(answer)).toBe(true);
    else expect(answer).toEqual(gives);
  });

  it('enqueueMany of many, item by item', async () => {
    const results = await replica.unchanged(() =>
      replica.jobs('replica.many').enqueueMany([1, 2, 3].map((payload) => ({ payload }))),
    );
    expect(results.map(({ outcome }) => outcome)).toEqual(['failed', 'failed', 'failed']);
    for (const result of results) expect(result).toMatchObject({ error: { code: 'READONLY' } });
  });

  it('one that nobody has branded cannot be branded: READONLY, at once', async () => {
    await primary.raw.del('{emq}:version');
    expect(await primary.raw.wait(1, 20_000)).toBe(1);
    await replica.refused('READONLY', () => replica.connect());
    expect((await replica.refused('EMQWIRE', () => replica.connect({ claim: false }))).reason).toMatch(/unbranded/);
  });
});

describe.each(EXECUTORS)('a node of another brand, %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  afterEach(() => stage.raw.set('{emq}:version', BRAND[wire]));

  it.each(['the other wire', 'echomq:5.0.0', 'bullmq', ''])('%j is refused with both brands named', async (found) => {
    const brand = found === 'the other wire' ? BRAND[wire === 4 ? 6 : 4] : found;
    await stage.raw.set('{emq}:version', brand);
    const error = await stage.refused('EMQWIRE', () => stage.connect());
    expect(error.reason).toContain(`needs ${BRAND[wire]}`);
    expect(error.reason).toContain(brand === '' ? '""' : brand);
  });

  it('a brand that is no string is WRONGTYPE', async () => {
    await stage.raw.del('{emq}:version');
    await stage.raw.hset('{emq}:version', 'brand', BRAND[wire]);
    await stage.refused('WRONGTYPE', () => stage.connect());
    await stage.raw.del('{emq}:version');
  });

  it('a brand that changes under a connection stops the native commands, each by itself', async () => {
    if (wire === 4) {
      // Scripts look at the brand at connect only (contract 8); that is what the next connector meets.
      await stage.raw.set('{emq}:version', BRAND[6]);
      await stage.refused('EMQWIRE', () => stage.connect());
      return;
    }
    const connector = await stage.connect({ reconnectMinMs: 1, reconnectMaxMs: 5 });
    const jobs = stage.jobs('brand.changes');
    const job = await claimed(jobs, 1);
    await stage.raw.set('{emq}:version', BRAND[4]);
    for (const call of [
      { transition: transitions.claim, ...transitions.claim.layout(jobs.keys, LEASE) },
      { transition: transitions.complete, ...transitions.complete.layout(jobs.keys, job) },
      {
        transition: transitions.fail,
        ...transitions.fail.layout(jobs.keys, { ...job, delayMs: 0, maxAttempts: 1, error: 'no' }),
      },
      {
        transition: transitions.stalledCheck,
        ...transitions.stalledCheck.layout(jobs.keys, { maxStalled: 1, limit: 9 }),
      },
    ]) {
      const error = await stage.refused('EMQWIRE', () => connector.run({ queue: jobs.queue, ...call }));
      expect(error.reason).toMatch(/node is echomq:4\.0\.0, needs echomq:6\.0\.0/);
    }
  });
});

it('wire 6 on a server without the module: it says so, and brands nothing', async () => {
  await using stage = await Stage.start(4);
  await stage.raw.del('{emq}:version');
  const before = await snapshot(stage.raw);
  const error = await errorOf(() =>
    Connector.connect({ redis: { path: stage.server.socketPath }, wire: 6, connectTimeoutMs: 2_000 }),
  );
  expect(error.code).toBe('EMQWIRE');
  expect(error.reason).toMatch(/module trafikey is not loaded .*EMQ\.CLAIM.* or connect with wire: 4/);
  expect(changedKeys(before, await snapshot(stage.raw))).toEqual([]);
  expect(await stage.raw.exists('{emq}:version')).toBe(0);
});

describe('keys of two queues, native', () => {
  let stage: Stage;
  let a: Jobs<unknown>;
  let b: Jobs<unknown>;
  beforeAll(async () => {
    stage = await Stage.start(6);
    a = stage.jobs('two.a');
    b = stage.jobs('two.b');
    for (const jobs of [a, b]) {
      await jobs.enqueue(1);
      await jobs.enqueue(2);
      await jobs.claim(LEASE);
    }
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  type Layout = { readonly keys: readonly Arg[]; readonly args: readonly Arg[] };
  const held = { id: encodeId('JOB', 1n), token: 1 };
  const failure = { ...held, delayMs: 0, maxAttempts: 1, error: 'no' };
  const sweep = { maxStalled: 1, limit: 1 };
  const commands: readonly (readonly [string, Transition<never, unknown>, (jobs: Jobs<unknown>) => Layout])[] = [
    ['EMQ.CLAIM', transitions.claim, ({ keys }) => transitions.claim.layout(keys, LEASE)],
    ['EMQ.COMPLETE', transitions.complete, ({ keys }) => transitions.complete.layout(keys, held)],
    ['EMQ.FAIL', transitions.fail, ({ keys }) => transitions.fail.layout(keys, failure)],
    ['EMQ.STALLED.CHECK', transitions.stalledCheck, ({ keys }) => transitions.stalledCheck.layout(keys, sweep)],
  ];

  it.each(commands)('%s: each key and the base, taken from the other queue', async (_command, transition, layout) => {
    const [own, other] = [layout(a), layout(b)];
    const mixed: Layout[] = own.keys.map((_, i) => ({ ...own, keys: own.keys.with(i, other.keys[i] as Arg) }));
    // The base is an argument of three of them.
    const at = own.args.indexOf(a.keys.base);
    if (at >= 0) mixed.push({ ...own, args: own.args.with(at, b.keys.base) });
    expect(mixed.length).toBeGreaterThanOrEqual(3);
    for (const { keys, args } of mixed) {
      const call = { transition, queue: a.queue, keys, args };
      const error = await stage.refused('ERR', () => stage.connector.run(call));
      expect(error.reason).toBe('ERR keys do not belong to one queue');
    }
  });

  it.each(commands)(
    '%s: a key in the place of another, or of no queue at all',
    async (_command, transition, layout) => {
      const own = layout(a);
      const strange: readonly Arg[] = [
        'x',
        '',
        '{emq}:version',
        'emq:{emq}:active',
        'emq:{two.a}:',
        'emq:{two.a}:schedule ',
      ];
      for (const [i] of own.keys.entries()) {
        for (const name of strange.filter((key) => key !== own.keys[i])) {
          const call = { transition, queue: a.queue, keys: own.keys.with(i, name), args: own.args };
          const error = await stage.refused('ERR', () => stage.connector.run(call));
          expect(error.reason).toBe('ERR keys do not belong to one queue');
        }
      }
    },
  );
});

describe.each(EXECUTORS)('keys of a wrong type, %s', (_executor, wire) => {
  let stage: Stage;
  let count = 0;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  afterEach(async () => {
    await stage.raw.flushall();
    await stage.raw.set('{emq}:version', BRAND[wire]);
  });

  it.each(titled)('%s', async (_title, { verb, scene }) => {
    // Every key that the verb declares is in turn of a type that no key of a queue has there.
    const name = `types.${(count += 1)}`;
    const jobs = stage.jobs(name);
    const act = await scene({ jobs, raw: stage.raw });
    // A minted id has another row at each call: what two calls have in common can be put there beforehand.
    const again = await keysOf(act, name);
    const { base, pending, active, schedule, dead } = jobs.keys;
    const declared =
      verb === 'counts'
        ? [pending, active, schedule, dead, jobs.keys.metrics('completed'), jobs.keys.metrics('failed')]
        : (await keysOf(act, name)).filter((key) => key !== base && again.includes(key));
    expect(declared.length).toBeGreaterThan(0);
    for (const key of declared) {
      const saved = await stage.raw.dumpBuffer(key);
      await stage.raw.del(key);
      await stage.raw.xadd(key, '1-1', 'a', 'stream');
      await stage.refused('WRONGTYPE', () => act(jobs));
      await stage.raw.del(key);
      if (saved !== null) await stage.raw.restore(key, 0, saved);
    }
  });

  it('extendMany leaves a job with such a row out, and renews the others', async () => {
    const jobs = stage.jobs('types.extend');
    await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }]);
    const [good, bad] = await jobs.claimBatch({ ...LEASE, size: 2 });
    if (good === undefined || bad === undefined) throw new Error('two jobs were to be claimed');
    await stage.raw.del(jobs.keys.job(bad.id));
    await stage.raw.set(jobs.keys.job(bad.id), 'no hash');
    expect(await jobs.extendMany([bad, good], { leaseMs: 2 * MINUTE })).toEqual([bad.id]);
    const [renewed, left] = await stage.raw.zmscore(jobs.keys.active, good.id, bad.id);
    expect(Number(renewed)).toBeGreaterThan(Number(left));
  });
});

/** The keys that a verb declares: it is called on a wire that only looks. */
async function keysOf(act: (jobs: Jobs<unknown>) => Promise<unknown>, queue: string): Promise<string[]> {
  let seen: readonly Arg[] = [];
  const run: Wire['run'] = async (call) => {
    seen = call.keys;
    throw new EmqError('EMQ_CLOSED', 'this wire only looks');
  };
  const runAll: Wire['runAll'] = () => Promise.reject(new Error('not looked at here'));
  await errorOf(() => act(new Jobs({ run, runAll }, queue)));
  return seen.map(String);
}
