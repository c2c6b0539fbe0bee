/** `emq doctor` on nodes made to have one thing wrong: it finds that thing, says how to mend it, and writes nothing. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { EmbeddedServer, StartServerOptions } from '../../src/dev/index.js';
import { checkRights } from '../../src/cli/doctor/rights.js';
import { NATIVE_COMMANDS } from '../../src/wire/fence.js';
import { readFacts } from '../../src/cli/doctor/facts.js';
import { openNode } from '../../src/cli/node.js';
import { QUIET, WIRE_4, WIRE_6 } from '../access/rules.js';
import { emq, finish, node, on, start, stateOf, urlFor } from './emq.js';

interface Finding {
  readonly check: string;
  readonly level: 'ok' | 'warn' | 'bad';
  readonly text: string;
  readonly mend?: string;
}

interface Report {
  readonly code: number | null;
  readonly wire: 4 | 6;
  readonly user: string | null;
  readonly where: string;
  readonly bad: readonly string[];
  readonly findings: readonly Finding[];
  of(check: string): Finding;
}

/** Runs it and reads the report; every report is held to what all must be. */
async function doctor(url: string, ...args: string[]): Promise<Report> {
  const { code, json, stderr } = await emq('doctor', '--url', url, '--json', ...args);
  expect(stderr).toBe('');
  expect(json).toHaveLength(1);
  const report = json[0] as Omit<Report, 'code'> & { ok: boolean; counts: Record<string, number> };
  const bad = report.findings.filter(({ level }) => level === 'bad').map(({ check }) => check);
  for (const { level, mend, check } of report.findings) {
    expect(mend === undefined, `${check}: only what is not ok has to be mended`).toBe(level === 'ok');
  }
  expect(report.ok).toBe(bad.length === 0);
  expect(report.counts['bad']).toBe(bad.length);
  expect(code).toBe(bad.length === 0 ? 0 : 1);
  const of = (check: string): Finding => {
    const found = report.findings.filter((finding) => finding.check === check);
    expect(found.length, `one finding called ${check}`).toBe(1);
    return found[0]!;
  };
  return { ...report, code, bad, of };
}

/** A node that is as it should be, and what a test makes worse. */
function good(options: StartServerOptions = {}): Promise<EmbeddedServer> {
  const args = ['--appendonly', 'yes', '--maxmemory', '200mb', '--maxmemory-policy', 'noeviction'];
  return node({ module: true, ...options, args: [...args, ...(options.args ?? [])] });
}

function changes(server: EmbeddedServer): Promise<string | undefined> {
  return on(server, async (redis) => /rdb_changes_since_last_save:(\d+)/.exec(await redis.info('persistence'))?.[1]);
}

test('a node in good order: all ok, nothing written', async () => {
  const server = await good();
  const before = [await stateOf(server), await changes(server)];
  const report = await doctor(server.url, '--queue', 'mail');
  expect(report.findings.filter(({ level }) => level !== 'ok')).toEqual([]);
  expect(report).toMatchObject({ wire: 6, user: 'default', where: `127.0.0.1:${server.port}` });
  expect(report.of('server').text).toContain(server.version);
  expect(report.of('module').text).toMatch(/trafikey is loaded: version \d+, run id [0-9a-f]{40}/);
  expect(report.of('persistence').text).toContain('up to about a second');
  expect([await stateOf(server), await changes(server)]).toEqual(before);
});

test('an unbranded node is not branded, with or without the module', async () => {
  const bare = await node();
  const report = await doctor(bare.url);
  expect(report).toMatchObject({ wire: 4, bad: [] });
  expect(report.of('brand').text).toContain('the first connector brands it echomq:4.0.0');
  const loaded = await good({ brand: false });
  const six = await doctor(loaded.url);
  expect(six).toMatchObject({ wire: 6, bad: [] });
  expect(six.of('brand')).toMatchObject({
    level: 'warn',
    text: expect.stringContaining('so connect with wire: 6 first (the default is wire: 4)'),
  });
  for (const server of [bare, loaded]) expect(await on(server, (redis) => redis.keys('*'))).toEqual([]);
});

test('for people: each finding with its level, and how to mend it', async () => {
  const server = await node({ module: true });
  const { code, stdout, stderr } = await emq('doctor', '--url', server.url);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^ {2}ok {4}brand +the node is branded echomq:6\.0\.0/m);
  expect(stdout).toMatch(/^ {2}warn {2}persistence +nothing is kept on disk.*\n +mend: CONFIG SET appendonly yes/m);
  expect(stdout.split('\n').filter((line) => line.length > 100)).toEqual([]);
});

test('the URL may come from the environment', async () => {
  const server = await node();
  const { code, json } = await finish(start(['doctor', '--json'], { EMQ_URL: server.url }));
  expect([code, json[0].where]).toEqual([0, `127.0.0.1:${server.port}`]);
});

describe('brand and module', () => {
  test('a foreign brand', async () => {
    const server = await good({ brand: false });
    await on(server, (redis) => redis.set('{emq}:version', 'other\x1b[2J:1'));
    const report = await doctor(server.url);
    expect(report.bad).toEqual(['brand']);
    expect(report.of('brand').text).toContain('"other\\x1b[2J:1"');
  });

  test('a brand that is no string', async () => {
    const server = await good({ brand: false });
    await on(server, (redis) => redis.hset('{emq}:version', 'a', 'b'));
    expect((await doctor(server.url)).of('brand')).toMatchObject({
      level: 'bad',
      mend: expect.stringContaining('no string'),
    });
  });

  test('the other wire, and no module', async () => {
    const server = await node({ brand: 4 });
    expect(await doctor(server.url)).toMatchObject({ wire: 4, bad: [] });
    const report = await doctor(server.url, '--wire', '6');
    expect(report.bad).toEqual(['module', 'brand']);
    expect(report.of('module').mend).toContain('emq build-module');
    expect(report.of('brand').mend).toBe('connect with wire: 4');
  });

  test('a node branded for wire 6 that lost its module', async () => {
    const server = await node({ brand: 6 });
    const report = await doctor(server.url);
    expect(report).toMatchObject({ wire: 6, bad: ['module'] });
    const { text, mend } = report.of('module');
    expect(text).toBe('the node is branded for wire 6 but the module is not loaded');
    expect(mend).toMatch(/--loadmodule and the path that emq build-module prints \(was it lost in a restart\?\)$/);
    expect(JSON.stringify(report.findings)).not.toContain('wire: 4');
  });

  test('a node branded for wire 4 that has the module: the mend makes a wire 6 node of it', async () => {
    const server = await good({ brand: 4 });
    const report = await doctor(server.url);
    expect([report.wire, report.bad]).toEqual([4, []]);
    const { level, text, mend = '' } = report.of('module');
    expect([level, text]).toEqual(['warn', expect.stringContaining('it is not used')]);
    const [, key = '', value = ''] = /^stop all clients, then SET (\S+) (\S+) by hand/.exec(mend) ?? [];
    await on(server, (redis) => redis.set(key, value));
    const after = await doctor(server.url);
    expect([after.wire, after.of('module').level, after.of('brand').level]).toEqual([6, 'ok', 'ok']);
  });
});

describe('what loses jobs', () => {
  test('an eviction policy that takes any key', async () => {
    const server = await good({ args: ['--maxmemory-policy', 'allkeys-lru'] });
    const report = await doctor(server.url);
    expect(report.bad).toEqual(['eviction']);
    expect(report.of('eviction').mend).toContain('CONFIG SET maxmemory-policy noeviction');
  });

  test('one that takes keys with a time, or waits for a limit', async () => {
    const some = await good({ args: ['--maxmemory-policy', 'volatile-ttl'] });
    expect((await doctor(some.url)).of('eviction').level).toBe('warn');
    const later = await node({ module: true, args: ['--maxmemory-policy', 'allkeys-lru'] });
    const report = await doctor(later.url);
    expect([report.of('eviction').level, report.of('memory').level]).toEqual(['warn', 'warn']);
  });

  async function limit(server: EmbeddedServer, share: number): Promise<void> {
    await on(server, async (redis) => {
      // so much that what a client takes does not count
      await redis.setrange('filler', 2 ** 25, 'x');
      const used = Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
      await redis.config('SET', 'maxmemory', String(Math.ceil(used * share)));
    });
  }

  test('a server that is nearly full', async () => {
    const server = await good();
    await limit(server, 1.05);
    expect((await doctor(server.url)).of('memory')).toMatchObject({
      level: 'warn',
      text: expect.stringContaining('nearly full'),
    });
  });

  test('a full server: enqueues are refused, and it cannot be branded', async () => {
    const server = await good({ brand: false });
    await limit(server, 0.9);
    const report = await doctor(server.url);
    await expect(on(server, (redis) => redis.set('{emq}:version', 'echomq:6.0.0', 'NX'))).rejects.toThrow('OOM');
    expect([...report.bad].sort()).toEqual(['brand', 'memory']);
    expect(report.of('memory').text).toContain('full: enqueues are refused now');
    expect(report.of('brand').text).toContain('no connector can brand it');
  });

  test.each([
    [['--appendfsync', 'always'], 'ok', 'what was acknowledged survives'],
    [['--appendfsync', 'no'], 'warn', 'half a minute'],
    [['--appendonly', 'no'], 'warn', 'a restart loses all jobs'],
    [['--appendonly', 'no', '--save', '60 1000'], 'warn', 'snapshots only (save 60 1000)'],
  ])('persistence %j', async (args, level, text) => {
    const server = await good({ args });
    expect((await doctor(server.url)).of('persistence')).toMatchObject({ level, text: expect.stringContaining(text) });
  });
});

describe('where it runs', () => {
  test('a replica', async () => {
    const primary = await good();
    const replica = await good({ args: ['--replicaof', `127.0.0.1 ${primary.port}`] });
    const report = await doctor(replica.url);
    expect(report.bad).toContain('role');
    expect(report.of('role').mend).toBe(`connect to the primary, 127.0.0.1:${primary.port}`);
  });

  test('a replica without the module, of a wire 6 primary', async () => {
    const primary = await good({ args: ['--repl-diskless-sync-delay', '0'] });
    const replica = await node({ args: ['--replicaof', `127.0.0.1 ${primary.port}`] });
    await expect.poll(() => on(replica, (redis) => redis.get('{emq}:version')), { timeout: 20_000 }).not.toBeNull();
    const report = await doctor(replica.url);
    expect(report.bad).toEqual(['role', 'module']);
    expect(report.of('module').mend).toMatch(
      new RegExp(
        `^connect to the primary, 127\\.0\\.0\\.1:${primary.port}; for this node: start the server with --loadmodule`,
      ),
    );
    expect(JSON.stringify(report.findings)).not.toContain('wire: 4');
  });

  test('a node of a cluster: the brand is the queue’s', async () => {
    const server = await good({ args: ['--cluster-enabled', 'yes'] });
    const down = await doctor(server.url, '--queue', 'q');
    expect(down.bad).toEqual(['cluster', 'brand']);
    await on(server, (redis) => redis.cluster('ADDSLOTSRANGE', 0, 16383));
    await expect
      .poll(() => on(server, (redis) => redis.cluster('INFO')), { timeout: 20_000 })
      .toContain('cluster_state:ok');
    const unasked = await doctor(server.url);
    expect([unasked.bad, unasked.of('brand').text]).toEqual([[], expect.stringContaining('per queue')]);
    expect((await doctor(server.url, '--queue', 'q')).of('brand').text).toContain('the queue is unbranded');
    await on(server, (redis) => redis.set('emq:{q}:version', 'echomq:6.0.0'));
    expect((await doctor(server.url, '--queue', 'q')).of('brand').text).toContain('the queue is branded echomq:6.0.0');
    expect(await on(server, (redis) => redis.keys('*'))).toEqual(['emq:{q}:version']);
  });
});

describe('rights', () => {
  const QUEUE = ['--queue', 'mail'];

  async function withUser(...rules: string[]): Promise<EmbeddedServer> {
    const server = await good();
    await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', ...rules));
    return server;
  }

  test('what is missing is named, and the rules given mend it', async () => {
    const server = await withUser('+@emq', '+evalsha', '~emq:{mail}:*');
    const first = await doctor(server.url, '--user', 'app', ...QUEUE);
    expect(first.bad).toEqual(['rights']);
    expect(first.of('rights').text).toContain('zadd');
    expect(first.of('rights').text).not.toContain('emq.claim');
    let report = first;
    for (let tries = 0; tries < 4 && report.bad.length > 0; tries++) {
      const { mend = '' } = report.of('rights');
      const [command = '', ...args] = mend.replace(/, then ask again$/, '').split(' ');
      await on(server, (redis) => redis.call(command, ...args));
      report = await doctor(server.url, '--user', 'app', ...QUEUE);
    }
    expect(report.of('rights').level).toBe('ok');
    // and those rules are enough for a connector
    const { code } = await emq('trace', '--url6', urlFor(server, 'app', 'secret'), '--queue', 'mail');
    expect(code).toBe(4); // the trace itself wants INFO, which no connector needs
    await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', '+info', '+multi', '+exec'));
    expect((await emq('trace', '--url6', urlFor(server, 'app', 'secret'), '--queue', 'mail')).code).toBe(0);
  });

  test('it asks for the documented rules, for all of them and for no other', async () => {
    const server = await withUser();
    const plain = await openNode(server.url, new AbortController().signal);
    onTestFinished(() => plain.close());
    for (const [wire, documented] of [
      [4, WIRE_4],
      [6, WIRE_6],
    ] as const) {
      const facts = await readFacts(plain, 'a');
      const judge = async (rules: readonly string[]): Promise<Finding> => {
        await plain.ask('ACL', 'SETUSER', 'app', 'reset', ...rules);
        return checkRights(plain, facts, { wire, queue: 'a', user: 'app' });
      };
      expect((await judge([...documented, ...QUIET])).level).toBe('ok');
      expect((await judge(documented)).level).toBe('warn');
      for (const rule of documented) {
        const { level, mend } = await judge([...documented, ...QUIET].filter((one) => one !== rule));
        // a rule that was left out is asked for in its own words, but for the brand's, where reading is all that is needed
        const words = rule
          .replace('%R~', '~')
          .replace('+@emq', NATIVE_COMMANDS.map((name) => `+${name.toLowerCase()}`).join(' '));
        expect({ rule, level, mend }).toEqual({ rule, level: 'bad', mend: expect.stringContaining(words) });
      }
    }
  });

  test('a key that is taken away', async () => {
    const server = await withUser('+@all', '~emq:{mail}:*', '&*', '%R~{emq}:version');
    expect((await doctor(server.url, '--user', 'app', ...QUEUE)).of('rights').level).toBe('ok');
    const other = await doctor(server.url, '--user', 'app', '--queue', 'post');
    expect(other.of('rights')).toMatchObject({ level: 'bad', mend: 'ACL SETUSER app ~emq:{post}:*' });
    const any = await doctor(server.url, '--user', 'app');
    expect(any.of('rights')).toMatchObject({ level: 'warn', mend: expect.stringContaining('--queue') });
  });

  test('a user that may not look at itself is tried by calls that cannot write', async () => {
    const server = await withUser('+@all', '-acl', '-emq.fail', '~*', '&*');
    const url = urlFor(server, 'app', 'secret');
    const before = [await stateOf(server), await changes(server)];
    const report = await doctor(url, ...QUEUE);
    expect(report.bad).toEqual(['rights']);
    expect(report.of('rights').text).toContain('emq.fail');
    await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', '+emq.fail'));
    expect((await doctor(url, ...QUEUE)).of('rights')).toMatchObject({
      level: 'warn',
      text: expect.stringContaining('cannot be tried'),
    });
    expect((await doctor(url, '--user', 'default')).of('rights').level).toBe('warn');
    expect([((await stateOf(server)) as { found: unknown }).found, await changes(server)]).toEqual([
      (before[0] as { found: unknown }).found,
      before[1],
    ]);
  });

  test('a user who may do almost nothing still gets a report', async () => {
    const server = await withUser('+ping');
    const report = await doctor(urlFor(server, 'app', 'secret'));
    expect(report.bad).toEqual(['brand', 'rights']);
    expect(report.of('server').text).toContain('may not run INFO');
  });

  test('a user that there is not, and a password that is wrong', async () => {
    const server = await withUser();
    expect((await doctor(server.url, '--user', 'nobody')).of('rights').text).toContain('no ACL user "nobody"');
    const { code, stderr } = await emq('doctor', '--url', urlFor(server, 'app', 'wrong'));
    const wrong = `emq: WRONGPASS 127.0.0.1:${server.port} refuses user "app"`;
    expect([code, stderr]).toEqual([4, expect.stringContaining(wrong)]);
  });

  test.each(['', 'app@', 'hunter2@'])(
    'a node that wants a password, and the URL has none (user part %j): it stops at once',
    async (user) => {
      const server = await withUser('+@all', '~*', '&*');
      await on(server, (redis) => redis.config('SET', 'requirepass', 'hunter2'));
      const url = `valkey://${user}127.0.0.1:${server.port}`;
      const reason = `127.0.0.1:${server.port} wants a password and the URL has none: put it into EMQ_URL as valkey://user:password@host`;
      for (const args of [[], ['/1']]) {
        const { code, stdout, stderr } = await emq('doctor', '--url', `${url}${args.join('')}`);
        expect({ code, stdout, stderr }).toEqual({ code: 4, stdout: '', stderr: `emq: ${reason}\n` });
      }
      const { code, json } = await emq('doctor', '--url', url, '--json');
      expect([code, json]).toEqual([4, [{ error: { code: 'NOAUTH', reason, exit: 4 } }]]);
      expect((await emq('doctor', '--url', urlFor(server, 'default', 'hunter2'), '--wire', '6')).code).toBe(0);
    },
  );
});

describe('a queue', () => {
  const base = 'emq:{mail}:';
  const DAY = 86_400_000;

  test('what is in it, what has lapsed, what is due, and that it is paused', async () => {
    const server = await good();
    const now = Date.now();
    await on(server, async (redis) => {
      await redis.zadd(`${base}pending`, 0, 'a', 0, 'b', 0, 'c');
      await redis.zadd(`${base}active`, now - 3 * DAY, 'd', now + DAY, 'e');
      await redis.zadd(`${base}schedule`, now - 600_000, 'f', now - 1, 'g', now + DAY, 'h');
      await redis.zadd(`${base}dead`, now, 'i');
      await redis.rpush(`${base}ring`, 'GRP00000000000');
      await redis.hset(`${base}meta`, 'paused', '');
    });
    const before = [await stateOf(server), await changes(server)];
    const report = await doctor(server.url, '--queue', 'mail');
    expect(report.bad).toEqual([]);
    expect(report.of('queue').text).toBe(
      'queue mail: 3 pending, 2 active, 3 scheduled, 1 dead; 1 lane with jobs to claim',
    );
    expect(report.of('paused').level).toBe('warn');
    expect(report.of('leases')).toMatchObject({
      level: 'warn',
      text: expect.stringContaining('1 of 2 leases have lapsed, the first 3 days ago'),
    });
    expect(report.of('schedule')).toMatchObject({
      level: 'warn',
      text: expect.stringContaining('2 of 3 scheduled jobs are due, the first 10 min ago'),
    });
    expect([await stateOf(server), await changes(server)]).toEqual(before);
    const other = await doctor(server.url, '--queue', 'post');
    expect(other.findings.filter(({ level }) => level !== 'ok')).toEqual([]);
    expect(other.of('queue').text).toContain('0 pending, 0 active, 0 scheduled, 0 dead');
    const none = await doctor(server.url);
    expect(none.findings.map(({ check }) => check)).not.toContain('queue');
  });

  test('a key of a wrong type is bad, and the others are still looked at', async () => {
    const server = await good();
    await on(server, async (redis) => {
      await redis.set(`${base}active`, 'x');
      await redis.set(`${base}meta`, 'x');
      await redis.zadd(`${base}pending`, 0, 'a');
    });
    const report = await doctor(server.url, '--queue', 'mail');
    expect(report.bad).toEqual(['types', 'types']);
    const texts = report.findings.filter(({ check }) => check === 'types').map(({ text }) => text);
    expect(texts).toEqual([
      expect.stringContaining(`${base}active is a string and must be a zset`),
      expect.stringContaining(`${base}meta is a string and must be a hash`),
    ]);
    expect(report.of('queue').text).toContain('1 pending, 0 active');
  });

  test('a user who may not look is told what is wanting', async () => {
    const server = await good();
    await on(server, (redis) =>
      redis.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '+@all', '-type', '~*', '&*'),
    );
    expect((await doctor(urlFor(server, 'app', 'secret'), '--queue', 'mail')).of('queue')).toMatchObject({
      level: 'warn',
      mend: expect.stringContaining('grant +type'),
    });
  });
});

test('a server that takes the connection and says nothing ends it with 3', async () => {
  const server = await node();
  process.kill(server.pid, 'SIGSTOP');
  onTestFinished(() => void process.kill(server.pid, 'SIGCONT'));
  const { code, json } = await emq('doctor', '--url', server.url, '--json');
  process.kill(server.pid, 'SIGCONT');
  expect(code).toBe(3);
  expect(json[0].error.reason).toContain('5000 ms');
});
