/** `emq dev`: ready when it says so, gone when it ends. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { Connector, Jobs } from '../../src/index.js';
import { emq, finish, firstLine, isAlive, node, start } from './emq.js';

interface Ready {
  readonly event: string;
  readonly url: string;
  readonly socket: string;
  readonly pid: number;
  readonly version: string;
  readonly wire: 4 | 6;
  readonly module: boolean;
}

async function dev(...args: string[]) {
  const child = start(['dev', '--json', ...args]);
  const ended = finish(child);
  const ready = JSON.parse(await firstLine(child)) as Ready;
  return { child, ready, ended };
}

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'emq-cli-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('runs a job on wire 6 and is gone on %s', async (signal) => {
  const { child, ready, ended } = await dev();
  expect(ready).toMatchObject({ event: 'ready', wire: 6, module: true, version: expect.stringMatching(/^\d+\./) });
  const connector = await Connector.connect({ url: ready.url, wire: 6, claim: false });
  const jobs = new Jobs(connector, 'q');
  const { id } = await jobs.enqueue({ n: 1 });
  expect((await jobs.claim({ leaseMs: 1_000 }))?.id).toBe(id);
  await connector.close();
  child.kill(signal);
  const { code, json, stderr } = await ended;
  expect({ code, stderr, last: json.at(-1) }).toEqual({ code: 0, stderr: '', last: { event: 'ended' } });
  expect(isAlive(ready.pid)).toBe(false);
  expect(existsSync(dirname(ready.socket))).toBe(false);
});

test('says to people where it is and how to connect', async () => {
  const child = start(['dev']);
  const ended = finish(child);
  const url = /^(redis:\S+)/.exec(await firstLine(child, /^redis:/))?.[1] ?? '';
  const redis = new Redis(url);
  expect(await redis.get('{emq}:version')).toBe('echomq:6.0.0');
  redis.disconnect();
  child.kill('SIGTERM');
  const { stdout, code } = await ended;
  expect(code).toBe(0);
  expect(stdout).toContain(`Connector.connect({ url: '${url}', wire: 6 })`);
});

test('without the module it is a wire 4 node', async () => {
  const { child, ready, ended } = await dev('--no-module');
  expect(ready).toMatchObject({ wire: 4, module: false });
  const redis = new Redis(ready.url);
  expect(await redis.get('{emq}:version')).toBe('echomq:4.0.0');
  await expect(redis.call('EMQ.CLAIM')).rejects.toThrow('unknown command');
  redis.disconnect();
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
});

test('listens where it is told, and keeps jobs in the folder it is given', async () => {
  const dir = await folder();
  const socket = join(dir, 'here.sock');
  for (const round of [1, 2]) {
    const { child, ready, ended } = await dev('--dir', dir, '--socket', socket);
    expect(ready.socket).toBe(socket);
    const connector = await Connector.connect({ url: `unix://${socket}`, wire: 6 });
    const jobs = new Jobs(connector, 'kept');
    await jobs.enqueue({ round });
    expect(await jobs.counts(['pending'])).toEqual({ pending: round });
    await connector.close();
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
  }
});

test('a port that is taken ends it with 3', async () => {
  const server = await node();
  const { code, json } = await emq('dev', '--port', String(server.port), '--json');
  expect(code).toBe(3);
  expect(json).toEqual([{ error: { code: 'EMQ_CONNECTION', reason: expect.stringContaining('in use'), exit: 3 } }]);
});

test('a socket path that is too long ends it with 2', async () => {
  const { code, stderr } = await emq('dev', '--socket', `/${'x'.repeat(200)}`);
  expect(code).toBe(2);
  expect(stderr).toContain('socket');
});

test('no server on the machine ends it with 3, and says what to do', async () => {
  const child = start(['dev', '--json'], { VALKEY_SERVER: '/nowhere/valkey-server' });
  const { code, json } = await finish(child);
  expect(code).toBe(3);
  expect(json[0].error).toMatchObject({ code: 'EMQ_ENVIRONMENT', reason: expect.stringContaining('VALKEY_SERVER') });
});

test('a server that dies ends it with 3', async () => {
  const { ready, ended } = await dev();
  process.kill(ready.pid, 'SIGKILL');
  const { code, json } = await ended;
  expect(code).toBe(3);
  expect(json.at(-1).error.reason).toContain('SIGKILL');
});
