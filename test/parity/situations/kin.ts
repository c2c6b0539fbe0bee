/**
 * The situations of the settles of a flow child: the flow layouts of complete and fail.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import { fanin } from './flows.js';
import {
  active,
  cmd,
  dead,
  held,
  lane,
  laneCounters,
  laneTouches,
  pending,
  put,
  ROOT,
  row,
  scheduled,
  subkeys,
  touch,
  type Cases,
  type Fields,
  type KeyType,
  type Names,
  type OwnRefusal,
  type Situation,
} from './scene.js';

const HERE: Fields = { parent: ROOT, parent_policy: 'fp' };
const THERE: Fields = { ...HERE, parent_queue: 'far' };

interface Call {
  readonly keys: Bytes[];
  readonly args: Bytes[];
}

interface Layout {
  readonly verb: Bytes;
  readonly here: (n: Names, token: Bytes, policy: Bytes) => Call;
  readonly there: (n: Names, token: Bytes, policy: Bytes) => Call;
}

const rowKey = (n: Names, id: Bytes): Bytes => `${n.b}job:${id}`;

const completeCalls: Layout = {
  verb: 'complete',
  here: (n, token) => ({
    keys: [`${n.b}active`, rowKey(n, n.id), ...[':dependencies', ':processed', ''].map((end) => rowKey(n, ROOT) + end)],
    args: [n.id, token, n.b, ROOT, 'result\0\xff'],
  }),
  there: (n, token) => ({
    keys: [`${n.b}active`, rowKey(n, n.id), `${n.b}flow:outbox`],
    args: [n.id, token, n.b, ROOT, 'result\0\xff', 'xq', 'far'],
  }),
};

const failCalls = (max: Bytes): Layout => {
  const own = (n: Names): Bytes[] => [...['active', 'schedule', 'dead'].map((name) => n.b + name), rowKey(n, n.id)];
  const words = (n: Names, token: Bytes): Bytes[] => [n.id, token, '60000', max, 'boom', n.b];
  return {
    verb: 'retry',
    here: (n, token, policy) => ({
      keys: [...own(n), ...[':failed', ':unsuccessful', ':dependencies', ''].map((end) => rowKey(n, ROOT) + end)],
      args: [...words(n, token), `sq:${policy}`, ROOT],
    }),
    there: (n, token, policy) => ({
      keys: [...own(n), `${n.b}flow:outbox`],
      args: [...words(n, token), `xq:${policy}`, 'far', ROOT],
    }),
  };
};

/** A child of a parent that waits for it. */
const child = (n: Names, f: Fields = {}): RawCommand[] => [...active(n, { ...HERE, ...f }), ...held(n, { [n.id]: '' })];

function refusals(n: Names, { verb, here, there }: Layout): OwnRefusal[] {
  const stale = `EMQSTALE ${verb} token mismatch`;
  const flow = `EMQSTATE ${verb} flow keys`;
  const notHeld = `EMQSTATE ${verb} not active`;
  const refused = (name: Bytes, setup: RawCommand[], call: Call, text: Bytes): OwnRefusal => ({
    name,
    setup,
    ...call,
    text,
  });
  const call = here(n, '1', 'fp');
  const far = there(n, '1', 'fp');
  const swapped = (one: Call, from: Bytes, to: Bytes): Call => ({
    keys: one.keys.map((key) => (key === from ? to : key)),
    args: one.args.map((arg) => (arg === from ? to : arg)),
  });
  const place = call.keys.indexOf(rowKey(n, n.id)) + 1;
  const wrongKeys = call.keys
    .slice(place)
    .map((_key, i) =>
      refused(
        `another key in place ${place + i + 1}`,
        child(n),
        { ...call, keys: call.keys.map((own, j) => (place + i === j ? `${n.b}elsewhere` : own)) },
        flow,
      ),
    );
  return [
    ...['2', '0', '01', '', '1 '].map((token) =>
      refused(`the token ${JSON.stringify(token)}`, child(n), here(n, token, 'fp'), stale),
    ),
    refused('another token and another parent', child(n, { parent: 'other' }), here(n, '2', 'fp'), stale),
    ...wrongKeys,
    refused('a key too few', child(n), { ...call, keys: call.keys.slice(0, -1) }, flow),
    refused('a key too many', child(n), { ...call, keys: [...call.keys, `${n.b}x`] }, flow),
    refused('another parent, by key and by id', child(n), swapped(call, ROOT, 'JOB0KHTOWnGLuB'), flow),
    refused('a job without a parent', [...active(n), ...held(n, { [n.id]: '' })], call, flow),
    refused('a job without a parent, as of one elsewhere', active(n), far, flow),
    refused('a parent elsewhere, settled as here', [...active(n, THERE), ...held(n, { [n.id]: '' })], call, flow),
    refused('a parent here, settled as elsewhere', child(n), far, flow),
    refused('a parent in another queue than is said', active(n, THERE), swapped(far, 'far', 'near'), flow),
    refused('another outbox', active(n, THERE), swapped(far, `${n.b}flow:outbox`, `${n.b}outbox`), flow),
    refused('another parent and not held', [...dead(n, { parent: 'JOB0KHTOWnGLuB' })], call, flow),
    refused('a scheduled child', [...scheduled(n, HERE), ...held(n, { [n.id]: '' })], call, notHeld),
    refused('a dead child', [...dead(n, HERE), ...held(n, { [n.id]: '' })], call, notHeld),
    refused('a dead child of a parent elsewhere', dead(n, THERE), far, notHeld),
  ];
}

/** What the two settles share: the same child in other places, and a parent that is gone or hears it a second time. */
function places(n: Names, { here, there }: Layout, policy: Bytes, own: Record<Bytes, KeyType>): Situation[] {
  const parents = touch(n, {
    [`job:${ROOT}`]: 'hash',
    [`job:${ROOT}:dependencies`]: 'string',
    [`job:${ROOT}:children`]: 'hash',
  });
  const two = held(n, { [n.id]: '', JOB0KHTOWnGLuB: '' });
  const call = here(n, '1', policy);
  return [
    {
      name: 'a child that waits again',
      setup: [...pending(n, HERE), ...two],
      ...call,
      touches: { ...own, ...parents, [`${n.b}pending`]: 'zset' },
    },
    {
      name: 'a child in a lane',
      setup: [...active(n, { ...HERE, group: n.group }), ...lane(n), ...two],
      ...call,
      touches: { ...own, ...parents, ...laneTouches(n) },
      counters: laneCounters(n),
    },
    {
      name: 'a child of a parent that is gone',
      setup: active(n, HERE),
      ...call,
      touches: { ...own, [`${n.b}job:${ROOT}`]: 'hash', [`${n.b}job:${ROOT}:dependencies`]: 'string' },
    },
    {
      name: 'a child that its parent has heard of',
      setup: [...active(n, HERE), ...held(n, { JOB0KHTOWnGLuB: '' })],
      ...call,
      touches: { ...own, ...parents },
      strings: [`${n.b}job:${ROOT}:dependencies`],
    },
    {
      name: 'a child of a parent elsewhere',
      setup: active(n, THERE),
      ...there(n, '1', policy),
      touches: { ...own, [`${n.b}flow:outbox`]: 'list' },
    },
  ];
}

const completeChild: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, { active: 'zset', [`job:${n.id}`]: 'hash', 'metrics:completed': 'hash' });
    const counters: Situation['counters'] = [
      [rowKey(n, n.id), 'attempts', 1],
      [`${n.b}metrics:completed`, 'count'],
    ];
    const done = fanin(n).filter(({ kind }) => kind === 'done');
    return [
      ...done.map(({ name, setup, touches, counters: more = [] }) => ({
        name,
        setup: [...setup, ...active(n, HERE)],
        ...completeCalls.here(n, '1', ''),
        touches: { ...own, ...touches, [`${n.b}job:${ROOT}:dependencies`]: 'string' as const },
        counters: [...counters, ...more],
        strings: [`${n.b}job:${ROOT}:dependencies`],
        untyped: subkeys(n),
      })),
      ...places(n, completeCalls, '', own),
      {
        name: 'a child that was brought back after it was ignored',
        setup: [...active(n, HERE), ...held(n, {}), cmd('HSET', `${rowKey(n, ROOT)}:unsuccessful`, n.id, 'boom')],
        ...completeCalls.here(n, '1', ''),
        touches: { ...own, [`${rowKey(n, ROOT)}:unsuccessful`]: 'hash', [`${rowKey(n, ROOT)}:processed`]: 'hash' },
      },
      {
        name: 'no row',
        setup: [put(n, 'active', '5', n.id)],
        ...completeCalls.here(n, '1', ''),
        touches: touch(n, {
          active: 'zset',
          [`job:${n.id}`]: 'hash',
          [`job:${ROOT}`]: 'hash',
          [`job:${ROOT}:dependencies`]: 'string',
          [`job:${ROOT}:processed`]: 'hash',
        }),
      },
    ];
  },
  refusals: (n) => refusals(n, completeCalls),
};

const failChild: Cases = {
  numbers: [
    [2, 'delay', 'any'],
    [3, 'max', 'positive'],
  ],
  situations: (n) => {
    const own = touch(n, { active: 'zset', schedule: 'zset', dead: 'zset', [`job:${n.id}`]: 'hash' });
    const dies = { ...own, [`${n.b}metrics:failed`]: 'hash' as const };
    const counters: Situation['counters'] = [[rowKey(n, n.id), 'attempts', 1]];
    const deaths: Situation['counters'] = [...counters, [`${n.b}metrics:failed`, 'count']];
    const declared = touch(n, {
      [`job:${ROOT}`]: 'hash',
      [`job:${ROOT}:dependencies`]: 'string',
      [`job:${ROOT}:unsuccessful`]: 'hash',
      [`job:${ROOT}:failed`]: 'hash',
    });
    return [
      ...fanin(n)
        .filter(({ kind }) => kind === 'fail')
        .map(({ name, policy, setup, touches, untyped = [] }) => ({
          name,
          setup: [...setup, ...active(n, HERE)],
          ...failCalls('1').here(n, '1', policy),
          touches: { ...dies, ...declared, ...touches },
          untyped,
          counters: deaths,
          strings: [`${rowKey(n, ROOT)}:dependencies`],
        })),
      ...places(n, failCalls('1'), 'id', dies),
      {
        name: 'a child that tries again',
        setup: child(n),
        ...failCalls('9').here(n, '1', 'fp'),
        touches: { ...own, ...declared, [`${n.b}wake`]: 'list' },
        counters,
      },
      {
        name: 'a child of a parent elsewhere that tries again',
        setup: active(n, THERE),
        ...failCalls('9').there(n, '1', 'fp'),
        touches: { ...own, [`${n.b}flow:outbox`]: 'list', [`${n.b}wake`]: 'list' },
        counters,
      },
      {
        name: 'the policy of another name',
        setup: child(n),
        ...failCalls('1').here(n, '1', 'FP'),
        touches: { ...dies, ...declared, [`${n.b}flow:held`]: 'zset' },
      },
    ];
  },
  refusals: (n) => [
    ...refusals(n, failCalls('3')),
    {
      name: 'no row',
      setup: [put(n, 'active', '5', n.id), row(n, ROOT, {})],
      ...failCalls('3').here(n, '1', 'fp'),
      text: 'EMQSTALE job gone',
    },
    {
      name: 'a layout that is none',
      setup: child(n),
      ...((call: Call) => ({ ...call, args: call.args.map((arg) => (arg === 'sq:fp' ? 'fp' : arg)) }))(
        failCalls('3').here(n, '1', 'fp'),
      ),
      text: 'EMQSTATE retry flow keys',
    },
  ],
};

/** By the name in the table. */
export const kinCases: Readonly<Record<string, Cases>> = { complete_child: completeChild, fail_child: failChild };
