/**
 * Replication: what a native command sends to replicas and to the append-only file is core commands only, in one
 * transaction; and a replica, an append-only file and a snapshot, each read by a server without the module, hold what
 * the primary holds.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startServer } from '../../src/dev/index.js';
import { Bout } from '../../src/parity/bout.js';
import { differences } from '../../src/parity/compare.js';
import { bytesOf, keysOf, readKeys, type Bytes } from '../../src/parity/keyspace-dump.js';
import { askAll, need, perform, type RawCommand } from '../../src/parity/node.js';
import { rng } from '../../src/parity/prng.js';
import { transitions } from '../../src/wire/transitions.js';
import { startNode, type TestNode } from './nodes.js';
import { REPLICATION, ReplicaTap } from './replica-tap.js';
import { printSeed, runs, seed } from './seed.js';
import { cases, type Names } from './situations/index.js';
import { cmd } from './situations/scene.js';

printSeed('replication');

const b = 'emq:{replication}:';
const names: Names = { b, id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };
/** What a server without the module understands, in all versions. */
const CORE = new Set(['DEL', 'HDEL', 'HINCRBY', 'HSET', 'LPUSH', 'LREM', 'LTRIM', 'RPUSH', 'SET', 'ZADD', 'ZREM']);

describe('the literal stream', () => {
  let node: TestNode;
  let tap: ReplicaTap;
  beforeAll(async () => {
    node = await startNode('native', { args: REPLICATION });
    tap = await ReplicaTap.open(node);
  });
  afterAll(async () => {
    tap.close();
    await node[Symbol.asyncDispose]();
  });

  async function streamOf(
    setup: readonly RawCommand[],
    transition: string,
    keys: readonly Bytes[],
    args: readonly Bytes[],
  ) {
    await node.reset();
    for (const command of setup) await need(node.client, command);
    await tap.take();
    const answer = await perform(node, { transition, keys: keys.map(bytesOf), args: args.map(bytesOf) });
    return { answer, stream: await tap.take() };
  }

  for (const transition of Object.values(transitions)) {
    if (!('native' in transition)) continue;
    for (const { name, setup, keys, args } of cases[transition.name]?.situations(names) ?? []) {
      test(`${transition.native}: ${name}: core commands in one transaction`, async () => {
        const { answer, stream } = await streamOf(setup, transition.name, keys, args);
        expect(answer.ok).toBe(true);
        expect(stream[0]).toEqual(['MULTI']);
        expect(stream.at(-1)).toEqual(['EXEC']);
        const effects = stream.slice(1, -1);
        expect(effects.length).toBeGreaterThan(1);
        expect(effects.filter(([command]) => !CORE.has(command ?? ''))).toEqual([]);
        expect(effects.filter(([, key]) => !key?.startsWith(b))).toEqual([]);
      });
    }
    for (const { name, setup, keys, args } of cases[transition.name]?.refusals(names) ?? []) {
      test(`${transition.native}: ${name}: nothing`, async () => {
        const { answer, stream } = await streamOf(setup, transition.name, keys, args);
        expect(answer.ok).toBe(false);
        expect(stream).toEqual([]);
      });
    }
  }

  test('a claim, word for word', async () => {
    const row = `${b}job:${names.id}`;
    const setup = [
      cmd('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', 'p'),
      cmd('ZADD', `${b}pending`, '0', names.id),
    ];
    const { stream } = await streamOf(setup, 'claim', [`${b}pending`, `${b}active`, b], ['30000']);
    const runId = await need(node.client, ['HGET', row, 'lease_epoch']);
    const deadline = await need(node.client, ['ZSCORE', `${b}active`, names.id]);
    expect(stream).toEqual([
      ['MULTI'],
      ['ZREM', `${b}pending`, names.id],
      ['HSET', row, 'attempts', '1', 'state', 'active', 'lease_epoch', String(runId)],
      ['ZADD', `${b}active`, String(deadline), names.id],
      ['EXEC'],
    ]);
  });

  test('a take from a lane, word for word', async () => {
    const lane = `${b}g:${names.group}:pending`;
    const row = (id: Bytes): Bytes => `${b}job:${id}`;
    const setup = [
      ...[names.id, names.other].map((id) => cmd('HSET', row(id), 'attempts', '0', 'group', names.group)),
      cmd('ZADD', lane, '0', 'JOB0KHTOWnGLuB', '0', names.id, '0', names.other),
      cmd('RPUSH', `${b}ring`, 'empty', names.group),
    ];
    const keys = ['pending', 'ring', 'active', ''].map((name) => b + name);
    const { stream } = await streamOf(setup, 'take', keys, ['30000', '1', 'lanes']);
    const runId = await need(node.client, ['HGET', row(names.id), 'lease_epoch']);
    const deadline = await need(node.client, ['ZSCORE', `${b}active`, names.id]);
    expect(stream).toEqual([
      ['MULTI'],
      ['ZREM', lane, 'JOB0KHTOWnGLuB', names.id],
      ['HSET', row(names.id), 'attempts', '1', 'state', 'active', 'lease_epoch', String(runId)],
      ['ZADD', `${b}active`, String(deadline), names.id],
      ['HINCRBY', `${b}gactive`, names.group, '1'],
      ['LTRIM', `${b}ring`, '2', '-1'],
      ['RPUSH', `${b}ring`, names.group],
      ['LPUSH', `${b}wake`, '1'],
      ['EXEC'],
    ]);
  });

  test('an empty claim sends nothing, the claim of a ghost its removal', async () => {
    const call = [[`${b}pending`, `${b}active`, b], ['30000']] as const;
    expect((await streamOf([], 'claim', ...call)).stream).toEqual([]);
    const take = ['pending', 'ring', 'active', ''].map((name) => b + name);
    expect((await streamOf([], 'take', take, ['30000', '9', 'both'])).stream).toEqual([]);
    const ghost = await streamOf([cmd('ZADD', `${b}pending`, '0', names.id)], 'claim', ...call);
    expect(ghost.stream.filter(([name]) => name !== 'MULTI' && name !== 'EXEC')).toEqual([
      ['ZREM', `${b}pending`, names.id],
    ]);
  });

  test('several commands of one transaction are one transaction', async () => {
    await node.reset();
    for (const id of [names.id, names.other]) {
      await need(node.client, cmd('HSET', `${b}job:${id}`, 'attempts', '0'));
      await need(node.client, cmd('ZADD', `${b}pending`, '0', id));
    }
    await tap.take();
    const claim = cmd('EMQ.CLAIM', '3', `${b}pending`, `${b}active`, b, '30000');
    await askAll(node.client, [['MULTI'], claim, claim, ['EXEC']]);
    const stream = await tap.take();
    expect(stream.filter(([name]) => name === 'MULTI' || name === 'EXEC')).toEqual([['MULTI'], ['EXEC']]);
    expect(stream[0]).toEqual(['MULTI']);
    expect(stream.at(-1)).toEqual(['EXEC']);
    expect(stream).toHaveLength(8);
  });
});

describe('after random transitions', () => {
  test('replica, append-only file and snapshot without the module hold what the primary holds', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'emq-replication-'));
    const clients: Redis[] = [];
    const open = (path: string): Redis => {
      const client = new Redis({ path, retryStrategy: () => null });
      clients.push(client);
      return client;
    };
    try {
      const primary = await startServer({
        module: true,
        port: 'free',
        dir: join(dir, 'primary'),
        args: ['--appendonly', 'yes'],
      });
      await using replica = await startServer({
        args: ['--replicaof', '127.0.0.1', String(primary.port), '--repl-diskless-sync-delay', '0'],
      });
      const client = open(primary.socketPath);
      const copy = open(replica.socketPath);
      // the replica acknowledges this write once it follows
      await need(client, ['SET', '{emq}:version', 'echomq:6.0.0']);
      while ((await need(client, ['WAIT', '1', '1000'])) !== 1);

      const seeds = rng(seed);
      for (const mode of ['clean', 'dirty'] as const) {
        const bout = await Bout.open([{ client, executor: 'native', own: false }], { mode, foreignEpochs: true });
        for (let i = 0; i < 500 * runs(1); i += 1) await bout.step(seeds.below(2 ** 32));
      }

      const held = await everything(client);
      expect(held.keys.size).toBeGreaterThan(10);
      await need(client, ['SET', 'last', '1']);
      expect(await need(client, ['WAIT', '1', '20000'])).toBe(1);
      await need(client, ['DEL', 'last']);
      expect(await need(client, ['WAIT', '1', '20000'])).toBe(1);
      expect(unlike(held, await everything(copy))).toEqual([]);

      await need(client, ['SAVE']);
      await primary.stop();
      for (const [what, args] of [
        ['append-only file', ['--appendonly', 'yes']],
        ['snapshot', []],
      ] as const) {
        await cp(join(dir, 'primary'), join(dir, what), { recursive: true, filter: (path) => !path.endsWith('.sock') });
        await using restarted = await startServer({ dir: join(dir, what), args: [...args] });
        expect(unlike(held, await everything(open(restarted.socketPath))), what).toEqual([]);
      }
    } finally {
      for (const client of clients) client.disconnect();
      await rm(dir, { recursive: true, force: true });
    }
  }, 120_000);
});

/** All keys with their content, and the instants at which they lapse. */
async function everything(client: Redis) {
  const names_ = await keysOf(client);
  const ends = await Promise.all(
    names_.map(async (key) => [key, await need(client, ['PEXPIRETIME', bytesOf(key)])] as const),
  );
  return { keys: await readKeys(client), ends: new Map(ends) };
}

type Everything = Awaited<ReturnType<typeof everything>>;

function unlike(a: Everything, c: Everything): string[] {
  const lapses = [...a.ends]
    .filter(([key, end]) => c.ends.get(key) !== end)
    .map(([key]) => `${key} lapses at another time`);
  return [...differences(a.keys, c.keys, { toleranceMs: 0, anyEpoch: false }), ...lapses];
}
