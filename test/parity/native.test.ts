/**
 * The refusals that only the native commands have (docs/wire.md, the native executor): numkeys, arguments, keys out of
 * their places, the fence; their order; and that each of them leaves the keyspace as it was, to the byte.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { changedKeys, snapshot, type Bytes } from '../../src/parity/keyspace-dump.js';
import { ask, need, type RawCommand } from '../../src/parity/node.js';
import { NODE_VERSION_KEY } from '../../src/wire/keyspace.js';
import { transitions } from '../../src/wire/transitions.js';
import { startNode, type TestNode } from './nodes.js';
import { cases, type Names } from './situations/index.js';
import { cmd } from './situations/scene.js';

const b = 'emq:{native}:';
const names: Names = { b, id: 'JOB0KHTOWnGLuC', other: 'JOB0KHTOWnGLuD', group: 'PRT0KHTOWnGLu1' };

let node: TestNode;
beforeAll(async () => {
  node = await startNode('native');
});
afterAll(() => node[Symbol.asyncDispose]());

/** Sends a command after a setup; answers the refusal. Rejects when it was not refused or changed anything. */
async function refusal(setup: readonly RawCommand[], command: RawCommand): Promise<string> {
  await node.reset();
  for (const one of setup) await need(node.client, one);
  const before = await snapshot(node.client);
  const answer = await ask(node.client, command);
  if (answer.ok) throw new Error(`not refused: ${String(answer.reply)}`);
  expect(changedKeys(before, await snapshot(node.client))).toEqual([]);
  return answer.text;
}

const natives = Object.values(transitions).flatMap((transition) =>
  'native' in transition ? [{ name: transition.name, command: transition.native }] : [],
);

test('all eight commands are here', () => {
  expect(natives.map(({ command }) => command)).toEqual([
    'EMQ.CLAIM',
    'EMQ.CLAIM.BATCH',
    'EMQ.TAKE',
    'EMQ.RELEASE',
    'EMQ.COMPLETE',
    'EMQ.FAIL',
    'EMQ.STALLED.CHECK',
    'EMQ.TAKE.BATCH',
  ]);
});

const NOT_ONE_QUEUE = 'ERR keys do not belong to one queue';

/** Bases that are none, or not of a queue. */
const BASES = [
  '',
  'emq:{native}',
  'emq:native:',
  'emq:{}:',
  'emq:{emq}:',
  'EMQ:{native}:',
  'emq:{native}::',
  'emq:{native}:x:',
  'emq:{na}tive}:',
  'emq:{{native}}:',
  'emq:{na tive}:',
  'emq:{na\0tive}:',
  'emq:{native\r\n}:',
  'emq:{nat\xc3\xa4v}:',
  `emq:{${'q'.repeat(129)}}:`,
];

for (const { name, command } of natives) {
  describe(command, () => {
    const [situation] = cases[name]?.situations(names) ?? [];
    if (situation === undefined) throw new Error(`no situation for ${name}`);
    const { setup, keys, args } = situation;
    const numbers = cases[name]?.numbers ?? [];
    const call = (with_: { numkeys?: Bytes; keys?: readonly Bytes[]; args?: readonly Bytes[] } = {}): RawCommand =>
      cmd(command, with_.numkeys ?? String(keys.length), ...(with_.keys ?? keys), ...(with_.args ?? args));
    const rebased = (base: Bytes): RawCommand => {
      const move = (text: Bytes): Bytes => (text.startsWith(b) ? base + text.slice(b.length) : text);
      return call({ keys: keys.map(move), args: args.map(move) });
    };
    const flow = name === 'complete' || name === 'fail' ? `EMQSTATE ${name} flow not native` : undefined;

    test('numkeys that is no integer', async () => {
      for (const numkeys of [
        '',
        'x',
        '+3',
        '03',
        '-0',
        '3.0',
        ' 3',
        '3\0',
        '4503599627370497',
        '9223372036854775808',
      ]) {
        expect(await refusal(setup, call({ numkeys })), numkeys).toBe('ERR numkeys must be a positive integer');
      }
    });

    test('another number of keys, whatever follows', async () => {
      const expected = flow ?? `ERR numkeys must be ${keys.length}`;
      for (const numkeys of ['-1', '0', '1', '5', '8', '4503599627370496']) {
        expect(await refusal(setup, call({ numkeys })), numkeys).toBe(expected);
        const wrong = call({ numkeys, args: args.map(() => 'x') });
        expect(await refusal([...setup, cmd('DEL', NODE_VERSION_KEY)], wrong), numkeys).toBe(expected);
      }
    });

    test('too few and too many arguments', async () => {
      const arity = `ERR wrong number of arguments for '${command.toLowerCase()}' command`;
      expect(await refusal(setup, call({ args: args.slice(0, -1) }))).toBe(arity);
      expect(await refusal(setup, call({ args: [...args, 'x'] }))).toBe(arity);
      expect(await refusal(setup, cmd(command))).toBe(arity);
      // a bad number is not looked at yet
      expect(await refusal(setup, call({ args: args.map(() => 'x').slice(1) }))).toBe(arity);
    });

    test('a key in the place of another, or of another queue', async () => {
      for (const [place, key] of keys.entries()) {
        const others = [
          'pending',
          'ring',
          'active',
          'schedule',
          'dead',
          'wake',
          '',
          `job:${names.id}`,
          `job:${names.other}`,
        ].map((one) => b + one);
        const wrong = [...others, 'emq:{other}:' + key.slice(b.length), `${key} `, `${key}\0`, key.slice(1), ''];
        for (const one of wrong.filter((candidate) => candidate !== key)) {
          const swapped = keys.map((own, i) => (i === place ? one : own));
          expect(await refusal(setup, call({ keys: swapped })), one).toBe(NOT_ONE_QUEUE);
        }
      }
    });

    test('a base that is none', async () => {
      for (const base of BASES) expect(await refusal(setup, rebased(base)), JSON.stringify(base)).toBe(NOT_ONE_QUEUE);
    });

    if (keys.includes(`${b}job:${names.id}`)) {
      test('an id that is not that of the row key', async () => {
        const id = args.indexOf(names.id);
        for (const other of ['', names.other, `${names.id}x`, names.id.slice(1), `${names.id}\0`]) {
          expect(await refusal(setup, call({ args: args.map((arg, i) => (i === id ? other : arg)) }))).toBe(
            NOT_ONE_QUEUE,
          );
        }
      });
    }

    test('the fence', async () => {
      const brand = (command_: RawCommand): RawCommand[] => [...setup, cmd('DEL', NODE_VERSION_KEY), command_];
      const needs = 'needs echomq:6.0.0';
      expect(await refusal(brand(cmd('DEL', NODE_VERSION_KEY)), call())).toBe(`EMQWIRE node is unbranded, ${needs}`);
      for (const found of ['echomq:4.0.0', 'echomq:6.0.0 ', 'echomq:6.0.1', 'x']) {
        expect(await refusal(brand(cmd('SET', NODE_VERSION_KEY, found)), call())).toBe(
          `EMQWIRE node is ${found}, ${needs}`,
        );
      }
      for (const found of ['', '\r\n+OK\r\n', '\0\xff', 'y'.repeat(5000)]) {
        const text = await refusal(brand(cmd('SET', NODE_VERSION_KEY, found)), call());
        expect(text).toMatch(/^EMQWIRE node is [ -~]*, needs echomq:6\.0\.0$/);
        expect(text.length).toBeLessThan(300);
      }
      for (const other of [cmd('HSET', NODE_VERSION_KEY, 'a', 'b'), cmd('RPUSH', NODE_VERSION_KEY, 'echomq:6.0.0')]) {
        expect(await refusal(brand(other), call())).toMatch(/^EMQWIRE node is .*, needs echomq:6\.0\.0$/);
      }
      // a brand of the queue counts in a cluster only
      expect(await refusal(brand(cmd('SET', `${b}version`, 'echomq:6.0.0')), call())).toBe(
        `EMQWIRE node is unbranded, ${needs}`,
      );
    });

    test('the order: numkeys, arguments, numbers, places, fence, types, the transition', async () => {
      const unbranded = cmd('DEL', NODE_VERSION_KEY);
      const first = Object.keys(situation.touches)[0] ?? '';
      const spoilt = [...setup, cmd('DEL', first), cmd('SET', first, 'x')];
      const foreign = keys.map((key, i) => (i === 0 ? 'emq:{other}:pending' : key));
      const badNumbers = args.map((arg, i) => (numbers.some(([place]) => place === i) ? 'x' : arg));
      if (numbers.length > 0) {
        expect(await refusal([...spoilt, unbranded], call({ keys: foreign, args: badNumbers }))).toMatch(
          /^ERR (lease|delay|max) must be/,
        );
      }
      expect(await refusal([...spoilt, unbranded], call({ keys: foreign }))).toBe(NOT_ONE_QUEUE);
      expect(await refusal([...spoilt, unbranded], call())).toBe('EMQWIRE node is unbranded, needs echomq:6.0.0');
      const stale = args.map((arg) => (arg === '1' ? '99' : arg));
      expect(await refusal(spoilt, call({ args: stale }))).toMatch(/^WRONGTYPE /);
    });
  });
}

test('of two bad numbers the first one wins', async () => {
  const fail = cmd(
    'EMQ.FAIL',
    '4',
    ...['active', 'schedule', 'dead', 'job:x'].map((key) => b + key),
    'x',
    '1',
    'a',
    'b',
    'e',
    b,
  );
  expect(await refusal([], fail)).toBe('ERR delay must be an integer');
  const sweep = cmd('EMQ.STALLED.CHECK', '3', `${b}active`, `${b}pending`, `${b}dead`, b, 'a', 'b');
  expect(await refusal([], sweep)).toBe('ERR max must be a positive integer');
  const take = cmd('EMQ.TAKE', '4', ...['pending', 'ring', 'active', ''].map((key) => b + key), 'x', 'y', 'z');
  expect(await refusal([], take)).toBe('ERR lease must be a positive integer');
});

test('a source that is none is refused after the numbers and before the places of the keys', async () => {
  const take = (count: Bytes, base: Bytes): RawCommand =>
    cmd('EMQ.TAKE', '4', ...['pending', 'ring', 'active', ''].map((key) => base + key), '1000', count, 'all');
  expect(await refusal([], take('0', b))).toBe('ERR count must be a positive integer');
  expect(await refusal([], take('1', 'x'))).toBe('ERR source must be flat, lanes or both');
});
