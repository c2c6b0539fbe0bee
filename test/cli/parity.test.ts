/** `emq parity`: the battery on private nodes and on given ones, and which nodes it will not touch. */
import { describe, expect, test } from 'vitest';
import { client, emq, finish, node, on, start, stateOf, urlFor, type Json } from './emq.js';

const BATTERY_MS = 120_000;

test(
  'private nodes are in parity; the seed is told',
  async () => {
    const { code, stdout } = await emq('parity', '--steps', '60', '--seed', '7');
    expect(stdout).toMatch(/scenarios passed +\d{2,} +\d{2,}\n/);
    expect(stdout).toMatch(/scenarios failed +0 +0\n/);
    expect(stdout).toMatch(/scenarios not run +0 +0\n/);
    expect(stdout).toContain('60 in lockstep, seed 7: passed');
    expect(stdout.trimEnd()).toMatch(/in parity\.$/);
    expect(code).toBe(0);
  },
  BATTERY_MS,
);

test(
  'given nodes are left as they were found; what they do not allow is named',
  async () => {
    const [four, six] = [await node({ brand: 4 }), await node({ module: true })];
    const before = [await stateOf(four), await stateOf(six)];
    const { code, json } = await emq('parity', '--url', four.url, '--url', six.url, '--steps', '40', '--json');
    expect(code).toBe(0);
    const [result] = json;
    expect(result).toMatchObject({ ok: true, random: { outcome: 'passed', steps: 40 } });
    expect(result.nodes.map((side: Json) => [side.wire, side.failed, side.where])).toEqual([
      [4, [], `127.0.0.1:${four.port}`],
      [6, [], `127.0.0.1:${six.port}`],
    ]);
    expect(result.nodes[1].notRun).toContainEqual({
      name: expect.any(String),
      detail: expect.stringContaining('brand'),
    });
    expect([await stateOf(four), await stateOf(six)]).toEqual(before);
  },
  BATTERY_MS,
);

test(
  'an unbranded node is branded for the time of the battery only',
  async () => {
    const [four, six] = [await node(), await node({ module: true, brand: false })];
    const { code } = await emq('parity', '--url', four.url, '--url', six.url, '--steps', '20');
    expect(code).toBe(0);
    expect(await stateOf(four)).toEqual({ found: {}, meddled: [] });
    expect(await stateOf(six)).toEqual({ found: {}, meddled: [] });
  },
  BATTERY_MS,
);

test(
  'executors that differ end it with 1',
  async () => {
    const [four, six] = [await node({ brand: 4 }), await node({ module: true })];
    await on(four, (redis) => redis.call('ACL', 'SETUSER', 'half', 'on', '>pass', '~*', '&*', '+@all', '-publish'));
    const args = ['parity', '--url', urlFor(four, 'half', 'pass'), '--url', six.url, '--steps', '1', '--json'];
    const { code, json } = await emq(...args);
    expect(code).toBe(1);
    expect(json[0].ok).toBe(false);
    expect(json[0].nodes[0].failed).toContainEqual({
      name: expect.any(String),
      detail: expect.stringMatching(/NOPERM|ACL/),
    });
    expect(json[0].nodes[1].failed).toEqual([]);
  },
  BATTERY_MS,
);

describe('a node that is not free is refused, and nothing on it changes', () => {
  test.each<[string, (redis: import('ioredis').Redis) => Promise<unknown>, RegExp]>([
    ['it holds a key', (redis) => redis.set('a', 'b'), /holds 2 keys/],
    [
      'it holds a key in another database',
      async (redis) => (await redis.select(1), redis.set('a', 'b')),
      /holds 2 keys/,
    ],
    [
      'it holds a key and no brand',
      async (redis) => (await redis.set('a', 'b'), redis.del('{emq}:version')),
      /holds 1 key:/,
    ],
    ['it is of another brand', (redis) => redis.set('{emq}:version', 'echomq:4.0.0'), /not branded echomq:6/],
    ['it is a replica', (redis) => redis.replicaof('127.0.0.1', 1), /is a replica/],
  ])('%s', async (_what, prepare, reason) => {
    const [four, six] = [await node({ brand: 4 }), await node({ module: true })];
    await on(six, prepare);
    const before = [await stateOf(four), await stateOf(six)];
    const { code, json } = await emq('parity', '--url', four.url, '--url', six.url, '--json');
    expect(json.at(-1).error).toMatchObject({ code: 'EMQ_REFUSED', reason: expect.stringMatching(reason) });
    expect(code).toBe(4);
    expect([await stateOf(four), await stateOf(six)]).toEqual(before);
  });

  test('it has another client', async () => {
    const [four, six] = [await node({ brand: 4 }), await node({ module: true })];
    await client(four).ping();
    const { code, stderr } = await emq('parity', '--url', four.url, '--url', six.url);
    expect(code).toBe(4);
    expect(stderr).toContain('has 1 other client');
    expect(await on(four, (redis) => redis.keys('*'))).toEqual(['{emq}:version']);
  });

  test('it has no module, or it is the same node twice', async () => {
    const [four, other] = [await node({ brand: 4 }), await node({ brand: 6 })];
    const none = await emq('parity', '--url', four.url, '--url', other.url);
    expect([none.code, none.stderr]).toEqual([4, expect.stringContaining('the module trafikey is not loaded')]);
    const same = await emq('parity', '--url', four.url, '--url', four.url);
    expect([same.code, same.stderr]).toEqual([2, expect.stringContaining('same node')]);
  });
});

test(
  'Ctrl-C ends it cleanly on given nodes',
  async () => {
    const [four, six] = [await node({ brand: 4 }), await node({ module: true })];
    const before = [await stateOf(four), await stateOf(six)];
    const child = start(['parity', '--url', four.url, '--url', six.url, '--steps', '1000000']);
    const ended = finish(child);
    await new Promise<void>((resolve) => {
      child.stderr!.on('data', (data: Buffer) => void (data.toString().includes('random steps') && resolve()));
    });
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    expect([await stateOf(four), await stateOf(six)]).toEqual(before);
  },
  BATTERY_MS,
);
