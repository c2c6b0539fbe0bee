/** `emq doctor --queue`: what it finds in a queue and in its flows, how to mend it, and that it writes nothing. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { EmbeddedServer } from '../../src/dev/index.js';
import { Connector, EmqError, Flows, Jobs, Keyspace, type Wire } from '../../src/index.js';
import { changes, doctor, good, type Report } from './doctor-report.js';
import { client, emq, finish, on, start, stateOf, urlFor } from './emq.js';

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
      text: expect.stringContaining('1 of 2 leases has lapsed, the first 3 days ago'),
    });
    expect(report.of('leases').mend).toBe(
      'start a consumer of queue mail: it recovers them; in code, call reap() or stalledCheck() on a timer',
    );
    expect(report.of('schedule').mend).toContain('start a consumer of queue mail: it promotes them');
    expect(report.of('schedule')).toMatchObject({
      level: 'warn',
      text: expect.stringContaining('2 of 3 scheduled jobs are due, the first 10 min ago'),
    });
    expect([await stateOf(server), await changes(server)]).toEqual(before);
    const other = await doctor(server.url, '--queue', 'post');
    expect(other.findings.filter(({ level }) => level !== 'ok')).toEqual([]);
    expect(other.of('queue').text).toContain('0 pending, 0 active, 0 scheduled, 0 dead');
    expect(report.findings.filter(({ queue }) => queue === 'mail').map(({ check }) => check)).toEqual([
      'queue',
      'paused',
      'leases',
      'schedule',
      'dead',
    ]);
  });

  test('none named: all that are there are looked into, the first hundred of them', async () => {
    const server = await good();
    await on(server, async (redis) => {
      await redis.zadd(`${base}pending`, 0, 'a');
      await redis.hset('emq:{post}:meta', 'paused', '');
      // of the list of consumers, and in good order
      await redis.zadd('{emq}:queues', 0, 'idle');
    });
    const before = [await stateOf(server), await changes(server)];
    const report = await doctor(server.url);
    expect([await stateOf(server), await changes(server)]).toEqual(before);
    expect(report.of('queues').text).toBe('3 queues are here, and each was looked into');
    const found = report.findings.flatMap(({ queue, level, check }) =>
      queue === undefined ? [] : [{ queue, level, check }],
    );
    expect(found).toEqual([
      { queue: 'idle', level: 'ok', check: 'queue' },
      { queue: 'mail', level: 'ok', check: 'queue' },
      { queue: 'post', level: 'ok', check: 'queue' },
      { queue: 'post', level: 'warn', check: 'paused' },
    ]);
    const { stdout } = await emq('doctor', '--url', server.url);
    expect(stdout).toMatch(/ok +queue +queue post: 0 pending.*\n +warn +paused /);
    await on(server, async (redis) => {
      for (let n = 0; n < 100; n++) await redis.zadd('{emq}:queues', 0, `q${n}`);
    });
    const many = await doctor(server.url);
    expect(many.findings.filter(({ check }) => check === 'queue')).toHaveLength(100);
    expect(many.of('queues').text).toBe(
      '103 queues are here, and the first 100 of them were looked into: --queue NAME looks into one',
    );
  }, 20_000);

  test('where keys may not be searched, the queues that consumers have named are looked into', async () => {
    const server = await good();
    await on(server, async (redis) => {
      await redis.zadd('{emq}:queues', 0, 'idle');
      await redis.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '+@all', '-scan', '~*', '&*');
    });
    const report = await doctor(urlFor(server, 'app', 'secret'));
    expect(report.of('queues')).toMatchObject({ level: 'warn', mend: expect.stringContaining('grant +scan') });
    expect(report.of('queue').text).toContain('queue idle: 0 pending');
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

describe('the flows of a queue', () => {
  const keys = new Keyspace('mail');
  const ids = [0, 1, 2].map((n) => `JOB0000000000${n}`);
  const find = async (server: EmbeddedServer): Promise<Report> => doctor(server.url, '--queue', 'mail');
  const checks = ({ findings }: Report): string[] =>
    findings.flatMap(({ check, level }) => (check.startsWith('flow') ? [`${level} ${check}`] : []));

  /** A flow of queue mail with a child in another, whose parent then hears nothing of it. */
  async function flowOf(wire: Wire): Promise<void> {
    const [id = '', child = ''] = ids;
    await new Flows(wire, 'mail').add({ id, payload: 1, children: [{ id: child, payload: 2, queue: 'post' }] });
  }

  async function connect(server: EmbeddedServer): Promise<Connector> {
    const connector = await Connector.connect({ url: server.url, wire: 6 });
    onTestFinished(() => connector.close());
    return connector;
  }

  test('parents that wait are counted, and are no finding', async () => {
    const server = await good();
    await flowOf(await connect(server));
    const report = await find(server);
    expect(report.of('queue').text).toBe(
      'queue mail: 0 pending, 0 active, 0 scheduled, 0 dead; 1 flow parent waits for its children',
    );
    expect(checks(report)).toEqual([]);
  });

  test('letters that nobody delivers; while they leave there is nothing to find', async () => {
    const server = await good();
    const connector = await connect(server);
    await flowOf(connector);
    const post = new Jobs(connector, 'post');
    await post.complete((await post.claim({ leaseMs: 60_000 }))!);
    const look = (): Promise<Report> => doctor(server.url, '--queue', 'post');
    const before = [await stateOf(server), await changes(server)];
    const report = await look();
    expect([await stateOf(server), await changes(server)]).toEqual(before);
    expect(checks(report)).toEqual(['warn flow outbox']);
    expect(report.of('flow outbox').text).toContain('1 letter of flow children waits to be delivered');
    expect(report.of('flow outbox').mend).toContain('flows.deliver()');
    // as a consumer would, letters leave while others come
    const redis = client(server);
    const { outbox } = new Keyspace('post');
    await redis.rpush(outbox, 'another');
    let n = 0;
    const traffic = setInterval(() => void redis.multi().lpop(outbox).rpush(outbox, `letter ${n++}`).exec(), 50);
    onTestFinished(() => clearInterval(traffic));
    expect(checks(await look())).toEqual([]);
    expect(n).toBeGreaterThan(40);
  });

  test('letters that could not be delivered: its mend sends them again', async () => {
    const server = await good();
    const connector = await connect(server);
    const flows = new Flows(connector, 'mail');
    const [parent = '', child = ''] = ids;
    await flows.add({ id: parent, payload: 1, children: [{ id: child, payload: 2 }] });
    await on(server, async (redis) => {
      await redis.rename(`${keys.job(parent)}:children`, 'aside');
      await redis.set(`${keys.job(parent)}:children`, 'no hash');
      await redis.rpush(keys.outbox, ['mail', parent, child, '1'].join('\0'));
    });
    expect((await flows.deliver()).poison).toHaveLength(1);
    const report = await find(server);
    expect(report.bad).toEqual(['flow letters']);
    const { text, mend = '' } = report.of('flow letters');
    expect(text).toContain('1 letter of flow children could not be delivered');
    const [, command = ''] = /then (LMOVE .*?) sends/.exec(mend) ?? [];
    await on(server, async (redis) => {
      await redis.rename('aside', `${keys.job(parent)}:children`);
      const [name = '', ...args] = command.split(' ');
      await redis.call(name, ...args);
    });
    expect(await flows.deliver()).toMatchObject({ delivered: 1, released: 1, poison: [] });
    expect(checks(await find(server))).toEqual([]);
  });

  test('a parent whose adding was cut short, when that is a while ago', async () => {
    const server = await good();
    const connector = await connect(server);
    const cut: Wire = {
      run: async (call) => {
        if (call.transition.name === 'flow_land') throw new EmqError('EMQ_CONNECTION', 'the connection is lost');
        return connector.run(call);
      },
      runAll: (calls) => connector.runAll(calls),
    };
    await expect(flowOf(cut)).rejects.toThrow('the connection is lost');
    const [parent = '', , whole = ''] = ids;
    await new Flows(connector, 'mail').add({ id: whole, payload: 1, children: [{ payload: 2 }] });
    expect(checks(await find(server))).toEqual([]);
    const hours = 3 * 3_600_000;
    await on(server, async (redis) => {
      for (const id of [parent, whole]) await redis.zadd(keys.held, Date.now() - hours - 1_000, id);
    });
    const report = await find(server);
    expect(checks(report)).toEqual(['warn flow landing']);
    expect(report.of('flow landing')).toMatchObject({
      text: expect.stringContaining(`1 flow parent has not landed whole, ${parent} since 3 h`),
      mend: expect.stringContaining('add the same flow again'),
    });
    await flowOf(connector);
    expect(checks(await find(server))).toEqual([]);
  });

  test('keys of a wrong type are told of, and the rest is looked at', async () => {
    const server = await good();
    await on(server, async (redis) => {
      for (const name of ['flow:held', 'flow:outbox']) await redis.set(`${keys.base}${name}`, 'x');
      await redis.rpush(`${keys.base}flow:poison`, 'x');
    });
    const report = await find(server);
    expect(report.bad).toEqual(['types', 'types', 'flow letters']);
  });

  test('Ctrl-C while it waits for a second look', async () => {
    const server = await good();
    await on(server, (redis) => redis.rpush(keys.outbox, 'x'));
    const child = start(['doctor', '--url', server.url, '--queue', 'mail']);
    const ended = finish(child);
    await expect
      .poll(() => on(server, (redis) => redis.info('commandstats')), { timeout: 10_000 })
      .toContain('cmdstat_lindex');
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
  });
});
