/**
 * The battery itself: that it sees what it is there to see, leaves nothing on a node that is not its own, and that its
 * instruments (dump, comparison, invariants, generator) tell the truth.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Bout, ParityError } from '../../src/parity/bout.js';
import { differences, timeless, timely } from '../../src/parity/compare.js';
import { flowViolations } from '../../src/parity/flow-invariants.js';
import { claimViolations, violations } from '../../src/parity/invariants.js';
import { isHeard, parseLetter } from '../../src/parity/letters.js';
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
import { IDS } from '../../src/parity/scene.js';
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
    const add = (base: string): RawCommand[] => IDS.map((id) => ['ZADD', `${base}schedule`, 'XX', 'INCR', '5000', id]);
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
      ['SET', odd, odd, 'PXAT', '4000000000000'],
      ['RPUSH', 'l', odd, 'b', odd],
      ['SADD', 's', 'b', odd],
      ['ZADD', 'z', '1.5', odd, '-inf', 'low', 'inf', 'high', '4503599627370497', 'big'],
      ['HSET', 'h', odd, odd, 'a', ''],
      ['XADD', 'x', '1-1', 'f', odd],
    ]);
    const text = odd.toString('latin1');
    const expected: Record<string, Entry> = {
      [text]: { type: 'string', value: text, lapses: 4_000_000_000_000 },
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

describe('the comparison of times', () => {
  const leeway = { toleranceMs: 1000, anyEpoch: true };
  const until = (value: string, lapses: number | false): Entry => ({ type: 'string', value, lapses });

  test('a limiter may differ by microseconds of the tolerance, a lapse by its milliseconds', () => {
    for (const name of ['limiter', 'g:g:limiter']) {
      const a = keys({ [name]: until('5000000', 9000) });
      expect(differences(a, keys({ [name]: until('6000000', 10_000) }), leeway)).toEqual([]);
      expect(differences(a, keys({ [name]: until('6000001', 9000) }), leeway)).toHaveLength(1);
      expect(differences(a, keys({ [name]: until('5000000', 10_001) }), leeway)).toHaveLength(1);
      expect(differences(a, keys({ [name]: until('5000000', false) }), leeway)).toHaveLength(1);
      expect(differences(a, keys({ [name]: until('x', 9000) }), leeway)).toHaveLength(1);
    }
    const other = keys({ 'de:limit': until('5', false) });
    expect(differences(other, keys({ 'de:limit': until('6', false) }), leeway)).toHaveLength(1);
  });

  test('a reply may tell another time where it tells one', () => {
    expect(timely('limits', [1, 2, 3, 60_500, 0], [1, 2, 3, 60_000, 0], 1000)).toEqual([1, 2, 3, 60_000, 0]);
    expect(timely('limits', [1, 2, 3, 61_500, 0], [1, 2, 3, 60_000, 0], 1000)).toEqual([1, 2, 3, 61_500, 0]);
    expect(timely('limits', [1, 2, 4, 60_500, 0], [1, 2, 3, 60_000, 0], 1000)).toEqual([1, 2, 4, 60_000, 0]);
    expect(timely('agenda', [null, 'reap', 0, 0, 500], [5, 'reap', 0, 0, 0], 1000)).toEqual([null, 'reap', 0, 0, 0]);
    expect(timely('lane_info', [[1, 2, 0, 1, 0, 0, 0, 9500, 0]], [[1, 2, 0, 1, 0, 0, 0, 9000, 0]], 1000)).toEqual([
      [1, 2, 0, 1, 0, 0, 0, 9000, 0],
    ]);
    expect(timeless('repeat_get', [12_345, null, ['name', 'r']])).toEqual([0, null, ['name', 'r']]);
    expect(timeless('lane_info', [[1, 2, 0, 1, 0, 0, 0, 9500, 7]])).toEqual([[1, 2, 0, 1, 0, 0, 0, 0, 0]]);
    expect(timeless('get', [1, 2])).toEqual([1, 2]);
  });
});

describe('the invariants', () => {
  const sound = {
    'job:1': hash({ state: 'pending' }),
    'job:2': hash({ state: 'active', group: 'g' }),
    'job:1:processed': hash({ c: 'r' }),
    pending: zset(['1', 0]),
    active: zset(['2', 9]),
    'g:g:pending': zset(['3', 0]),
    gactive: hash({ g: '1' }),
    ring: list('g'),
    wake: list('1', '1'),
    'g:g:limiter': { type: 'string', value: '1', lapses: 5 } as const,
    'job:3': hash({ state: 'pending', group: 'g', dedup: 'd' }),
    'de:d': { type: 'string', value: '3', lapses: false } as const,
    'de:kept': { type: 'string', value: '9', lapses: 5 } as const,
    repeat: zset(['r', 7], ['s', Infinity], ['t', Infinity]),
    'repeat:r': hash({ next: '7' }),
    'repeat:s': hash({ next: '7', paused: '1' }),
    'repeat:t': hash({ count: '3' }),
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
    'a lane that waits for its rate': [{ gwait: zset(['g', 5]) }, /lane g can be served: false, on the ring: true/],
    'a lane at the limit of all': [{ glimit: hash({ '*': '1' }) }, /lane g can be served: false, on the ring: true/],
    'a dedup key of another': [
      { 'de:e': { type: 'string', value: '3', lapses: false } },
      /de:e names 3, which does not/,
    ],
    'a dedup key of nobody': [
      { 'de:d': { type: 'string', value: '9', lapses: false } },
      /de:d names 9, which does not/,
    ],
    'a repeat that is late': [
      { repeat: zset(['r', 8]) },
      /repeat r is to fire at 7, paused: false, and its place is 8/,
    ],
    'a paused repeat that will fire': [{ repeat: zset(['s', 7]) }, /repeat s is to fire at 7, paused: true/],
    'a repeat without a record': [{ repeat: zset(['u', 7]) }, /repeat u is to fire at undefined/],
    'a wake too many': [{ wake: list(...Array<string>(65).fill('1')) }, /wake holds 65/],
  };
  for (const [what, [change, told]] of Object.entries(broken)) {
    test(`do not hold with ${what}`, () => {
      expect(violations(keys({ ...sound, ...change }), b).join('\n')).toMatch(told);
    });
  }
});

test('a claim above the ceiling is seen', () => {
  const queue = (ceiling: string, ...ids: string[]): Keys =>
    keys({ meta: hash({ concurrency: ceiling }), active: zset(...ids.map((id): [string, number] => [id, 5])) });
  expect(claimViolations(queue('2', '1'), queue('2', '1', '2'), b)).toEqual([]);
  expect(claimViolations(queue('2', '1'), queue('2', '1', '2', '3'), b)).toEqual([
    '3 jobs are active, the ceiling is 2',
  ]);
  // one that was lowered since, or none
  expect(claimViolations(queue('2', '1', '2', '3'), queue('2', '1', '2', '3'), b)).toEqual([]);
  expect(claimViolations(queue('0', '1'), queue('0', '1', '2', '3'), b)).toEqual([]);
});

describe('the invariants of flows', () => {
  const [a, far] = ['emq:{q}:', 'emq:{far}:'];
  const text = (value: string): Entry => ({ type: 'string', value, lapses: false });
  /** P waits for 1 (here, at work), 2 (in far, done and told by a letter), 3 (not landed) and one that is not listed. */
  const sound: Record<string, Entry> = {
    [`${a}job:P`]: hash({ state: 'awaiting_children', landing: '2' }),
    [`${a}flow:held`]: zset(['P', 1]),
    [`${a}job:P:dependencies`]: text('4'),
    [`${a}job:P:children`]: hash({ 1: '', 2: 'far', 3: '+far' }),
    [`${a}job:P:processed`]: hash({ 5: 'r' }),
    [`${a}job:1`]: hash({ state: 'active', parent: 'P' }),
    [`${far}flow:outbox`]: list('q\0P\x002\0result'),
    [`${a}flow:outbox`]: list('\0cancel\0Q\0why'),
    [`${a}flow:cancel:Q`]: hash({ 9: '' }),
  };
  const found = (change: Record<string, Entry | undefined>): string => {
    const all = Object.entries({ ...sound, ...change }).flatMap(([key, entry]) =>
      entry === undefined ? [] : [[key, entry] as const],
    );
    return flowViolations(new Map(all), [a, far]).join('\n');
  };

  test('hold for a sound flow', () => {
    expect(found({})).toBe('');
  });
  const broken: Record<string, [Record<string, Entry | undefined>, string]> = {
    'no row': [{ [`${a}job:P`]: undefined }, 'parent P has no row'],
    'a count that is too small': [{ [`${a}job:P:dependencies`]: text('2') }, 'counts 2 open children and lists 3'],
    'a count below zero': [
      { [`${a}job:P:dependencies`]: text('-1'), [`${a}job:P:children`]: undefined },
      'counts -1 open children',
    ],
    'a child that landed and is counted': [
      { [`${a}job:P`]: hash({ state: 'awaiting_children', landing: '3' }) },
      'lands 3, has 1 not landed and 1 not listed',
    ],
    'a parent that was to be released': [
      { [`${a}job:P:dependencies`]: text('0'), [`${a}job:P:children`]: undefined },
      'waits for nobody',
    ],
    'a child that is known twice': [{ [`${a}job:P:processed`]: hash({ 1: 'r' }) }, 'knows 1 twice'],
    'a child that is gone': [{ [`${a}job:1`]: undefined }, 'waits for 1, which will not tell it'],
    "a child that is another's": [
      { [`${a}job:1`]: hash({ state: 'active', parent: 'P', parent_queue: 'far' }) },
      'waits for 1, which',
    ],
    'a letter that was lost': [{ [`${far}flow:outbox`]: undefined }, 'waits for 2, which will not tell it'],
    'a letter for another queue': [{ [`${far}flow:outbox`]: list('far\0P\x002\0result') }, 'waits for 2, which'],
    'an order that was lost': [{ [`${a}flow:outbox`]: undefined }, 'children of Q are to be cancelled'],
    'a letter that nobody can read': [{ [`${a}flow:outbox`]: list('\0cancel\0Q\0why', 'x') }, 'cannot be read'],
    'too much poison': [{ [`${a}flow:poison`]: list(...Array<string>(1001).fill('x')) }, 'too many letters'],
  };
  for (const [what, [change, told]] of Object.entries(broken)) {
    test(`do not hold with ${what}`, () => {
      expect(found(change)).toContain(told);
    });
  }
});

describe('letters', () => {
  test('are read part by part, the last with any bytes', () => {
    const link = { queue: 'q', parent: 'P', child: 'C' };
    expect(parseLetter('q\0P\0C\0r\0\xff')).toEqual({ kind: 'done', ...link, policy: '', text: 'r\0\xff' });
    expect(parseLetter('\0fail\0q\0P\0C\0fp\0e\0')).toEqual({ kind: 'fail', ...link, policy: 'fp', text: 'e\0' });
    expect(parseLetter('\0gone\0q\0P\0C\0id\0')).toEqual({ kind: 'gone', ...link, policy: 'id', text: '' });
    expect(parseLetter('\0cancel\0P\0why\0')).toEqual({ kind: 'cancel', parent: 'P', reason: 'why\0' });
    for (const odd of [
      '',
      'x',
      'q\0P',
      'q\0P\0C',
      '\0',
      '\0other\0q\0P\0C\0fp\0e',
      '\0fail\0q\0P\0C\0fp',
      '\0cancel\0P',
    ])
      expect(parseLetter(odd), JSON.stringify(odd)).toBeUndefined();
  });

  test('were heard when nothing in the keyspace waits for them', () => {
    const row = 'emq:{q}:job:P';
    const heard = (letter: string, entries: Record<string, Entry>) =>
      isHeard(letter, 'emq:{far}:', new Map(Object.entries(entries)));
    const open = { [`${row}:children`]: hash({ C: 'far' }) };
    expect(heard('q\0P\0C\0r', open)).toBe(false);
    expect(heard('q\0P\0C\0r', {})).toBe(true);
    expect(heard('\0fail\0q\0P\0C\0fp\0e', open)).toBe(false);
    const failed = { ...open, [`${row}:failed`]: hash({ C: 'e' }) };
    expect(heard('\0fail\0q\0P\0C\0fp\0e', failed)).toBe(true);
    expect(heard('\0gone\0q\0P\0C\0fp\0e', failed)).toBe(false);
    expect(heard('\0cancel\0P\0why', { 'emq:{far}:flow:cancel:P': hash({ C: '' }) })).toBe(false);
    expect(heard('\0cancel\0P\0why', {})).toBe(true);
  });
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
