/** `emq doctor` on nodes made to have one thing wrong: it finds that thing, says how to mend it, and writes nothing. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { EmbeddedServer, StartServerOptions } from '../../src/dev/index.js';
import { checkRights } from '../../src/cli/doctor/rights.js';
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
  expect(await doctor(loaded.url)).toMatchObject({ wire: 6, bad: [] });
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
    expect(await doctor(server.url)).toMatchObject({ wire: 6, bad: ['module'] });
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

  test('a full server', async () => {
    const server = await good();
    await on(server, async (redis) => {
      const used = Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
      await redis.config('SET', 'maxmemory', String(Math.ceil(used * 1.02)));
    });
    expect((await doctor(server.url)).of('memory')).toMatchObject({
      level: 'warn',
      text: expect.stringContaining('nearly full'),
    });
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
          .replace('+@emq', '+emq.claim +emq.complete +emq.fail +emq.stalled.check');
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
    expect([code, stderr]).toEqual([4, expect.stringContaining('WRONGPASS')]);
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
