/**
 * The situations of how flows land.
 *
 * Does not: send anything.
 */
import type { Bytes } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';
import {
  cmd,
  count,
  held,
  LATER,
  NODE,
  ofRow,
  pending,
  ROOT,
  row,
  touch,
  type Cases,
  type Fields,
  type Names,
  type OwnRefusal,
} from './scene.js';

const EVT = 'EVT0KHTOWnGLuC';
const KIND = 'EMQKIND job id must be JOB-namespaced';
const POLICY = 'ERR policy must be fp, id, rd or cp';
const EXISTS = 'EMQSTATE flow child exists';

/** The names of policies that there are not. */
const ODD_POLICIES = ['', 'FP', 'fp ', 'ignore', 'id\0'];

/** A root, a parent below it, and a leaf below that. */
const flowCall = (n: Names, change: (words: Bytes[][]) => Bytes[][] = (words) => words) => ({
  keys: ['pending', 'wake', `job:${ROOT}`, `job:${n.id}`, `job:${n.other}`].map((name) => n.b + name),
  args: [
    n.b,
    ...change([
      [ROOT, 'payload', '', '', '0', ''],
      [n.id, 'payload', '3', '{}', '1', 'fp'],
      [n.other, 'payload', '', '', '2', 'cp'],
    ]).flat(),
  ],
});

/** The words with one of them another. */
const replaced =
  (job: number, place: number, word: Bytes) =>
  (words: Bytes[][]): Bytes[][] =>
    words.map((own, i) => (i === job ? own.map((one, j) => (j === place ? word : one)) : own));

const enqueueFlow: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'three levels',
      setup: [],
      ...flowCall(n),
      touches: {
        ...touch(n, { pending: 'zset', wake: 'list', 'flow:held': 'zset' }),
        ...ofRow(n, ROOT, { '': 'hash', ':children': 'hash' }),
        ...ofRow(n, n.id, { '': 'hash', ':children': 'hash' }),
        ...ofRow(n, n.other, { '': 'hash' }),
      },
      untyped: [count(n, ROOT), count(n, n.id)],
    },
    {
      name: 'a root that is there',
      setup: [row(n, ROOT, {})],
      ...flowCall(n),
      touches: {
        ...touch(n, { pending: 'zset', wake: 'list' }),
        ...ofRow(n, ROOT, { '': 'hash' }),
        ...ofRow(n, n.id, { '': 'hash' }),
        ...ofRow(n, n.other, { '': 'hash' }),
      },
    },
  ],
  refusals: (n) => [
    { name: 'a root of another kind', setup: [], ...flowCall(n, replaced(0, 0, EVT)), text: KIND },
    {
      name: 'a child of another kind, and more that is wrong',
      setup: [row(n, ROOT, {})],
      ...flowCall(n, (words) => replaced(1, 4, 'x')(replaced(2, 0, EVT)(words))),
      text: KIND,
    },
    ...[
      [
        'a word too few',
        flowCall(n, (words) => replaced(2, 5, '')(words).map((w, i) => (i === 2 ? w.slice(0, 5) : w))),
      ],
      ['a row without words', flowCall(n, (words) => words.slice(0, 2))],
      ['words without a row', { ...flowCall(n), keys: flowCall(n).keys.slice(0, 4) }],
      ['a root alone', { keys: flowCall(n).keys.slice(0, 3), args: flowCall(n, (words) => words.slice(0, 1)).args }],
      ['nothing', { keys: flowCall(n).keys.slice(0, 2), args: [n.b] }],
    ].map(([name, call]) => ({
      name: name as Bytes,
      setup: [],
      ...(call as ReturnType<typeof flowCall>),
      text: 'ERR a flow is six arguments for each of two or more rows',
    })),
    {
      name: 'a job named twice',
      setup: [],
      keys: flowCall(n).keys.map((key, i) => (i === 4 ? `${n.b}job:${n.id}` : key)),
      args: flowCall(n, replaced(2, 0, n.id)).args,
      text: 'ERR a flow names each job once',
    },
    ...['0', '2', '3', '-1', '', 'x', '01', '1.0'].map((place) => ({
      name: `the place ${JSON.stringify(place)} for the second job`,
      setup: [],
      ...flowCall(n, replaced(1, 4, place)),
      text: 'ERR parent must be the place of an earlier job',
    })),
    ...ODD_POLICIES.map((policy) => ({
      name: `the policy ${JSON.stringify(policy)}`,
      setup: [],
      ...flowCall(n, replaced(2, 5, policy)),
      text: POLICY,
    })),
    { name: 'a child that is there', setup: pending(n), ...flowCall(n), text: EXISTS },
    { name: 'the last child is there', setup: [row(n, n.other, { parent: n.id })], ...flowCall(n), text: EXISTS },
  ],
};

/** A call that holds the job: `link` are the parent's id and queue and the policy. */
const holdCall = (n: Names, link: readonly Bytes[], more: readonly Bytes[] = [n.other, 'far'], number = '2') => ({
  keys: [`${n.b}job:${n.id}`],
  args: [n.b, n.id, 'payload', '3', '{}', ...link, number, ...more],
});

const AS_ROOT = ['', '', ''];

const flowHold: Cases = {
  numbers: [[8, 'children', 'positive']],
  situations: (n) => {
    const own = { ...touch(n, { 'flow:held': 'zset' }), ...ofRow(n, n.id, { '': 'hash', ':children': 'hash' }) };
    const untyped = [count(n, n.id)];
    return [
      { name: 'a root', setup: [], ...holdCall(n, AS_ROOT), touches: own, untyped },
      {
        name: 'a child of a parent here',
        setup: held(n, { [n.id]: '+' }),
        ...holdCall(n, [ROOT, '', 'id']),
        touches: { ...own, ...ofRow(n, ROOT, { ':children': 'hash' }), [`${n.b}flow:landed`]: 'zset' },
        untyped,
      },
      {
        name: 'a child of a parent elsewhere',
        setup: [],
        ...holdCall(n, [ROOT, 'far', 'fp']),
        touches: { ...own, [`${n.b}flow:landed`]: 'zset' },
        untyped,
      },
      {
        name: 'a root that is there',
        setup: [
          row(n, n.id, { state: 'awaiting_children', landing: '2' }),
          cmd('SET', count(n, n.id), '2'),
          cmd('HSET', `${n.b}job:${n.id}:children`, n.other, '+far'),
        ],
        ...holdCall(n, AS_ROOT),
        touches: { ...own },
        counters: [[`${n.b}job:${n.id}`, 'landing']],
        strings: [count(n, n.id)],
      },
    ];
  },
  refusals: (n) => {
    const many = 'ERR children must be ids and queues, no more than their number';
    return [
      {
        name: 'another kind, and more that is wrong',
        setup: [],
        keys: [`${n.b}job:${EVT}`],
        args: [n.b, EVT, 'payload', '', '', ...AS_ROOT, 'x'],
        text: KIND,
      },
      { name: 'an odd number of words', setup: [], ...holdCall(n, AS_ROOT, [n.other]), text: many },
      {
        name: 'more children than their number, and a policy that is none',
        setup: [],
        ...holdCall(n, [ROOT, '', 'x'], [n.other, '', NODE, 'far'], '1'),
        text: many,
      },
      ...ODD_POLICIES.map((policy) => ({
        name: `the policy ${JSON.stringify(policy)}`,
        setup: held(n, { [n.id]: '+' }),
        ...holdCall(n, [ROOT, '', policy]),
        text: POLICY,
      })),
      ...(
        [
          ['a job of no parent', {}, '', held(n, { [n.id]: '+' })],
          ['a child of another parent', { parent: NODE }, '', held(n, { [n.id]: '+' })],
          ['a child of a parent elsewhere', { parent: ROOT, parent_queue: 'far' }, '', held(n, { [n.id]: '+' })],
          ['a child of a parent here', { parent: ROOT }, 'far', []],
          ['a child of a parent of another queue', { parent: ROOT, parent_queue: 'near' }, 'far', []],
        ] as [Bytes, Fields, Bytes, RawCommand[]][]
      ).map(([name, fields, queue, setup]) => ({
        name,
        setup: [...setup, row(n, n.id, fields)],
        ...holdCall(n, [ROOT, queue, 'fp']),
        text: EXISTS,
      })),
    ];
  },
};

const flowList: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'the rest of the children',
      setup: held(n, { [n.id]: '+' }, { count: '3', landing: '3' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [n.id, '', n.other, 'far'],
      touches: ofRow(n, ROOT, { '': 'hash', ':children': 'hash', ':dependencies': 'string' }),
      strings: [count(n, ROOT)],
    },
  ],
  refusals: (n) => [
    {
      name: 'an odd number of words',
      setup: held(n, { [n.id]: '+' }, { count: '3' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [n.id, '', n.other],
      text: 'ERR children must be ids and queues',
    },
    {
      name: 'more than are left to list',
      setup: held(n, { [n.id]: '+' }, { count: '2' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [n.id, '', n.other, '', NODE, 'far'],
      text: 'EMQSTATE flow children differ',
    },
  ],
};

const landCall = (n: Names, queue: Bytes, ...words: Bytes[][]) => ({
  keys: ['pending', 'wake', ''].map((name) => n.b + name),
  args: [ROOT, queue, ...words.flat()],
});
const leaf = (id: Bytes, policy = 'fp'): Bytes[] => [id, 'payload', '3', '{}', policy];

const flowLand: Cases = {
  numbers: [],
  situations: (n) => {
    const own = touch(n, { pending: 'zset', wake: 'list', [`job:${n.id}`]: 'hash' });
    return [
      {
        name: 'a parent here',
        setup: held(n, { [n.id]: '+', [n.other]: '+' }, { landing: '2' }),
        ...landCall(n, '', leaf(n.id)),
        touches: { ...own, ...ofRow(n, ROOT, { '': 'hash', ':children': 'hash', ':dependencies': 'string' }) },
        counters: [[`${n.b}job:${ROOT}`, 'landing']],
        strings: [count(n, ROOT)],
      },
      {
        name: 'a parent elsewhere',
        setup: [],
        ...landCall(n, 'far', leaf(n.id)),
        touches: { ...own, [`${n.b}flow:landed`]: 'zset' },
      },
    ];
  },
  refusals: (n) => {
    const refused = (name: Bytes, setup: RawCommand[], call: ReturnType<typeof landCall>, text: Bytes): OwnRefusal => ({
      name,
      setup,
      ...call,
      text,
    });
    const open = held(n, { [n.id]: '+', [n.other]: '+' }, { landing: '2' });
    const five = 'ERR children must be five arguments each';
    return [
      refused('another kind', open, landCall(n, '', leaf(n.id), leaf(EVT, 'x')), KIND),
      refused('a word too few', open, landCall(n, '', leaf(n.id).slice(0, 4)), five),
      refused('no child', open, landCall(n, ''), five),
      ...ODD_POLICIES.map((policy) =>
        refused(
          `the policy ${JSON.stringify(policy)} of the second`,
          open,
          landCall(n, '', leaf(n.id), leaf(n.other, policy)),
          POLICY,
        ),
      ),
      refused(
        'children that are not all listed',
        held(n, { [n.id]: '+' }, { count: '2', landing: '2' }),
        landCall(n, '', leaf(n.id)),
        'EMQSTATE flow children not listed',
      ),
      refused(
        'a job of no parent behind a good one',
        [...open, row(n, n.other, {})],
        landCall(n, '', leaf(n.id), leaf(n.other)),
        EXISTS,
      ),
      refused('a child of another parent', [row(n, n.id, { parent: NODE })], landCall(n, 'far', leaf(n.id)), EXISTS),
      refused(
        'a dead child that has no mark',
        [row(n, n.id, { parent: ROOT, parent_queue: 'far', state: 'dead' })],
        landCall(n, 'far', leaf(n.id)),
        EXISTS,
      ),
      refused('a child of a parent here', [row(n, n.id, { parent: ROOT })], landCall(n, 'far', leaf(n.id)), EXISTS),
    ];
  },
};

const flowLanded: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'one of two children',
      setup: held(n, { [n.id]: '+far', [n.other]: '+' }, { landing: '2' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [n.id, NODE],
      touches: ofRow(n, ROOT, { '': 'hash', ':children': 'hash' }),
      counters: [[`${n.b}job:${ROOT}`, 'landing']],
    },
    {
      name: 'the last that had to land',
      setup: held(n, { [n.id]: '+far', [n.other]: '' }, { landing: '1' }),
      keys: [`${n.b}job:${ROOT}`],
      args: [n.id, NODE],
      touches: ofRow(n, ROOT, { '': 'hash', ':children': 'hash' }),
      counters: [[`${n.b}job:${ROOT}`, 'landing']],
    },
  ],
  refusals: () => [],
};

const flowClear: Cases = {
  numbers: [],
  situations: (n) => [
    {
      name: 'one of two children',
      setup: [cmd('ZADD', `${n.b}flow:landed`, LATER, n.id, LATER, n.other)],
      keys: [`${n.b}flow:landed`],
      args: [n.id, NODE],
      touches: touch(n, { 'flow:landed': 'zset' }),
    },
  ],
  refusals: () => [],
};

/** By the name on the wire. */
export const landingCases: Readonly<Record<string, Cases>> = {
  enqueue_flow: enqueueFlow,
  flow_hold: flowHold,
  flow_list: flowList,
  flow_land: flowLand,
  flow_landed: flowLanded,
  flow_clear: flowClear,
};
