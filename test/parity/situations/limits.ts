/**
 * The situations of limits and dedup ids: the admission that knows them, and what sets and reads them.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import {
  active,
  cmd,
  dead,
  laneCounters,
  laneTouches,
  limitCounters,
  limitTouches,
  parked,
  pending,
  put,
  row,
  scheduled,
  touch,
  type Cases,
  type Names,
} from './scene.js';

// ---- admission -------------------------------------------------------------------------------------------------------

interface Admission {
  readonly time?: readonly [Bytes, Bytes];
  readonly group?: Bytes;
  readonly dedup?: readonly [Bytes, Bytes, Bytes, Bytes];
}

/** The admission of the other id. */
const admitCall = (n: Names, { time = ['now', '0'], group = '', dedup = ['', '', '0', '0'] }: Admission = {}) => ({
  keys: [`${n.b}job:${n.other}`, n.b],
  args: [n.other, 'payload\0\xff', '3', '{}', ...time, group, ...dedup],
});

const TTL = ['ttl', 'any'] as const;
const REPLACE = ['d', 'replace', '60000', '0'] as const;

const admit: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, { [`job:${n.other}`]: 'hash' });
    const scheduledIn = touch(n, { schedule: 'zset', wake: 'list' });
    const owner = touch(n, { 'de:d': 'string', [`job:${n.id}`]: 'hash', pending: 'zset' });
    const owned = [...pending(n, { dedup: 'd' }), parked(n)];
    return [
      {
        name: 'a flat job',
        setup: [],
        ...admitCall(n),
        touches: { ...own, ...touch(n, { pending: 'zset', wake: 'list' }) },
      },
      {
        name: 'a scheduled job of a lane',
        setup: [],
        ...admitCall(n, { time: ['in', '60000'], group: n.group }),
        touches: { ...own, ...scheduledIn },
        numbers: [[5, 'ms', 'any']],
      },
      {
        name: 'a job of a lane',
        setup: [cmd('HSET', `${n.b}gactive`, n.group, '1'), cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...admitCall(n, { group: n.group === '' ? 'PRT0KHTOWnGLu1' : n.group }),
        touches: n.group === '' ? own : { ...own, ...laneTouches(n) },
        counters: n.group === '' ? [] : laneCounters(n),
      },
      {
        name: 'a job with a dedup id that nobody has',
        setup: [],
        ...admitCall(n, { dedup: ['d', 'throttle', '60000', '1'] }),
        touches: { ...own, ...touch(n, { 'de:d': 'string', pending: 'zset', wake: 'list' }) },
        numbers: [[9, ...TTL]],
      },
      {
        name: 'a job with the dedup id of another',
        setup: owned,
        ...admitCall(n, { dedup: ['d', 'drop', '0', '0'] }),
        touches: { ...own, ...owner },
        numbers: [[9, ...TTL]],
      },
      {
        name: 'a job in the place of another',
        setup: owned,
        ...admitCall(n, { dedup: REPLACE }),
        touches: { ...own, ...owner },
      },
      {
        name: 'a scheduled job in the place of another',
        setup: [...scheduled(n, { dedup: 'd' }), parked(n)],
        ...admitCall(n, { time: ['at', '5'], dedup: REPLACE }),
        touches: { ...own, ...touch(n, { 'de:d': 'string', [`job:${n.id}`]: 'hash' }), ...scheduledIn },
      },
      {
        name: 'a job behind another that is at work',
        setup: [...active(n, { dedup: 'd' }), parked(n)],
        ...admitCall(n, { dedup: REPLACE }),
        touches: { ...own, ...owner, [`${n.b}wake`]: 'list' },
      },
      {
        name: 'a job with the dedup id of one that is gone',
        setup: [cmd('SET', `${n.b}de:d`, 'JOB0KHTOWnGLzz')],
        ...admitCall(n, { dedup: ['d', 'drop', '0', '0'] }),
        touches: {
          ...own,
          ...touch(n, { 'de:d': 'string', 'job:JOB0KHTOWnGLzz': 'hash', pending: 'zset', wake: 'list' }),
        },
      },
      { name: 'an id that is there', setup: [row(n, n.other, {})], ...admitCall(n), touches: own },
    ];
  },
  refusals: (n) => {
    const kind = admitCall(n);
    const dedup = (words: readonly [Bytes, Bytes, Bytes, Bytes], text: Bytes) => ({
      name: `the dedup words ${JSON.stringify(words)}`,
      setup: [...pending(n, { dedup: 'd' }), parked(n)],
      ...admitCall(n, { dedup: words }),
      text,
    });
    const modes = 'ERR dedup must be drop, throttle or replace';
    return [
      {
        name: 'another kind, and more that is wrong',
        setup: [],
        keys: [`${n.b}job:EVT0KHTOWnGLuC`, n.b],
        args: ['EVT0KHTOWnGLuC', 'never'],
        text: 'EMQKIND job id must be JOB-namespaced',
      },
      ...[kind.args.slice(0, -1), [...kind.args, 'x']].map((args) => ({
        name: `${args.length} arguments`,
        setup: [],
        keys: kind.keys,
        args,
        text: 'ERR an admission is eleven arguments',
      })),
      ...['', 'NOW', 'now ', 'in\0'].map((mode) => ({
        name: `the mode ${JSON.stringify(mode)}`,
        setup: [],
        ...admitCall(n, { time: [mode, 'x'], dedup: ['d', 'x', 'x', 'x'] }),
        text: 'ERR mode must be now, in or at',
      })),
      ...['', 'Drop', 'replace '].map((mode) => dedup(['d', mode, 'x', 'x'], modes)),
      dedup(['d', 'drop', '-1', 'x'], 'ERR ttl must not be negative'),
      dedup(['d', 'throttle', '0', '0'], 'ERR ttl must be a positive integer'),
      dedup(['d', 'drop', '0', '1'], 'ERR ttl must be a positive integer'),
      dedup(['d', 'drop', '5', ''], 'ERR keep must be 0 or 1'),
      dedup(['d', 'drop', '5', '2'], 'ERR keep must be 0 or 1'),
    ];
  },
};

// ---- limits ----------------------------------------------------------------------------------------------------------

const rate = (n: Names) => cmd('HSET', `${n.b}meta`, 'concurrency', '2', 'max', '2', 'duration', '600000');

const consultCall = (n: Names) => ({ keys: ['meta', 'active', 'limiter'].map((name) => n.b + name), args: [] });

const consult: Cases = {
  numbers: [],
  situations: (n) =>
    [[], [rate(n)]].map((setup) => ({
      name: setup.length === 0 ? 'no limit' : 'limits that are not reached',
      setup,
      ...consultCall(n),
      touches: { ...limitTouches(n), [`${n.b}active`]: 'zset' },
      counters: limitCounters(n),
      strings: [`${n.b}limiter`],
    })),
  refusals: (n) => [
    {
      name: 'a queue at its ceiling',
      setup: [rate(n), put(n, 'active', '5', n.id), put(n, 'active', '6', n.other)],
      ...consultCall(n),
      text: 'EMQRATE at concurrency ceiling',
    },
    {
      name: 'no token',
      setup: [rate(n), cmd('SET', `${n.b}limiter`, '4000000000000000')],
      ...consultCall(n),
      text: 'EMQRATE at rate ceiling',
    },
    {
      name: 'a queue that was told to back off',
      setup: [cmd('SET', `${n.b}limiter`, '4000000000000000')],
      ...consultCall(n),
      text: 'EMQRATE at rate ceiling',
    },
  ],
};

const limits: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'limits',
      setup: [rate(n)],
      keys: [n.b],
      args: [],
      touches: limitTouches(n),
      counters: limitCounters(n),
      strings: [`${n.b}limiter`],
    },
  ],
  refusals: () => [],
};

/** The refusals of names and values; `first`: what stands before them. */
export const settingRefusals = (n: Names, first: readonly Bytes[], names: readonly Bytes[]) => {
  const refused = (words: readonly Bytes[], text: Bytes) => ({
    name: `the words ${JSON.stringify(words)}`,
    setup: [rate(n), cmd('SET', `${n.b}limiter`, '4000000000000000')],
    keys: [n.b],
    args: [...first, ...words],
    text,
  });
  const window = 'ERR duration must be an integer from 1 to 2147483647';
  const bad = ['x', '0', '-1', '01', '1.5', '4503599627370497', ' '];
  return [
    ...[[], ['max'], ['max', '1', 'duration']].map((words) => refused(words, 'ERR limits must be names and values')),
    ...['', 'Max', 'paused', 'glimit'].map((name) => refused(['max', '1', name, 'x'], 'ERR unknown limit')),
    ...[...names, 'duration'].flatMap((name) =>
      bad.map((value) => refused([name, value], `ERR ${name} must be a positive integer`)),
    ),
    ...['2147483648', '4503599627370496'].map((value) => refused(['max', '1', 'duration', value], window)),
  ];
};

const setLimits: Cases = {
  numbers: [],
  situations: (n) => {
    const touches = { ...limitTouches(n), ...touch(n, { pending: 'zset', wake: 'list' }) };
    return [
      {
        name: 'first limits, and a job waits',
        setup: pending(n),
        keys: [n.b],
        args: ['concurrency', '3', 'max', '2', 'duration', '60000'],
        touches,
      },
      {
        name: 'another rate, and tokens are spent',
        setup: [rate(n), ...pending(n), cmd('SET', `${n.b}limiter`, '4000000000000000')],
        keys: [n.b],
        args: ['max', '5'],
        touches,
      },
      {
        name: 'no limits any more, and the ring is not empty',
        setup: [rate(n), cmd('RPUSH', `${n.b}ring`, n.group)],
        keys: [n.b],
        args: ['concurrency', '', 'max', '', 'duration', ''],
        touches: { ...touches, [`${n.b}ring`]: 'list' },
      },
    ];
  },
  refusals: (n) => settingRefusals(n, [], ['concurrency', 'max']),
};

// ---- dedup ids -------------------------------------------------------------------------------------------------------

const onKey: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a job that has it',
      setup: [...dead(n, { dedup: 'd' }), parked(n)],
      keys: [`${n.b}de:d`],
      args: [],
      touches: touch(n, { 'de:d': 'string' }),
    },
  ],
  refusals: () => [],
};

/** By the name on the wire. */
export const limitCases: Readonly<Record<string, Cases>> = {
  admit,
  consult,
  limits,
  set_limits: setLimits,
  dedup: onKey,
  dedup_free: onKey,
};
