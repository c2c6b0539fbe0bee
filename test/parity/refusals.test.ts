/**
 * Refusal before write: whatever a transition refuses, by script or by command, leaves the keyspace as it was, to the
 * byte; and both executors refuse alike.
 *
 * Every case is tried on a wire 4 node and a wire 6 node, with ordinary and with odd ids and groups. A transition without
 * cases fails.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesOf, changedKeys, snapshot, type Bytes } from '../../src/parity/keyspace-dump.js';
import { need, perform, type Answer, type ExecutorName, type RawCommand } from '../../src/parity/node.js';
import { transitions } from '../../src/wire/transitions.js';
import { startNode, type TestNode } from './nodes.js';
import { cases, type KeyType, type Names } from './situations/index.js';
import { cmd } from './situations/scene.js';

const b = 'emq:{refusals}:';
const plain: Names = { b, id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };
const scenes: Readonly<Record<string, Names>> = {
  plain,
  'CR LF, NUL and invalid UTF-8': { ...plain, id: 'JOB\r\n\0\xff$-1', other: 'JOB\xc3\x28', group: 'g\r\n\0\xff' },
  'a kilobyte': { ...plain, id: `JOB${'x'.repeat(1021)}`, other: `JOB${'y'.repeat(1021)}`, group: 'z'.repeat(1024) },
  'an empty group': { ...plain, group: '' },
};

const BAD = [
  '',
  'x',
  ' 1',
  '1 ',
  '+5',
  '007',
  '-0',
  '--1',
  '1e3',
  '1.5',
  '0x10',
  '5\0',
  '\0',
  '5\r\n',
  '\xd9\xa3',
  'inf',
  'nan',
];
const BEYOND = ['4503599627370497', '-4503599627370497', '9223372036854775808', '-9223372036854775809', '9'.repeat(40)];
const BAD_STORED = ['', 'x', '+1', '01', '-0', '1.5', '1e3', ' 1', '1\0', '4503599627370497', '9223372036854775808'];

const RULES = { any: 'an integer', positive: 'a positive integer', window: 'an integer from 1 to 2147483647' };
/** What else is no such number. */
const BESIDES = {
  any: [],
  positive: ['0', '-1', '-4503599627370496'],
  window: ['0', '-1', '2147483648', '4503599627370496'],
};

const WRONG: Readonly<Record<KeyType, (key: Bytes) => RawCommand>> = {
  string: (key) => cmd('SET', key, 'x'),
  list: (key) => cmd('RPUSH', key, 'x'),
  set: (key) => cmd('SADD', key, 'x'),
  zset: (key) => cmd('ZADD', key, '1', 'x'),
  hash: (key) => cmd('HSET', key, 'x', 'y'),
};
const TYPES = Object.keys(WRONG) as KeyType[];

interface Call {
  readonly keys: readonly Bytes[];
  readonly args: readonly Bytes[];
}

let nodes: TestNode[];
beforeAll(async () => {
  nodes = await Promise.all([startNode('script'), startNode('native')]);
});
afterAll(() => Promise.all(nodes.map((node) => node[Symbol.asyncDispose]())));

/** Makes the call on both nodes after the setup. Rejects when a refusal changed anything. */
async function attempt(
  setup: readonly RawCommand[],
  transition: string,
  call: Call,
): Promise<Record<ExecutorName, Answer>> {
  const answers = await Promise.all(
    nodes.map(async (node) => {
      await node.reset();
      for (const command of setup) await need(node.client, command);
      const before = await snapshot(node.client);
      const answer = await perform(node, { transition, keys: call.keys.map(bytesOf), args: call.args.map(bytesOf) });
      const changed = changedKeys(before, await snapshot(node.client));
      if (!answer.ok && changed.length > 0) {
        throw new Error(
          `${node.executor} refused (${answer.text}) and changed ${changed.map((key) => JSON.stringify(key)).join(', ')}`,
        );
      }
      return [node.executor, answer] as const;
    }),
  );
  return Object.fromEntries(answers) as Record<ExecutorName, Answer>;
}

/** What the answers were, refusals by their whole text, or by the class where the server words it. */
const told = (answers: Record<ExecutorName, Answer>): Record<ExecutorName, string> => {
  const tell = (answer: Answer): string => {
    if (answer.ok) return 'no refusal';
    return /^(EMQ|ERR)/.test(answer.text) ? answer.text : (answer.text.split(' ', 1)[0] ?? '');
  };
  return { script: tell(answers.script), native: tell(answers.native) };
};
const both = (text: string) => ({ script: text, native: text });
const quote = (text: Bytes): string => JSON.stringify(text.length > 24 ? `${text.slice(0, 21)}...` : text);

test('every transition of the table has cases', () => {
  expect(Object.keys(cases).sort()).toEqual(
    Object.values(transitions)
      .map(({ name }) => name)
      .sort(),
  );
  for (const [name, { situations }] of Object.entries(cases)) expect(situations(plain), name).not.toEqual([]);
});

for (const [transition, { numbers, situations, refusals }] of Object.entries(cases)) {
  describe(transition, () => {
    for (const [scene, names] of Object.entries(scenes)) {
      for (const { name, setup, ...call } of situations(names)) {
        test(`${name} (${scene}): not refused`, async () => {
          expect(told(await attempt(setup, transition, call))).toEqual(both('no refusal'));
        });
      }
      for (const { name, setup, text, ...call } of refusals(names)) {
        test(`${name} (${scene})`, async () => {
          expect(told(await attempt(setup, transition, call))).toEqual(typeof text === 'string' ? both(text) : text);
        });
      }
    }

    for (const { name, setup, touches, untyped = [], counters = [], strings = [], ...more } of situations(plain)) {
      const { numbers: own = numbers, ...call } = more;
      for (const [key, type] of Object.entries(touches)) {
        test(`${name}: ${key.slice(b.length)} of another type`, async () => {
          for (const other of TYPES.filter((one) => one !== type)) {
            const scene = [...setup, cmd('DEL', key), WRONG[other](key)];
            expect(told(await attempt(scene, transition, call)), other).toEqual(both('WRONGTYPE'));
          }
        });
      }
      for (const key of untyped) {
        test(`${name}: ${key.slice(b.length)} may be of any type`, async () => {
          for (const type of TYPES) {
            const scene = [...setup, cmd('DEL', key), WRONG[type](key)];
            expect(told(await attempt(scene, transition, call)), type).toEqual(both('no refusal'));
          }
        });
      }
      for (const [key, field, place] of counters) {
        test(`${name}: ${key.slice(b.length)} ${field} is no integer`, async () => {
          for (const value of BAD_STORED) {
            const args = place === undefined ? call.args : call.args.map((arg, i) => (i === place ? value : arg));
            const answers = told(
              await attempt([...setup, cmd('HSET', key, field, value)], transition, { ...call, args }),
            );
            expect(answers.script, quote(value)).toMatch(/^ERR stored .+ is not an integer$/);
            expect(answers.native, quote(value)).toBe(answers.script);
          }
        });
      }
      for (const key of strings) {
        test(`${name}: ${key.slice(b.length)} is no integer`, async () => {
          for (const value of BAD_STORED) {
            const answers = told(await attempt([...setup, cmd('SET', key, value)], transition, call));
            expect(answers.script, quote(value)).toMatch(/^ERR stored .+ is not an integer$/);
            expect(answers.native, quote(value)).toBe(answers.script);
          }
        });
      }
      for (const [place, word, kind] of own) {
        const rule = RULES[kind];
        test(`${name}: ${word} is not ${rule}`, async () => {
          for (const value of [...BAD, ...BEYOND, ...BESIDES[kind]]) {
            const args = call.args.map((arg, i) => (i === place ? value : arg));
            const expected = both(`ERR ${word} must be ${rule}`);
            expect(told(await attempt(setup, transition, { ...call, args })), quote(value)).toEqual(expected);
          }
        });
      }
    }

    const [first] = situations(plain);
    for (const key of new Set(first?.keys ?? [])) {
      const type = first?.touches[key];
      if (first === undefined || key === b || type === undefined) continue;
      // rows that extend_many meets are derived, and one of them must not cost the others their lease
      test(`a queue with nothing but ${key.slice(b.length)} of another type`, async () => {
        for (const other of TYPES.filter((one) => one !== type)) {
          expect(told(await attempt([WRONG[other](key)], transition, first)), other).toEqual(both('WRONGTYPE'));
        }
      });
    }
  });
}
