/**
 * The situations of the audit and of what mends.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import {
  cmd,
  row,
  put,
  pending,
  active,
  laneKey,
  laneTouches,
  ofRow,
  parked,
  parkedTouches,
  touch,
  subkeys,
  ROOT,
  type Cases,
  type KeyType,
  type Names,
  type Situation,
} from './scene.js';

const call = (n: Names, ...args: Bytes[]): Pick<Situation, 'keys' | 'args'> => ({ keys: [n.b], args });

/** The sets that a job may be in, and the counts of a parent. */
const places = (n: Names): Record<Bytes, KeyType> => ({
  ...touch(n, { pending: 'zset', active: 'zset', schedule: 'zset', dead: 'zset', 'flow:held': 'zset' }),
});
const job = (n: Names): Record<Bytes, KeyType> => ({
  ...places(n),
  ...ofRow(n, n.id, { ':dependencies': 'string', ':children': 'hash' }),
});
/** A row that is no hash is a finding, and so is what is left of one, whatever it is. */
const rowOf = (n: Names): Bytes => `${n.b}job:${n.id}`;

const oneLane = (n: Names): Record<Bytes, KeyType> => ({
  ...touch(n, {
    gactive: 'hash',
    glimit: 'hash',
    gmax: 'hash',
    paused: 'set',
    gwait: 'zset',
    ring: 'list',
  }),
  ...touch(n, { [`g:${n.group}:limiter`]: 'string', [`g:${n.group}:pending`]: 'zset' }),
});
const single = (n: Names): Record<Bytes, KeyType> =>
  touch(n, {
    ...{ wake: 'list', 'metrics:completed': 'hash', 'metrics:failed': 'hash', 'metrics:rolled': 'hash' },
    ...{ meta: 'hash', glimit: 'hash', gmax: 'hash', limiter: 'string' },
  });

/** A lane that leaves the ring wakes nobody. */
const quietLane = (n: Names): Record<Bytes, KeyType> =>
  Object.fromEntries(Object.entries(laneTouches(n)).filter(([key]) => key !== `${n.b}wake`));
/** A lane that can be served and is not on the ring; its count is wrong. */
const offRing = (n: Names): Situation['setup'] => [
  row(n, n.id, { group: n.group }),
  cmd('ZADD', laneKey(n), '0', n.id),
  cmd('HSET', `${n.b}gactive`, n.group, '4'),
];
/** A job that its row does not place: a claim of a lane that never came to its end. */
const lost = (n: Names): Situation['setup'] => [row(n, n.id, { state: 'active', group: n.group })];
/** A repeat that is to fire, without a place. */
const unplaced = (n: Names): Situation['setup'] => [cmd('HSET', `${n.b}repeat:r`, 'name', 'r', 'next', '5')];
const parent = (n: Names): Situation['setup'] => [cmd('HSET', `${n.b}job:${ROOT}:children`, n.id, '')];
/** What is wrong with what a queue has one of. */
const spoilt = (n: Names): Situation['setup'] => [
  cmd('RPUSH', `${n.b}wake`, 'x'),
  cmd('HSET', `${n.b}metrics:completed`, 'count', 'x'),
  cmd('HSET', `${n.b}metrics:rolled`, 'minute', 'x'),
  cmd('HSET', `${n.b}meta`, 'letters', 'x'),
  cmd('SET', `${n.b}limiter`, 'x'),
];

/** A job at work that its lane does not count. */
const counted = (n: Names): Situation => ({
  name: 'a count of a lane',
  setup: active(n, { group: n.group }),
  ...call(n, 'counts', n.group),
  touches: touch(n, { active: 'zset', gactive: 'hash' }),
  untyped: [rowOf(n)],
});

const others = (n: Names): Situation[] => [
  {
    name: 'a dedup id of nobody',
    setup: [cmd('SET', `${n.b}de:d`, n.id)],
    ...call(n, 'dedups', 'd'),
    touches: touch(n, { 'de:d': 'string' }),
    untyped: [rowOf(n)],
  },
  {
    name: 'children to be cancelled',
    setup: [cmd('HSET', `${n.b}flow:cancel:${n.id}`, n.other, '')],
    ...call(n, 'cancels', n.id),
    touches: touch(n, { 'flow:outbox': 'list', [`flow:cancel:${n.id}`]: 'hash' }),
  },
  {
    name: 'a child that is gone',
    setup: parent(n),
    ...call(n, 'children', ROOT, n.id),
    touches: { ...touch(n, { 'flow:outbox': 'list' }), ...ofRow(n, ROOT, { ':children': 'hash' }) },
    untyped: [rowOf(n)],
  },
];

const audit: Cases = {
  numbers: [],
  situations: (n) => [
    { name: 'a job that waits', setup: pending(n), ...call(n, 'jobs', n.id), touches: job(n), untyped: [rowOf(n)] },
    {
      name: 'a job of a lane, at work and not counted',
      setup: active(n, { group: n.group }),
      ...call(n, 'jobs', n.id, n.other),
      touches: { ...job(n), ...touch(n, { [`g:${n.group}:pending`]: 'zset', gactive: 'hash' }) },
      untyped: [rowOf(n)],
    },
    {
      name: 'an id without a row in a lane',
      setup: [cmd('ZADD', laneKey(n), '0', n.id)],
      ...call(n, 'lane', n.group, n.id),
      touches: { ...places(n), [laneKey(n)]: 'zset' },
      untyped: [rowOf(n), ...subkeys(n).filter((key) => !/:(dependencies|children)$/.test(key))],
    },
    { name: 'a lane', setup: offRing(n), ...call(n, 'lanes', n.group), touches: oneLane(n) },
    counted(n),
    {
      name: 'a repeat without a place',
      setup: unplaced(n),
      ...call(n, 'repeats', 'r'),
      touches: touch(n, { repeat: 'zset', 'repeat:r': 'hash' }),
    },
    ...others(n),
    { name: 'a queue', setup: spoilt(n), ...call(n, 'queue'), touches: single(n) },
  ],
  refusals: (n) => [
    { name: 'another word', setup: [], ...call(n, 'job', n.id), text: 'ERR unknown audit' },
    { name: 'no word', setup: [], ...call(n), text: 'ERR unknown audit' },
    { name: 'no job', setup: [], ...call(n, 'jobs'), text: 'ERR an audit needs items' },
    { name: 'a lane and no job', setup: [], ...call(n, 'lane', n.group), text: 'ERR an audit needs items' },
  ],
};

const mend: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a job of a lane that is in no place',
      setup: lost(n),
      ...call(n, 'jobs', n.id),
      touches: { ...job(n), ...laneTouches(n) },
      untyped: [rowOf(n)],
    },
    {
      name: 'a flat job that is in no place',
      setup: [row(n, n.id, {})],
      ...call(n, 'jobs', n.id),
      touches: { ...job(n), ...touch(n, { wake: 'list' }) },
      untyped: [rowOf(n)],
    },
    {
      name: 'a flow child that is at work and cannot be read',
      setup: [...active(n, { attempts: 'x', parent: ROOT, dedup: 'd' }), parked(n)],
      ...call(n, 'jobs', n.id),
      touches: {
        ...job(n),
        ...parkedTouches(n),
        ...touch(n, { meta: 'hash', 'metrics:failed': 'hash', 'flow:outbox': 'list' }),
      },
      untyped: [rowOf(n)],
      counters: [[`${n.b}metrics:failed`, 'count']],
    },
    {
      name: 'an id without a row in a lane',
      setup: [cmd('ZADD', laneKey(n), '0', n.id), cmd('RPUSH', `${n.b}ring`, n.group), put(n, 'dead', '5', n.id)],
      ...call(n, 'lane', n.group, n.id),
      touches: { ...places(n), ...quietLane(n) },
      untyped: [rowOf(n), ...subkeys(n).filter((key) => !/:(dependencies|children)$/.test(key))],
    },
    {
      name: 'a parent that counts wrong, in two places',
      setup: [
        row(n, n.id, { state: 'awaiting_children', landing: 'x' }),
        put(n, 'flow:held', '5', n.id),
        put(n, 'schedule', '5', n.id),
        cmd('HSET', `${rowOf(n)}:children`, n.other, '+'),
      ],
      ...call(n, 'jobs', n.id),
      touches: job(n),
      untyped: [rowOf(n)],
    },
    {
      name: 'a lane',
      setup: offRing(n),
      ...call(n, 'lanes', n.group),
      touches: { ...oneLane(n), ...touch(n, { wake: 'list' }) },
    },
    counted(n),
    {
      name: 'a repeat without a place',
      setup: unplaced(n),
      ...call(n, 'repeats', 'r'),
      touches: touch(n, { repeat: 'zset', 'repeat:r': 'hash', wake: 'list' }),
    },
    ...others(n),
    { name: 'a queue', setup: spoilt(n), ...call(n, 'queue'), touches: single(n) },
  ],
  refusals: (n) => [
    { name: 'another word', setup: [], ...call(n, 'job', n.id), text: 'ERR unknown audit' },
    { name: 'no job', setup: [], ...call(n, 'jobs'), text: 'ERR an audit needs items' },
    { name: 'two jobs', setup: lost(n), ...call(n, 'jobs', n.id, n.other), text: 'ERR a mend takes one item' },
    { name: 'a queue and more', setup: spoilt(n), ...call(n, 'queue', 'x'), text: 'ERR a queue has no items' },
  ],
};

/** By the name on the wire. */
export const auditCases: Readonly<Record<string, Cases>> = { audit, mend };
