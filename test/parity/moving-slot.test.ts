/**
 * A slot on the move: a key that is not here may be at the other node already, so nothing is taken for a ghost and no
 * key is made anew. Native commands answer TRYAGAIN, scripts are refused by the server at their first look, and neither
 * writes a byte; when the slot has settled the same calls do their work.
 */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { Keyspace, transitions } from '../../src/index.js';
import { bytesOf, snapshot } from '../../src/parity/keyspace-dump.js';
import { ask, type Answer } from '../../src/parity/node.js';
import { executorOf, loadFrame } from '../../src/wire/executor.js';
import { controlCases, QUEUES } from './situations/controls.js';
import { flowCases } from './situations/flows.js';
import { kinCases } from './situations/kin.js';
import { laneCases } from './situations/lanes.js';
import { limitCases } from './situations/limits.js';
import { repeatCases } from './situations/repeats.js';
import type { Names } from './situations/index.js';

const keys = new Keyspace('moving');
const id = 'JOB0KHTOWnGLuC';
const other = 'JOB0KHTOWnGLuD';
const group = 'PRT0KHTOWnGLu1';
let servers: EmbeddedServer[];
let nodes: Redis[];
let here: Redis;
let slot: number;
let move: () => Promise<void>;

const command = (client: Redis, ...[name, ...args]: [string, ...(string | number)[]]) => client.call(name, ...args);

beforeAll(async () => {
  const args = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'];
  servers = await Promise.all([0, 1].map(() => startServer({ module: true, fetch: true, port: 'free', args })));
  nodes = servers.map(({ url }) => new Redis(url));
  const [a, b] = nodes as [Redis, Redis];
  here = a;
  await command(a, 'CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
  await command(a, 'CLUSTER', 'MEET', '127.0.0.1', servers[1]?.port ?? 0);
  const [idOfA, idOfB] = await Promise.all([a, b].map((node) => command(node, 'CLUSTER', 'MYID') as Promise<string>));
  await vi.waitUntil(
    async () =>
      String(await command(a, 'CLUSTER', 'NODES')).includes(String(idOfB)) &&
      /cluster_state:ok/.test(String(await command(a, 'CLUSTER', 'INFO'))),
    { timeout: 20_000, interval: 50 },
  );
  slot = Number(await command(a, 'CLUSTER', 'KEYSLOT', keys.base));
  move = async () => {
    await command(b, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(idOfA));
    await command(a, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(idOfB));
  };
  for (const { script } of Object.values(transitions)) {
    const { command: load, args: words } = loadFrame(script);
    await command(a, load, ...(words as string[]));
  }
});

afterAll(async () => {
  for (const node of nodes) node.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

beforeEach(async () => {
  await command(here, 'CLUSTER', 'SETSLOT', slot, 'STABLE');
  await command(here, 'FLUSHALL');
  await here.set(keys.version, 'echomq:6.0.0');
});

/** One lapsed and one dead, one scheduled and one pending job, so that every declared key is here. */
async function fill(row: Record<string, string>): Promise<void> {
  await here.zadd(keys.active, 1, id);
  for (const set of [keys.pending, keys.schedule, keys.dead]) await here.zadd(set, 5e12, other);
  if (Object.keys(row).length > 0) await here.hset(keys.job(id), row);
}

const flat = { state: 'active', attempts: '1', payload: 'p' };
const held = { id, token: 1 };
const calls = {
  claim: () => transitions.claim.layout(keys, { leaseMs: 60_000 }),
  take: () => transitions.take.layout(keys, { leaseMs: 60_000, count: 5, source: 'both' }),
  release: () => transitions.release.layout(keys, held),
  complete: () => transitions.complete.layout(keys, held),
  fail: () => transitions.fail.layout(keys, { ...held, delayMs: 60_000, maxAttempts: 3, error: 'e' }),
  stalledCheck: () => transitions.stalledCheck.layout(keys, { maxStalled: 1, limit: 10 }),
} as const;

const gone: Record<string, string[]> = {
  // what has moved already, of all that was there: the answer would be "unbranded", "nothing waits", "done", "gone"
  'the brand': [keys.version],
  'all the sets': [keys.pending, keys.active, keys.schedule, keys.dead],
  'the row': [keys.job(id)],
  everything: [keys.version, keys.pending, keys.active, keys.schedule, keys.dead, keys.job(id)],
};

const cases: [keyof typeof calls, string, Record<string, string>][] = [
  ['claim', 'a base that is no key', flat],
  ['take', 'a ring that may be there already', flat],
  ['release', 'a wake list that may be there already', flat],
  ['release', 'lanes that may be there already', { ...flat, group }],
  ['complete', 'a counter that may be there already', flat],
  ['complete', 'lanes that may be there already', { ...flat, group }],
  ['fail', 'a wake list that may be there already', flat],
  ['stalledCheck', 'a row that is no ghost', {}],
  ['stalledCheck', 'a counter that may be there already', flat],
];

describe.each([
  ['native', 6],
  ['script', 4],
] as const)('on the %s executor', (name, wire) => {
  const run = (transition: keyof typeof calls): Promise<Answer> => {
    const frame = executorOf(wire)({ transition: transitions[transition], queue: keys.queue, ...calls[transition]() });
    return ask(here, [frame.command, ...frame.args]);
  };

  it.each(cases)('%s meets %s: refused, no byte changed; then it works', async (transition, _what, row) => {
    await fill(row);
    await move();
    const before = await snapshot(here);
    const refusal = await run(transition);
    expect(refusal.ok).toBe(false);
    if (!refusal.ok) expect(refusal.text).toMatch(name === 'native' ? /^TRYAGAIN / : /TRYAGAIN|non local key/);
    expect(await snapshot(here)).toEqual(before);

    await command(here, 'CLUSTER', 'SETSLOT', slot, 'STABLE');
    expect(await run(transition)).toMatchObject({ ok: true });
    expect(await snapshot(here)).not.toEqual(before);
  });
});

describe.each(Object.keys(calls) as (keyof typeof calls)[])('%s natively, when the other node has', (transition) => {
  it.each(Object.keys(gone))('%s: refused, no byte changed', async (what) => {
    await fill(flat);
    await move();
    for (const key of gone[what] ?? []) await here.del(key);
    const before = await snapshot(here);
    const frame = executorOf(6)({ transition: transitions[transition], queue: keys.queue, ...calls[transition]() });
    const answer = await ask(here, [frame.command, ...frame.args]);
    expect(answer).toMatchObject({ ok: false, text: expect.stringMatching(/^(TRYAGAIN|ASK) /) as string });
    expect(await snapshot(here)).toEqual(before);
  });
});

describe('a node that does not serve the slot', () => {
  it.each(Object.keys(calls) as (keyof typeof calls)[])('sends %s to the one that does', async (transition) => {
    const [, there] = nodes as [Redis, Redis];
    await fill(flat);
    const frame = executorOf(6)({ transition: transitions[transition], queue: keys.queue, ...calls[transition]() });
    const answer = await ask(there, [frame.command, ...frame.args]);
    expect(answer).toMatchObject({ ok: false, text: `MOVED ${slot} 127.0.0.1:${servers[0]?.port}` });
  });
});

describe('the transitions that are scripts on both executors', () => {
  const names: Names = { b: keys.base, id, other, group };
  const cases = { ...kinCases, ...flowCases, ...laneCases, ...limitCases, ...repeatCases, ...controlCases };
  const rows = Object.entries(cases).flatMap(([name, { situations }]) =>
    situations(names)
      // the list of queues is in a slot of its own
      .filter((situation) => !situation.keys.includes(QUEUES))
      .map((situation) => [name, situation.name, situation] as const),
  );

  it.each(rows)(
    '%s: %s: refused where a key may have moved, no byte changed; then it works',
    async (name, _what, s) => {
      for (const [first, ...args] of s.setup) await here.call(first, ...args);
      const touched = [...s.keys, ...Object.keys(s.touches), ...(s.untyped ?? [])];
      const there = await Promise.all(touched.map((key) => here.exists(key)));
      await move();
      const before = await snapshot(here);
      const transition = Object.values(transitions).find((one) => one.name === name);
      if (transition === undefined) throw new Error(`no transition is called ${name}`);
      const run = (): Promise<Answer> => {
        const call = { keys: s.keys.map(bytesOf), args: s.args.map(bytesOf) };
        const frame = executorOf(4)({ transition, queue: keys.queue, ...call });
        return ask(here, [frame.command, ...frame.args]);
      };
      const answer = await run();
      // what is all here can be done here
      expect(answer.ok, answer.ok ? 'done' : answer.text).toBe(there.every((found) => found === 1));
      if (answer.ok) return;
      expect(answer.text).toMatch(/TRYAGAIN|ASK|non local key/);
      expect(await snapshot(here)).toEqual(before);
      await command(here, 'CLUSTER', 'SETSLOT', slot, 'STABLE');
      expect(await run()).toMatchObject({ ok: true });
    },
  );
});

it('a job that waits where the slot is moving to is not called "not active"', async () => {
  await fill({ ...flat, state: 'pending' });
  await here.zadd(keys.active, 5e12, other);
  await here.zrem(keys.active, id);
  await move();
  await here.del(keys.pending);
  const before = await snapshot(here);
  const frame = executorOf(6)({ transition: transitions.complete, queue: keys.queue, ...calls.complete() });
  const answer = await ask(here, [frame.command, ...frame.args]);
  expect(answer).toMatchObject({ ok: false, text: expect.stringMatching(/^TRYAGAIN /) as string });
  expect(await snapshot(here)).toEqual(before);
});
