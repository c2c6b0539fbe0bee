/**
 * The situations of the operator's verbs and the reads.
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
  scheduled,
  dead,
  held,
  laneKey,
  lane,
  laneTouches,
  laneCounters,
  parked,
  parkedTouches,
  touch,
  subkeys,
  type Names,
  type Cases,
} from './scene.js';

// ---- the operator's verbs --------------------------------------------------------------------------------------------

const pause: Cases = {
  numbers: [],
  situations: (n) => [
    { name: 'a running queue', setup: [], keys: [`${n.b}meta`], args: [], touches: touch(n, { meta: 'hash' }) },
  ],
  refusals: () => [],
};

const resume: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a paused queue',
      setup: [cmd('HSET', `${n.b}meta`, 'paused', '1')],
      keys: [`${n.b}meta`, `${n.b}wake`],
      args: [],
      touches: touch(n, { meta: 'hash', wake: 'list' }),
    },
  ],
  refusals: () => [],
};

const onRow = (args: (n: Names) => Bytes[]): Cases => ({
  numbers: [],
  situations: (n) => [
    {
      name: 'a row',
      setup: pending(n),
      keys: [`${n.b}job:${n.id}`],
      args: args(n),
      touches: touch(n, { [`job:${n.id}`]: 'hash' }),
    },
  ],
  refusals: () => [],
});

const onLog = (numbers: Cases['numbers'], args: Bytes[]): Cases => ({
  numbers,
  situations: (n) => [
    {
      name: 'a row with lines',
      setup: [...pending(n), cmd('RPUSH', `${n.b}job:${n.id}:logs`, 'a', 'b')],
      keys: [`${n.b}job:${n.id}`, `${n.b}job:${n.id}:logs`],
      args,
      touches: touch(n, { [`job:${n.id}`]: 'hash', [`job:${n.id}:logs`]: 'list' }),
    },
  ],
  refusals: () => [],
});

const removeCall = (n: Names): { keys: Bytes[]; args: Bytes[] } => ({
  keys: [`job:${n.id}`, 'pending', 'active', 'schedule', 'dead', 'de:d'].map((name) => n.b + name),
  args: [n.id, n.b],
});

const remove: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, {
      [`job:${n.id}`]: 'hash',
      pending: 'zset',
      active: 'zset',
      schedule: 'zset',
      dead: 'zset',
      'flow:held': 'zset',
      'de:d': 'string',
      meta: 'hash',
    });
    const untyped = subkeys(n).filter((key) => !key.endsWith(':lock'));
    return [
      { name: 'a job that waits', setup: pending(n), ...removeCall(n), touches: own, untyped },
      {
        name: 'a flow parent',
        setup: held(n, { [n.other]: '' }, { id: n.id }),
        ...removeCall(n),
        touches: own,
        untyped,
      },
      {
        name: 'a dead flow child',
        setup: dead(n, { parent: 'JOB0KHTOWnGLuA' }),
        ...removeCall(n),
        touches: { ...own, [`${n.b}flow:outbox`]: 'list' },
        untyped,
      },
      {
        name: 'an active job of a lane',
        setup: [...active(n, { group: n.group }), ...lane(n)],
        ...removeCall(n),
        touches: { ...own, ...laneTouches(n) },
        untyped,
        counters: laneCounters(n),
      },
      {
        name: 'a job that holds another dedup id than is given',
        setup: [...pending(n, { dedup: 'e' }), cmd('SET', `${n.b}de:e`, n.id)],
        ...removeCall(n),
        touches: { ...own, [`${n.b}de:e`]: 'string' },
        untyped,
      },
      {
        name: 'a flow child',
        setup: pending(n, { parent: 'JOB0KHTOWnGLuA' }),
        ...removeCall(n),
        touches: { ...own, [`${n.b}flow:outbox`]: 'list' },
        untyped,
      },
    ];
  },
  refusals: (n) => [
    {
      name: 'a lock',
      setup: [...pending(n), cmd('SET', `${n.b}job:${n.id}:lock`, 'w', 'PX', '9000000')],
      ...removeCall(n),
      text: 'EMQLOCK job is locked',
    },
    { name: 'a lock field', setup: active(n, { lock: '' }), ...removeCall(n), text: 'EMQLOCK job is locked' },
  ],
};

const cancelCall = (n: Names): { keys: Bytes[]; args: Bytes[] } => ({
  keys: [`job:${n.id}`, 'pending', 'active', 'schedule', 'dead'].map((name) => n.b + name),
  args: [n.id, 'no longer wanted', n.b],
});

const cancel: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, {
      [`job:${n.id}`]: 'hash',
      pending: 'zset',
      active: 'zset',
      schedule: 'zset',
      dead: 'zset',
      'flow:held': 'zset',
    });
    const children = { [`${n.b}job:${n.id}:children`]: 'hash' as const };
    const untyped = subkeys(n).filter((key) => !/:(lock|children)$/.test(key));
    const inLane = [row(n, n.id, { group: n.group }), cmd('ZADD', laneKey(n), '0', n.id), ...lane(n)];
    return [
      { name: 'a job that waits', setup: pending(n), ...cancelCall(n), touches: { ...own, ...children }, untyped },
      {
        name: 'a flow parent',
        setup: held(n, { [n.other]: '' }, { id: n.id }),
        ...cancelCall(n),
        touches: { ...own, ...children, [`${n.b}flow:outbox`]: 'list' },
        untyped: [...untyped, `${n.b}flow:cancel:${n.id}`],
      },
      {
        name: 'a job that waits in its lane',
        setup: [...inLane, cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...cancelCall(n),
        touches: { ...own, ...laneTouches(n) },
        untyped,
        counters: laneCounters(n),
      },
      {
        name: 'a scheduled flow child',
        setup: scheduled(n, { parent: 'JOB0KHTOWnGLuA' }),
        ...cancelCall(n),
        touches: { ...own, [`${n.b}flow:outbox`]: 'list' },
        untyped,
      },
      {
        name: 'a job that holds a dedup id',
        setup: [...pending(n, { dedup: 'd' }), parked(n)],
        ...cancelCall(n),
        touches: { ...own, ...parkedTouches(n) },
        untyped,
      },
      { name: 'an active job', setup: active(n, { lock: '' }), ...cancelCall(n), touches: own },
      { name: 'a dead job', setup: dead(n), ...cancelCall(n), touches: own },
    ];
  },
  refusals: (n) => [
    {
      name: 'a lock on a job that waits',
      setup: [...pending(n), cmd('SET', `${n.b}job:${n.id}:lock`, 'w', 'PX', '9000000')],
      ...cancelCall(n),
      text: 'EMQLOCK job is locked',
    },
  ],
};

const reprocessCall = (n: Names): { keys: Bytes[]; args: Bytes[] } => ({
  keys: [`job:${n.id}`, 'dead', 'pending'].map((name) => n.b + name),
  args: [n.id, n.b],
});

const reprocess: Cases = {
  numbers: [],
  situations: (n) => {
    const count = `${n.b}job:${n.id}:dependencies`;
    const places = touch(n, { [`job:${n.id}`]: 'hash', dead: 'zset', pending: 'zset', 'flow:held': 'zset' });
    const own = { ...places, [count]: 'string' as const, [`${n.b}wake`]: 'list' as const };
    const claims = [`${n.b}job:${n.id}`, 'attempts'] as const;
    return [
      {
        name: 'a dead job',
        setup: dead(n),
        ...reprocessCall(n),
        touches: own,
        counters: [claims],
        strings: [count],
      },
      {
        name: 'a dead flow parent',
        setup: [...dead(n), cmd('SET', count, '2')],
        ...reprocessCall(n),
        touches: { ...places, [count]: 'string' },
        counters: [claims],
        strings: [count],
      },
      {
        name: 'a dead job of a lane',
        setup: [...dead(n, { group: n.group }), ...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2')],
        ...reprocessCall(n),
        touches: { ...own, ...laneTouches(n) },
        counters: [claims, ...laneCounters(n)],
      },
      {
        name: 'a dead job that had a dedup id',
        setup: dead(n, { dedup: 'd', dedup_ttl: '60000' }),
        ...reprocessCall(n),
        touches: { ...own, [`${n.b}de:d`]: 'string' },
        counters: [claims],
        strings: [count],
      },
    ];
  },
  refusals: (n) => [
    {
      name: 'a dead job whose dedup id another has',
      setup: [...dead(n, { dedup: 'd' }), cmd('SET', `${n.b}de:d`, n.other)],
      ...reprocessCall(n),
      text: 'EMQSTATE dedup id taken',
    },
    { name: 'a job that waits', setup: pending(n), ...reprocessCall(n), text: 'EMQSTATE not dead' },
    { name: 'an active job', setup: active(n, { last_error: 'x' }), ...reprocessCall(n), text: 'EMQSTATE not dead' },
  ],
};

const state: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a job that waits in its lane',
      setup: [row(n, n.id, { group: n.group }), cmd('ZADD', laneKey(n), '0', n.id)],
      keys: ['pending', 'active', 'schedule', 'dead', `job:${n.id}`].map((name) => n.b + name),
      args: [n.id, n.b],
      touches: {
        ...touch(n, { pending: 'zset', active: 'zset', schedule: 'zset', dead: 'zset', [`job:${n.id}`]: 'hash' }),
        [laneKey(n)]: 'zset',
      },
    },
  ],
  refusals: () => [],
};

const browse: Cases = {
  numbers: [
    [0, 'offset', 'any'],
    [1, 'limit', 'positive'],
  ],
  situations: (n) =>
    ['pending', 'active', 'schedule', 'dead', 'flow:held'].map((set) => ({
      name: set,
      setup: [put(n, set, '1', n.id)],
      keys: [n.b + set],
      args: ['0', '10'],
      touches: touch(n, { [set]: 'zset' }),
    })),
  refusals: (n) => [
    {
      name: 'an offset below zero',
      setup: pending(n),
      keys: [`${n.b}pending`],
      args: ['-1', '10'],
      text: 'ERR offset must not be negative',
    },
    ...['', 'ASC', 'up', 'asc\0'].map((order) => ({
      name: `the order ${JSON.stringify(order)}`,
      setup: pending(n),
      keys: [`${n.b}pending`],
      args: ['0', '10', order],
      text: 'ERR order must be asc or desc',
    })),
    {
      name: 'another fourth word',
      setup: pending(n),
      keys: [`${n.b}pending`],
      args: ['0', '10', 'asc', 'withscores'],
      text: 'ERR the fourth word must be scores',
    },
  ],
};

const counts: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'all of them',
      setup: pending(n),
      keys: [n.b],
      args: ['pending', 'active', 'schedule', 'dead', 'awaiting_children', 'completed', 'failed'],
      touches: touch(n, {
        pending: 'zset',
        active: 'zset',
        schedule: 'zset',
        dead: 'zset',
        'flow:held': 'zset',
        'metrics:completed': 'hash',
        'metrics:failed': 'hash',
      }),
      counters: [
        [`${n.b}metrics:completed`, 'count'],
        [`${n.b}metrics:failed`, 'count'],
      ],
    },
  ],
  refusals: (n) =>
    ['scheduled', 'wait', '', 'pending\0'].map((name) => ({
      name: `the name ${JSON.stringify(name)}`,
      setup: pending(n),
      keys: [n.b],
      args: ['pending', name],
      text: 'ERR unknown state',
    })),
};

const metrics: Cases = {
  numbers: [],
  situations: (n) =>
    ['metrics:completed', 'metrics:failed'].map((name) => ({
      name,
      setup: [cmd('HSET', n.b + name, 'count', '4')],
      keys: [n.b + name],
      args: [],
      touches: touch(n, { [name]: 'hash' }),
      counters: [[n.b + name, 'count'] as const],
    })),
  refusals: () => [],
};

/** By the name on the wire. */
export const operatorCases: Readonly<Record<string, Cases>> = {
  pause,
  resume,
  update_data: onRow(() => ['other']),
  update_progress: onRow((n) => ['50', n.id, n.b]),
  add_log: onLog([[1, 'keep', 'any']], ['line', '2']),
  logs: onLog(
    [
      [0, 'first', 'any'],
      [1, 'last', 'any'],
    ],
    ['0', '-1'],
  ),
  get: onRow(() => []),
  remove,
  cancel,
  reprocess,
  state,
  browse,
  counts,
  metrics,
};
