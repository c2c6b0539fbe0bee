/**
 * The situations of the transitions that move jobs, with those of sweeps.ts.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import {
  cmd,
  LATER,
  row,
  put,
  pending,
  active,
  scheduled,
  dead,
  laneKey,
  lane,
  laneTouches,
  laneCounters,
  touch,
  subkeys,
  atCeiling,
  roomTouches,
  parked,
  parkedTouches,
  limited,
  limitTouches,
  limitCounters,
  type Names,
  type KeyType,
  type Situation,
  type OwnRefusal,
  type Cases,
} from './scene.js';
import { sweepCases } from './sweeps.js';

// ---- admissions ------------------------------------------------------------------------------------------------------

const EVT = 'EVT0KHTOWnGLuC';

const enqueue: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a new id',
      setup: [],
      keys: [`${n.b}job:${n.id}`, `${n.b}pending`, `${n.b}wake`],
      args: [n.id, 'payload', '3', '{}'],
      touches: touch(n, { [`job:${n.id}`]: 'hash', pending: 'zset', wake: 'list' }),
    },
  ],
  refusals: (n) => [
    {
      name: 'another kind',
      setup: pending(n),
      keys: [`${n.b}job:${EVT}`, `${n.b}pending`, `${n.b}wake`],
      args: [EVT, 'payload'],
      text: 'EMQKIND job id must be JOB-namespaced',
    },
    {
      name: 'an id that is too short',
      setup: [],
      keys: [`${n.b}job:JO`, `${n.b}pending`, `${n.b}wake`],
      args: ['JO', 'payload'],
      text: 'EMQKIND job id must be JOB-namespaced',
    },
  ],
};

const schedule: Cases = {
  numbers: [[3, 'ms', 'any']],
  situations: (n) => [
    {
      name: 'a new id',
      setup: [],
      keys: [`${n.b}job:${n.id}`, `${n.b}schedule`, `${n.b}wake`],
      args: [n.id, 'payload', 'in', '60000'],
      touches: touch(n, { [`job:${n.id}`]: 'hash', schedule: 'zset', wake: 'list' }),
    },
  ],
  refusals: (n) => [
    {
      name: 'another kind, and more that is wrong',
      setup: [],
      keys: [`${n.b}job:${EVT}`, `${n.b}schedule`, `${n.b}wake`],
      args: [EVT, 'payload', 'never', 'x'],
      text: 'EMQKIND job id must be JOB-namespaced',
    },
    ...['IN', 'at ', '', 'in\0'].map((mode) => ({
      name: `the mode ${JSON.stringify(mode)}`,
      setup: [],
      keys: [`${n.b}job:${n.id}`, `${n.b}schedule`, `${n.b}wake`],
      args: [n.id, 'payload', mode, 'x'],
      text: 'ERR mode must be in or at',
    })),
  ],
};

// ---- claims ----------------------------------------------------------------------------------------------------------

const claimWith = (...more: Bytes[]): Cases['situations'] => {
  return (n) => [
    {
      name: 'a job waits',
      setup: pending(n),
      keys: [`${n.b}pending`, `${n.b}active`, n.b],
      args: ['30000', ...more],
      touches: { ...touch(n, { pending: 'zset', active: 'zset', [`job:${n.id}`]: 'hash' }), ...limitTouches(n) },
      counters: [[`${n.b}job:${n.id}`, 'attempts'], ...limitCounters(n)],
      strings: [`${n.b}limiter`],
    },
    {
      name: 'a job waits, and the queue has limits',
      setup: [...pending(n), ...limited(n)],
      keys: [`${n.b}pending`, `${n.b}active`, n.b],
      args: ['30000', ...more],
      touches: { ...touch(n, { pending: 'zset', active: 'zset', [`job:${n.id}`]: 'hash' }), ...limitTouches(n) },
      counters: [[`${n.b}job:${n.id}`, 'attempts'], ...limitCounters(n)],
      strings: [`${n.b}limiter`],
    },
  ];
};

const claim: Cases = { numbers: [[0, 'lease', 'positive']], situations: claimWith(), refusals: () => [] };

const claimBatch: Cases = {
  numbers: [
    [0, 'lease', 'positive'],
    [1, 'size', 'positive'],
  ],
  situations: claimWith('5'),
  refusals: () => [],
};

// ---- settles ---------------------------------------------------------------------------------------------------------

interface Settle {
  readonly verb: string;
  readonly flow: OwnRefusal['text'];
  readonly call: (n: Names, token: Bytes) => { keys: Bytes[]; args: Bytes[] };
}

/** The refusals that complete and fail share. */
function settleRefusals(n: Names, { verb, flow, call }: Settle): OwnRefusal[] {
  const refused = (name: string, setup: RawCommand[], token: Bytes, text: OwnRefusal['text']): OwnRefusal => ({
    name,
    setup,
    ...call(n, token),
    text,
  });
  const stale = `EMQSTALE ${verb} token mismatch`;
  const notHeld = `EMQSTATE ${verb} not active`;
  return [
    ...['2', '0', '01', '', '1 ', '+1', '1.0', '1\0'].map((token) =>
      refused(`the token ${JSON.stringify(token)}`, active(n), token, stale),
    ),
    refused('a job that was never claimed', active(n, { attempts: '0' }), '0', stale),
    refused(
      'a row without attempts',
      [cmd('HSET', `${n.b}job:${n.id}`, 'state', 'active'), put(n, 'active', LATER, n.id)],
      '1',
      stale,
    ),
    refused('a flow child', active(n, { parent: 'JOB0KHTOWnGLuA' }), '1', flow),
    refused('a flow child of an empty parent', active(n, { parent: '' }), '1', flow),
    refused('a flow child that is not held', dead(n, { parent: 'JOB0KHTOWnGLuA' }), '1', flow),
    refused('a flow child with another token', active(n, { parent: 'JOB0KHTOWnGLuA' }), '2', stale),
    refused('a scheduled job', scheduled(n), '1', notHeld),
    refused('a dead job', dead(n), '1', notHeld),
    refused('a row in no set', [row(n, n.id, { state: 'active' })], '1', notHeld),
    refused('a grouped job that is scheduled', [...scheduled(n, { group: n.group }), ...lane(n)], '1', notHeld),
    refused(
      'a grouped job that is scheduled, of a lane with a broken count',
      [...scheduled(n, { group: n.group }), ...lane(n), cmd('HSET', `${n.b}gactive`, n.group, 'x')],
      '1',
      notHeld,
    ),
    refused(
      'a job in another lane than its row says',
      [row(n, n.id, { group: n.group }), cmd('ZADD', `${n.b}g:PRT0KHTOWnGLuZ:pending`, '0', n.id)],
      '1',
      notHeld,
    ),
  ];
}

function settleSituations(
  n: Names,
  call: Settle['call'],
  outcome: Readonly<Record<Bytes, KeyType>>,
  counters: (readonly [Bytes, Bytes])[],
): Situation[] {
  const own = touch(n, { active: 'zset', meta: 'hash', [`job:${n.id}`]: 'hash', ...outcome });
  const claims: readonly [Bytes, Bytes, number] = [`${n.b}job:${n.id}`, 'attempts', 1];
  return [
    { name: 'an active job', setup: active(n), ...call(n, '1'), touches: own, counters: [claims, ...counters] },
    {
      name: 'an active job of a queue at its ceiling',
      setup: [...active(n), ...atCeiling(n)],
      ...call(n, '1'),
      touches: { ...own, ...roomTouches(n) },
      counters: [claims, ...counters],
    },
    {
      name: 'a job that waits again',
      setup: pending(n),
      ...call(n, '1'),
      touches: { ...own, [`${n.b}pending`]: 'zset' },
      counters: [claims, ...counters],
    },
    {
      name: 'an active job of a lane',
      setup: [...active(n, { group: n.group }), ...lane(n)],
      ...call(n, '1'),
      touches: { ...own, ...laneTouches(n) },
      counters: [claims, ...counters, ...laneCounters(n)],
    },
    {
      name: 'a job that waits in its lane again',
      setup: [
        row(n, n.id, { group: n.group }),
        cmd('ZADD', laneKey(n), '0', n.id),
        ...lane(n),
        cmd('HSET', `${n.b}glimit`, n.group, '2'),
      ],
      ...call(n, '1'),
      touches: { ...own, ...laneTouches(n) },
      counters: [claims, ...counters, ...laneCounters(n)],
    },
  ];
}

const completeCall: Settle['call'] = (n, token) => ({
  keys: [`${n.b}active`, `${n.b}job:${n.id}`],
  args: [n.id, token, n.b],
});

const complete: Cases = {
  numbers: [],
  situations: (n) => [
    ...settleSituations(n, completeCall, { 'metrics:completed': 'hash' }, [[`${n.b}metrics:completed`, 'count']]).map(
      (s) => ({ ...s, untyped: subkeys(n) }),
    ),
    {
      name: 'a job with all that may hang on it',
      setup: [...active(n), ...subkeys(n).map((key) => cmd('HSET', key, n.other, ''))],
      ...completeCall(n, '1'),
      touches: touch(n, { active: 'zset', [`job:${n.id}`]: 'hash', 'metrics:completed': 'hash' }),
    },
    {
      name: 'a job that holds a dedup id',
      setup: [...active(n, { dedup: 'd' }), parked(n)],
      ...completeCall(n, '1'),
      touches: { ...touch(n, { active: 'zset', [`job:${n.id}`]: 'hash' }), ...parkedTouches(n) },
    },
    {
      name: 'a job whose dedup id outlives it',
      setup: [...active(n, { dedup: 'd', dedup_keep: '1' }), parked(n)],
      ...completeCall(n, '1'),
      touches: touch(n, { active: 'zset', [`job:${n.id}`]: 'hash' }),
    },
  ],
  refusals: (n) =>
    settleRefusals(n, {
      verb: 'complete',
      flow: { script: 'EMQSTATE complete flow keys', native: 'EMQSTATE complete flow not native' },
      call: completeCall,
    }),
};

const failCall =
  (delay: Bytes, max: Bytes): Settle['call'] =>
  (n, token) => ({
    keys: [`${n.b}active`, `${n.b}schedule`, `${n.b}dead`, `${n.b}job:${n.id}`],
    args: [n.id, token, delay, max, 'boom', n.b],
  });

const fail: Cases = {
  numbers: [
    [2, 'delay', 'any'],
    [3, 'max', 'positive'],
  ],
  situations: (n) => [
    ...settleSituations(n, failCall('60000', '9'), { schedule: 'zset', dead: 'zset', wake: 'list' }, []),
    ...settleSituations(n, failCall('60000', '1'), { schedule: 'zset', dead: 'zset', 'metrics:failed': 'hash' }, [
      [`${n.b}metrics:failed`, 'count'],
    ]).map((s) => ({ ...s, name: `${s.name}, at the cap` })),
    {
      name: 'a job that holds a dedup id, at the cap',
      setup: [...active(n, { dedup: 'd', dedup_keep: '1' }), parked(n)],
      ...failCall('60000', '1')(n, '1'),
      touches: { ...touch(n, { active: 'zset', [`job:${n.id}`]: 'hash' }), ...parkedTouches(n) },
    },
  ],
  refusals: (n) => [
    ...settleRefusals(n, {
      verb: 'retry',
      flow: { script: 'EMQSTATE retry flow keys', native: 'EMQSTATE fail flow not native' },
      call: failCall('60000', '3'),
    }),
    {
      name: 'no row',
      setup: [put(n, 'active', LATER, n.id)],
      ...failCall('0', '1')(n, '1'),
      text: 'EMQSTALE job gone',
    },
    {
      name: 'two bad numbers',
      setup: active(n),
      ...failCall('soon', '0')(n, '9'),
      text: 'ERR delay must be an integer',
    },
  ],
};

const delayCall = (n: Names, token: Bytes, mode = 'in', ms = '60000'): { keys: Bytes[]; args: Bytes[] } => ({
  keys: [`${n.b}job:${n.id}`, `${n.b}active`, `${n.b}schedule`],
  args: [n.id, token, mode, ms, n.b],
});

const delay: Cases = {
  numbers: [[3, 'ms', 'any']],
  situations: (n) => {
    const own = touch(n, { [`job:${n.id}`]: 'hash', active: 'zset', schedule: 'zset', wake: 'list', meta: 'hash' });
    const counters = [[`${n.b}job:${n.id}`, 'attempts', 1] as const, [`${n.b}job:${n.id}`, 'credit'] as const];
    return [
      { name: 'an active job', setup: active(n), ...delayCall(n, '1'), touches: own, counters },
      {
        name: 'an active job of a lane',
        setup: [...active(n, { group: n.group }), ...lane(n)],
        ...delayCall(n, '1'),
        touches: { ...own, ...laneTouches(n) },
        counters: [...counters, ...laneCounters(n)],
      },
      {
        name: 'an active job of a queue at its ceiling',
        setup: [...active(n), ...atCeiling(n)],
        ...delayCall(n, '1'),
        touches: { ...own, ...roomTouches(n) },
        counters,
      },
    ];
  },
  refusals: (n) => [
    { name: 'no row', setup: [put(n, 'active', LATER, n.id)], ...delayCall(n, '1'), text: 'EMQSTALE job gone' },
    { name: 'another token', setup: active(n), ...delayCall(n, '2'), text: 'EMQSTALE delay token mismatch' },
    {
      name: 'a job that was never claimed',
      setup: active(n, { attempts: '0' }),
      ...delayCall(n, '0'),
      text: 'EMQSTALE delay token mismatch',
    },
    { name: 'a job that waits', setup: pending(n), ...delayCall(n, '1'), text: 'EMQSTATE delay not active' },
    { name: 'a scheduled job', setup: scheduled(n), ...delayCall(n, '1'), text: 'EMQSTATE delay not active' },
    { name: 'a mode in capitals', setup: active(n), ...delayCall(n, '1', 'IN'), text: 'ERR mode must be in or at' },
  ],
};

const extendCall = (n: Names, token: Bytes): { keys: Bytes[]; args: Bytes[] } => ({
  keys: [`${n.b}active`, `${n.b}job:${n.id}`],
  args: [n.id, token, '60000'],
});

const extend: Cases = {
  numbers: [[2, 'lease', 'positive']],
  situations: (n) => [
    {
      name: 'an active job',
      setup: active(n),
      ...extendCall(n, '1'),
      touches: touch(n, { active: 'zset', [`job:${n.id}`]: 'hash' }),
      counters: [[`${n.b}job:${n.id}`, 'attempts', 1]],
    },
  ],
  refusals: (n) => [
    { name: 'another token', setup: active(n), ...extendCall(n, '2'), text: 'EMQSTALE extend token mismatch' },
    {
      name: 'a job that was never claimed',
      setup: active(n, { attempts: '0' }),
      ...extendCall(n, '0'),
      text: 'EMQSTALE extend token mismatch',
    },
    { name: 'a reaped job', setup: pending(n), ...extendCall(n, '1'), text: 'EMQSTATE extend not active' },
  ],
};

const extendMany: Cases = {
  numbers: [[0, 'lease', 'positive']],
  situations: (n) => [
    {
      name: 'an active job',
      setup: active(n),
      keys: [`${n.b}active`, n.b],
      args: ['60000', n.id, '1'],
      touches: touch(n, { active: 'zset' }),
    },
  ],
  refusals: (n) => [
    {
      name: 'an id without a token',
      setup: active(n),
      keys: [`${n.b}active`, n.b],
      args: ['60000', n.id, '1', n.other],
      text: 'ERR ids and tokens must come in pairs',
    },
  ],
};

/** By the name on the wire. */
export const jobCases: Readonly<Record<string, Cases>> = {
  enqueue,
  schedule,
  claim,
  claim_batch: claimBatch,
  complete,
  fail,
  delay,
  extend,
  extend_many: extendMany,
  ...sweepCases,
};
