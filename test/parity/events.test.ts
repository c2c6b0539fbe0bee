/**
 * Keyspace events: those of a native command are the events of its script, in the same order. The random suite compares
 * them after each step; here stand the situations one by one, and the literal events of the commands.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesOf, type Bytes } from '../../src/parity/keyspace-dump.js';
import { need, perform, type RawCommand } from '../../src/parity/node.js';
import { transitions } from '../../src/wire/transitions.js';
import { EVENTS, EventTap } from './events.js';
import { startNode, type TestNode } from './nodes.js';
import { cases, type Names } from './situations/index.js';
import { cmd } from './situations/scene.js';

const b = 'emq:{events}:';
const names: Names = { b, id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };

let nodes: TestNode[];
let taps: EventTap[];
beforeAll(async () => {
  nodes = await Promise.all([startNode('script', { args: EVENTS }), startNode('native', { args: EVENTS })]);
  taps = await Promise.all(nodes.map((node) => EventTap.open(node)));
});
afterAll(() => Promise.all(nodes.map((node) => node[Symbol.asyncDispose]())));

/** The events of a call on each node, after a setup. */
async function eventsOf(
  setup: readonly RawCommand[],
  transition: string,
  keys: readonly Bytes[],
  args: readonly Bytes[],
) {
  return Promise.all(
    nodes.map(async (node, i) => {
      await node.reset();
      for (const command of setup) await need(node.client, command);
      await taps[i]?.take();
      const answer = await perform(node, { transition, keys: keys.map(bytesOf), args: args.map(bytesOf) });
      expect(answer.ok).toBe(true);
      return (await taps[i]?.take()) ?? [];
    }),
  );
}

/** `key event` of the key space events, without the base. */
const short = (events: readonly string[]): string[] =>
  events.flatMap((event) => (event.startsWith(`keyspace ${b}`) ? [event.slice(`keyspace ${b}`.length)] : []));

for (const transition of Object.values(transitions)) {
  if (!('native' in transition)) continue;
  describe(transition.native, () => {
    for (const { name, setup, keys, args } of cases[transition.name]?.situations(names) ?? []) {
      test(name, async () => {
        const [script, native] = await eventsOf(setup, transition.name, keys, args);
        expect(native).toEqual(script);
        expect(short(native ?? [])).not.toEqual([]);
      });
    }
  });
}

const row = `job:${names.id}`;
const lane = `g:${names.group}:pending`;
const active = [
  cmd('HSET', `${b}${row}`, 'state', 'active', 'attempts', '1', 'payload', 'p', 'group', names.group),
  cmd('ZADD', `${b}active`, '5', names.id),
  cmd('HSET', `${b}gactive`, names.group, '2'),
  cmd('ZADD', `${b}${lane}`, '0', names.other),
];

const literal: Readonly<Record<string, readonly [RawCommand[], string, Bytes[], Bytes[], string[]]>> = {
  'a claim': [
    [
      cmd('HSET', `${b}${row}`, 'state', 'pending', 'attempts', '0', 'payload', 'p'),
      cmd('ZADD', `${b}pending`, '0', names.id),
    ],
    'claim',
    [`${b}pending`, `${b}active`, b],
    ['30000'],
    ['pending zpopmin', 'pending del', `${row} hincrby`, `${row} hset`, 'active new', 'active zadd'],
  ],
  'the claim of a ghost': [
    [cmd('ZADD', `${b}pending`, '0', names.id, '0', names.other)],
    'claim',
    [`${b}pending`, `${b}active`, b],
    ['30000'],
    ['pending zpopmin'],
  ],
  'the completion of a grouped job': [
    active,
    'complete',
    [`${b}active`, `${b}${row}`],
    [names.id, '1', b],
    [
      'active zrem',
      'active del',
      'gactive hincrby',
      'ring new',
      'ring rpush',
      `${row} del`,
      'metrics:completed new',
      'metrics:completed hincrby',
      'wake new',
      'wake lpush',
    ],
  ],
  'the death of a grouped job': [
    active,
    'fail',
    [`${b}active`, `${b}schedule`, `${b}dead`, `${b}${row}`],
    [names.id, '1', '0', '1', 'boom', b],
    [
      'active zrem',
      'active del',
      'gactive hincrby',
      'ring new',
      'ring rpush',
      `${row} hset`,
      'dead new',
      'dead zadd',
      'metrics:failed new',
      'metrics:failed hincrby',
      'wake new',
      'wake lpush',
    ],
  ],
  'a take of two, from the flat queue and a lane': [
    [
      ...[names.id, names.other].map((id) => cmd('HSET', `${b}job:${id}`, 'attempts', '0')),
      cmd('HSET', `${b}${row}`, 'group', names.group),
      cmd('ZADD', `${b}${lane}`, '1', names.id, '2', 'JOB0KHTOWnGLuE'),
      cmd('ZADD', `${b}pending`, '0', 'JOB0KHTOWnGLuB', '2', names.other, '3', 'JOB0KHTOWnGLuF'),
      cmd('RPUSH', `${b}ring`, 'empty', names.group),
    ],
    'take',
    [`${b}pending`, `${b}ring`, `${b}active`, b],
    ['30000', '2', 'both'],
    [
      'pending zpopmin',
      `${lane} zpopmin`,
      `${row} hset`,
      'active new',
      'active zadd',
      `job:${names.other} hset`,
      'active zadd',
      'gactive new',
      'gactive hincrby',
      'ring ltrim',
      'ring del',
      'ring new',
      'ring rpush',
      'wake new',
      'wake lpush',
    ],
  ],
  'the release of a grouped job': [
    active,
    'release',
    [`${b}active`, `${b}pending`, `${b}${row}`],
    [names.id, '1', b],
    [
      'active zrem',
      'active del',
      `${row} hset`,
      `${lane} zadd`,
      'gactive hincrby',
      'ring new',
      'ring rpush',
      'wake new',
      'wake lpush',
    ],
  ],
  'a stall in a lane': [
    active,
    'stalled_check',
    [`${b}active`, `${b}pending`, `${b}dead`],
    [b, '2', '10'],
    [
      'active zrem',
      'active del',
      `${row} hset`,
      `${lane} zadd`,
      'gactive hincrby',
      'ring new',
      'ring rpush',
      'wake new',
      'wake lpush',
    ],
  ],
};

describe('the events, literally', () => {
  for (const [name, [setup, transition, keys, args, expected]] of Object.entries(literal)) {
    test(name, async () => {
      const [script, native] = await eventsOf(setup, transition, keys, args);
      expect(short(script ?? [])).toEqual(expected);
      expect(native).toEqual(script);
    });
  }

  test('a job that waits already, at the very score that it would get, sends nothing for its place', async () => {
    const setup = [
      cmd('HSET', `${b}${row}`, 'state', 'active', 'attempts', '1', 'payload', 'p'),
      cmd('ZADD', `${b}active`, '5', names.id),
      cmd('ZADD', `${b}pending`, '0', names.id),
    ];
    const sweep = [`${b}active`, `${b}pending`, `${b}dead`];
    const [script, native] = await eventsOf(setup, 'stalled_check', sweep, [b, '2', '10']);
    expect(short(script ?? [])).toEqual(['active zrem', 'active del', `${row} hset`, 'wake new', 'wake lpush']);
    expect(native).toEqual(script);
  });

  test('a refusal and an empty claim send nothing', async () => {
    for (const node of nodes) await node.reset();
    for (const [i, node] of nodes.entries()) {
      await need(node.client, cmd('HSET', `${b}${row}`, 'attempts', '1'));
      await taps[i]?.take();
      const stale = { transition: 'complete', keys: [`${b}active`, `${b}${row}`], args: [names.id, '9', b] };
      expect((await perform(node, stale)).ok).toBe(false);
      const empty = { transition: 'claim', keys: [`${b}pending`, `${b}active`, b], args: ['1000'] };
      expect(await perform(node, empty)).toEqual({ ok: true, reply: [] });
      const take = ['pending', 'ring', 'active', ''].map((name) => b + name);
      expect(await perform(node, { transition: 'take', keys: take, args: ['1000', '5', 'both'] })).toEqual({
        ok: true,
        reply: [],
      });
      expect(await taps[i]?.take()).toEqual([]);
    }
  });
});
