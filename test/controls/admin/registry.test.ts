/**
 * Which queues there are: those that were named and those that have keys, on one server and on a cluster; naming a queue
 * never fails.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Admin, Connector, EmqError, Jobs, Lanes, listQueues, mint } from '../../../src/index.js';
import { announce, unregister } from '../../../src/queue/registry.js';
import { errorOf, EXECUTORS, Stage } from '../../conformance/stage.js';
import { TestCluster } from '../../wire/nodes.js';

describe.each(EXECUTORS)('listQueues on %s', (_executor, wire) => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.start(wire);
  });
  afterAll(() => stage[Symbol.asyncDispose]());
  afterEach(async () => {
    const keys = (await stage.raw.keys('*')).filter((key) => key !== '{emq}:version');
    if (keys.length > 0) await stage.raw.del(...keys);
  });

  it('tells of named queues and of those that have keys, sorted, each once, and of nothing else', async () => {
    expect(await stage.unchanged(() => listQueues(stage.connector))).toEqual([]);
    await announce(stage.connector, 'named');
    await stage.jobs('flat').enqueue(1);
    await new Lanes(stage.connector, 'lanes').enqueue(mint('TEN'), 1);
    await stage.jobs('Both').pause();
    await announce(stage.connector, 'Both');
    await stage.raw.mset('emq:{a b}:pending', '1', 'emq:{x', '1', 'other:{y}:pending', '1', '{emq}:else', '1');
    await stage.raw.zadd('{emq}:queues', 1, 'no queue name');
    expect(await listQueues(stage.connector)).toEqual(['Both', 'flat', 'lanes', 'named']);
    expect(await listQueues(stage.connector, { scan: false })).toEqual(['Both', 'named']);
  });

  it('finds one queue behind ten thousand rows of another, in steps', async () => {
    const busy = stage.jobs('busy');
    await busy.enqueueMany(Array.from({ length: 10_000 }, (_, payload) => ({ payload })));
    await stage.jobs('quiet').enqueue(1);
    await stage.raw.call('CONFIG', 'RESETSTAT');
    expect(await listQueues(stage.connector)).toEqual(['busy', 'quiet']);
    const [, scans] = /cmdstat_scan:calls=(\d+)/.exec(await stage.raw.info('commandstats')) ?? [];
    expect(Number(scans)).toBeGreaterThanOrEqual(10);
  });

  it('a name keeps the time at which it came, and goes', async () => {
    const before = await stage.now();
    await announce(stage.connector, 'named');
    const first = Number(await stage.raw.zscore('{emq}:queues', 'named'));
    expect(first).toBeGreaterThanOrEqual(before);
    await stage.raw.zadd('{emq}:queues', 5, 'named');
    await announce(stage.connector, 'named');
    expect(await stage.raw.zscore('{emq}:queues', 'named')).toBe('5');
    await unregister(stage.connector, 'named');
    expect(await stage.raw.exists('{emq}:queues')).toBe(0);
  });

  it('naming never fails; a listing says what it may not read', async () => {
    await announce(stage.connector, 'named');
    await stage.jobs('keyed').pause();
    const own = ['+evalsha', '+eval', '+get', '+command|info', '%R~{emq}:version', '~emq:{q}:*'];
    await stage.raw.call('ACL', 'SETUSER', 'few', 'on', '>pw', ...own);
    const redis = { path: stage.server.socketPath, username: 'few', password: 'pw' };
    const few = await stage.connect({ redis });
    await stage.unchanged(() => announce(few, 'q'));
    await stage.unchanged(() => unregister(few, 'named'));
    expect((await errorOf(() => listQueues(few))).code).toBe('NOPERM');
    await stage.raw.call('ACL', 'SETUSER', 'few', '+scan');
    expect(await listQueues(few)).toEqual(['keyed']);
    expect((await errorOf(() => listQueues(few, { scan: false }))).code).toBe('NOPERM');
    await few.close();
    await announce(few, 'q');
    expect((await errorOf(() => listQueues(few))).code).toBe('EMQ_CLOSED');
  });

  it('refuses what is no connector, and unknown options', async () => {
    expect((await errorOf(() => listQueues({} as never))).reason).toMatch(/listQueues takes a Connector/);
    expect((await errorOf(() => listQueues(stage.connector, { keys: 1 } as never))).reason).toMatch(/"keys"/);
    expect((await errorOf(() => listQueues(stage.connector, { scan: 1 } as never))).reason).toMatch(/scan must be/);
  });
});

describe('on a cluster', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.start();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  it('every node is asked; the registry is read where it is', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start } });
    const queues = [0, 1, 2].map((node) => cluster.queueOn(node, 'c'));
    for (const queue of queues) await new Jobs(connector, queue).enqueue(1);
    await announce(connector, cluster.queueOn(1, 'named'));
    const named = [cluster.queueOn(1, 'named')];
    expect(await listQueues(connector, { scan: false })).toEqual(named);
    expect(await listQueues(connector)).toEqual([...queues, ...named].sort());
    await unregister(connector, named[0] ?? '');
    expect(await listQueues(connector, { scan: false })).toEqual([]);
  });

  it('lanes and controls work on every node; of an obliterated queue its brand is left', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start } });
    for (const node of [0, 1, 2]) {
      const queue = cluster.queueOn(node, 'all');
      const [lanes, admin] = [new Lanes(connector, queue), new Admin(connector, queue)];
      const groups = [mint('TEN'), mint('TEN')];
      await lanes.enqueueMany(groups.map((group) => ({ group, payload: 1, dedup: { id: group } })));
      await lanes.setLimit('*', 1);
      await admin.setLimits({ concurrency: 1 });
      await announce(connector, queue);
      expect(await lanes.claim({ leaseMs: 60_000 })).toMatchObject({ group: groups[0] });
      expect(await lanes.claim({ leaseMs: 60_000 })).toBeNull();
      expect(await admin.stats()).toMatchObject({ lanes: { count: 2, waiting: 1 }, counts: { active: 1 } });
      await admin.pause();
      await admin.obliterate({ force: true });
      expect(await cluster.node(node).admin.keys(`emq:{${queue}}:*`)).toEqual([`emq:{${queue}}:version`]);
      expect(await listQueues(connector, { scan: false })).toEqual([]);
    }
  });

  it('a node that is away is an error, not a queue less', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start } });
    await new Jobs(connector, cluster.queueOn(2, 'away')).enqueue(1);
    await cluster.node(2).end();
    const error = await errorOf(() => listQueues(connector));
    expect(error).toBeInstanceOf(EmqError);
    expect(error.code).toBe('EMQ_CONNECTION');
  });
});
