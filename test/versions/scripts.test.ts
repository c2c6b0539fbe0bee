/**
 * The scripts use nothing that Redis 7.0 does not have, which is the oldest server of wire 4: its commands, what a script may
 * call of `redis`, its globals, its flags. When a command came, the server of this machine tells.
 * Does not: know the arguments of commands; the scenarios on a real Redis 7.0 do (redis-7.0.ci.test.ts).
 */
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';

import { startServer } from '../../src/dev/index.js';
import { wordsOfScripts } from '../../src/cli/doctor/rights.js';
import { transitions } from '../../src/wire/transitions.js';

const sources = Object.values(transitions).map(({ name, script }) => [name, script.source] as const);

/** All matches of a pattern in the code of the scripts, as `match (script)`. */
function uses(pattern: RegExp): string[] {
  const found = sources.flatMap(([name, source]) =>
    [...codeOf(source).matchAll(pattern)].map(([, word = '']) => `${word} (${name})`),
  );
  return [...new Set(found)];
}

/** Without comments and strings. */
function codeOf(source: string): string {
  return source.replace(/--[^\n]*/g, '').replace(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''");
}

const outside = (found: readonly string[], allowed: readonly string[]): string[] =>
  found.filter((use) => !allowed.includes(use.split(' ', 1)[0] ?? ''));

test('commands', async () => {
  // Every upper-case word that the server knows as a command: some are called by a variable.
  const words = wordsOfScripts().map((word) => word.toLowerCase());
  await using server = await startServer();
  const client = new Redis({ path: server.socketPath, protocol: 2 });
  const docs = (await client.call('COMMAND', 'DOCS', ...words)) as [string, string[]][];
  client.disconnect();
  const since = new Map<string, string>();
  for (let i = 0; i < docs.length; i += 2) {
    const fields = docs[i + 1] as unknown as string[];
    since.set(String(docs[i]), String(fields[fields.indexOf('since') + 1]));
  }
  expect(since.size).toBeGreaterThan(30);
  expect([...since].filter(([, version]) => !isThere(version))).toEqual([]);
  // And none that no server has: a word that is called by its name is a command.
  const called = sources.flatMap(([, source]) =>
    [...source.matchAll(/redis\.p?call\(\s*'(\w+)'/g)].map(([, command = '']) => command.toLowerCase()),
  );
  expect([...new Set(called)].filter((command) => !since.has(command))).toEqual([]);
});

/** In Redis 7.0.0. */
function isThere(version: string): boolean {
  const [major = NaN, minor = NaN] = version.split('.').map(Number);
  return major < 7 || (major === 7 && minor === 0);
}

test('what scripts call of redis', () => {
  expect(outside(uses(/\bredis\.(\w+)/g), ['call', 'pcall', 'error_reply', 'status_reply', 'sha1hex'])).toEqual([]);
});

test('libraries', () => {
  const libraries = ['redis', 'string', 'table', 'math', 'cjson', 'cmsgpack', 'bit', 'struct'];
  const elsewhere = uses(/(?<![\w.:])(server|os|io|debug|package|coroutine|ffi|jit|utf8)\s*[.[]/g);
  expect(elsewhere).toEqual([]);
  expect(outside(uses(/\b(cjson|cmsgpack|bit|struct|redis|string|table|math)\./g), libraries)).toEqual([]);
  expect(uses(/(?<![\w.:])(require|dofile|loadfile|load|setfenv|getfenv|print|collectgarbage)\s*\(/g)).toEqual([]);
});

test('flags', () => {
  const flags = sources.flatMap(([name, source]) =>
    [...(/^#!lua([^\n]*)/.exec(source)?.[1] ?? '').matchAll(/[\w-]+(?:=([\w,-]+))?/g)].flatMap(([, words = '']) =>
      words.split(',').map((flag) => `${flag} (${name})`),
    ),
  );
  expect(flags.length).toBeGreaterThan(10);
  const allowed = ['no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'];
  expect(outside(flags, allowed)).toEqual([]);
});
