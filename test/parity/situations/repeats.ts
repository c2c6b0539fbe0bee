/**
 * The situations of repeats.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import { cmd, lane, laneCounters, laneTouches, row, touch, type Cases, type Fields, type Names } from './scene.js';

/** A repeat that is to fire at `next`, which is long ago. */
const record = (n: Names, fields: Fields = {}): RawCommand[] => [
  cmd(
    'HSET',
    `${n.b}repeat:r`,
    ...Object.entries({ name: 'r', spec: 'every', next: '5000', count: '1', payload: 'p', ...fields }).flat(),
  ),
  cmd('ZADD', `${n.b}repeat`, 'paused' in fields ? 'inf' : '5000', 'r'),
];
const places = (n: Names) => touch(n, { repeat: 'zset', 'repeat:r': 'hash' });

const putCall = (n: Names, spec: Bytes) => ({
  keys: [n.b],
  args: ['r', spec, '5000', '3', '4000000000000', 'payload\0\xff', '3', '{}', 'PRT0KHTOWnGLu1'],
});

const repeatPut: Cases = {
  // limit and end may be empty: see the refusals
  numbers: [[2, 'first', 'any']],
  situations: (n) => {
    return [
      { name: 'a new one', setup: [], ...putCall(n, 'every'), touches: { ...places(n), [`${n.b}wake`]: 'list' } },
      {
        name: 'another spec',
        setup: record(n),
        ...putCall(n, 'cron'),
        touches: { ...places(n), [`${n.b}wake`]: 'list' },
      },
      { name: 'the same spec', setup: record(n), ...putCall(n, 'every'), touches: places(n) },
    ];
  },
  refusals: (n) => {
    const call = putCall(n, 'cron');
    const bad = (place: number, value: Bytes, text: Bytes) => ({
      name: `${JSON.stringify(value)} in place ${place}`,
      setup: record(n),
      keys: call.keys,
      args: call.args.map((arg, i) => (i === place ? value : arg)),
      text,
    });
    return [
      ...[call.args.slice(1), [...call.args, '']].map((args) => ({
        name: `${args.length} arguments`,
        setup: record(n),
        keys: call.keys,
        args,
        text: 'ERR a repeat is nine arguments',
      })),
      ...['x', '0', '-1', '01'].map((value) => bad(3, value, 'ERR limit must be a positive integer')),
      ...['x', '1.5', '01'].map((value) => bad(4, value, 'ERR end must be an integer')),
    ];
  },
};

const fireCall = (n: Names, slot = '5000', next = '4000000000000', id = n.id) => ({
  keys: [n.b],
  args: ['r', slot, id, '{}', next],
});

const repeatFire: Cases = {
  numbers: [[1, 'slot', 'any']],
  situations: (n) => {
    const own = { ...places(n), [`${n.b}job:${n.id}`]: 'hash' as const };
    const counters = [[`${n.b}repeat:r`, 'count'] as const];
    return [
      {
        name: 'a flat job',
        setup: record(n),
        ...fireCall(n),
        touches: { ...own, ...touch(n, { pending: 'zset', wake: 'list' }) },
        counters,
      },
      {
        name: 'a job of a lane',
        setup: [...record(n, { group: n.group }), ...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...fireCall(n),
        touches: { ...own, ...laneTouches(n) },
        counters: [...counters, ...laneCounters(n)],
      },
      { name: 'no record', setup: [cmd('ZADD', `${n.b}repeat`, '5', 'r')], ...fireCall(n), touches: places(n) },
      { name: 'another slot', setup: record(n), ...fireCall(n, '6000'), touches: places(n) },
      { name: 'an id that has a row', setup: [...record(n), row(n, n.id, {})], ...fireCall(n), touches: own },
    ];
  },
  refusals: (n) => [
    {
      name: 'another kind, and more that is wrong',
      setup: record(n),
      keys: [n.b],
      args: ['r', 'x', 'EVT0KHTOWnGLuC'],
      text: 'EMQKIND job id must be JOB-namespaced',
    },
    ...[fireCall(n).args.slice(0, -1), [...fireCall(n).args, 'x']].map((args) => ({
      name: `${args.length} arguments`,
      setup: record(n),
      keys: [n.b],
      args,
      text: 'ERR a fire is five arguments',
    })),
    ...['x', '1.5', '007'].map((next) => ({
      name: `the next slot ${JSON.stringify(next)}`,
      setup: record(n),
      ...fireCall(n, '5000', next),
      text: 'ERR next must be an integer',
    })),
    ...['5000', '4999', '-1'].map((next) => ({
      name: `the next slot ${next}, which is not later`,
      setup: record(n),
      ...fireCall(n, '5000', next),
      text: 'ERR next must be later than slot',
    })),
  ],
};

const onName: Cases = {
  numbers: [],
  situations: (n) => [{ name: 'a record', setup: record(n), keys: [n.b], args: ['r'], touches: places(n) }],
  refusals: () => [],
};

const repeatResume: Cases = {
  // an empty one says that no slot is left: see the refusals
  numbers: [],
  situations: (n) => [
    {
      name: 'a paused one',
      setup: record(n, { paused: '1' }),
      keys: [n.b],
      args: ['r', '7000'],
      touches: { ...places(n), [`${n.b}wake`]: 'list' },
    },
  ],
  refusals: (n) =>
    ['x', '1.5', ' 1', '4503599627370497'].map((next) => ({
      name: `the next slot ${JSON.stringify(next)}`,
      setup: record(n, { paused: '1' }),
      keys: [n.b],
      args: ['r', next],
      text: 'ERR next must be an integer',
    })),
};

const repeats: Cases = {
  numbers: [
    [1, 'offset', 'any'],
    [2, 'limit', 'positive'],
  ],
  situations: (n) =>
    ['due', 'all'].map((which) => ({
      name: which,
      setup: record(n),
      keys: [n.b],
      args: [which, '0', '10'],
      touches: places(n),
    })),
  refusals: (n) => [
    ...['', 'Due', 'all '].map((which) => ({
      name: `the word ${JSON.stringify(which)}`,
      setup: record(n),
      keys: [n.b],
      args: [which, 'x', 'x'],
      text: 'ERR which must be due or all',
    })),
    {
      name: 'an offset below zero',
      setup: record(n),
      keys: [n.b],
      args: ['all', '-1', '10'],
      text: 'ERR offset must not be negative',
    },
  ],
};

/** By the name on the wire. */
export const repeatCases: Readonly<Record<string, Cases>> = {
  repeat_put: repeatPut,
  repeat_fire: repeatFire,
  repeat_pause: onName,
  repeat_resume: repeatResume,
  repeat_remove: onName,
  repeats,
  repeat_get: onName,
};
