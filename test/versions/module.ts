/**
 * The module on a version: one build of it loads into every Valkey; a Redis, which has no entry for it, refuses it in one line
 * and lives. Does not: hide functions of a server that would load it.
 */
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';

import { defaultModulePath, startServer } from '../../src/dev/server.js';
import { ask, need, type Answer } from '../../src/parity/node.js';
import { startNode } from '../parity/nodes.js';
import type { Version } from './servers.js';

export function moduleSuite({ wires }: Version): void {
  if (wires.includes(6)) describe('the module', loads);
  else describe('the module', isRefused);
}

function loads(): void {
  test('loads, and stays when it is told to go', async () => {
    await using node = await startNode('native');
    const { client } = node;
    expect(modulesOf(await ask(client, ['MODULE', 'LIST']))).toContain('trafikey');
    expect(await ask(client, ['MODULE', 'UNLOAD', 'trafikey'])).toMatchObject({ ok: false });
    expect(modulesOf(await ask(client, ['MODULE', 'LIST']))).toContain('trafikey');
    expect(await need(client, ['COMMAND', 'INFO', 'EMQ.CLAIM'])).toEqual([expect.any(Array)]);
  });

  test('loads into a server that runs already, and not twice', async () => {
    await using node = await startNode('script', { args: ['--enable-module-command', 'yes'] });
    const load = ['MODULE', 'LOAD', defaultModulePath()] as const;
    expect(await ask(node.client, load)).toMatchObject({ ok: true });
    expect(await ask(node.client, load)).toMatchObject({ ok: false });
    expect(modulesOf(await ask(node.client, ['MODULE', 'LIST']))).toContain('trafikey');
  });
}

function isRefused(): void {
  const words = /trafikey\.so does not export RedisModule_OnLoad\(\) symbol\. Module not loaded/;

  test('is refused in one line, and the server lives', async () => {
    await using node = await startNode('script', { args: ['--enable-module-command', 'yes'] });
    const answer = await ask(node.client, ['MODULE', 'LOAD', defaultModulePath()]);
    expect(answer).toMatchObject({ ok: false });
    const log = await readFile(node.server.logFile, 'utf8');
    expect(log.split('\n').filter((line) => line.includes('trafikey'))).toEqual([expect.stringMatching(words)]);
    expect(modulesOf(await ask(node.client, ['MODULE', 'LIST']))).toEqual([]);
    expect(String(await need(node.client, ['PING']))).toBe('PONG');
  });

  test('a server that is to start with it does not, and startServer says why', async () => {
    const refused = await startServer({ module: true }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'EMQ_CONNECTION', reason: expect.stringMatching(words) as string });
  });
}

/** The names of the modules there are. */
function modulesOf(answer: Answer): string[] {
  expect(answer).toMatchObject({ ok: true });
  const list = answer.ok && Array.isArray(answer.reply) ? answer.reply : [];
  return list.map((one) => (Array.isArray(one) ? String(one[1]) : ''));
}
