/** What each executor makes of a call, and the slot and socket of the command that carries it. No server. */
import { Writable } from 'node:stream';
import { Cluster, Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { commandsOf } from '../../src/wire/command.js';
import { evalFrame, executorOf, isIntact, loadFrame, malformed, native, scripted } from '../../src/wire/executor.js';
import { call, echo, transition } from './stand-ins.js';

const claim = transition('claim', 'return {}', { native: 'EMQ.CLAIM' });
const payload = Buffer.from([0, 255]);
const claims = { transition: claim, queue: 'q', keys: ['emq:{q}:pending', 'emq:{q}:active'], args: ['60000', payload] };
const operands = ['2', 'emq:{q}:pending', 'emq:{q}:active', '60000', payload];

it('sends EVALSHA sha numkeys keys args on wire 4', () => {
  expect(scripted(claims)).toEqual({ command: 'EVALSHA', args: [claim.script.sha, ...operands], script: claim.script });
  expect(executorOf(4)).toBe(scripted);
});

it('puts the native command in the place of EVALSHA and the sha on wire 6', () => {
  expect(native(claims)).toEqual({ command: 'EMQ.CLAIM', args: operands });
  expect(executorOf(6)).toBe(native);
});

it('goes the scripted way on wire 6 where there is no native twin', () => {
  expect(native(call(echo, 'k', ['x']))).toEqual(scripted(call(echo, 'k', ['x'])));
});

it('states numkeys 0 for a call without keys', () => {
  expect(scripted({ ...claims, keys: [], args: [] }).args).toEqual([claim.script.sha, '0']);
});

it('carries the source where the script is missing', () => {
  expect(evalFrame(claims)).toEqual({ command: 'EVAL', args: ['return {}', ...operands] });
  expect(loadFrame(claim.script)).toEqual({ command: 'SCRIPT', args: ['LOAD', 'return {}'] });
});

it('knows a script whose sha is not that of its source', () => {
  expect(isIntact(claim.script)).toBe(true);
  expect(isIntact({ ...claim.script, source: 'return {} ' })).toBe(false);
});

it('tells a cluster the slot of a native command, whose keys it does not know', () => {
  const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true });
  const commands = commandsOf(cluster);
  const frame = native(claims);
  expect(commands(frame.command, frame.args).getSlot()).toBeNull();
  expect(commands(frame.command, frame.args, 11958).getSlot()).toBe(11958);
  // {q} is slot 11958: what the library finds for a command whose keys it knows.
  expect(commands('get', ['emq:{q}:version']).getSlot()).toBe(11958);
  cluster.disconnect();
});

it('marks a command as written when its bytes are asked for, and lets a whole turn leave in one write', async () => {
  const redis = new Redis({ lazyConnect: true });
  const writes: number[] = [];
  const socket = new Writable({
    write: (_chunk, _encoding, done) => (writes.push(1), done()),
    writev: (chunks, done) => (writes.push(chunks.length), done()),
  });
  const commands = commandsOf(redis);
  const all = [commands('PING', []), commands('GET', ['k']), commands('SET', ['k', Buffer.from('v')])];
  for (const command of all) {
    expect(command.written).toBe(false);
    socket.write(command.toWritable(socket));
    expect(command.written).toBe(true);
  }
  expect(writes).toEqual([]);
  await new Promise<void>((resolve) => socket.write('', () => resolve()));
  expect(writes).toEqual([4]);
  redis.disconnect();
});

it('reads replies as bytes', async () => {
  const redis = new Redis({ lazyConnect: true });
  const command = commandsOf(redis)('EVALSHA', ['x', '0']);
  command.resolve(Buffer.from('bytes'));
  await expect(command.promise).resolves.toEqual(Buffer.from('bytes'));
  redis.disconnect();
});

it.each([
  [undefined, /needs a transition/],
  [null, /needs a transition/],
  [{}, /needs a transition/],
  [{ ...claims, transition: { name: 'claim' } }, /needs a transition/],
  [{ ...claims, queue: 7 }, /needs the name of its queue/],
  [{ ...claims, keys: 'k' }, /keys of a call of claim must be a list/],
  [{ ...claims, args: [undefined] }, /args of a call of claim must be a list/],
  [{ ...claims, args: [7] }, /args of a call of claim must be a list/],
])('knows a call that is none: %#', (wrong, text) => {
  expect(malformed(wrong)).toMatch(text);
  expect(malformed(claims)).toBeUndefined();
});
