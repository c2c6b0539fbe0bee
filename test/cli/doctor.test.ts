/** `emq doctor` on nodes made to have one thing wrong: it finds that thing, says how to mend it, and writes nothing. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { checkRights } from '../../src/cli/doctor/rights.js';
import { NATIVE_COMMANDS } from '../../src/wire/fence.js';
import { readFacts } from '../../src/cli/doctor/facts.js';
import { openNode } from '../../src/cli/node.js';
import { QUIET, WIRE_4, WIRE_6 } from '../access/rules.js';
import { changes, doctor, good, type Finding } from './doctor-report.js';
import { emq, finish, node, on, start, stateOf, urlFor } from './emq.js';

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
    const [, words = ''] = /^emq (wire \w+) moves it/.exec(mend) ?? [];
    expect((await emq(...words.split(' '), '--yes', '--url', server.url)).code).toBe(0);
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
      const whole = await judge([...documented, ...QUIET]);
      expect(whole).toMatchObject({ level: 'ok' });
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

test('a server that takes the connection and says nothing ends it with 3', async () => {
  const server = await node();
  process.kill(server.pid, 'SIGSTOP');
  onTestFinished(() => void process.kill(server.pid, 'SIGCONT'));
  const { code, json } = await emq('doctor', '--url', server.url, '--json');
  process.kill(server.pid, 'SIGCONT');
  expect(code).toBe(3);
  expect(json[0].error.reason).toContain('5000 ms');
});
