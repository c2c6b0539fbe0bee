/**
 * The load: a server that lacks any one of the functions that the module needs is refused with one line that names it,
 * and lives; and the built library shows its entry points alone, and takes from outside nothing but the C library's
 * plain functions: no allocator but the server's, no thread, no file.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { defaultModulePath, startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { ask } from '../../src/parity/node.js';
import { buildHidingModule, HIDING_ARGS, loadHiding, requiredFunctions } from './hiding.js';
import { missingTools, runs } from './tools.js';

const missing = missingTools('cc');

describe.runIf(runs('the load with a function hidden', missing))('a server without a function', () => {
  let folder: string;
  let server: EmbeddedServer;
  let client: Redis;
  let hiding: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'emq-hide-'));
    hiding = buildHidingModule(folder);
    server = await startServer({ args: HIDING_ARGS });
    client = new Redis({ path: server.socketPath });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** The lines that the module wrote since the log had so many characters. */
  const said = async (since: number): Promise<string[]> =>
    (await readFile(server.logFile, 'utf8'))
      .slice(since)
      .split('\n')
      .filter((line) => line.includes('trafikey is'));
  const logged = async (): Promise<number> => (await readFile(server.logFile, 'utf8')).length;

  test('the module needs functions', () => {
    expect(requiredFunctions().length).toBeGreaterThan(60);
    expect(requiredFunctions()).toContain('ValkeyModule_OpenKey');
  });

  for (const name of requiredFunctions()) {
    test(`${name}: refused, and the server lives`, async () => {
      const before = await logged();
      const answer = await loadHiding(client, hiding, name);
      expect(answer).toMatchObject({ ok: false, text: expect.stringMatching(/^ERR Error loading the extension/) });
      expect(await client.ping()).toBe('PONG');
      expect(await ask(client, ['COMMAND', 'INFO', 'EMQ.CLAIM'])).toEqual({ ok: true, reply: [null] });
      // without a log function there is nothing to say it with
      const line = `trafikey is not loaded: this server has no ${name}, Valkey 8.0 or later has`;
      const expected = name === 'ValkeyModule_Log' ? [] : [expect.stringContaining(line)];
      expect(await said(before)).toEqual(expected);
    });
  }

  test('nothing hidden: loaded', async () => {
    const before = await logged();
    expect(await loadHiding(client, hiding, 'none')).toEqual({ ok: true, reply: Buffer.from('OK') });
    expect(await said(before)).toEqual([expect.stringContaining('trafikey is loaded, brand echomq:6.0.0')]);
    const { ok } = await ask(client, ['COMMAND', 'INFO', 'EMQ.CLAIM']);
    expect(ok).toBe(true);
    expect(await ask(client, ['EMQ.CLAIM', 'x'])).toMatchObject({ text: 'ERR numkeys must be a positive integer' });
  });
});

const noNm = missingTools('nm');
if (process.platform !== 'linux') noNm.push('ELF libraries');

describe.runIf(runs('the symbols of the module', noNm))('the built library', () => {
  const symbols = (kind: string): string[] =>
    execFileSync('nm', ['-D', '--format=posix', kind, defaultModulePath()], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(/[ @]/, 1)[0] ?? '')
      .sort();

  test('shows its entry points alone', () => {
    expect(symbols('--defined-only')).toEqual(['ValkeyModule_OnLoad', 'ValkeyModule_OnUnload']);
  });

  test('takes plain functions of the C library alone', () => {
    const ofTheLinker = [
      '_ITM_deregisterTMCloneTable',
      '_ITM_registerTMCloneTable',
      '__cxa_finalize',
      '__gmon_start__',
    ];
    const plain = [
      '__errno_location',
      '__stack_chk_fail',
      'bcmp',
      'memcmp',
      'memcpy',
      'memmove',
      'memset',
      'strlen',
      'strncmp',
    ];
    const others = symbols('--undefined-only').filter((name) => ![...ofTheLinker, ...plain].includes(name));
    expect(others).toEqual([]);
  });
});
