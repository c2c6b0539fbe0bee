/** The command line itself: help, exit codes, errors as text and as JSON, and that no password is ever printed. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { EXIT_HELP, scrub } from '../../src/cli/exit.js';
import { linesOf, openTerminal, quoted, word, wrap } from '../../src/cli/terminal.js';
import { emq, node, on, ROOT, start, stateOf, urlFor } from './emq.js';

const OPERATING = [
  ...['queues', 'stats', 'jobs', 'job', 'lanes', 'repeats', 'move', 'dedup', 'pause', 'resume', 'limits'],
  ...['promote', 'reschedule', 'cancel', 'remove', 'reprocess', 'drain', 'trim', 'obliterate'],
];
const COMMANDS = ['dev', 'trace', 'parity', 'doctor', 'flow', 'build-module', ...OPERATING];
const ID = 'JOB00000000000';
const NOWHERE = 'valkey://127.0.0.1:1';

test('help lists the commands and what the exit codes mean', async () => {
  const { code, stdout } = await emq('--help');
  expect(code).toBe(0);
  for (const command of COMMANDS) expect(stdout).toContain(`  ${command} `);
  expect(stdout).toMatch(/Exit codes:\n {2}0 +ok.+\n {2}1 .+\n {2}2 .+\n {2}3 .+\n {2}4 /);
});

test.each(COMMANDS)('%s has help with examples, --json and exit codes', async (command) => {
  const { code, stdout } = await emq(command, '--help');
  expect(code).toBe(0);
  expect(stdout).toContain('--json');
  expect(stdout).toContain('Examples:\n  ');
  expect(stdout).toContain(`emq ${command}`);
  expect(stdout).toContain('Exit codes:');
});

test('operating.md words the exit codes as --help does', () => {
  const codes = [...EXIT_HELP.matchAll(/^ {2}([0-4]) +(.+)$/gm)].map(([, code, text]) => `${code} | ${text}`);
  const rows = readFileSync(join(ROOT, 'docs', 'operating.md'), 'utf8').replace(/ {2,}/g, ' ');
  expect(codes).toHaveLength(5);
  for (const row of codes) expect(rows).toContain(`| ${row} |`);
});

test('what --error looks for is case-sensitive, and its help says so', async () => {
  expect((await emq('reprocess', '--help')).stdout.replace(/\s+/g, ' ')).toContain('upper and lower case differ');
});

test('the version is the package’s', async () => {
  expect((await emq('--version')).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

describe('wrong usage ends with 2', () => {
  test.each([
    ['nothing at all', []],
    ['an unknown command', ['dance']],
    ['an unknown option', ['trace', '--fast']],
    ['an argument too many', ['dev', 'now']],
    ['a port that is none', ['dev', '--port', '70000']],
    ['a port in other words', ['dev', '--port', '0x50']],
    ['a queue outside the grammar', ['trace', '--queue', 'a:b']],
    ['a seed that is none', ['parity', '--seed', '-1']],
    ['no step', ['parity', '--steps', '0']],
    ['one URL of two', ['parity', '--url', 'valkey://127.0.0.1:1']],
    ['no URL', ['doctor']],
    ['an URL that is none', ['doctor', '--url', 'nowhere']],
    ['a wire that is none', ['doctor', '--url', 'valkey://127.0.0.1:1', '--wire', '5']],
    ['a queue that is none', ['doctor', '--url', 'valkey://127.0.0.1:1', '--queue', 'emq']],
    ['no id', ['flow']],
    ['a flow on no node', ['flow', ID, '--queue', 'mail']],
    ['a flow in no queue', ['flow', ID, '--url', 'valkey://127.0.0.1:1']],
    ['a flow in a queue that is none', ['flow', ID, '--url', 'valkey://127.0.0.1:1', '--queue', 'emq']],
    ['an id that is none', ['flow', 'JOB1', '--url', 'valkey://127.0.0.1:1', '--queue', 'mail']],
    ['a limit that is none', ['flow', ID, '--url', 'valkey://127.0.0.1:1', '--queue', 'mail', '--limit', '0']],
    ['a way to build that is none', ['build-module', '--via', 'make']],
    ['statistics of no queue', ['stats', '--url', NOWHERE]],
    ['statistics on no node', ['stats', 'mail']],
    ['statistics of a queue that is none', ['stats', 'a:b', '--url', NOWHERE]],
    ['a state that is none', ['jobs', 'mail', '--state', 'alive', '--url', NOWHERE]],
    ['a lane with a state that has none', ['jobs', 'mail', '--state', 'dead', '--lane', ID, '--url', NOWHERE]],
    ['a lane that is none', ['pause', 'mail', '--lane', 'x', '--url', NOWHERE]],
    ['a job to remove that is none', ['remove', 'mail', ID, 'JOB1', '--url', NOWHERE]],
    ['no job to promote', ['promote', 'mail', '--url', NOWHERE]],
    ['no time to reschedule to', ['reschedule', 'mail', ID, '--url', NOWHERE]],
    [
      'two times to reschedule to',
      ['reschedule', 'mail', ID, '--in', '1m', '--at', '2027-01-01T00:00:00Z', '--url', NOWHERE],
    ],
    ['a duration without a unit', ['trim', 'mail', '--older', '30', '--url', NOWHERE]],
    ['a lane to drain, and more', ['drain', 'mail', '--lane', ID, '--scheduled', '--url', NOWHERE]],
    ['no lane to move to', ['move', 'mail', ID, '--url', NOWHERE]],
    ['a dedup id that is none', ['dedup', 'mail', 'a:b', '--url', NOWHERE]],
  ])('%s', async (_what, args) => {
    const human = await emq(...args);
    expect(human.code).toBe(2);
    expect(human.stdout).toBe('');
    expect(human.stderr).not.toBe('');
    if (args.length === 0) return;
    const machine = await emq(...args, '--json');
    expect(machine.code).toBe(2);
    expect(machine.stderr).toBe('');
    expect(machine.json).toEqual([{ error: { code: 'EMQ_INPUT', reason: expect.any(String), exit: 2 } }]);
  });
});

test('a misspelt option is told before a --url that is wanting', async () => {
  const { code, stderr } = await emq('doctor', '--bogus');
  expect([code, stderr]).toEqual([2, expect.stringContaining("unknown option '--bogus'")]);
  expect((await emq('doctor')).stderr).toContain('--url valkey://host:port, or set EMQ_URL');
});

test('a node that is not there ends with 3, in one line', async () => {
  const url = 'valkey://127.0.0.1:1';
  for (const args of [
    ['doctor', '--url', url],
    ['flow', ID, '--queue', 'mail', '--url', url],
    ['queues', '--url', url],
    ['drain', 'mail', '--yes', '--url', url],
    ['trace', '--url4', url],
    ['parity', '--url', url, '--url', url],
  ]) {
    const human = await emq(...args);
    expect(human.code).toBe(3);
    expect(human.stderr.split('\n').filter((line) => line.startsWith('emq: '))).toEqual([
      expect.stringContaining('ECONNREFUSED'),
    ]);
    const { json } = await emq(...args, '--json');
    expect(json).toEqual([
      { error: { code: 'EMQ_CONNECTION', reason: expect.stringContaining('127.0.0.1:1'), exit: 3 } },
    ]);
  }
});

test('no password is printed, whatever is wrong', async () => {
  const server = await node();
  await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', 'on', '>hunter2', '~*', '&*', '+@all', '-info'));
  const good = urlFor(server, 'app', 'hunter2');
  const wrong = urlFor(server, 'app', 'hunter2wrong');
  const [nowhere, odd] = ['valkey://app:hunter2@127.0.0.1:1', 'http://app:hunter2@127.0.0.1'];
  const runs = [
    ...[good, wrong, nowhere, odd].map((url) => ['doctor', '--url', url]),
    ...[good, wrong, nowhere, odd].map((url) => ['flow', ID, '--queue', 'mail', '--url', url]),
    ...[wrong, nowhere, odd].map((url) => ['trace', '--url6', url]),
    ...[good, wrong, nowhere, odd].map((url) => ['parity', '--url', url, '--url', good]),
    ['doctor', good],
    ['flow', good, '--queue', 'mail', '--url', good],
    ...[good, wrong, nowhere, odd].map((url) => ['stats', 'mail', '--url', url]),
    ['stats', good, '--url', good],
    ['remove', 'mail', good, '--url', good],
    ['limits', 'mail', '--lane', good, '--url', good],
    ['limits', 'mail', '--rate', good, '--url', good],
    ['dedup', 'mail', good, '--url', good],
    ['pause', 'mail', '--repeat', good, '--url', good],
    ['flow', ID, '--queue', good, '--url', good],
    ['doctor', '--url', good, `--urll=${good}`],
    ['doctor', '--url', good, '--wire', good],
    ['doctor', '--url', good, '--queue', good],
    ['trace', '--queue', good],
    [good],
  ];
  for (const args of [...runs, ...runs.slice(0, 4).map((args) => [...args, '--json'])]) {
    const { stdout, stderr } = await emq(...args);
    expect(stdout + stderr).not.toBe('');
    expect(stdout + stderr).not.toContain('hunter2');
  }
}, 120_000);

test('a reader that goes away ends it quietly, and it still cleans up', async () => {
  const server = await node({ module: true });
  const before = await stateOf(server);
  const child = start(['trace', '--url6', server.url]);
  let stderr = '';
  child.stderr!.on('data', (data: Buffer) => (stderr += data.toString()));
  await once(child.stdout!, 'data');
  child.stdout!.destroy();
  const [code] = (await once(child, 'exit')) as [number];
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(await stateOf(server)).toEqual(before);
});

describe('the terminal', () => {
  const signal = new AbortController().signal;
  const { isTTY } = process.stdout;

  afterEach(() => {
    vi.unstubAllEnvs();
    Object.assign(process.stdout, { isTTY, hasColors: undefined });
  });

  test('colour is for terminals only, and not under NO_COLOR or --json', () => {
    vi.stubEnv('NO_COLOR', '');
    const styled = (json: boolean): boolean => openTerminal(json, signal).style('red', 'x') !== 'x';
    // a worker's standard output is no terminal and has no hasColors of its own
    Object.assign(process.stdout, { isTTY: false, hasColors: () => true });
    expect(styled(false)).toBe(false);
    Object.assign(process.stdout, { isTTY: true });
    expect(styled(false)).toBe(true);
    expect(styled(true)).toBe(false);
    vi.stubEnv('NO_COLOR', '1');
    expect(styled(false)).toBe(false);
  });

  test('text from elsewhere cannot steer it', () => {
    expect(quoted('a\x1b[2Jb\n"\\')).toBe('"a\\x1b[2Jb\\n\\"\\\\"');
    expect(quoted('\u202egnp.exe')).toBe('"\\u202egnp.exe"');
    expect(quoted(Buffer.from([0xff, 0x41, 0]))).toBe('"\\xffA\\x00"');
    expect(quoted('abcdef', 4)).toBe('"abc…"');
    expect(linesOf('Error: a "b"\r\n\tat\x1b[2J c\n')).toEqual(['Error: a "b"', '\\tat\\x1b[2J c']);
    expect(linesOf(Buffer.from([0xff, 10, 0x41]))).toEqual(['\\xff', 'A']);
    expect(linesOf('abc\ndef', 6)).toEqual(['abc', 'd…']);
    expect(linesOf('a\n'.repeat(99)).slice(-2)).toEqual(['a', '… and 49 more lines']);
    expect(word('{"a":1}')).toBe('{"a":1}');
    expect(word('two words')).toBe('"two words"');
    expect(word('')).toBe('""');
    expect(word('"')).toBe('"\\""');
  });

  test('lines are broken between words', () => {
    expect(wrap(['aa', 'bb', 'cccccc', 'd'], 5)).toEqual(['aa bb', 'cccccc', 'd']);
  });

  test('users and passwords are cut out of URLs', () => {
    expect(scrub("unknown option '--urll=redis://u:p%40@h:1/0'")).toBe("unknown option '--urll=redis://***@h:1/0'");
  });
});
