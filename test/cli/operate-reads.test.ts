/** The operator's commands that look: what they show as JSON and as text, and that they write and brand nothing. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { defaultModulePath } from '../../src/dev/index.js';
import { Connector, encodeId, EPOCH_MS, Jobs, Lanes } from '../../src/index.js';
import { TestCluster } from '../wire/nodes.js';
import { changes } from './doctor-report.js';
import { emq, node, on, stateOf, urlFor } from './emq.js';
import { fill, id, LEASE, TENANT, WIRES, world } from './operate-world.js';

const READS: readonly (readonly string[])[] = [
  ['queues'],
  ['queues', '--no-scan'],
  ['stats', 'mail'],
  ...['pending', 'active', 'scheduled', 'dead', 'awaiting_children'].map((state) => ['jobs', 'mail', '--state', state]),
  ['jobs', 'mail', '--lane', TENANT, '--asc'],
  ['job', 'mail', id(5), '--payload'],
  ['lanes', 'mail', '--all'],
  ['repeats', 'mail'],
  ['limits', 'mail'],
  ['limits', 'mail', '--lane', '*'],
  ['dedup', 'mail', 'none'],
];

describe.each(WIRES)('on wire %i', (wire) => {
  test('what only looks writes nothing', async () => {
    const all = await world(wire);
    await fill(all);
    // the scripts are there: loading one is no write, and yet a change of what the server holds
    await all.admin.setLimits({ concurrency: 9 });
    const before = [await stateOf(all.server), await changes(all.server)];
    for (const args of READS) {
      // one of the two on each wire: the calls are the same
      const { code, stdout, stderr, json } = await all.run(...args, ...(wire === 4 ? ['--json'] : []));
      expect([code, stderr, stdout === ''], args.join(' ')).toEqual([0, '', false]);
      if (wire === 4) expect(json).toEqual([expect.objectContaining({ where: `127.0.0.1:${all.server.port}` })]);
    }
    expect([await stateOf(all.server), await changes(all.server)]).toEqual(before);
  }, 60_000);

  test('queues and stats: what waits in lanes is counted too', async () => {
    const all = await world(wire);
    await fill(all);
    const post = new Jobs(all.connector, 'post');
    const bornAgo = (ms: number): { id: string } => ({
      id: encodeId('JOB', BigInt(Date.now() - ms - EPOCH_MS) << 22n),
    });
    await post.enqueue(1, bornAgo(600_000));
    await post.pause();
    await new Lanes(all.connector, 'post').enqueue(TENANT, 1, bornAgo(7_260_000));
    const [now, hour] = [Date.now(), 3_600_000];
    await on(all.server, async (redis) => {
      await redis.zadd('emq:{post}:active', now - hour, id(1), now - 2, id(2), now - 1, id(3), now + hour, id(4));
      await redis.zadd('emq:{post}:schedule', now - 1, id(5), now + hour, id(6), now + hour, id(7));
    });
    await all.admin.setLimits({ concurrency: 7, rate: { max: 5, durationMs: 2_000 } });
    const { json } = await all.run('queues', '--json');
    const none = { awaitingChildren: 0, paused: false, lapsed: 0, due: 0 };
    expect(json[0].queues).toEqual([
      { ...none, queue: 'mail', waiting: 5, active: 1, scheduled: 1, dead: 2, oldestMs: expect.any(Number) },
      {
        ...{ ...none, queue: 'post', waiting: 2, active: 4, lapsed: 3, scheduled: 3, due: 1, dead: 0, paused: true },
        oldestMs: expect.closeTo(7_260_000, -5),
      },
    ]);
    const { stdout: list } = await all.run('queues');
    expect(list).toMatch(/^queue +waiting +oldest +active +lapsed +scheduled +due +with children +dead\n/);
    expect(list).toMatch(/^mail +5 .* 1 +0 +1 +0 +0 +2\npost +2 +2 h 1 min +4 +3 +3 +1 +0 +0 +paused\n$/m);
    const { stats } = (await all.run('stats', 'mail', '--json')).json[0];
    expect(stats).toMatchObject({
      counts: { pending: 3, active: 1, scheduled: 1, dead: 2, failed: 2, completed: 0 },
      lanes: { count: 1, waiting: 2 },
      limits: { concurrency: 7, rate: { max: 5, durationMs: 2_000 } },
      ...{ paused: false, letters: 0, recovery: null },
    });
    expect(stats.history.completed).toEqual(Array.from({ length: 60 }, () => null));
    const { stdout } = await all.run('stats', 'mail');
    expect(stdout).toMatch(/in lanes +2 in 1 lane\n/);
    expect(stdout).toMatch(/active +1\n/);
    expect(stdout).toMatch(/concurrency +7\n/);
    expect(stdout).toMatch(/rate +5 in 2 s\n/);
    expect(stats.repeats).toEqual({ count: 2, paused: 0, nextInMs: expect.any(Number) });
    expect(stdout).toMatch(/repeats +2, the next in \d.*\n/);
    await all.repeats.pause('tick');
    await all.repeats.pause('nightly');
    await all.admin.setLimits({ concurrency: null });
    await all.lanes.setLimit('*', 3);
    const { stdout: later } = await all.run('stats', 'mail');
    expect(later).toMatch(/repeats +2, 2 of them paused\n/);
    expect(later).toMatch(/concurrency +none\n/);
    expect(later).toMatch(/lanes without own +limit 3, weight 1, rate none\n/);
  });

  test('the last hour: each number in its minute', async () => {
    const all = await world(wire);
    await all.mail.enqueue(1);
    const minute = Math.floor(Date.now() / 60_000);
    const base = 'emq:{mail}:metrics:';
    await on(all.server, async (redis) => {
      await redis.hset(`${base}rolled`, 'minute', minute - 2, 'completed', 0, 'failed', 0);
      await redis.rpush(`${base}completed:data`, 8, 0, 4);
      await redis.rpush(`${base}failed:data`, 1);
    });
    const { from, completed, failed } = (await all.run('stats', 'mail', '--json')).json[0].stats.history;
    const at = (minutes: number): number => minutes - from / 60_000;
    expect(completed.length).toBe(60);
    // the list's first number is of the minute before the open one, and the open one and the next are not closed
    expect([-5, -4, -3].map((n) => completed[at(minute + n)])).toEqual([4, 0, 8]);
    expect([-2, -1].flatMap((n) => completed[at(minute + n)] ?? [])).toEqual([]);
    expect(failed[at(minute - 3)]).toBe(1);
    const { stdout } = await all.run('stats', 'mail');
    expect(stdout).toMatch(/last 60 min +12 jobs completed, 1 died\n/);
    expect(stdout).toMatch(/ {2}completed +▁+▅▁█ *\n/);
  });
});

test('jobs and job: pages in both directions, errors, and the payload only when it is asked for', async () => {
  const all = await world(6);
  await fill(all);
  await on(all.server, (redis) => redis.hset(`emq:{mail}:job:${id(5)}`, 'last_error', 'x\x1b[2Jy\n  at once'));
  await all.mail.addLog(id(5), 'log \x1b[31mline');
  const ids = async (...args: string[]): Promise<string[]> =>
    (await all.run('jobs', 'mail', '--json', ...args)).json[0].jobs.map((job: { id: string }) => job.id);
  expect(await ids('--asc')).toEqual([1, 2, 3].map(id));
  expect(await ids('--limit', '2')).toEqual([3, 2].map(id));
  expect(await ids('--limit', '2', '--offset', '2')).toEqual([id(1)]);
  expect(await ids('--lane', TENANT, '--asc')).toEqual([7, 8].map(id));
  const { jobs } = (await all.run('jobs', 'mail', '--state', 'dead', '--asc', '--json')).json[0];
  expect(jobs[0]).toEqual({
    ...{ id: id(5), state: 'dead', score: expect.closeTo(Date.now(), -5), mintedAt: expect.any(Number) },
    ...{ attempts: 1, credit: 0, stalled: 0, priority: 0, name: 'odd', lane: null, progress: null },
    ...{ error: 'x\x1b[2Jy\n  at once', payloadBytes: 1 },
  });
  const dead = await all.run('jobs', 'mail', '--state', 'dead', '--limit', '1', '--asc');
  expect(dead.stdout).toContain('"x\\x1b[2Jy"');
  expect(dead.stderr).toBe('perhaps more: --offset 1\n');
  const plain = (await all.run('job', 'mail', id(5), '--json')).json[0].job;
  expect(plain).toMatchObject({ id: id(5), state: 'dead', name: 'odd', logs: ['log \x1b[31mline'], payloadBytes: 1 });
  expect(plain.payload).toBeUndefined();
  expect((await all.run('job', 'mail', id(9), '--json', '--payload')).json[0].job.payload).toBe('"payload 9"');
  await all.mail.updateData(id(9), Buffer.from([0xff, 0x1b, 0x41]));
  const text = await all.run('job', 'mail', id(9), '--payload');
  expect(text.stdout).toContain('"\\xff\\x1bA"');
  expect(text.stdout).toMatch(/^JOB00000000009 {2}active\n/);
  expect((await all.run('job', 'mail', id(9), '--json', '--payload')).json[0].job.payloadBase64).toBe('/xtB');
  const shown = await all.run('job', 'mail', id(5));
  expect(shown.stdout).toContain('  last error\n    x\\x1b[2Jy\n      at once\n  payload');
  expect(shown.stdout).toContain('"log \\x1b[31mline"');
  expect(shown.stdout).toContain('payload       1 byte; --payload shows it');
  const lease = async (ms: number): Promise<string> => {
    await on(all.server, (redis) => redis.zadd('emq:{mail}:active', Date.now() + ms, id(9)));
    return (await all.run('jobs', 'mail', '--state', 'active')).stdout;
  };
  expect(await lease(310_000)).toMatch(/^id .* lease +lane.*\n.* ends in 5 min/);
  expect(await lease(-15_000)).toMatch(/ lapsed 1[5-9] s ago/);
  await on(all.server, (redis) => redis.zadd('emq:{mail}:schedule', Date.now() - 90_000, id(4)));
  expect((await all.run('jobs', 'mail', '--state', 'scheduled')).stdout).toMatch(/ overdue 1 min 3\d s/);
  const none = await all.run('job', 'mail', id(99));
  expect([none.code, none.stderr]).toEqual([1, expect.stringContaining(`has no job ${id(99)}: it has completed`)]);
}, 30_000);

test('lanes and repeats: what holds them up', async () => {
  const all = await world(6);
  await fill(all);
  await all.lanes.pause(TENANT);
  await all.repeats.pause('tick');
  const lane = (await all.run('lanes', 'mail', '--json')).json[0].lanes;
  expect(lane).toMatchObject([{ group: TENANT, waiting: 2, active: 0, limit: null, weight: 1, state: 'paused' }]);
  expect((await all.run('lanes', 'mail')).stdout).toMatch(new RegExp(`${TENANT} +2 +0 +none +1 +none +paused\n$`));
  const { repeats } = (await all.run('repeats', 'mail', '--json')).json[0];
  expect(repeats).toMatchObject([
    { name: 'nightly', paused: false, count: 0, last: null, spec: { cron: '0 3 * * *', timeZone: 'Europe/Berlin' } },
    { name: 'tick', paused: true, spec: { everyMs: 90_000 } },
  ]);
  const { stdout } = await all.run('repeats', 'mail');
  expect(stdout).toMatch(/nightly +0 3 \* \* \* Europe\/Berlin +in \d/);
  expect(stdout).toMatch(/tick +every 1 min 30 s +paused +0 +never/);
});

test('lanes without their own settings have those of `*`, which are shown though no lane is there', async () => {
  const all = await world(4);
  await all.lanes.setLimit('*', 2);
  await all.lanes.setRate('*', { max: 20 });
  const { stdout, stderr } = await all.run('lanes', 'mail');
  expect([stdout, stderr]).toEqual([
    'queue mail has no lanes\nlanes of queue mail without their own: limit 2, weight 1, rate 20 in 1 s\n',
    '',
  ]);
  // the queue is known by them
  expect((await all.run('jobs', 'mail')).stderr).toBe('');
  await all.lanes.enqueue(TENANT, 1);
  const { json } = await all.run('lanes', 'mail', '--json');
  const others = { limit: 2, weight: 1, rate: { max: 20, durationMs: 1_000 } };
  expect(json[0]).toMatchObject({ others, lanes: [{ group: TENANT, limit: 2 }] });
}, 20_000);

test('of a queue of which nothing is known there are zeros, and a hint', async () => {
  const all = await world(4);
  await all.mail.enqueue(1);
  for (const args of [['stats'], ['jobs'], ['lanes'], ['drain', '--yes']]) {
    const [command = '', ...rest] = args;
    const { code, stdout, stderr } = await all.run(command, 'mali', ...rest);
    expect([command, code, stdout === '', stderr]).toEqual([
      ...[command, 0, false],
      'nothing is known of queue mali: is the name right? emq queues lists them\n',
    ]);
  }
  expect(await on(all.server, (redis) => redis.keys('emq:{mali}:*'))).toEqual([]);
}, 30_000);

test('a queue that cannot be read keeps the others from nobody', async () => {
  const all = await world(4);
  await all.mail.enqueue(1);
  await on(all.server, (redis) => redis.set('emq:{broken}:pending', 'x'));
  const { code, json } = await all.run('queues', '--json');
  expect(code).toBe(1);
  expect(json[0].queues).toEqual([
    { queue: 'broken', error: expect.stringContaining('WRONGTYPE') },
    expect.objectContaining({ queue: 'mail', waiting: 1 }),
  ]);
});

test('a node without a brand is not branded: there is nothing to see', async () => {
  const bare = await node();
  for (const args of [['queues'], ['stats', 'mail'], ['pause', 'mail', '--yes']]) {
    const { code, stderr } = await emq(...args, '--url', bare.url);
    expect([code, stderr]).toEqual([4, expect.stringContaining('is unbranded: no client of EchoMQ has been there')]);
  }
  expect(await on(bare, (redis) => redis.keys('*'))).toEqual([]);
  await on(bare, (redis) => redis.set('{emq}:version', 'other:1'));
  expect((await emq('stats', 'mail', '--url', bare.url)).stderr).toContain('has the foreign brand "other:1"');
});

test('a replica is good enough to look, and what writes is told where the primary is to be found', async () => {
  const all = await world(4);
  await fill(all);
  const replica = await node({ brand: false, args: ['--replicaof', `127.0.0.1 ${all.server.port}`] });
  await expect.poll(() => on(replica, (redis) => redis.zcard('emq:{mail}:dead')), { timeout: 15_000 }).toBe(2);
  const { stats } = (await emq('stats', 'mail', '--url', replica.url, '--json')).json[0];
  expect(stats.counts).toMatchObject({ pending: 3, dead: 2 });
  const { code, stderr } = await emq('pause', 'mail', '--url', replica.url);
  expect([code, stderr]).toEqual([4, expect.stringContaining('It is a replica: ask its primary')]);
}, 30_000);

test('a user who may not is told where the rights are listed', async () => {
  const { server } = await world(4);
  await on(server, (redis) => redis.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '+@all', '~{emq}:*'));
  const { code, stderr } = await emq('stats', 'mail', '--url', urlFor(server, 'app', 'secret'));
  expect([code, stderr]).toEqual([4, expect.stringContaining('docs/wire.md (12) lists the rights')]);
});

test('a cluster: queues on all nodes and of both wires, each by its brand', async () => {
  await using cluster = await TestCluster.start('--loadmodule', defaultModulePath());
  const start = cluster.start;
  const connectors = await Promise.all(WIRES.map((wire) => Connector.connect({ cluster: { nodes: start }, wire })));
  for (const one of connectors) onTestFinished(() => one.close());
  const names = [0, 1, 2].map((i) => cluster.queueOn(i));
  const jobs = names.map((name, i) => new Jobs(connectors[i % 2]!, name));
  for (const one of jobs) await one.enqueue(1);
  const url = `valkey://127.0.0.1:${start[0]?.port}`;
  const { code, json } = await emq('queues', '--url', url, '--json');
  expect([code, json[0].queues.map((line: { queue: string }) => line.queue)]).toEqual([0, [...names].sort()]);
  for (const name of names)
    expect((await emq('stats', name, '--url', url, '--json')).json[0].stats.counts.pending).toBe(1);
  expect((await emq('pause', names[2] ?? '', '--url', url)).stdout).toBe(`queue ${names[2]}: paused\n`);
  expect(await jobs[2]!.claim(LEASE)).toBeNull();
  // named in the registry, and never used: neither wire's connector may say anything of it
  const fresh = cluster.queueOn(1, 'fresh');
  for (const { admin } of cluster.nodes) await admin.call('ZADD', '{emq}:queues', 1, fresh).catch(() => {});
  const [line] = (await emq('queues', '--url', url, '--json')).json[0].queues.filter(
    (one: { queue: string }) => one.queue === fresh,
  );
  expect(line.error).toMatch(/^no key of it is here, only its name is left/);
  expect((await emq('stats', fresh, '--url', url)).stderr).toContain(`queue ${fresh} is unbranded`);
}, 60_000);
