/**
 * The situations of lanes: batches from them, back-offs, settings, moves and reads.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import { settingRefusals } from './limits.js';
import {
  active,
  atCeiling,
  cmd,
  dead,
  lane,
  laneCounters,
  laneKey,
  laneTouches,
  LATER,
  limitCounters,
  limited,
  limitTouches,
  pending,
  put,
  roomTouches,
  row,
  scheduled,
  touch,
  type Cases,
  type KeyType,
  type Names,
} from './scene.js';

/** A lane on the ring in which two jobs wait. */
const open = (n: Names): RawCommand[] => [
  row(n, n.id, { group: n.group }),
  row(n, n.other, { group: n.group }),
  cmd('ZADD', laneKey(n), '0', n.id, '0', n.other),
  cmd('HSET', `${n.b}gactive`, n.group, '1'),
  cmd('HSET', `${n.b}glimit`, n.group, '9'),
  cmd('RPUSH', `${n.b}ring`, n.group),
];

const rated = (n: Names): RawCommand[] => [
  cmd('HSET', `${n.b}gmax`, n.group, '3'),
  cmd('HSET', `${n.b}gduration`, n.group, '2147483647'),
];
const limiter = (n: Names): Bytes => `${n.b}g:${n.group}:limiter`;
const rateTouches = (n: Names): Record<Bytes, KeyType> => ({
  ...touch(n, { gmax: 'hash', gduration: 'hash' }),
  [limiter(n)]: 'string',
});

// ---- claims and returns ----------------------------------------------------------------------------------------------

const batchCall = (n: Names, size: Bytes, min: Bytes, source: Bytes) => ({
  keys: ['pending', 'ring', 'active', ''].map((name) => n.b + name),
  args: ['30000', size, min, source],
});

const takeBatch: Cases = {
  numbers: [
    [0, 'lease', 'positive'],
    [1, 'size', 'positive'],
    [2, 'min', 'positive'],
  ],
  situations: (n) => {
    const own = {
      ...touch(n, { pending: 'zset', ring: 'list', active: 'zset', [`job:${n.id}`]: 'hash' }),
      ...limitTouches(n),
    };
    const counters = [
      ...['attempts', 'credit'].map((field) => [`${n.b}job:${n.id}`, field] as const),
      ...limitCounters(n),
    ];
    const flat = [...pending(n), row(n, n.other, {}), put(n, 'pending', '1', n.other), ...limited(n)];
    return [
      {
        name: 'one of two flat jobs',
        setup: flat,
        ...batchCall(n, '1', '1', 'flat'),
        touches: { ...own, [`${n.b}wake`]: 'list' },
        counters,
        strings: [`${n.b}limiter`],
      },
      {
        name: 'both jobs of a lane that has a rate',
        setup: [...open(n), ...rated(n)],
        ...batchCall(n, '5', '2', 'lanes'),
        touches: {
          ...own,
          ...rateTouches(n),
          ...touch(n, { gactive: 'hash', glimit: 'hash', paused: 'set', gwait: 'zset' }),
          [laneKey(n)]: 'zset',
        },
        counters: [...counters, ...laneCounters(n), [`${n.b}gmax`, n.group]],
        strings: [limiter(n)],
      },
      {
        name: 'a lane with too few is passed over',
        setup: [
          ...open(n),
          row(n, 'JOB0KHTOWnGLuA', { group: 'G' }),
          cmd('ZADD', `${n.b}g:G:pending`, '0', 'JOB0KHTOWnGLuA'),
          cmd('LPUSH', `${n.b}ring`, 'G'),
        ],
        ...batchCall(n, '1', '2', 'lanes'),
        touches: { ...own, ...laneTouches(n), [`${n.b}g:G:pending`]: 'zset' },
        counters: [...counters, ...laneCounters(n)],
      },
    ];
  },
  refusals: (n) =>
    ['', 'both', 'Flat', 'lanes '].map((source) => ({
      name: `the source ${JSON.stringify(source)}`,
      setup: pending(n),
      ...batchCall(n, '1', '1', source),
      text: 'ERR source must be flat or lanes',
    })),
};

const backOffCall = (n: Names, token: Bytes, scope: Bytes) => ({
  keys: ['active', 'pending', `job:${n.id}`].map((name) => n.b + name),
  args: [n.id, token, '60000', scope, n.b],
});

const backOff: Cases = {
  numbers: [[2, 'ms', 'window']],
  situations: (n) => {
    const own = touch(n, { active: 'zset', pending: 'zset', meta: 'hash', [`job:${n.id}`]: 'hash' });
    const counters = [[`${n.b}job:${n.id}`, 'attempts', 1] as const, [`${n.b}job:${n.id}`, 'credit'] as const];
    const grouped = [...active(n, { group: n.group }), ...lane(n)];
    const queue = { [`${n.b}limiter`]: 'string' as const };
    return [
      {
        name: 'a job of a lane',
        setup: grouped,
        ...backOffCall(n, '1', 'own'),
        touches: {
          ...own,
          ...touch(n, { gwait: 'zset', gactive: 'hash', glimit: 'hash', ring: 'list' }),
          [laneKey(n)]: 'zset',
        },
        counters: [...counters, ...laneCounters(n)],
      },
      {
        name: 'a job of a lane in a queue at its ceiling',
        setup: [...grouped, ...atCeiling(n)],
        ...backOffCall(n, '1', 'own'),
        touches: { ...own, ...roomTouches(n) },
        counters,
      },
      {
        name: 'a flat job',
        setup: [...active(n), ...limited(n)],
        ...backOffCall(n, '1', 'own'),
        touches: { ...own, ...queue },
        counters: [...counters, [`${n.b}meta`, 'max']],
        strings: [`${n.b}limiter`],
      },
      {
        name: 'a job of a lane, for the queue',
        setup: grouped,
        ...backOffCall(n, '1', 'queue'),
        touches: { ...own, ...queue, ...laneTouches(n) },
        counters: [...counters, ...laneCounters(n)],
      },
    ];
  },
  refusals: (n) => {
    const refused = (name: string, setup: RawCommand[], token: Bytes, text: Bytes) => ({
      name,
      setup,
      ...backOffCall(n, token, 'own'),
      text,
    });
    const stale = 'EMQSTALE back_off token mismatch';
    const notActive = 'EMQSTATE back_off not active';
    return [
      ...['', 'Own', 'lane', 'queue '].map((scope) => ({
        name: `the scope ${JSON.stringify(scope)}`,
        setup: active(n),
        ...backOffCall(n, '2', scope),
        text: 'ERR scope must be own or queue',
      })),
      refused('no row', [put(n, 'active', LATER, n.id)], '1', 'EMQSTALE job gone'),
      ...['2', '0', '01', '', '1 '].map((token) =>
        refused(`the token ${JSON.stringify(token)}`, active(n), token, stale),
      ),
      refused('a job that was never claimed', active(n, { attempts: '0' }), '0', stale),
      refused('a job that waits', pending(n), '1', notActive),
      refused('a scheduled job', scheduled(n), '1', notActive),
      refused('a dead job', dead(n), '1', notActive),
    ];
  },
};

const reapGroup: Cases = {
  numbers: [
    [1, 'limit', 'positive'],
    [2, 'offset', 'any'],
  ],
  situations: (n) => {
    const call = { keys: [`${n.b}active`, n.b], args: [n.group, '10', '0'] };
    const setup = [...active(n, { group: n.group }, '1'), ...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2')];
    const own = touch(n, { active: 'zset', meta: 'hash', [`job:${n.id}`]: 'hash' });
    return [
      { name: 'a lapsed job', setup, ...call, touches: { ...own, ...laneTouches(n) }, counters: laneCounters(n) },
      {
        name: 'a lapsed job of a queue at its ceiling',
        setup: [...setup, ...atCeiling(n)],
        ...call,
        touches: { ...own, ...laneTouches(n), ...roomTouches(n) },
      },
    ];
  },
  refusals: (n) => [
    {
      name: 'an offset below zero',
      setup: active(n, { group: n.group }, '1'),
      keys: [`${n.b}active`, n.b],
      args: [n.group, '10', '-1'],
      text: 'ERR offset must not be negative',
    },
  ],
};

// ---- settings --------------------------------------------------------------------------------------------------------

const laneSet: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a higher ceiling',
      setup: lane(n),
      keys: [n.b],
      args: [n.group, 'limit', '5', 'weight', '2'],
      touches: { ...laneTouches(n), [`${n.b}gweight`]: 'hash' },
      counters: [[`${n.b}gactive`, n.group]],
    },
    {
      name: 'another rate, for a lane that waits for a token',
      setup: [
        ...lane(n),
        ...rated(n),
        cmd('ZADD', `${n.b}gwait`, LATER, n.group),
        cmd('SET', limiter(n), '4000000000000000'),
      ],
      keys: [n.b],
      args: [n.group, 'max', '5', 'duration', '60000'],
      touches: { ...rateTouches(n), [`${n.b}gwait`]: 'zset' },
    },
    {
      name: 'what holds for all lanes',
      setup: [],
      keys: [n.b],
      args: ['*', 'limit', '5', 'weight', '2', 'max', '5', 'duration', '60000'],
      touches: touch(n, { glimit: 'hash', gweight: 'hash', gmax: 'hash', gduration: 'hash' }),
    },
  ],
  refusals: (n) => [
    ...settingRefusals(n, [n.group], ['limit', 'weight', 'max']),
    ...settingRefusals(n, ['*'], []),
    { name: 'nothing', setup: [], keys: [n.b], args: [], text: 'ERR limits must be names and values' },
  ],
};

const laneMend: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a lane that is to be on the ring',
      setup: [...lane(n), cmd('HDEL', `${n.b}glimit`, n.group)],
      keys: [n.b],
      args: [n.group],
      touches: laneTouches(n),
    },
    {
      name: 'a lane that waits for a token',
      setup: [
        ...lane(n),
        ...rated(n),
        cmd('ZADD', `${n.b}gwait`, '5', n.group),
        cmd('SET', limiter(n), '4000000000000000'),
      ],
      keys: [n.b],
      args: [n.group],
      touches: { ...touch(n, { gwait: 'zset', gmax: 'hash', gduration: 'hash' }), [limiter(n)]: 'string' },
    },
  ],
  refusals: (n) => [{ name: 'no group', setup: lane(n), keys: [n.b], args: [], text: 'ERR groups must be given' }],
};

const lanePause: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a lane on the ring',
      setup: open(n),
      keys: [`${n.b}paused`, `${n.b}ring`],
      args: [n.group],
      touches: touch(n, { paused: 'set', ring: 'list' }),
    },
  ],
  refusals: (n) => [
    {
      name: 'no group',
      setup: open(n),
      keys: [`${n.b}paused`, `${n.b}ring`],
      args: [],
      text: 'ERR group must be given',
    },
  ],
};

const laneResume: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a paused lane',
      setup: [...lane(n), cmd('HSET', `${n.b}glimit`, n.group, '2'), cmd('SADD', `${n.b}paused`, n.group)],
      keys: [n.b],
      args: [n.group],
      touches: laneTouches(n),
      counters: laneCounters(n),
    },
  ],
  refusals: (n) => [{ name: 'no group', setup: lane(n), keys: [n.b], args: [], text: 'ERR group must be given' }],
};

const reassign: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a job that waits',
      setup: open(n),
      keys: [`${n.b}job:${n.id}`, n.b],
      args: [n.id, 'PRT0KHTOWnGLuZ'],
      touches: { ...laneTouches(n), ...touch(n, { [`job:${n.id}`]: 'hash', 'g:PRT0KHTOWnGLuZ:pending': 'zset' }) },
      counters: [...laneCounters(n), [`${n.b}gactive`, 'PRT0KHTOWnGLuZ'], [`${n.b}glimit`, 'PRT0KHTOWnGLuZ']],
    },
  ],
  refusals: (n) =>
    [[n.id], [n.id, '']].map((args) => ({
      name: `${args.length} arguments`,
      setup: open(n),
      keys: [`${n.b}job:${n.id}`, n.b],
      args,
      text: 'ERR group must be given',
    })),
};

// ---- reads -----------------------------------------------------------------------------------------------------------

const PLACES: Readonly<Record<Bytes, KeyType>> = {
  ring: 'list',
  paused: 'set',
  gactive: 'hash',
  gwait: 'zset',
  glimit: 'hash',
  gweight: 'hash',
  gmax: 'hash',
};

const filled = (key: Bytes, type: KeyType, group: Bytes): RawCommand => {
  if (type === 'list') return cmd('RPUSH', key, group);
  if (type === 'set') return cmd('SADD', key, group);
  return type === 'zset' ? cmd('ZADD', key, '5', group) : cmd('HSET', key, group, '1');
};

const lanes: Cases = {
  numbers: [[2, 'count', 'positive']],
  situations: (n) =>
    Object.entries(PLACES).map(([place, type]) => ({
      name: place,
      setup: [filled(n.b + place, type, n.group)],
      keys: [n.b],
      args: [place, '0', '10'],
      touches: touch(n, { [place]: type }),
    })),
  refusals: (n) =>
    ['', 'Ring', 'meta', 'pending', 'gduration'].map((place) => ({
      name: `the place ${JSON.stringify(place)}`,
      setup: open(n),
      keys: [n.b],
      args: [place, '0', '10'],
      text: 'ERR unknown place',
    })),
};

const laneInfo: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a lane with all settings',
      setup: [...open(n), ...rated(n), cmd('HSET', `${n.b}gweight`, n.group, '2')],
      keys: [n.b],
      args: [n.group],
      touches: {
        ...rateTouches(n),
        ...touch(n, { gactive: 'hash', glimit: 'hash', gweight: 'hash', paused: 'set', gwait: 'zset' }),
        [laneKey(n)]: 'zset',
      },
    },
  ],
  refusals: () => [],
};

/** By the name on the wire. */
export const laneCases: Readonly<Record<string, Cases>> = {
  take_batch: takeBatch,
  back_off: backOff,
  reap_group: reapGroup,
  lane_set: laneSet,
  lane_mend: laneMend,
  lane_pause: lanePause,
  lane_resume: laneResume,
  reassign,
  lanes,
  lane_info: laneInfo,
};
