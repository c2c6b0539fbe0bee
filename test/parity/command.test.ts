/**
 * The native commands as citizens of the server: what COMMAND and INFO say about them, WATCH, MULTI and scripts, and that
 * the module stays.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Redis } from 'ioredis';
import type { Reply } from '../../src/wire/call.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { ask, askAll, need, type RawCommand } from '../../src/parity/node.js';
import { NATIVE_COMMANDS } from '../../src/wire/fence.js';
import { startNode, type TestNode } from './nodes.js';
import { cmd } from './situations/scene.js';

const b = 'emq:{command}:';
const id = 'JOB0KHTOWnGLuC';
const row = `${b}job:${id}`;
const claim = cmd('EMQ.CLAIM', '3', `${b}pending`, `${b}active`, b, '30000');
const complete = (token: string) => cmd('EMQ.COMPLETE', '2', `${b}active`, row, id, token, b);
const takeKeys = ['pending', 'ring', 'active', ''].map((name) => b + name);
const take = (count = '1') => cmd('EMQ.TAKE', '4', ...takeKeys, '30000', count, 'both');
const release = (token: string) => cmd('EMQ.RELEASE', '3', `${b}active`, `${b}pending`, row, id, token, b);
const waiting = [
  cmd('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', 'p'),
  cmd('ZADD', `${b}pending`, '0', id),
];

let node: TestNode;
beforeAll(async () => {
  node = await startNode('native', { args: ['--enable-module-command', 'yes'] });
});
afterAll(() => node[Symbol.asyncDispose]());
beforeEach(() => node.reset());

/** A reply as plain text and numbers. */
const plain = (reply: Reply): unknown =>
  Array.isArray(reply) ? reply.map(plain) : Buffer.isBuffer(reply) ? reply.toString() : reply;
/** A map that came as a flat list. */
const fields = (reply: unknown): Map<string, unknown> => {
  const flat = reply as unknown[];
  return new Map(flat.flatMap((name, i) => (i % 2 === 0 ? [[String(name), flat[i + 1]] as const] : [])));
};
const told = async (command: RawCommand, client: Redis = node.client): Promise<unknown> => {
  const answer = await ask(client, command);
  return answer.ok ? plain(answer.reply) : `-${answer.text}`;
};

describe('COMMAND', () => {
  test('INFO: write and fast, not denied when memory is full, in the category emq', async () => {
    const infos = (await told(['COMMAND', 'INFO', ...NATIVE_COMMANDS])) as unknown[][];
    expect(infos.map(([name]) => String(name).toUpperCase())).toEqual(NATIVE_COMMANDS);
    for (const [name, arity, flags, , , , categories] of infos) {
      expect(flags, String(name)).toEqual(expect.arrayContaining(['write', 'fast', 'module', 'movablekeys']));
      expect(flags, String(name)).not.toEqual(expect.arrayContaining(['denyoom']));
      for (const never of ['noscript', 'no_multi', 'admin', 'blocking', 'no_mandatory_keys'])
        expect(flags).not.toContain(never);
      expect(categories).toContain('@emq');
      if (/complete|fail/.test(String(name))) expect(arity).toBeLessThan(0);
    }
    // ACL CAT lists no command of a module, whatever its category
    expect(await told(['ACL', 'CAT'])).toContain('emq');
    await need(node.client, ['ACL', 'SETUSER', 'worker', 'reset', '+@emq', '~*']);
    for (const command of [claim, take(), release('1'), complete('1')])
      expect(await told(['ACL', 'DRYRUN', 'worker', ...command])).toBe('OK');
    expect(await told(['ACL', 'DRYRUN', 'worker', 'GET', 'x'])).toMatch(/no permissions/);
    await need(node.client, ['ACL', 'DELUSER', 'worker']);
  });

  test('GETKEYS: the declared keys, whatever their number', async () => {
    const keys = (...command: string[]) => told(['COMMAND', 'GETKEYS', ...command]);
    expect(await keys('EMQ.CLAIM', '3', 'p', 'a', 'b', '30000')).toEqual(['p', 'a', 'b']);
    expect(await keys('EMQ.TAKE', '4', 'p', 'r', 'a', 'b', '30000', '5', 'both')).toEqual(['p', 'r', 'a', 'b']);
    expect(await keys('EMQ.CLAIM.BATCH', '3', 'p', 'a', 'b', '30000', '5')).toEqual(['p', 'a', 'b']);
    expect(await keys('EMQ.TAKE.BATCH', '4', 'p', 'r', 'a', 'b', '30000', '5', '1', 'flat')).toEqual([
      'p',
      'r',
      'a',
      'b',
    ]);
    expect(await keys('EMQ.RELEASE', '3', 'a', 'p', 'r', 'id', '1', 'b')).toEqual(['a', 'p', 'r']);
    expect(await keys('EMQ.COMPLETE', '2', 'a', 'r', 'id', '1', 'b')).toEqual(['a', 'r']);
    expect(await keys('EMQ.FAIL', '4', 'a', 's', 'd', 'r', 'id', '1', '0', '1', 'e', 'b')).toEqual([
      'a',
      's',
      'd',
      'r',
    ]);
    expect(await keys('EMQ.STALLED.CHECK', '3', 'a', 'p', 'd', 'b', '1', '1')).toEqual(['a', 'p', 'd']);
    expect(await keys('EMQ.COMPLETE', '5', 'a', 'r', 'x', 'y', 'z', 'id', '1', 'b', 'q', 'v')).toEqual([
      'a',
      'r',
      'x',
      'y',
      'z',
    ]);
    const withFlags = await told(['COMMAND', 'GETKEYSANDFLAGS', 'EMQ.COMPLETE', '2', 'a', 'r', 'id', '1', 'b']);
    expect(withFlags).toEqual([
      ['a', ['RW', 'access', 'update']],
      ['r', ['RW', 'access', 'update']],
    ]);
  });

  test('DOCS: a summary, the complexity and every argument of each command', async () => {
    const docs = fields(await told(['COMMAND', 'DOCS', ...NATIVE_COMMANDS]));
    expect([...docs.keys()].map((name) => name.toUpperCase())).toEqual(NATIVE_COMMANDS);
    const names = [...docs.values()].map((doc) => {
      const parts = fields(doc);
      for (const part of ['summary', 'since', 'complexity']) expect(String(parts.get(part))).toMatch(/\w+/);
      expect(parts.get('module')).toBe('trafikey');
      const args = (parts.get('arguments') as unknown[]).map(fields);
      for (const arg of args) expect(String(arg.get('summary'))).not.toBe('undefined');
      return args.map((arg) => arg.get('name'));
    });
    expect(names).toEqual([
      ['numkeys', 'pending', 'active', 'base', 'lease'],
      ['numkeys', 'pending', 'active', 'base', 'lease', 'size'],
      ['numkeys', 'pending', 'ring', 'active', 'base', 'lease', 'count', 'source'],
      ['numkeys', 'pending', 'ring', 'active', 'base', 'lease', 'size', 'min', 'source'],
      ['numkeys', 'active', 'pending', 'row', 'id', 'token', 'base'],
      ['numkeys', 'active', 'row', 'id', 'token', 'base'],
      ['numkeys', 'active', 'schedule', 'dead', 'row', 'id', 'token', 'delay', 'max', 'error', 'base'],
      ['numkeys', 'active', 'pending', 'dead', 'base', 'max', 'limit'],
    ]);
  });
});

describe('INFO trafikey', () => {
  const info = async (): Promise<Map<string, string>> => {
    const text = String(await told(['INFO', 'trafikey']));
    return new Map([...text.matchAll(/^trafikey_(\w+):(.*?)\r?$/gm)].map(([, name = '', value = '']) => [name, value]));
  };

  test('counts calls and refusals, each under its class', async () => {
    const before = await info();
    const more = async (): Promise<Record<string, number>> => {
      const after = await info();
      const grown = [...after].map(([name, value]) => [name, Number(value) - Number(before.get(name))] as const);
      return Object.fromEntries(grown.filter(([, by]) => by > 0));
    };
    await askAll(node.client, [claim, ...waiting, claim, complete('7'), complete('1'), complete('1')]);
    expect(await more()).toEqual({ calls_claim: 2, calls_complete: 3, refused_emqstale: 1 });
    await askAll(node.client, [...waiting, take(), release('1'), take(), take(), complete('2')]);
    expect(await more()).toEqual({
      calls_claim: 2,
      calls_take: 3,
      calls_release: 1,
      calls_complete: 4,
      refused_emqstale: 1,
    });
    const bad = cmd('EMQ.CLAIM', '3', `${b}pending`, `${b}active`, b, 'x');
    const scheduled = cmd('HSET', row, 'state', 'scheduled', 'attempts', '1');
    await askAll(node.client, [
      bad,
      scheduled,
      complete('1'),
      cmd('SET', `${b}active`, 'x'),
      complete('1'),
      cmd('DEL', '{emq}:version'),
      claim,
    ]);
    expect(await more()).toEqual({
      calls_claim: 4,
      calls_take: 3,
      calls_release: 1,
      calls_complete: 6,
      refused_emqstale: 1,
      refused_err: 1,
      refused_emqstate: 1,
      refused_wrongtype: 1,
      refused_emqwire: 1,
    });
  });

  test('says the run_id that claims write', async () => {
    await askAll(node.client, [...waiting, claim]);
    const found = await info();
    expect(found.get('run_id')).toMatch(/^[0-9a-f]{40}$/);
    expect(await told(cmd('HGET', row, 'lease_epoch'))).toBe(found.get('run_id'));
    expect(String(await told(['INFO', 'server']))).toContain(`run_id:${found.get('run_id')}`);
  });
});

test('MODULE UNLOAD is refused, and the commands go on', async () => {
  expect(await told(['MODULE', 'UNLOAD', 'trafikey'])).toMatch(/^-ERR .*unload/i);
  await askAll(node.client, waiting);
  expect(await told(claim)).toEqual([id, 'p', 1]);
});

describe('WATCH', () => {
  let watcher: Redis;
  beforeEach(async () => {
    watcher = await node.connect();
  });
  afterEach(() => watcher.disconnect());

  /** Whether a transaction of another client that watches these keys still runs after the commands. */
  async function undisturbed(keys: string[], commands: RawCommand[]): Promise<boolean> {
    await need(watcher, ['WATCH', ...keys]);
    await askAll(node.client, commands);
    const [, , outcome] = await askAll(watcher, [['MULTI'], ['PING'], ['EXEC']]);
    return outcome?.ok === true && outcome.reply !== null;
  }
  const lane = 'g:G:pending';
  const all = [
    ...['pending', 'active', 'meta', 'dead', 'schedule', 'wake', `job:${id}`, 'metrics:completed'],
    ...['ring', 'gactive', 'glimit', lane],
  ].map((key) => b + key);

  test('an empty or paused claim, a gone completion and a refusal touch nothing', async () => {
    expect(await undisturbed(all, [claim, take()])).toBe(true);
    expect(await undisturbed(all, [complete('1'), release('1')])).toBe(true);
    await askAll(node.client, [...waiting, cmd('HSET', `${b}meta`, 'paused', '1')]);
    expect(await undisturbed(all, [claim, take()])).toBe(true);
    expect(await undisturbed(all, [complete('9'), release('9')])).toBe(true);
    const sweep = cmd('EMQ.STALLED.CHECK', '3', `${b}active`, `${b}pending`, `${b}dead`, b, '1', '10');
    expect(await undisturbed(all, [sweep])).toBe(true);
  });

  test('each key that a call writes is seen, and no other', async () => {
    const touched = async (commands: RawCommand[], before: RawCommand[]): Promise<string[]> => {
      const seen: string[] = [];
      for (const key of all) {
        await node.reset();
        await askAll(node.client, before);
        if (!(await undisturbed([key], commands))) seen.push(key.slice(b.length));
      }
      return seen;
    };
    expect(await touched([claim], waiting)).toEqual(['pending', 'active', `job:${id}`]);
    expect(await touched([take()], waiting)).toEqual(['pending', 'active', `job:${id}`]);
    const inLane = [
      cmd('HSET', row, 'attempts', '0', 'group', 'G'),
      cmd('ZADD', b + lane, '0', id, '0', 'JOB0KHTOWnGLuD'),
      cmd('HSET', `${b}glimit`, 'G', '5'),
      cmd('RPUSH', `${b}ring`, 'G'),
    ];
    expect(await touched([take()], inLane)).toEqual(['active', 'wake', `job:${id}`, 'ring', 'gactive', lane]);
    expect(await touched([release('1')], [...waiting, claim])).toEqual(['pending', 'active', 'wake', `job:${id}`]);
    expect(await touched([complete('1')], [...waiting, claim])).toEqual(['active', `job:${id}`, 'metrics:completed']);
    const fail = cmd('EMQ.FAIL', '4', `${b}active`, `${b}schedule`, `${b}dead`, row, id, '1', '60000', '3', 'e', b);
    expect(await touched([fail], [...waiting, claim])).toEqual(['active', 'schedule', 'wake', `job:${id}`]);
    const lapsed = [...waiting, claim, cmd('ZADD', `${b}active`, '1', id)];
    const sweep = cmd('EMQ.STALLED.CHECK', '3', `${b}active`, `${b}pending`, `${b}dead`, b, '1', '10');
    expect(await touched([sweep], lapsed)).toEqual(['active', 'dead', `job:${id}`]);
  });
});

describe('inside others', () => {
  test('MULTI: all of it or, when discarded, nothing', async () => {
    await askAll(node.client, waiting);
    const answers = await askAll(node.client, [['MULTI'], claim, complete('9'), complete('1'), ['EXEC']]);
    const last = answers.at(-1);
    // a refusal is an error inside the reply of EXEC; what stands around it is done all the same
    expect(last?.ok === false ? last.text : '').toMatch(/^EMQSTALE complete token mismatch/);
    expect(await told(cmd('EXISTS', row, `${b}active`, `${b}pending`))).toBe(0);
    await askAll(node.client, waiting);
    const before = await snapshot(node.client);
    await askAll(node.client, [['MULTI'], claim, ['DISCARD']]);
    expect(changedKeys(before, await snapshot(node.client))).toEqual([]);
  });

  test('a script: the same replies, and a refusal that it can catch', async () => {
    await askAll(node.client, waiting);
    const call = 'return redis.call(unpack(ARGV))';
    const run = (script: string, [name, ...args]: RawCommand): RawCommand => ['EVAL', script, '0', name, ...args];
    expect(await told(run(call, claim))).toEqual([id, 'p', 1]);
    expect(await told(run('return redis.pcall(unpack(ARGV)).err', complete('9')))).toBe(
      'EMQSTALE complete token mismatch',
    );
    expect(await told(run(call, complete('9')))).toMatch(/^-EMQSTALE complete token mismatch/);
    expect(await told(run(call, complete('1')))).toBe(1);
  });
});

test('a replica refuses, and writes nothing', async () => {
  await askAll(node.client, waiting);
  await need(node.client, ['REPLICAOF', '127.0.0.1', '1']);
  try {
    const before = await snapshot(node.client);
    expect(await told(claim)).toMatch(/^-READONLY /);
    expect(await told(complete('1'))).toMatch(/^-READONLY /);
    expect(changedKeys(before, await snapshot(node.client))).toEqual([]);
  } finally {
    await need(node.client, ['REPLICAOF', 'NO', 'ONE']);
  }
  expect(await told(claim)).toEqual([id, 'p', 1]);
});
