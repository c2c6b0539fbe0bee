/**
 * No command of `emq` shows a password or a key, whatever goes wrong: a refused login, a node that is not there, a URL that is
 * none, a URL in the wrong place, a file of a key; nor when all goes well. As text and as JSON.
 *
 * The commands are those of the program: a new one has to be listed here, else this fails.
 */
import { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addCommands } from '../../src/cli/commands.js';
import { scrub } from '../../src/cli/exit.js';
import { Connector, Jobs } from '../../src/index.js';
import { emq, type Said } from '../fleets/command.js';
import { TestServer } from '../wire/server.js';
import { Certificates, type Pair } from './certificates.js';

/** Nothing of it is ever part of an ordinary word. */
const SECRET = 'Zq7#kV/9x@Wy?%&é';
const CODED = encodeURIComponent(SECRET);
const USER = 'zebediah';
const ID = 'JOB0KHTOWnGLuC';

/** Each command with what it needs besides a node, and by which option that is named. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  doctor: [],
  flow: [ID, '--queue', 'mail'],
  wire: ['upgrade', '--yes'],
  acl: ['--user', 'shop', '--role', 'producer', '--queue', 'mail', '--apply', '--yes'],
  queues: [],
  stats: ['mail'],
  jobs: ['mail'],
  job: ['mail', ID],
  lanes: ['mail'],
  repeats: ['mail'],
  move: ['mail', ID, '--lane', 'TEN00000000001'],
  dedup: ['mail', 'one'],
  pause: ['mail'],
  resume: ['mail'],
  limits: ['mail'],
  promote: ['mail', ID],
  reschedule: ['mail', ID, '--in', '5m'],
  cancel: ['mail', ID],
  remove: ['mail', ID, '--yes'],
  reprocess: ['mail', ID],
  drain: ['mail', '--yes'],
  trim: ['mail', '--older', '1d', '--yes'],
  obliterate: ['mail', '--yes'],
};
/** Those that are given their nodes in another way. */
const PAIRS = {
  trace: (url: string) => ['--url4', url, '--url6', url],
  parity: (url: string) => ['--url', url, '--url', url],
};
/** Those that know no node but their own. */
const ALONE = ['dev', 'build-module'];

const lines: readonly (readonly [string, (url: string) => readonly string[]])[] = [
  ...Object.entries(COMMANDS).map(([name, args]) => [name, (url: string) => [name, ...args, '--url', url]] as const),
  ...Object.entries(PAIRS).map(([name, args]) => [name, (url: string) => [name, ...args(url)]] as const),
];

let server: TestServer;
let made: Certificates;
let pair: Pair;
beforeAll(async () => {
  server = await TestServer.start();
  await server.admin.call('ACL', 'SETUSER', USER, 'on', `>${SECRET}`, '+@all', '~*', '&*');
  await using connector = await Connector.connect(server.url);
  await new Jobs(connector, 'mail').enqueue('x', { id: ID });
  made = await Certificates.make();
  pair = await made.authority('ca');
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await made.remove();
});

/** Everything that may not be seen: the password as it is, as URLs and JSON have it, its parts, and a key. */
const forms = () => [SECRET, CODED, JSON.stringify(SECRET).slice(1, -1), 'Zq7', '9x@', '9x%40', 'PRIVATE KEY'];

/** Runs it as text and as JSON; fails where something is seen. */
async function run(args: readonly string[], hidden = forms()): Promise<Said[]> {
  const both: Said[] = [];
  for (const json of [[], ['--json']]) {
    const said = await emq([...args, ...json]);
    for (const one of hidden) expect(said.stdout + said.stderr, args[0]).not.toContain(one);
    both.push(said);
  }
  return both;
}

const codes = (both: readonly Said[]) => both.map(({ code }) => code);

it('all commands are here', () => {
  const program = new Command();
  addCommands(program, () => () => Promise.resolve());
  const names = program.commands.map((command) => command.name()).sort();
  expect([...lines.map(([name]) => name), ...ALONE].sort()).toEqual(names);
});

describe.each(lines)('emq %s', (_name, args) => {
  it('a wrong password is refused', async () => {
    expect(
      codes(await run(args(`valkey://${USER}:${encodeURIComponent(`${SECRET}!`)}@127.0.0.1:${server.port}`))),
    ).toEqual([4, 4]);
  });

  it('a node that is not there', async () => {
    expect(codes(await run(args(`valkey://${USER}:${CODED}@127.0.0.1:1`), [...forms(), USER]))).toEqual([3, 3]);
  });

  it('a URL that is none', async () => {
    const wrong = [
      `htp://${USER}:${CODED}@host`,
      `valkey://${USER}:${SECRET}@host`,
      `valkey://${USER}:${CODED}@host:x`,
    ];
    const queries = [`valkey://${USER}:${CODED}@host/?password=${CODED}`, `valkey://${USER}:${CODED}@host/${CODED}`];
    for (const url of [...wrong, ...queries]) expect(codes(await run(args(url), [...forms(), USER]))).toEqual([2, 2]);
  });

  it('a key is not shown, whether it is of use or not', async () => {
    const url = `valkeys://${USER}:${CODED}@127.0.0.1:1`;
    const files = ['--tls-ca', pair.certFile, '--tls-cert', pair.certFile, '--tls-key', pair.keyFile];
    const body = pair.key.toString().split('\n')[1] ?? '';
    expect(body.length).toBeGreaterThan(20);
    expect(codes(await run([...args(url), ...files], [...forms(), body]))).toEqual([3, 3]);
  });
});

describe.each(Object.entries(COMMANDS))('emq %s with the right password', (name, args) => {
  it('shows it no more', async () => {
    await server.admin.set('{emq}:version', 'echomq:4.0.0');
    const url = `valkey://${USER}:${CODED}@127.0.0.1:${server.port}`;
    const both = await run([name, ...args, '--url', url]);
    for (const { stdout, stderr } of both) expect(stdout + stderr).not.toBe('');
  });

  it('a URL in the place of a word is not repeated', async () => {
    const url = `valkey://${USER}:${SECRET}@host`;
    const wrong = args.length === 0 || args[0]?.startsWith('--') ? [name, url] : [name, url, ...args.slice(1)];
    expect(
      codes(await run([...wrong, '--url', server.url], [...forms(), USER])).every((code) => code !== 70 && code !== 0),
    ).toBe(true);
    await run([name, ...args, `--ur=${url}`], [...forms(), USER]);
  });
});

it('what is taken out of a text', () => {
  expect(scrub(`no such queue ${JSON.stringify(`valkey://${USER}:${SECRET}@host/1`)}`)).toBe(
    'no such queue "valkey://***@host/1"',
  );
  expect(scrub('valkey://u:it\'s a "secret"@host')).toBe('valkey://***@host');
  expect(scrub('at file:///home/me/node_modules/@scope/x.js:1:2')).toBe(
    'at file:///home/me/node_modules/@scope/x.js:1:2',
  );
  expect(scrub('two: a://u:p@h\nb://u:p@h')).toBe('two: a://***@h\nb://***@h');
});
