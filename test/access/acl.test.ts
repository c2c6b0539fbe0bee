/**
 * `emq acl`: the command that it prints makes the user, `--apply` does too, no password is shown or taken from the command
 * line; and each user does its whole job through the public API and the commands, with nothing refused on the way.
 *
 * That a role does nothing else is roles.test.ts.
 */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Admin, Connector, Flows, Jobs, Lanes, Queue, QueueEvents, Repeats } from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';
import { defaultModulePath } from '../../src/dev/index.js';
import { fill, id, type World } from '../cli/operate-world.js';
import { finish, start } from '../cli/emq.js';
import { errorOf, EXECUTORS, MINUTE } from '../conformance/stage.js';
import { emq } from '../fleets/command.js';
import { TestCluster } from '../wire/nodes.js';
import { TestServer } from '../wire/server.js';

const SECRET = 'correct-horse-battery';
const HASH = createHash('sha256').update(SECRET).digest('hex');
const [GROUP] = ['TEN00000000001'];

/** The command that `emq acl` prints for a user, as words. */
async function printed(...args: string[]): Promise<string[]> {
  const said = await emq(['acl', ...args, '--password-hash', HASH]);
  expect(said).toMatchObject({ code: 0, stderr: '' });
  // a selector has blanks of its own
  return (
    said.stdout
      .trim()
      .match(/'[^']*'|\S+/g)
      ?.map((word) => word.replaceAll("'", '')) ?? []
  );
}

const urlOf = (server: TestServer, user: string, password = SECRET) =>
  `valkey://${user}:${password}@127.0.0.1:${server.port}`;

describe('what it says', () => {
  it.each([
    [[], /name the user: --user NAME/],
    [['--user', 'u'], /say what the user is for: --role producer, consumer, operator, observer/],
    [['--user', 'u', '--role', 'admin', '--queue', 'q'], /a role is one of producer/],
    [['--user', 'u', '--role', 'observer'], /name a queue: --queue NAME, or --prefix P/],
    [['--user', 'default', '--role', 'observer', '--queue', 'q'], /"default" is whoever does not log in/],
    [['--user', 'a b', '--role', 'observer', '--queue', 'q'], /user "a b" must be 1 to 64 of/],
    [['--user', 'u', '--role', 'observer', '--queue', '*'], /queue name "\*" must be/],
    [['--user', 'u', '--role', 'observer', '--prefix', 'a*'], /prefix "a\*" must be/],
    [['--user', 'u', '--role', 'observer', '--queue', 'q', '--flows'], /--flows and --durable are for --role producer/],
    [['--user', 'u', '--role', 'observer', '--queue', 'q', '--yes'], /--yes and --dry-run belong to --apply/],
    [['--user', 'u', '--role', 'observer', '--queue', 'q', '--apply'], /name the node: --url/],
    [['--user', 'u', '--role', 'observer', '--queue', 'q', '--password-hash', SECRET], /is a SHA-256: 64 of 0-9 a-f/],
    [['--user', 'u', '--role', 'observer', '--queue', 'q', '--password', SECRET], /unknown option '--password'/],
  ])('%j is refused', async (args, text) => {
    for (const json of [[], ['--json']]) {
      const said = await emq(['acl', ...args, ...json]);
      expect(said.code).toBe(2);
      expect(said.stdout + said.stderr).toMatch(json.length === 0 ? text : /EMQ_INPUT/);
      expect(said.stdout + said.stderr).not.toContain(SECRET);
    }
  });

  it('the hash is on the line that makes the user, and not in --json', async () => {
    const args = ['--user', 'u', '--role', 'observer', '--queue', 'q'];
    expect((await printed(...args)).slice(0, 9)).toEqual([
      ...['ACL', 'SETUSER', 'u', 'on', 'clearselectors', 'resetkeys', 'resetchannels', '-@all', 'resetpass'],
    ]);
    const said = await emq(['acl', ...args, '--json', '--password-hash', HASH]);
    expect(said.stdout).not.toContain(HASH);
    expect(said.json[0]).toMatchObject({ user: 'u', roles: ['observer'], queues: ['q'], wire: 4, cluster: false });
    expect(said.json[0].rules).toContain('~emq:{q}:*');
  });

  it('a password comes from standard input, and is not shown', async () => {
    const child = start(['acl', '--user', 'u', '--role', 'observer', '--queue', 'q', '--password-stdin']);
    const ended = finish(child);
    child.stdin?.end(`${SECRET}\nmore\n`);
    const { code, stdout, stderr } = await ended;
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`resetpass '#${HASH}'`);
    expect(stdout).not.toContain(SECRET);
  });
});

describe.each(EXECUTORS)('the users at work, %s', (_executor, wire) => {
  let server: TestServer;
  let admin: Connector;
  const module = wire === 6 ? ['--loadmodule', defaultModulePath()] : [];

  beforeAll(async () => {
    server = await TestServer.start(...module);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    await server.admin.flushall();
    await admin?.close();
    admin = await Connector.connect({ url: server.url, wire });
  });
  afterAll(() => admin.close());

  /** Makes the user by the printed command. */
  async function make(user: string, ...args: string[]): Promise<void> {
    const [command = '', ...rest] = await printed('--user', user, '--wire', String(wire), ...args);
    expect(await server.admin.call(command, ...rest)).toBe('OK');
    await server.admin.call('ACL', 'LOG', 'RESET');
  }
  const connect = (user: string) => Connector.connect({ url: urlOf(server, user), wire });
  /** What the server refused so far. */
  const refused = async () =>
    ((await server.admin.call('ACL', 'LOG')) as string[][]).map((entry) => entry.slice(0, 8).join(' '));

  async function fillMail(): Promise<void> {
    const mail = new Jobs(admin, 'mail');
    const parts = { mail, lanes: new Lanes(admin, 'mail'), repeats: new Repeats(admin, 'mail') };
    await fill({ ...parts, connector: admin } as unknown as World);
  }

  it('a producer adds jobs of every kind, and flows over two queues', async () => {
    await make('shop', '--role', 'producer', '--flows', '--queue', 'mail', '--queue', 'post');
    await using connector = await connect('shop');
    const [jobs, lanes] = [new Jobs(connector, 'mail'), new Lanes(connector, 'mail')];
    await jobs.enqueue(1, { priority: 3, name: 'welcome' });
    await jobs.enqueueMany([{ payload: 1 }, { payload: 2 }]);
    await jobs.schedule(1, { inMs: MINUTE });
    await lanes.enqueue(GROUP ?? '', 1);
    const dedup = { id: 'one', mode: 'replace' } as const;
    for (const payload of [1, 2]) await jobs.enqueue(payload, { dedup });
    const flows = new Flows(connector, 'mail');
    await flows.add({ payload: 'root', children: [{ payload: 'a' }, { payload: 'b', queue: 'post' }] });
    await flows.add({ payload: 'root', children: [{ payload: 'a' }, { payload: 'b', children: [{ payload: 'c' }] }] });
    expect(await refused()).toEqual([]);
    expect((await errorOf(() => new Jobs(connector, 'other').enqueue(1))).code).toBe('NOPERM');
  });

  it('a consumer does all that consumers do, of jobs, lanes, batches, repeats and flows', async () => {
    await make('worker', '--role', 'consumer', '--queue', 'mail', '--queue', 'post');
    await using connector = await connect('worker');
    await fillMail();
    await new Repeats(admin, 'mail').upsert('now', { everyMs: 20 }, { payload: 'tick' });
    await new Flows(admin, 'mail').add({
      payload: 'root',
      children: [{ payload: 'a' }, { payload: 'b', queue: 'post' }],
    });
    await server.admin.zadd('emq:{mail}:active', 'XX', 1, id(9));
    const seen = new Set<unknown>();
    const options = { beatMs: 20, retryDelayMs: 0, recovery: 'stalled', concurrency: 4 } as const;
    const warnings: unknown[] = [];
    const consumers = [
      new Queue(connector, 'mail').consume(async (job, { progress, log }) => {
        await progress(50);
        await log('a line');
        if (job.payload === 'payload 1' && job.attempts < 3) throw new Error('again');
        if (job.payload === 'payload 2') throw new Error('never');
        seen.add(job.payload);
      }, options),
      new Queue(connector, 'post').consumeBatch(
        (jobs) => {
          for (const job of jobs) seen.add(job.payload);
          return new Map(jobs.map(({ id: one }) => [one, 'complete' as const]));
        },
        { beatMs: 20, maxSize: 5, timeoutMs: 1 },
      ),
    ];
    for (const consumer of consumers) consumer.on('warning', (warning: unknown) => warnings.push(warning));
    await new Jobs(admin, 'post').enqueue('in a batch');
    const all = [
      'payload 1',
      'payload 3',
      'payload 7',
      'payload 8',
      'payload 9',
      'tick',
      'a',
      'b',
      'root',
      'in a batch',
    ];
    await expect.poll(() => all.filter((one) => !seen.has(one)), { timeout: 20_000 }).toEqual([]);
    await expect.poll(() => server.admin.zrange('{emq}:queues', '0', '-1')).toEqual(['mail', 'post']);
    for (const consumer of consumers) await consumer.close();
    expect(warnings).toEqual([]);
    expect(await refused()).toEqual([]);
    expect((await errorOf(() => new Lanes(connector, 'mail').pause(GROUP ?? ''))).code).toBe('NOPERM');
  });

  it('an operator does what the commands do, and moves the node', async () => {
    await make('ops', '--role', 'operator', '--queue', 'mail');
    await fillMail();
    const url = urlOf(server, 'ops');
    const lane = ['--lane', GROUP ?? ''];
    const commands = [
      ['queues'],
      ['stats', 'mail'],
      ['jobs', 'mail', '--state', 'dead'],
      ['job', 'mail', id(5)],
      ['lanes', 'mail'],
      ['repeats', 'mail'],
      ['limits', 'mail', '--concurrency', '9', '--rate', '100/1s'],
      ['limits', 'mail', ...lane, '--limit', '2', '--weight', '3'],
      ['pause', 'mail', ...lane],
      ['resume', 'mail', ...lane],
      ['pause', 'mail', '--repeat', 'tick'],
      ['resume', 'mail', '--repeat', 'tick'],
      ['reprocess', 'mail', id(5)],
      ['promote', 'mail', id(4)],
      ['cancel', 'mail', id(1)],
      ['remove', 'mail', id(2), '--yes'],
      ['trim', 'mail', '--keep', '0', '--yes'],
      ['drain', 'mail', '--yes'],
      ['pause', 'mail'],
      ['obliterate', 'mail', '--force', '--yes'],
    ];
    for (const command of commands) {
      expect(await emq([...command, '--url', url]), command.join(' ')).toMatchObject({ code: 0 });
    }
    expect(await refused()).toEqual([]);
    const [there, back] = wire === 4 ? ['upgrade', 'downgrade'] : ['downgrade', 'upgrade'];
    expect((await emq(['wire', there, '--yes', '--url', url])).code).toBe(wire === 4 ? 4 : 0);
    if (wire === 6) expect((await emq(['wire', back, '--yes', '--url', url])).code).toBe(0);
    expect(await refused()).toEqual([]);
    await using connector = await connect('ops');
    await new Jobs(connector, 'mail').enqueue(1);
    expect((await errorOf(() => new Jobs(connector, 'mail').claim({ leaseMs: MINUTE }))).code).toBe('NOPERM');
  });

  it('an observer sees all of it, hears events, and changes nothing', async () => {
    await make('grafana', '--role', 'observer', '--queue', 'mail');
    await fillMail();
    const before = await snapshot(server.admin);
    const url = urlOf(server, 'grafana');
    const looks = [
      ['queues'],
      ['stats', 'mail'],
      ...['pending', 'active', 'scheduled', 'dead'].map((state) => ['jobs', 'mail', '--state', state]),
      ['job', 'mail', id(5), '--payload'],
      ['lanes', 'mail', '--all'],
      ['repeats', 'mail'],
      ['limits', 'mail'],
      ['dedup', 'mail', 'none'],
      ['flow', id(1), '--queue', 'mail'],
      ['wire'],
    ];
    for (const command of looks) {
      expect(await emq([...command, '--url', url]), command.join(' ')).toMatchObject({ code: 0 });
    }
    expect(await refused()).toEqual([]);
    // that it is not a connector's user is all that can be wrong
    const doctor = await emq(['doctor', '--json', '--queue', 'mail', '--url', url]);
    const bad = (doctor.json[0].findings as { level: string; check: string }[]).filter(({ level }) => level === 'bad');
    expect(['rights']).toEqual(expect.arrayContaining(bad.map(({ check }) => check)));
    const writes = [
      ['pause', 'mail'],
      ['limits', 'mail', '--concurrency', '1'],
      ['reprocess', 'mail', id(5)],
      ['cancel', 'mail', id(1)],
      ['remove', 'mail', id(2), '--yes'],
      ['drain', 'mail', '--yes'],
      ['trim', 'mail', '--keep', '0', '--yes'],
      ['obliterate', 'mail', '--force', '--yes'],
      ['wire', wire === 6 ? 'downgrade' : 'upgrade', '--yes'],
    ];
    for (const command of writes) {
      const { code } = await emq([...command, '--url', url]);
      expect(code, command.join(' ')).toBe(command[0] === 'obliterate' ? 1 : 4);
    }
    expect(changedKeys(before, await snapshot(server.admin))).toEqual([]);

    await using connector = await connect('grafana');
    const events = new QueueEvents(connector, 'mail');
    await events.ready();
    const heard = new Promise((resolve) => events.once('progress', resolve));
    await new Jobs(admin, 'mail').updateProgress(id(9), '50');
    await heard;
    await events.close();
    expect(await new Admin(connector, 'mail').stats()).toMatchObject({ paused: false });
    expect((await errorOf(() => new Jobs(connector, 'mail').enqueue(1))).code).toBe('NOPERM');
  });

  it('a prefix is all queues that begin so, and no other', async () => {
    await make('shop', '--role', 'producer', '--prefix', 'mail-');
    await using connector = await connect('shop');
    for (const queue of ['mail-', 'mail-a', 'mail-a-b.c']) await new Jobs(connector, queue).enqueue(1);
    expect(await refused()).toEqual([]);
    for (const queue of ['mail', 'amail-', 'post', 'x.mail-']) {
      expect((await errorOf(() => new Jobs(connector, queue).enqueue(1))).code).toBe('NOPERM');
    }
  });
});

describe('made at once', () => {
  const producer = ['--user', 'shop', '--role', 'producer', '--queue', 'mail'];

  it('asks first; takes all other rights away, keeps a password that is not given, and tells no secret', async () => {
    await using server = await TestServer.start();
    await server.admin.call('ACL', 'SETUSER', 'shop', 'on', `>${SECRET}`, '+@all', '~*', '&*');
    const apply = ['acl', ...producer, '--apply', '--url', server.url];
    const before = await server.admin.call('ACL', 'LIST');
    expect((await emq(apply)).code).toBe(2);
    expect(await emq([...apply, '--dry-run'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/dry run: gives user shop/) as string,
    });
    expect(await server.admin.call('ACL', 'LIST')).toEqual(before);

    const said = await emq([...apply, '--yes', '--json']);
    expect(said).toMatchObject({ code: 0, json: [{ applied: [`127.0.0.1:${server.port}`] }] });
    // the node has no brand yet, and this user may not set one
    expect((await errorOf(() => Connector.connect(urlOf(server, 'shop')))).code).toBe('NOPERM');
    expect((await emq([...apply, '--yes', '--may-brand'])).code).toBe(0);
    await (await Connector.connect(urlOf(server, 'shop'))).close();
    expect(await server.admin.get('{emq}:version')).toBe('echomq:4.0.0');

    const other = createHash('sha256').update('another').digest('hex');
    const changed = await emq([...apply, '--yes', '--password-hash', other]);
    expect(changed.stdout + changed.stderr).not.toContain(other);
    expect((await errorOf(() => Connector.connect(urlOf(server, 'shop')))).code).toBe('WRONGPASS');
    await (await Connector.connect(urlOf(server, 'shop', 'another'))).close();
  });

  it('a node that does not know a rule says which, without the hash, and nothing of the user changes', async () => {
    await using server = await TestServer.start();
    const args = ['acl', '--user', 'w', '--role', 'consumer', '--queue', 'q', '--wire', '6', '--apply', '--yes'];
    const said = await emq([...args, '--password-hash', HASH, '--url', server.url]);
    expect(said.code).toBe(2);
    expect(said.stderr).toMatch(
      /does not take the rule \+@emq: .*the module is not loaded there: --wire 4, or load it/,
    );
    expect(said.stdout + said.stderr).not.toContain(HASH);
    expect(await server.admin.call('ACL', 'GETUSER', 'w')).toBeNull();
  });

  it('in a cluster every node gets it, and the user does its job there', async () => {
    await using cluster = await TestCluster.start();
    const { url } = cluster.node(1);
    const args = [
      '--user',
      'shop',
      '--role',
      'producer',
      '--role',
      'consumer',
      '--prefix',
      'q',
      '--cluster',
      '--may-brand',
    ];
    const said = await emq(['acl', ...args, '--apply', '--yes', '--json', '--password-hash', HASH, '--url', url]);
    expect(said.json[0].applied).toHaveLength(3);
    for (const { admin } of cluster.nodes) await admin.call('ACL', 'LOG', 'RESET');
    const options = { redisOptions: { username: 'shop', password: SECRET } };
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start, options } });
    for (const node of [0, 1, 2]) {
      const queue = new Queue(connector, cluster.queueOn(node));
      await queue.enqueue('x');
      const done = new Promise<unknown>((resolve) => {
        queue.consume((job) => resolve(job.payload));
      });
      expect(await done).toBe('x');
    }
    for (const { admin } of cluster.nodes) {
      const log = (await admin.call('ACL', 'LOG')) as string[][];
      // the list of queues lies in one slot
      expect(log.map((entry) => entry.join(' '))).toEqual([]);
    }
  });
});
