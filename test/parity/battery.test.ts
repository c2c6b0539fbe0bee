/**
 * The battery itself: that it sees what it is there to see, leaves nothing on a node that is not its own, and that its
 * instruments (dump, comparison, invariants, generator) tell the truth.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Bout, ParityError } from '../../src/parity/bout.js';
import { differences } from '../../src/parity/compare.js';
import { violations } from '../../src/parity/invariants.js';
import {
  changedKeys,
  keysOf,
  readKeys,
  removeKeys,
  snapshot,
  type Entry,
  type Keys,
} from '../../src/parity/keyspace-dump.js';
import { modelled } from '../../src/parity/model/index.js';
import { ask, askAll, need, type RawCommand } from '../../src/parity/node.js';
import { rng } from '../../src/parity/prng.js';
import { runRandom } from '../../src/parity/random.js';
import { MAKES } from '../../src/parity/steps.js';
import { transitions } from '../../src/wire/transitions.js';
import { startNode, type TestNode } from './nodes.js';
import { printSeed, seed } from './seed.js';

printSeed('battery');

let nodes: [TestNode, TestNode];
beforeAll(async () => {
  nodes = await Promise.all([startNode('script'), startNode('native')]);
});
afterAll(() => Promise.all(nodes.map((node) => node[Symbol.asyncDispose]())));
beforeEach(() => Promise.all(nodes.map((node) => node.reset())));

test('the model has a rule for every transition of the table, and each is drawn', () => {
  const names = Object.values(transitions).map(({ name }) => name);
  expect([...modelled].sort()).toEqual([...names].sort());
  expect(Object.keys(MAKES).sort()).toEqual([...names].sort());
});

describe('runRandom', () => {
  test('passes on two private nodes, and again without a flush between', async () => {
    for (const mode of ['clean', 'dirty'] as const) {
      const result = await runRandom(...nodes, { seed, steps: 60, mode });
      expect(result).toEqual({ outcome: 'passed', seed, steps: 60 });
    }
  });

  test('on given nodes keeps no key of its own, nor a brand that it put there, and touches no other', async () => {
    for (const { client } of nodes) {
      await need(client, ['FLUSHALL', 'SYNC']);
      await need(client, ['SET', 'theirs', 'stays', 'PX', '9000000']);
    }
    const before = await Promise.all(nodes.map(({ client }) => snapshot(client)));
    const given = [
      { ...nodes[0], own: false },
      { ...nodes[1], own: false },
    ] as const;
    const progress: number[] = [];
    const result = await runRandom(...given, { seed, steps: 200, onProgress: (taken) => progress.push(taken) });
    expect(result.outcome, result.detail).toBe('passed');
    expect(progress).toEqual([100, 200]);
    const after = await Promise.all(nodes.map(({ client }) => snapshot(client)));
    expect(after).toEqual(before);
  });

  test('refuses a node of a foreign brand before it writes anything', async () => {
    const [script, native] = nodes;
    await need(native.client, ['SET', '{emq}:version', 'echomq:4.0.0']);
    const before = await snapshot(native.client);
    await expect(runRandom(script, { ...native, own: false }, { seed, steps: 5 })).rejects.toThrow('EMQWIRE');
    expect(changedKeys(before, await snapshot(native.client))).toEqual([]);
  });
});

describe('a bout sees', () => {
  /** Takes steps while somebody disturbs the second node before each of them; answers what was found. */
  async function disturbed(commands: (base: string) => RawCommand[]): Promise<string> {
    const [first, second] = nodes;
    const bout: Bout = await Bout.open([first, second], {
      mode: 'dirty',
      begin: async () => void (await askAll(second.client, commands(bout.base))),
    });
    // always the same steps: what is looked for has to come about
    const seeds = rng(7);
    try {
      for (let i = 0; i < 500; i += 1) await bout.step(seeds.below(2 ** 32));
    } catch (error) {
      if (error instanceof ParityError) return error.message;
      throw error;
    }
    return 'nothing';
  }

  test('a key too many', async () => {
    expect(await disturbed((base) => [['SET', `${base}extra`, 'x']])).toContain('extra": nothing but string');
  });
  test('a key outside the queue', async () => {
    expect(await disturbed(() => [['SET', 'elsewhere', 'x']])).toContain('"elsewhere": nothing but string');
  });
  test('a wake too many', async () => {
    expect(await disturbed((base) => [['LPUSH', `${base}wake`, '1']])).toContain('wake');
  });
  test('a time that is off', async () => {
    const add = (base: string): RawCommand[] => [['ZADD', `${base}schedule`, 'XX', 'INCR', '5000', 'JOB0KHTOWnGLuA']];
    expect(await disturbed(add)).toContain('schedule');
  });
  test('a lapse that goes', async () => {
    const lapse = (base: string): RawCommand[] => [
      ['SET', `${base}de:a`, 'x', 'KEEPTTL', 'XX'],
      ['PERSIST', `${base}de:a`],
    ];
    expect(await disturbed(lapse)).toContain('de:a');
  });
  test('a counter that is off, and tells the steps that led there', async () => {
    const found = await disturbed((base) => [['HINCRBY', `${base}metrics:completed`, 'count', '1']]);
    expect(found).toContain('metrics:completed');
    expect(found).toMatch(/after\n( +\d+\. .*\n?)+$/);
  });
});

describe('the dump', () => {
  test('holds every type, byte for byte, and what lapses', async () => {
    const { client } = nodes[0];
    await need(client, ['DEL', '{emq}:version']);
    const odd = Buffer.from('00ff0d0ac328', 'hex');
    await askAll(client, [
      ['SET', odd, odd, 'PX', '9000000'],
      ['RPUSH', 'l', odd, 'b', odd],
      ['SADD', 's', 'b', odd],
      ['ZADD', 'z', '1.5', odd, '-inf', 'low', 'inf', 'high', '4503599627370497', 'big'],
      ['HSET', 'h', odd, odd, 'a', ''],
      ['XADD', 'x', '1-1', 'f', odd],
    ]);
    const text = odd.toString('latin1');
    const expected: Record<string, Entry> = {
      [text]: { type: 'string', value: text, lapses: true },
      l: { type: 'list', items: [text, 'b', text], lapses: false },
      s: { type: 'set', members: new Set([text, 'b']), lapses: false },
      z: {
        type: 'zset',
        scores: new Map([
          ['low', -Infinity],
          [text, 1.5],
          ['big', 2 ** 52 + 1],
          ['high', Infinity],
        ]),
        lapses: false,
      },
      h: {
        type: 'hash',
        fields: new Map([
          [text, text],
          ['a', ''],
        ]),
        lapses: false,
      },
      x: { type: 'stream', entries: [JSON.stringify(['1-1', JSON.stringify(['f', text])])], lapses: false },
    };
    expect(await readKeys(client)).toEqual(new Map(Object.entries(expected).sort(([a], [b]) => (a < b ? -1 : 1))));
    await removeKeys(client, [text, 'l']);
    expect(await keysOf(client)).toEqual(['h', 's', 'x', 'z']);
  });

  test('a snapshot sees every change', async () => {
    const { client } = nodes[0];
    await askAll(client, [
      ['SET', 'a', '1'],
      ['SET', 'b', '1', 'PX', '9000000'],
      ['HSET', 'h', 'f', '1'],
      ['ZADD', 'z', '1', 'm'],
    ]);
    const changes: RawCommand[] = [
      ['SET', 'a', '2'],
      ['PEXPIRE', 'b', '8000000'],
      ['PERSIST', 'b'],
      ['HSET', 'h', 'g', ''],
      ['ZINCRBY', 'z', '1', 'm'],
      ['SET', 'new', ''],
      ['DEL', 'a'],
    ];
    for (const change of changes) {
      const before = await snapshot(client);
      expect(changedKeys(before, await snapshot(client))).toEqual([]);
      await ask(client, change);
      expect(changedKeys(before, await snapshot(client)), change.join(' ')).toEqual([String(change[1])]);
    }
  });
});

const b = 'emq:{q}:';
const keys = (entries: Record<string, Entry>): Keys =>
  new Map(Object.entries(entries).map(([key, entry]) => [b + key, entry]));
const zset = (...scores: [string, number][]): Entry => ({ type: 'zset', scores: new Map(scores), lapses: false });
const hash = (fields: Record<string, string>): Entry => ({
  type: 'hash',
  fields: new Map(Object.entries(fields)),
  lapses: false,
});
const list = (...items: string[]): Entry => ({ type: 'list', items, lapses: false });

describe('the comparison', () => {
  const leeway = { toleranceMs: 1000, anyEpoch: true };
  const row = hash({ state: 'active', lease_epoch: 'e' });

  test('lets the epoch and the milliseconds of times differ, and nothing else', () => {
    const a = keys({ 'job:1': row, active: zset(['1', 5000]), pending: zset(['2', 3]) });
    const same = keys({ 'job:1': hash({ state: 'active' }), active: zset(['1', 5900]), pending: zset(['2', 3]) });
    expect(differences(a, same, leeway)).toEqual([]);
    expect(differences(a, same, { ...leeway, anyEpoch: false })).toHaveLength(1);
    expect(
      differences(a, keys({ 'job:1': row, active: zset(['1', 6001]), pending: zset(['2', 3]) }), leeway),
    ).toHaveLength(1);
    expect(
      differences(a, keys({ 'job:1': row, active: zset(['9', 5000]), pending: zset(['2', 3]) }), leeway),
    ).toHaveLength(1);
    expect(
      differences(a, keys({ 'job:1': row, active: zset(['1', 5000]), pending: zset(['2', 4]) }), leeway),
    ).toHaveLength(1);
    expect(differences(a, keys({ 'job:1': row, active: zset(['1', 5000]) }), leeway)).toHaveLength(1);
    // an epoch is left out of rows only
    const meta = (value: string) => keys({ meta: hash({ lease_epoch: value }) });
    expect(differences(meta('a'), meta('b'), leeway)).toHaveLength(1);
  });
});

describe('the invariants', () => {
  const sound = {
    'job:1': hash({ state: 'pending' }),
    'job:2': hash({ state: 'active', group: 'g' }),
    'job:3': hash({ state: 'pending', group: 'g' }),
    'job:1:processed': hash({ c: 'r' }),
    pending: zset(['1', 0]),
    active: zset(['2', 9]),
    'g:g:pending': zset(['3', 0]),
    gactive: hash({ g: '1' }),
    ring: list('g'),
    wake: list('1', '1'),
  };
  test('hold for a sound queue', () => {
    expect(violations(keys(sound), b)).toEqual([]);
  });
  const broken: Record<string, [Record<string, Entry>, RegExp]> = {
    'two places': [{ dead: zset(['1', 1]) }, /1 says pending and is in \[pending, dead\]/],
    'no place': [{ 'job:4': hash({ state: 'dead' }) }, /4 says dead and is in \[\]/],
    'another state': [{ 'job:1': hash({ state: 'active' }) }, /1 says active and is in \[pending\]/],
    'no row': [{ schedule: zset(['9', 1]) }, /9 is in \[scheduled\] without a row/],
    'another lane': [{ 'job:3': hash({ state: 'pending', group: 'h' }) }, /3 waits in the lane of g/],
    'a count that is off': [{ gactive: hash({ g: '2' }) }, /gactive of g is 2, in flight 1/],
    'a count of nothing': [{ gactive: hash({ g: '1', h: '0' }) }, /keeps a field for h/],
    'a lane twice': [{ ring: list('g', 'g') }, /holds a lane twice/],
    'a lane that is missed': [{ ring: list() }, /lane g can be served: true, on the ring: false/],
    'a lane at its limit': [{ glimit: hash({ g: '1' }) }, /lane g can be served: false, on the ring: true/],
    'a parked lane': [
      { paused: { type: 'set', members: new Set(['g']), lapses: false } },
      /lane g can be served: false/,
    ],
    'a wake too many': [{ wake: list(...Array<string>(65).fill('1')) }, /wake holds 65/],
  };
  for (const [what, [change, told]] of Object.entries(broken)) {
    test(`do not hold with ${what}`, () => {
      expect(violations(keys({ ...sound, ...change }), b).join('\n')).toMatch(told);
    });
  }
});

test('a seed gives the same numbers everywhere', () => {
  const draws = (from: number) =>
    Array.from(
      { length: 5 },
      (
        (one) => () =>
          one.below(1000)
      )(rng(from)),
    );
  expect(draws(1)).toEqual([627, 2, 527, 981, 968]);
  expect(draws(-1)).toEqual(draws(2 ** 32 - 1));
  expect(draws(2)).not.toEqual(draws(1));
});
