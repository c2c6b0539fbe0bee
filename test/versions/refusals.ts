/**
 * What a server refuses in words of its own, which are not the same in all versions: each is provoked on the real server and
 * read as the same code. The words as they were seen stand in refusal-words.ts, where they are read without a server.
 *
 * Does not: go through a connector: what it does with a code is no matter of the version.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { bytesOf } from '../../src/parity/keyspace-dump.js';
import { ask, need, perform, type Answer, type RawCommand } from '../../src/parity/node.js';
import { fromReply, type EmqCode } from '../../src/wire/errors.js';
import { startNode, type TestNode } from '../parity/nodes.js';
import { asSeen, wordsOf } from './refusal-words.js';
import { VERSIONS, type Version } from './servers.js';

const b = 'emq:{refusals}:';
const id = 'JOB0KHTOWnGLuC';
const row = `${b}job:${id}`;
const USER = 'someone';

/** A way to be refused, on a node of its own kind. It leaves the node as it was, but for keys. */
export interface Provocation {
  readonly code: EmqCode;
  readonly provoke: (node: TestNode) => Promise<Answer>;
  /** Only this executor has it. */
  readonly only?: 'native';
}

const call = (transition: string, keys: readonly string[], args: readonly string[]) => ({
  transition,
  keys: keys.map(bytesOf),
  args: args.map(bytesOf),
});
export const enqueue = call('enqueue', [row, `${b}pending`, `${b}wake`], [id, 'p']);
const claim = call('claim', [`${b}pending`, `${b}active`, b], ['60000']);
export const complete = call('complete', [`${b}active`, row], [id, '1', b]);

/** Does something under a setting, which is then as it was. */
async function under<T>({ client }: TestNode, name: string, value: string, act: () => Promise<T>): Promise<T> {
  const reply = await need(client, ['CONFIG', 'GET', name]);
  const before = Array.isArray(reply) ? String(reply[1]) : '';
  await need(client, ['CONFIG', 'SET', name, value]);
  try {
    return await act();
  } finally {
    await need(client, ['CONFIG', 'SET', name, before]);
  }
}

/** As a user of these rights. */
async function as(node: TestNode, rights: readonly string[], made: typeof enqueue | RawCommand): Promise<Answer> {
  await need(node.client, ['ACL', 'SETUSER', USER, 'reset', 'on', '>secret', ...rights]);
  const client = await node.connect({ username: USER, password: 'secret' });
  const answer = 'transition' in made ? await perform(node, made, client) : await ask(client, made);
  await need(node.client, ['ACL', 'DELUSER', USER]);
  return answer;
}

/** As a replica of a primary that is not there. */
async function asReplica(node: TestNode, act: () => Promise<Answer>): Promise<Answer> {
  await need(node.client, ['REPLICAOF', '127.0.0.1', '1']);
  const answer = await act();
  await need(node.client, ['REPLICAOF', 'NO', 'ONE']);
  return answer;
}

/** One job that is held. */
async function hold({ client }: TestNode): Promise<void> {
  await need(client, ['HSET', row, 'state', 'active', 'attempts', '1', 'payload', 'p']);
  await need(client, ['ZADD', `${b}active`, '99999999999999', id]);
}

/** One that waits. */
async function wait({ client }: TestNode): Promise<void> {
  await need(client, ['HSET', row, 'state', 'pending', 'attempts', '0', 'payload', 'p']);
  await need(client, ['ZADD', `${b}pending`, '0', id]);
}

/** Turns until it is killed; with a write before, it cannot be, and ends by itself. */
const ENDLESS = 'while true do end';
const STUBBORN = `redis.call('SET', KEYS[1], '1') local n = 0 for i = 1, 3e7 do n = n + i end return n`;

/** A script runs for longer than it may; what another client is told, and what becomes of the script. */
async function whileBusy(node: TestNode, script: string, other: RawCommand): Promise<[told: Answer, script: Answer]> {
  return under(node, 'lua-time-limit', '1', async () => {
    const runner = await node.connect();
    let over = false;
    const running = ask(runner, ['EVAL', script, '1', `${b}x`]).finally(() => (over = true));
    let told: Answer;
    // It does not say that it is busy before the limit has passed.
    do told = await ask(node.client, ['GET', 'x']);
    while (told.ok && !over);
    if (other[0] !== 'GET') told = await ask(node.client, other);
    await ask(node.client, ['SCRIPT', 'KILL']);
    return [told, await running];
  });
}

export const PROVOCATIONS: Readonly<Record<string, Provocation>> = {
  'a key of another type, in a script': {
    code: 'WRONGTYPE',
    async provoke(node) {
      await need(node.client, ['SET', `${b}pending`, 'x']);
      return perform(node, enqueue);
    },
  },
  'a key of another type, in a command': {
    code: 'WRONGTYPE',
    only: 'native',
    async provoke(node) {
      await need(node.client, ['SET', `${b}pending`, 'x']);
      return perform(node, claim);
    },
  },
  'a full server, to a script': {
    code: 'OOM',
    provoke: (node) => under(node, 'maxmemory', '1', () => perform(node, enqueue)),
  },
  'a full server, to a plain command': {
    code: 'OOM',
    provoke: (node) => under(node, 'maxmemory', '1', () => ask(node.client, ['SET', 'x', 'y'])),
  },
  'a full server, inside a script': {
    code: 'OOM',
    provoke: (node) =>
      under(node, 'maxmemory', '1', () =>
        ask(node.client, ['EVAL', `return redis.call('SET', KEYS[1], 'y')`, '1', 'x']),
      ),
  },
  'a user who may not run scripts': {
    code: 'NOPERM',
    provoke: (node) => as(node, ['~*', '+get'], enqueue),
  },
  'a user who may not run a command of the script': {
    code: 'NOPERM',
    provoke: (node) => as(node, ['~*', '+@all', '-zadd'], enqueue),
  },
  'a user who may not have a key that is declared': {
    code: 'NOPERM',
    provoke: (node) => as(node, [`~${row}`, '+@all'], enqueue),
  },
  'a user who may not have a key that the script finds': {
    code: 'NOPERM',
    async provoke(node) {
      await hold(node);
      const script = { ...node, executor: 'script' as const };
      await need(node.client, ['ACL', 'SETUSER', USER, 'reset', 'on', '>secret', `~${row}`, `~${b}active`, '+@all']);
      const client = await node.connect({ username: USER, password: 'secret' });
      const answer = await perform(script, complete, client);
      await need(node.client, ['ACL', 'DELUSER', USER]);
      return answer;
    },
  },
  'a user who may not have a channel that the script tells': {
    code: 'NOPERM',
    provoke: (node) => {
      const script = `return redis.call('PUBLISH', KEYS[1], '1')`;
      return as(node, ['~*', '+@all', 'resetchannels'], ['EVAL', script, '1', `${b}events`]);
    },
  },
  'a user who may not run the command': {
    code: 'NOPERM',
    only: 'native',
    provoke: (node) => as(node, ['~*', '+get'], claim),
  },
  'a user who may not have a key that the command finds': {
    code: 'NOPERM',
    only: 'native',
    async provoke(node) {
      await wait(node);
      return as(node, [`~${b}pending`, `~${b}active`, `~${b}`, '+@all'], claim);
    },
  },
  'a user of that name whom nobody knows': {
    code: 'WRONGPASS',
    provoke: ({ client }) => ask(client, ['AUTH', 'nobody', 'secret']),
  },
  'nobody in particular, where a name is wanted': {
    code: 'NOAUTH',
    async provoke(node) {
      const client = await node.connect();
      await need(node.client, ['ACL', 'SETUSER', 'default', '>secret', 'resetpass', '>secret']);
      await need(client, ['RESET']);
      const answer = await ask(client, ['GET', 'x']);
      await need(node.client, ['ACL', 'SETUSER', 'default', 'nopass']);
      return answer;
    },
  },
  'a replica, to a script': { code: 'READONLY', provoke: (node) => asReplica(node, () => perform(node, enqueue)) },
  'a replica, to a command': {
    code: 'READONLY',
    only: 'native',
    provoke: (node) => asReplica(node, () => perform(node, claim)),
  },
  'a replica that has lost its primary, to a read': {
    code: 'MASTERDOWN',
    provoke: (node) =>
      asReplica(node, () => under(node, 'replica-serve-stale-data', 'no', () => ask(node.client, ['GET', 'x']))),
  },
  'a primary with too few replicas': {
    code: 'NOREPLICAS',
    provoke: (node) => under(node, 'min-replicas-to-write', '1', () => perform(node, enqueue)),
  },
  'a script that nobody has loaded': {
    code: 'NOSCRIPT',
    provoke: ({ client }) => ask(client, ['EVALSHA', '0'.repeat(40), '0']),
  },
  'a command that is not there': { code: 'ERR', provoke: ({ client }) => ask(client, ['EMQ.NOTHING', '1']) },
  'a script that runs for too long': {
    code: 'BUSY',
    provoke: async (node) => (await whileBusy(node, ENDLESS, ['GET', 'x']))[0],
  },
  'the end of a script that was killed': {
    code: 'ERR',
    provoke: async (node) => (await whileBusy(node, ENDLESS, ['GET', 'x']))[1],
  },
  'a script that cannot be killed, since it has written': {
    code: 'UNKILLABLE',
    provoke: async (node) => (await whileBusy(node, STUBBORN, ['SCRIPT', 'KILL']))[0],
  },
};

/** Holds a refusal against its code, and its words against those that were seen. */
export function judge({ name }: Version, what: string, code: EmqCode, answer: Answer): void {
  if (answer.ok) throw new Error(`not refused, but answered ${String(answer.reply)}`);
  const error = fromReply(answer.text);
  expect({ code: error.code, text: answer.text }).toEqual({ code, text: answer.text });
  expect(error.reason).not.toMatch(/user_script|[0-9a-f]{40}/);
  // Valkey 9 still moves on; the words of the others are known, and a new one is to be written down.
  if (name !== VERSIONS.valkey9.name) expect(asSeen(answer.text)).toBe(wordsOf(what, name));
}

export function refusalSuite(version: Version): void {
  describe.each(version.wires.map((wire) => (wire === 6 ? 'native' : 'script')))('refusals, %s', (executor) => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode(executor);
    });
    afterAll(() => node[Symbol.asyncDispose]());

    for (const [what, { code, provoke, only }] of Object.entries(PROVOCATIONS)) {
      if (only !== undefined && only !== executor) continue;
      test(`${what}: ${code}`, async () => {
        await node.reset();
        judge(version, what, code, await provoke(node));
        expect(String(await need(node.client, ['PING']))).toBe('PONG');
      });
    }
  });
}
