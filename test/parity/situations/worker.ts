/**
 * The situations of what a consumer calls besides the settles.
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
  LATER,
  limitCounters,
  limited,
  limitTouches,
  parked,
  parkedTouches,
  atCeiling,
  roomTouches,
  pending,
  put,
  row,
  scheduled,
  touch,
  type Cases,
  type Fields,
  type Names,
} from './scene.js';

/** A lane on the ring with two jobs that wait and one slot in use, far from its limit. */
const openLane = (n: Names, f: Fields = {}): RawCommand[] => [
  row(n, n.id, { group: n.group, ...f }),
  row(n, n.other, { group: n.group }),
  cmd('ZADD', laneKey(n), '0', n.id, '0', n.other),
  cmd('HSET', `${n.b}gactive`, n.group, '1'),
  cmd('HSET', `${n.b}glimit`, n.group, '9'),
  cmd('RPUSH', `${n.b}ring`, n.group),
];

const takeCall = (n: Names, count: Bytes, source: Bytes): { keys: Bytes[]; args: Bytes[] } => ({
  keys: ['pending', 'ring', 'active', ''].map((name) => n.b + name),
  args: ['30000', count, source],
});

const take: Cases = {
  numbers: [
    [0, 'lease', 'positive'],
    [1, 'count', 'positive'],
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
    const strings = [`${n.b}limiter`];
    const rate = touch(n, { gmax: 'hash', [`g:${n.group}:limiter`]: 'string' });
    const limits = [cmd('HSET', `${n.b}gmax`, n.group, '9'), cmd('HSET', `${n.b}gduration`, n.group, '2147483647')];
    const two = [...pending(n, { opts: '{}', credit: '1' }), row(n, n.other, {}), put(n, 'pending', '1', n.other)];
    return [
      { name: 'the only flat job', setup: pending(n), ...takeCall(n, '1', 'flat'), touches: own, counters },
      {
        name: 'one of two flat jobs',
        setup: two,
        ...takeCall(n, '1', 'both'),
        touches: { ...own, [`${n.b}wake`]: 'list' },
        counters,
      },
      {
        name: 'one of two jobs of a lane',
        setup: openLane(n),
        ...takeCall(n, '1', 'lanes'),
        touches: { ...own, ...laneTouches(n) },
        counters: [...counters, ...laneCounters(n)],
      },
      {
        name: 'both jobs of a lane',
        setup: openLane(n),
        ...takeCall(n, '5', 'both'),
        touches: { ...own, [laneKey(n)]: 'zset', [`${n.b}gactive`]: 'hash' },
        counters: [...counters, ...laneCounters(n)],
      },
      {
        name: 'one of two flat jobs, and the queue has limits',
        setup: [...two, ...limited(n)],
        ...takeCall(n, '1', 'both'),
        touches: { ...own, [`${n.b}wake`]: 'list' },
        counters,
        strings,
      },
      {
        name: 'one of two jobs of a lane that has a rate',
        setup: [...openLane(n), ...limits],
        ...takeCall(n, '1', 'lanes'),
        touches: { ...own, ...laneTouches(n), ...rate, [`${n.b}gduration`]: 'hash' },
        counters: [...counters, ...laneCounters(n), [`${n.b}gmax`, n.group]],
        strings: [...strings, `${n.b}g:${n.group}:limiter`],
      },
      {
        name: 'the last token of a lane',
        setup: [...openLane(n), ...limits, cmd('HSET', `${n.b}gmax`, n.group, '1')],
        ...takeCall(n, '1', 'lanes'),
        touches: { ...own, [laneKey(n)]: 'zset', ...rate, ...touch(n, { gwait: 'zset', gactive: 'hash' }) },
        counters: [...counters, ...laneCounters(n), [`${n.b}gmax`, n.group]],
      },
      {
        name: 'the first of three in the turn of a lane',
        setup: [...openLane(n), cmd('HSET', `${n.b}gweight`, n.group, '3')],
        ...takeCall(n, '1', 'lanes'),
        touches: { ...own, ...laneTouches(n), [`${n.b}gweight`]: 'hash' },
        counters: [...counters, ...laneCounters(n)],
      },
    ];
  },
  refusals: (n) => [
    ...['', 'Flat', 'both ', 'lane', 'flat\0'].map((source) => ({
      name: `the source ${JSON.stringify(source)}`,
      setup: pending(n),
      ...takeCall(n, '1', source),
      text: 'ERR source must be flat, lanes or both',
    })),
    {
      name: 'a row with a broken count behind a good one',
      setup: [...pending(n), row(n, n.other, { attempts: 'x' }), put(n, 'pending', '1', n.other)],
      ...takeCall(n, '2', 'flat'),
      text: 'ERR stored attempts is not an integer',
    },
    {
      name: 'a lane with a broken count behind a good one',
      setup: [...openLane(n), cmd('RPUSH', `${n.b}ring`, 'G'), cmd('HSET', `${n.b}gactive`, 'G', 'x')],
      ...takeCall(n, '2', 'lanes'),
      text: 'ERR stored gactive is not an integer',
    },
  ],
};

const releaseCall = (n: Names, token: Bytes): { keys: Bytes[]; args: Bytes[] } => ({
  keys: ['active', 'pending', `job:${n.id}`].map((name) => n.b + name),
  args: [n.id, token, n.b],
});

const release: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, { active: 'zset', pending: 'zset', meta: 'hash', [`job:${n.id}`]: 'hash' });
    const counters = [[`${n.b}job:${n.id}`, 'attempts', 1] as const, [`${n.b}job:${n.id}`, 'credit'] as const];
    return [
      {
        name: 'an active job of a queue at its ceiling',
        setup: [...active(n), ...atCeiling(n)],
        ...releaseCall(n, '1'),
        touches: { ...own, ...roomTouches(n) },
        counters,
      },
      {
        name: 'an active job',
        setup: active(n, { priority: '7' }),
        ...releaseCall(n, '1'),
        touches: { ...own, [`${n.b}wake`]: 'list' },
        counters,
      },
      {
        name: 'an active job of a lane',
        setup: [...active(n, { group: n.group }), ...lane(n)],
        ...releaseCall(n, '1'),
        touches: { ...own, ...laneTouches(n) },
        counters: [...counters, ...laneCounters(n)],
      },
      {
        name: 'a flow child',
        setup: active(n, { parent: 'JOB0KHTOWnGLuA' }),
        ...releaseCall(n, '1'),
        touches: { ...own, [`${n.b}wake`]: 'list' },
        counters,
      },
    ];
  },
  refusals: (n) => {
    const stale = 'EMQSTALE release token mismatch';
    const refused = (name: string, setup: RawCommand[], token: Bytes, text: Bytes) => ({
      name,
      setup,
      ...releaseCall(n, token),
      text,
    });
    return [
      refused('no row', [put(n, 'active', LATER, n.id)], '1', 'EMQSTALE job gone'),
      ...['2', '0', '01', '', '1 '].map((token) =>
        refused(`the token ${JSON.stringify(token)}`, active(n), token, stale),
      ),
      refused('a job that was never claimed', active(n, { attempts: '0' }), '0', stale),
      refused('a job that waits, with another token', pending(n), '2', stale),
      refused('a job that waits', pending(n), '1', 'EMQSTATE release not active'),
      refused('a scheduled job', scheduled(n), '1', 'EMQSTATE release not active'),
      refused('a dead job', dead(n), '1', 'EMQSTATE release not active'),
    ];
  },
};

const quarantineCall = (n: Names): { keys: Bytes[]; args: Bytes[] } => ({
  keys: ['pending', 'ring', 'active', 'schedule', 'dead', ''].map((name) => n.b + name),
  args: ['10'],
});

const quarantine: Cases = {
  numbers: [[0, 'limit', 'positive']],
  situations: (n) => {
    const own = touch(n, {
      pending: 'zset',
      ring: 'list',
      active: 'zset',
      schedule: 'zset',
      dead: 'zset',
      meta: 'hash',
      'metrics:failed': 'hash',
    });
    const counters = [[`${n.b}metrics:failed`, 'count'] as const];
    const call = quarantineCall(n);
    return [
      {
        name: 'a waiting job whose row is no hash',
        setup: [put(n, 'pending', '0', n.id), cmd('SET', `${n.b}job:${n.id}`, 'x')],
        ...call,
        touches: own,
        counters,
      },
      {
        name: 'a lapsed job of a lane',
        setup: [...active(n, { group: n.group, credit: 'x' }, '1'), ...lane(n)],
        ...call,
        touches: { ...own, ...laneTouches(n) },
        counters,
      },
      {
        name: 'a job in a lane',
        setup: openLane(n, { attempts: 'x' }),
        ...call,
        touches: { ...own, [laneKey(n)]: 'zset', [`${n.b}gactive`]: 'hash', [`${n.b}paused`]: 'set' },
        counters,
      },
      {
        name: 'a due flow child',
        setup: scheduled(n, { stalled: '1.5', parent: 'JOB0KHTOWnGLuA' }, '1'),
        ...call,
        touches: { ...own, [`${n.b}flow:outbox`]: 'list' },
        counters,
      },
      {
        name: 'a due job that holds a dedup id',
        setup: [...scheduled(n, { stalled: '1.5', dedup: 'd' }, '1'), parked(n)],
        ...call,
        touches: { ...own, ...parkedTouches(n) },
        counters,
      },
      {
        name: 'a lapsed job of a queue at its ceiling',
        setup: [...active(n, { credit: 'x' }, '1'), ...atCeiling(n)],
        ...call,
        touches: { ...own, ...roomTouches(n) },
        counters,
      },
    ];
  },
  refusals: () => [],
};

const agenda: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a scheduled job',
      setup: [...scheduled(n), cmd('HSET', `${n.b}meta`, 'recovery', 'reap')],
      keys: [`${n.b}schedule`, n.b],
      args: [],
      touches: touch(n, { schedule: 'zset', meta: 'hash' }),
      // what is broken keeps the rest from nobody
      untyped: ['flow:outbox', 'gwait', 'repeat', 'pending', 'ring', 'limiter', 'gmax'].map((name) => n.b + name),
    },
  ],
  refusals: () => [],
};

const recovery: Cases = {
  numbers: [],
  situations: (n) =>
    ['keep', 'set'].map((mode) => ({
      name: mode,
      setup: [],
      keys: [`${n.b}meta`],
      args: ['reap', mode],
      touches: touch(n, { meta: 'hash' }),
    })),
  refusals: (n) => [
    ...['', 'none', 'Reap', 'reap '].map((leg) => ({
      name: `the leg ${JSON.stringify(leg)}, and more that is wrong`,
      setup: [],
      keys: [`${n.b}meta`],
      args: [leg, 'x'],
      text: 'ERR leg must be reap or stalled',
    })),
    ...['', 'SET', 'keep\0'].map((mode) => ({
      name: `the mode ${JSON.stringify(mode)}`,
      setup: [],
      keys: [`${n.b}meta`],
      args: ['stalled', mode],
      text: 'ERR mode must be keep or set',
    })),
  ],
};

const wake: Cases = {
  numbers: [],
  situations: (n) => [
    { name: 'no token', setup: [], keys: [`${n.b}wake`], args: [], touches: touch(n, { wake: 'list' }) },
  ],
  refusals: () => [],
};

const publish: Cases = {
  numbers: [],
  situations: (n) => [{ name: 'a message', setup: [], keys: [n.b], args: ['{}'], touches: {} }],
  refusals: (n) => [{ name: 'no message', setup: [], keys: [n.b], args: [], text: 'ERR publish needs a message' }],
};

/** By the name on the wire. */
export const workerCases: Readonly<Record<string, Cases>> = {
  take,
  release,
  quarantine,
  agenda,
  recovery,
  wake,
  publish,
};
