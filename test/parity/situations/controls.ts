/**
 * The situations of the operator's steps.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import {
  active,
  cmd,
  dead,
  lane,
  laneCounters,
  laneKey,
  laneTouches,
  parked,
  parkedTouches,
  pending,
  put,
  row,
  scheduled,
  subkeys,
  touch,
  type Cases,
  type Names,
} from './scene.js';

const purgeCall = (n: Names, set: Bytes, age = '', keep = '') => ({
  keys: [set, n.b],
  args: ['drained', '0', '10', age, keep],
});

const purge: Cases = {
  numbers: [
    [1, 'offset', 'any'],
    [2, 'limit', 'positive'],
  ],
  situations: (n) => {
    const untyped = subkeys(n).filter((key) => !/:(lock|children)$/.test(key));
    // a row that is no hash goes with the rest
    const whole = [...untyped, `${n.b}job:${n.id}`];
    const children = { [`${n.b}job:${n.id}:children`]: 'hash' as const };
    const inLane = [row(n, n.id, { group: n.group }), cmd('ZADD', laneKey(n), '0', n.id), ...lane(n)];
    return [
      {
        name: 'a job that waits',
        setup: pending(n),
        ...purgeCall(n, `${n.b}pending`),
        touches: { ...touch(n, { pending: 'zset' }), ...children },
        untyped: whole,
      },
      {
        name: 'a dead flow child that holds a dedup id',
        setup: [...dead(n, { dedup: 'd', parent: 'JOB0KHTOWnGLuA' }), parked(n)],
        ...purgeCall(n, `${n.b}dead`, '60000', '0'),
        touches: { ...touch(n, { dead: 'zset', 'flow:outbox': 'list' }), ...parkedTouches(n), ...children },
        untyped,
      },
      {
        name: 'a scheduled job of a lane',
        setup: [...scheduled(n, { group: n.group }), ...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...purgeCall(n, `${n.b}schedule`),
        touches: { ...touch(n, { schedule: 'zset' }), ...children },
        untyped,
      },
      {
        name: 'a lane',
        setup: [...inLane, cmd('HSET', `${n.b}glimit`, n.group, '2'), cmd('RPUSH', `${n.b}ring`, n.group)],
        ...purgeCall(n, laneKey(n)),
        touches: { [laneKey(n)]: 'zset', ...touch(n, { ring: 'list' }), ...children },
        untyped,
        counters: laneCounters(n),
      },
      {
        name: 'a flow parent that waits, and its children are to go',
        setup: [...pending(n), cmd('HSET', `${n.b}job:${n.id}:children`, n.other, '')],
        ...purgeCall(n, `${n.b}pending`),
        touches: { ...touch(n, { pending: 'zset', 'flow:outbox': 'list' }), ...children },
        untyped: [...untyped, `${n.b}flow:cancel:${n.id}`],
      },
    ];
  },
  refusals: (n) => {
    const call = purgeCall(n, `${n.b}dead`);
    const bad = (place: number, value: Bytes, text: Bytes) => ({
      name: `${JSON.stringify(value)} in place ${place}`,
      setup: dead(n),
      keys: call.keys,
      args: call.args.map((arg, i) => (i === place ? value : arg)),
      text,
    });
    return [
      ...[call.args.slice(1), [...call.args, '']].map((args) => ({
        name: `${args.length} arguments`,
        setup: dead(n),
        keys: call.keys,
        args,
        text: 'ERR a purge is five arguments',
      })),
      bad(1, '-1', 'ERR offset must not be negative'),
      ...['x', '1.5'].map((value) => bad(3, value, 'ERR age must be an integer')),
      bad(3, '-1', 'ERR age must not be negative'),
      ...['x', '01'].map((value) => bad(4, value, 'ERR keep must be an integer')),
      bad(4, '-1', 'ERR keep must not be negative'),
      ...['active', 'flow:held', 'meta', '', `job:${n.id}`, 'g:pending'].map((set) => ({
        name: `the set ${JSON.stringify(set)}`,
        setup: active(n),
        ...purgeCall(n, n.b + set),
        text: 'ERR unknown set',
      })),
      { name: 'the set of another queue', setup: dead(n), ...purgeCall(n, 'emq:{x}:dead'), text: 'ERR unknown set' },
    ];
  },
};

const obliterateCall = (n: Names, force = '') => ({ keys: [`${n.b}meta`, n.b], args: [force, '100'] });
const paused = (n: Names): RawCommand => cmd('HSET', `${n.b}meta`, 'paused', '1');

const obliterate: Cases = {
  numbers: [[1, 'limit', 'positive']],
  situations: (n) => {
    const sets = touch(n, {
      meta: 'hash',
      active: 'zset',
      pending: 'zset',
      schedule: 'zset',
      dead: 'zset',
      'flow:held': 'zset',
    });
    const places = touch(n, {
      ...{ ring: 'list', paused: 'set', gactive: 'hash' },
      ...{ gwait: 'zset', glimit: 'hash', gmax: 'hash' },
    });
    return [
      {
        name: 'jobs, one of them at work',
        setup: [paused(n), ...pending(n), put(n, 'active', '5', n.other), row(n, n.other, {}), ...lane(n)],
        ...obliterateCall(n, 'force'),
        touches: { ...sets, ...places, [laneKey(n)]: 'zset' },
      },
      {
        name: 'a repeat',
        setup: [paused(n), cmd('ZADD', `${n.b}repeat`, 'inf', 'r'), cmd('HSET', `${n.b}repeat:r`, 'spec', 'x')],
        ...obliterateCall(n),
        touches: { ...sets, ...places, [`${n.b}repeat`]: 'zset' },
        untyped: [`${n.b}repeat:r`],
      },
      {
        name: 'letters, that are to be delivered',
        setup: [paused(n), cmd('RPUSH', `${n.b}flow:outbox`, `far\0JOB0KHTOWnGLuA\0${n.id}\0r`)],
        ...obliterateCall(n),
        touches: { ...sets, [`${n.b}flow:outbox`]: 'list' },
      },
      {
        name: 'letters, by force',
        setup: [
          paused(n),
          cmd('RPUSH', `${n.b}flow:outbox`, `\0cancel\0${n.id}\0why`),
          cmd('HSET', `${n.b}flow:cancel:${n.id}`, n.other, ''),
          cmd('ZADD', `${n.b}flow:landed`, '5', n.other),
        ],
        ...obliterateCall(n, 'force'),
        touches: { ...sets, ...touch(n, { 'flow:outbox': 'list', 'flow:poison': 'list', 'flow:landed': 'zset' }) },
        untyped: [`${n.b}flow:cancel:${n.id}`],
      },
      {
        name: 'nothing but what has a name of its own',
        setup: [paused(n), cmd('HSET', `${n.b}metrics:completed`, 'count', '1')],
        ...obliterateCall(n),
        touches: { ...sets, ...places, [`${n.b}flow:outbox`]: 'list' },
        untyped: ['wake', 'limiter', 'gweight', 'gduration', 'metrics:rolled'].map((name) => n.b + name),
      },
    ];
  },
  refusals: (n) => [
    {
      name: 'a queue that is not paused',
      setup: pending(n),
      ...obliterateCall(n, 'force'),
      text: 'EMQSTATE not paused',
    },
    {
      name: 'a job at work',
      setup: [paused(n), ...active(n)],
      ...obliterateCall(n),
      text: 'EMQSTATE active jobs present',
    },
    {
      name: 'a job at work, and another word',
      setup: [paused(n), ...active(n)],
      ...obliterateCall(n, 'FORCE'),
      text: 'EMQSTATE active jobs present',
    },
  ],
};

const nowCall = (n: Names) => ({
  keys: [`job:${n.id}`, 'schedule', 'pending', ''].map((name) => n.b + name),
  args: [n.id],
});

const promoteNow: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, { [`job:${n.id}`]: 'hash', schedule: 'zset', pending: 'zset' });
    return [
      { name: 'a scheduled job', setup: scheduled(n), ...nowCall(n), touches: { ...own, [`${n.b}wake`]: 'list' } },
      {
        name: 'a scheduled job of a lane',
        setup: [...scheduled(n, { group: n.group }), ...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...nowCall(n),
        touches: { ...own, ...laneTouches(n) },
        counters: laneCounters(n),
      },
    ];
  },
  refusals: (n) =>
    [pending(n), active(n), dead(n)].map((setup, i) => ({
      name: ['a job that waits', 'an active job', 'a dead job'][i] ?? '',
      setup,
      ...nowCall(n),
      text: 'EMQSTATE not scheduled',
    })),
};

const laterCall = (n: Names, mode = 'in', ms = '60000') => ({
  keys: [`job:${n.id}`, 'schedule', 'wake'].map((name) => n.b + name),
  args: [n.id, mode, ms],
});

const reschedule: Cases = {
  numbers: [[2, 'ms', 'any']],
  situations: (n) => [
    {
      name: 'a scheduled job',
      setup: scheduled(n),
      ...laterCall(n),
      touches: touch(n, { [`job:${n.id}`]: 'hash', schedule: 'zset', wake: 'list' }),
    },
  ],
  refusals: (n) => [
    ...['', 'IN', 'now'].map((mode) => ({
      name: `the mode ${JSON.stringify(mode)}`,
      setup: scheduled(n),
      ...laterCall(n, mode, 'x'),
      text: 'ERR mode must be in or at',
    })),
    { name: 'a job that waits', setup: pending(n), ...laterCall(n), text: 'EMQSTATE not scheduled' },
    { name: 'a dead job', setup: dead(n), ...laterCall(n), text: 'EMQSTATE not scheduled' },
  ],
};

const COUNTS = ['completed', 'failed'] as const;

const metricsRoll: Cases = {
  numbers: [],
  situations: (n) => {
    const counters = [
      ...COUNTS.map((name) => [`${n.b}metrics:${name}`, 'count'] as const),
      ...['minute', ...COUNTS].map((field) => [`${n.b}metrics:rolled`, field] as const),
    ];
    const touches = touch(n, {
      'metrics:completed': 'hash',
      'metrics:failed': 'hash',
      'metrics:rolled': 'hash',
      'metrics:completed:data': 'list',
      'metrics:failed:data': 'list',
    });
    return [
      { name: 'the first', setup: [], keys: [n.b], args: [], touches, counters },
      {
        name: 'many minutes later',
        setup: [cmd('HSET', `${n.b}metrics:rolled`, 'minute', '29000000', 'completed', '1', 'failed', '0')],
        keys: [n.b],
        args: [],
        touches,
        counters,
      },
    ];
  },
  refusals: () => [],
};

const history: Cases = {
  numbers: [
    [0, 'first', 'any'],
    [1, 'count', 'positive'],
  ],
  situations: (n) =>
    COUNTS.map((name) => ({
      name,
      setup: [cmd('RPUSH', `${n.b}metrics:${name}:data`, '3', '0')],
      keys: [`${n.b}metrics:${name}:data`, n.b],
      args: ['0', '10'],
      touches: touch(n, { [`metrics:${name}:data`]: 'list', 'metrics:rolled': 'hash' }),
    })),
  refusals: (n) => [
    {
      name: 'a first below zero',
      setup: [],
      keys: [`${n.b}metrics:failed:data`, n.b],
      args: ['-1', '10'],
      text: 'ERR first must not be negative',
    },
  ],
};

/** The list of queues is the node's, not a queue's. */
export const QUEUES = '{emq}:queues';

const register: Cases = {
  numbers: [],
  situations: () =>
    ['add', 'remove'].map((mode) => ({
      name: mode,
      setup: mode === 'add' ? [] : [cmd('ZADD', QUEUES, '5', 'q')],
      keys: [QUEUES],
      args: ['q', mode],
      touches: { [QUEUES]: 'zset' },
    })),
  refusals: () =>
    ['', 'ADD', 'add '].map((mode) => ({
      name: `the mode ${JSON.stringify(mode)}`,
      setup: [],
      keys: [QUEUES],
      args: ['q', mode],
      text: 'ERR mode must be add or remove',
    })),
};

/** By the name on the wire. */
export const controlCases: Readonly<Record<string, Cases>> = {
  purge,
  obliterate,
  promote_now: promoteNow,
  reschedule,
  metrics_roll: metricsRoll,
  history,
  register,
};
