/** Wire 6 on servers with the module: what is sent natively, what as a script, and how a cluster routes what it does not know. */
import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultModulePath } from '../../src/dev/server.js';
import { mint } from '../../src/ids/mint.js';
import type { Call, Transition } from '../../src/wire/call.js';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import { Keyspace } from '../../src/wire/keyspace.js';
import { transitions } from '../../src/wire/transitions.js';
import { TestCluster, slotOf } from './nodes.js';
import { TestServer } from './server.js';
import { call, count, errorOf } from './stand-ins.js';

const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };

function laid<Input>(transition: Transition<Input, unknown>, queue: string, input: Input): Call {
  return { transition, queue, ...transition.layout(new Keyspace(queue), input) };
}

function enqueue(queue: string, id: string): Call {
  return laid(transitions.enqueue, queue, { id, payload: 'p' });
}

function claim(queue: string): Call {
  return laid(transitions.claim, queue, { leaseMs: 60_000 });
}

describe('one server', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await TestServer.start('--loadmodule', defaultModulePath());
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    await server.admin.flushall();
  });

  function connect(options: ConnectorOptions = {}): Promise<Connector> {
    return Connector.connect({ url: server.url, wire: 6, ...QUICK, ...options });
  }

  it.each([2, 3] as const)(
    'runs what has a native twin natively, the rest as scripts, in one write, RESP%i',
    async (protocol) => {
      await using connector = await connect({ protocol });
      expect(await server.admin.get('{emq}:version')).toBe('echomq:6.0.0');
      const monitor = await server.monitor();
      const id = mint('JOB');
      await connector.run(enqueue('q', id));
      const outcomes = await connector.runAll([claim('q'), claim('q'), call(count)]);
      await monitor.close();
      expect(outcomes).toEqual([
        { ok: true, reply: [Buffer.from(id), Buffer.from('p'), 1] },
        { ok: true, reply: [] },
        { ok: true, reply: 1 },
      ]);
      const sent = monitor.seen.filter(([source]) => source?.startsWith('127.')).map(([, command]) => command);
      expect(sent.filter((command) => command === 'emq.claim')).toHaveLength(2);
      expect(sent.filter((command) => /^eval/.test(command ?? ''))).not.toEqual([]);
    },
  );

  it('is refused where the node is branded for wire 4, and wire 4 where it is branded for wire 6', async () => {
    await (await connect()).close();
    await errorOf(connect({ wire: 4 }), 'EMQWIRE');
    await server.admin.set('{emq}:version', 'echomq:4.0.0');
    const error = await errorOf(connect(), 'EMQWIRE');
    expect(error.reason).toBe(
      'EMQWIRE node is echomq:4.0.0, needs echomq:6.0.0: connect with wire: 4, or move it (emq wire upgrade)',
    );
  });

  it('fences anew when the module finds the brand gone, and no caller sees it', async () => {
    await using connector = await connect();
    await server.admin.flushall();
    const outcomes = await connector.runAll([claim('q'), claim('q'), call(count)]);
    expect(outcomes).toEqual([
      { ok: true, reply: [] },
      { ok: true, reply: [] },
      { ok: true, reply: 1 },
    ]);
    expect(await server.admin.get('{emq}:version')).toBe('echomq:6.0.0');
  });

  it('does not brand again what it may not brand', async () => {
    await server.admin.set('{emq}:version', 'echomq:6.0.0');
    await using connector = await connect({ claim: false });
    await server.admin.flushall();
    const error = await errorOf(connector.run(claim('q')), 'EMQWIRE');
    expect(error.reason).toMatch(/claim: false/);
    expect(await server.admin.dbsize()).toBe(0);
  });

  it('needs no more rights than the documented ones', async () => {
    await (await connect()).close();
    const rules = [
      'on',
      '>secret',
      'resetkeys',
      '-@all',
      '~emq:{q}:*',
      '%R~{emq}:version',
      '+get',
      '+@emq',
      '+command|info',
    ];
    await server.admin.call('ACL', 'SETUSER', 'native', ...rules);
    await using connector = await connect({ redis: { username: 'native', password: 'secret' }, claim: false });
    expect(await connector.run(claim('q'))).toEqual([]);
    await errorOf(connector.run(claim('other')), 'NOPERM');
    await errorOf(connector.run(call(count)), 'NOPERM');
  });

  it('stays away while the brand is foreign', async () => {
    await using connector = await connect();
    await server.admin.set('{emq}:version', 'echomq:4.0.0');
    const refused = once(connector, 'refused');
    await errorOf(connector.run(claim('q')), 'EMQWIRE');
    await refused;
    await errorOf(connector.run(call(count)), 'EMQWIRE');
    expect(await server.admin.dbsize()).toBe(1);
  });
});

describe('a cluster', () => {
  let cluster: TestCluster;

  beforeAll(async () => {
    cluster = await TestCluster.start('--loadmodule', defaultModulePath());
  });
  afterAll(() => cluster[Symbol.asyncDispose]());
  beforeEach(async () => {
    for (const { admin } of cluster.nodes) await admin.flushall();
  });

  it.each([2, 3] as const)('routes native commands by slot, with no redirect, RESP%i', async (protocol) => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start }, wire: 6, protocol, ...QUICK });
    const queues = [0, 1, 2].map((node) => cluster.queueOn(node));
    const ids = queues.map(() => mint('JOB'));
    const added = await connector.runAll(queues.map((queue, i) => enqueue(queue, ids[i] ?? '')));
    expect(added.filter((o) => !o.ok)).toEqual([]);
    const claimed = await connector.runAll(queues.map(claim));
    expect(claimed).toEqual(ids.map((id) => ({ ok: true, reply: [Buffer.from(id), Buffer.from('p'), 1] })));
    for (const [i, queue] of queues.entries()) {
      const { admin } = cluster.node(i);
      expect(await admin.get(`emq:{${queue}}:version`)).toBe('echomq:6.0.0');
      expect((await admin.info('errorstats')).match(/errorstat_MOVED/)).toBeNull();
    }
  });

  it('follows a queue to another node', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start }, wire: 6, ...QUICK });
    const queue = cluster.queueOn(0, 'moving');
    const id = mint('JOB');
    await connector.run(enqueue(queue, id));
    const slot = slotOf(queue);
    const [from, to] = [cluster.node(0), cluster.node(1)];
    const [fromId, toId] = await Promise.all([from, to].map(({ admin }) => admin.call('CLUSTER', 'MYID')));
    await to.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId));
    await from.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId));
    for (const key of (await from.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 20)) as string[]) {
      await from.admin.migrate('127.0.0.1', to.port, key, 0, 5_000);
    }
    // Its keys are on the new node, which does not own the slot yet: the call is refused there or here until it does.
    const claiming = connector.run(claim(queue));
    const refusals = async () => {
      const stats = await Promise.all([from, to].map(({ admin }) => admin.info('errorstats')));
      const counts = stats.flatMap((text) => [...text.matchAll(/errorstat_(?:TRYAGAIN|ASK):count=(\d+)/g)]);
      return counts.reduce((sum, [, count]) => sum + Number(count), 0);
    };
    await expect.poll(refusals).toBeGreaterThan(1);
    for (const { admin } of [to, from]) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(toId));
    expect(await claiming).toEqual([Buffer.from(id), Buffer.from('p'), 1]);
    expect(await connector.run(claim(queue))).toEqual([]);
    expect(connector.stats()).toMatchObject({ connects: 1, unknownOutcomes: 0 });
  });

  it('brands a queue anew when the module finds its brand gone', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start }, wire: 6, ...QUICK });
    const queue = cluster.queueOn(2);
    await connector.run(claim(queue));
    await cluster.node(2).admin.flushall();
    expect(await connector.run(claim(queue))).toEqual([]);
    expect(await cluster.node(2).admin.get(`emq:{${queue}}:version`)).toBe('echomq:6.0.0');
  });
});
