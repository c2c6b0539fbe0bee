/**
 * The situations of the flow transitions: what parents hear, letters and reads, with those of landing.ts. The settles of
 * a flow child are in kin.ts.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import { landingCases } from './landing.js';
import {
  books,
  cmd,
  count,
  held,
  LATER,
  lane,
  laneCounters,
  laneTouches,
  NODE,
  ofRow,
  pending,
  put,
  ROOT,
  touch,
  type Cases,
  type Names,
  type Situation,
} from './scene.js';

// ---- letters ---------------------------------------------------------------------------------------------------------

const deliverCall = (n: Names, kind: Bytes, policy: Bytes) => ({
  keys: [`${n.b}job:${ROOT}`, n.b],
  args: [ROOT, n.id, kind, policy, 'text\0\xff'],
});

/** What becomes of a parent that waits for two children, or for the last. */
export function fanin(n: Names): (Pick<Situation, 'name' | 'setup' | 'touches' | 'counters' | 'untyped'> & {
  kind: Bytes;
  policy: Bytes;
})[] {
  const two = { [n.id]: '', [NODE]: 'far' };
  const own = books(n, ROOT);
  const released = touch(n, { pending: 'zset', wake: 'list', 'flow:held': 'zset' });
  const died = touch(n, { dead: 'zset', 'flow:held': 'zset', 'metrics:failed': 'hash' });
  const deaths: readonly [Bytes, Bytes][] = [[`${n.b}metrics:failed`, 'count']];
  const outbox = touch(n, { 'flow:outbox': 'list' });
  return [
    { name: 'one of two is done', kind: 'done', policy: '', setup: held(n, two), touches: own },
    {
      name: 'the last is done',
      kind: 'done',
      policy: '',
      setup: held(n, { [n.id]: '' }),
      touches: { ...own, ...released },
    },
    {
      name: 'the last of a parent of a lane is done',
      kind: 'done',
      policy: '',
      setup: [
        ...held(n, { [n.id]: '' }, { fields: { group: n.group } }),
        ...lane(n),
        cmd('HSET', `${n.b}glimit`, n.group, '2'),
      ],
      touches: { ...own, ...laneTouches(n), ...touch(n, { 'flow:held': 'zset' }) },
      counters: laneCounters(n),
    },
    { name: 'one of two is ignored', kind: 'fail', policy: 'id', setup: held(n, two), touches: own },
    {
      name: 'the last is left out',
      kind: 'fail',
      policy: 'rd',
      setup: held(n, { [n.id]: '' }),
      touches: { ...own, ...released },
    },
    {
      name: 'one of two, and the parent goes on at once',
      kind: 'fail',
      policy: 'cp',
      setup: held(n, two),
      touches: { ...own, ...released, ...outbox },
      untyped: [`${n.b}flow:cancel:${ROOT}`],
    },
    {
      name: 'one of two fails the parent',
      kind: 'fail',
      policy: 'fp',
      setup: held(n, two),
      touches: { ...own, ...died },
      counters: deaths,
    },
    {
      name: 'one of two fails the parent and its parent',
      kind: 'fail',
      policy: 'fp',
      setup: [
        ...held(n, two, { fields: { parent: 'JOB0KHTOWnGLv0' } }),
        ...held(n, { [ROOT]: '', [NODE]: '' }, { id: 'JOB0KHTOWnGLv0' }),
      ],
      touches: { ...own, ...died, ...books(n, 'JOB0KHTOWnGLv0') },
      counters: deaths,
    },
    {
      name: 'one of two fails the parent, whose parent is elsewhere',
      kind: 'fail',
      policy: 'fp',
      setup: held(n, two, { fields: { parent: 'JOB0KHTOWnGLv0', parent_queue: 'far' } }),
      touches: { ...own, ...died, ...outbox },
      counters: deaths,
    },
  ];
}

const flowDeliver: Cases = {
  numbers: [],
  situations: (n) => [
    ...fanin(n).map(({ kind, policy, ...one }) => ({
      ...one,
      ...deliverCall(n, kind, policy),
      touches: { ...one.touches, [count(n, ROOT)]: 'string' as const },
      strings: [count(n, ROOT)],
    })),
    {
      name: 'the last is gone for good',
      setup: held(n, { [n.id]: '' }),
      ...deliverCall(n, 'gone', 'fp'),
      touches: { ...books(n, ROOT), ...touch(n, { dead: 'zset', 'flow:held': 'zset', 'metrics:failed': 'hash' }) },
      strings: [count(n, ROOT)],
    },
    {
      name: 'a parent that is gone',
      setup: [],
      ...deliverCall(n, 'fail', 'fp'),
      touches: ofRow(n, ROOT, { '': 'hash' }),
    },
  ],
  refusals: (n) =>
    ['', 'DONE', 'dead', 'done\0'].map((kind) => ({
      name: `the kind ${JSON.stringify(kind)}`,
      setup: held(n, { [n.id]: '' }),
      ...deliverCall(n, kind, 'fp'),
      text: 'ERR kind must be done, fail or gone',
    })),
};

const LETTER = '\0fail\0far\0JOB0KHTOWnGLuA\0JOB0KHTOWnGLuC\0fp\0boom';

const edition = (n: Names): RawCommand => cmd('HSET', `${n.b}meta`, 'letters', '7');

const ackCall = (n: Names, ...words: Bytes[]) => ({ keys: [`${n.b}flow:outbox`, n.b], args: ['7', ...words] });

const flowAck: Cases = {
  numbers: [[0, 'edition', 'any']],
  situations: (n) => [
    {
      name: 'one delivered and one that cannot be',
      setup: [cmd('RPUSH', `${n.b}flow:outbox`, LETTER, 'garbage', LETTER), edition(n)],
      ...ackCall(n, 'done', LETTER, 'poison', 'garbage', 'done', 'another'),
      touches: touch(n, { 'flow:outbox': 'list', 'flow:poison': 'list', meta: 'hash' }),
      counters: [[`${n.b}meta`, 'letters']],
    },
  ],
  refusals: (n) => {
    const setup = [cmd('RPUSH', `${n.b}flow:outbox`, LETTER)];
    const each = 'ERR letters must be a verdict and a letter each';
    return [
      { name: 'nothing', setup, ...ackCall(n), text: each },
      { name: 'a word too few', setup, ...ackCall(n, 'done', LETTER, 'done'), text: each },
      ...['', 'DONE', 'poison ', 'later'].map((verdict) => ({
        name: `the verdict ${JSON.stringify(verdict)} of the second`,
        setup,
        ...ackCall(n, 'done', LETTER, verdict, LETTER),
        text: 'ERR verdict must be done or poison',
      })),
    ];
  },
};

const flowCancelled: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'one of two',
      setup: [cmd('HSET', `${n.b}flow:cancel:${ROOT}`, n.id, '', n.other, '+far')],
      keys: [`${n.b}flow:cancel:${ROOT}`],
      args: [n.id],
      touches: touch(n, { [`flow:cancel:${ROOT}`]: 'hash' }),
    },
  ],
  refusals: () => [],
};

// ---- reads -----------------------------------------------------------------------------------------------------------

const flowLetters: Cases = {
  numbers: [
    [0, 'offset', 'any'],
    [1, 'limit', 'positive'],
  ],
  situations: (n) => [
    {
      name: 'a letter',
      setup: [cmd('RPUSH', `${n.b}flow:outbox`, LETTER), edition(n)],
      keys: [`${n.b}flow:outbox`, n.b],
      args: ['0', '10'],
      touches: touch(n, { 'flow:outbox': 'list', meta: 'hash' }),
      counters: [[`${n.b}meta`, 'letters']],
    },
  ],
  refusals: (n) => [
    {
      name: 'an offset below zero',
      setup: [],
      keys: [`${n.b}flow:outbox`, n.b],
      args: ['-1', '10'],
      text: 'ERR offset must not be negative',
    },
  ],
};

const flowUnlanded: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'one of two',
      setup: held(n, { [n.id]: '+far', [n.other]: '' }, { landing: '1' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [n.id, n.other, NODE],
      touches: ofRow(n, ROOT, { '': 'hash', ':children': 'hash' }),
    },
  ],
  refusals: () => [],
};

const flowLink: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a child',
      setup: [...pending(n, { parent: ROOT, parent_policy: 'id' }), put(n, 'pending', LATER, n.other)],
      keys: [`${n.b}job:${n.id}`],
      args: [],
      touches: ofRow(n, n.id, { '': 'hash' }),
    },
  ],
  refusals: () => [],
};

const flowChildren: Cases = {
  numbers: [[1, 'count', 'positive']],
  situations: (n) =>
    [
      `job:${ROOT}:children`,
      `job:${ROOT}:processed`,
      `job:${ROOT}:unsuccessful`,
      `job:${ROOT}:failed`,
      `flow:cancel:${ROOT}`,
    ].map((name) => ({
      name: name.slice(name.lastIndexOf(':') + 1) === ROOT ? 'to be cancelled' : name.slice(name.lastIndexOf(':') + 1),
      setup: [cmd('HSET', n.b + name, n.id, 'x')],
      keys: [n.b + name],
      args: ['0', '100'],
      touches: touch(n, { [name]: 'hash' }),
    })),
  refusals: () => [],
};

const flow: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'a parent',
      setup: held(n, { [n.id]: '+far', [n.other]: '' }, { landing: '1' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [],
      touches: { ...books(n, ROOT), [count(n, ROOT)]: 'string' },
      counters: [[`${n.b}job:${ROOT}`, 'landing']],
      strings: [count(n, ROOT)],
    },
  ],
  refusals: () => [],
};

/** By the name on the wire. */
export const flowCases: Readonly<Record<string, Cases>> = {
  ...landingCases,
  flow_deliver: flowDeliver,
  flow_ack: flowAck,
  flow_cancelled: flowCancelled,
  flow_letters: flowLetters,
  flow_unlanded: flowUnlanded,
  flow_link: flowLink,
  flow_children: flowChildren,
  flow,
};
