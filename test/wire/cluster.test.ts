/** Clusters: the brand of each queue, routing, redirects, lost nodes, missing scripts, and one node met without its cluster. */
import { once } from 'node:events';
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import { TestCluster, slotOf } from './nodes.js';
import { TestServer } from './server.js';
import { append, call, count, errorOf, read, spoken, touch, transition } from './stand-ins.js';

let cluster: TestCluster;
const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };

beforeAll(async () => {
  cluster = await TestCluster.start();
});
afterAll(() => cluster[Symbol.asyncDispose]());
beforeEach(async () => {
  for (const { admin } of cluster.nodes) {
    await admin.flushall();
    await admin.script('FLUSH');
  }
});

function connect(options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ cluster: { nodes: cluster.start }, ...QUICK, ...options });
}

function brand(node: number, queue: string): Promise<string | null> {
  return cluster.node(node).admin.get(`emq:{${queue}}:version`);
}

describe.each([2, 3] as const)('RESP%i', (protocol) => {
  it('runs calls on every node, scripts missing everywhere, outcomes in order', async () => {
    await using connector = await connect({ protocol });
    const queues = [0, 1, 2, 0, 1, 2].map((node, i) => cluster.queueOn(node, `p${i}-`));
    const outcomes = await connector.runAll([...queues, ...queues].map((queue) => call(count, 'k', [], queue)));
    expect(outcomes.map((o) => (o.ok ? o.reply : o.error))).toEqual([...Array(6).fill(1), ...Array(6).fill(2)]);
    expect(connector.stats()).toMatchObject({ perQueueBrand: true, protocol: spoken(protocol), state: 'up' });
  });
});

describe('the brand of a queue', () => {
  it('is claimed at the first touch, in the slot of the queue, and nothing is branded before', async () => {
    await using connector = await connect();
    const sizes = (): Promise<number[]> => Promise.all(cluster.nodes.map(({ admin }) => admin.dbsize()));
    expect(await sizes()).toEqual([0, 0, 0]);
    const queue = cluster.queueOn(1);
    await connector.run(call(count, 'k', [], queue));
    expect(await brand(1, queue)).toBe('echomq:4.0.0');
    expect(await sizes()).toEqual([0, 2, 0]);
  });

  it('is looked at before the first call of its queue, once', async () => {
    const monitors = await Promise.all(cluster.nodes.map((node) => node.monitor()));
    await using connector = await connect();
    const queue = cluster.queueOn(2);
    await Promise.all(Array.from({ length: 20 }, () => connector.run(call(count, 'k', [], queue))));
    await connector.run(call(count, 'k', [], queue));
    await Promise.all(monitors.map((monitor) => monitor.close()));
    const seen = monitors.flatMap((monitor) => monitor.seen).filter(([source]) => source !== 'lua');
    const about = seen
      .filter((words) => words.some((word) => word.includes(`{${queue}}`)))
      .map(([, command]) => command);
    expect(about.slice(0, 3)).toEqual(['get', 'set', 'get']);
    expect(about.slice(3).every((command) => /^eval/.test(command ?? ''))).toBe(true);
    expect(about.length).toBeGreaterThan(23);
  });

  it('that is foreign refuses this queue only, names both brands, writes nothing, and may be mended', async () => {
    await using connector = await connect();
    const [bad, good] = [cluster.queueOn(0, 'bad'), cluster.queueOn(0, 'good')];
    await cluster.node(0).admin.set(`emq:{${bad}}:version`, 'echomq:6.0.0');
    const outcomes = await connector.runAll([
      call(count, 'k', [], bad),
      call(count, 'k', [], good),
      call(count, 'k', [], bad),
    ]);
    expect(outcomes.map((o) => (o.ok ? o.reply : o.error.code))).toEqual(['EMQWIRE', 1, 'EMQWIRE']);
    const error = await errorOf(connector.run(call(count, 'k', [], bad)), 'EMQWIRE');
    expect(error.reason).toBe(
      `EMQWIRE queue ${bad} is echomq:6.0.0, needs echomq:4.0.0: connect with wire: 6, or move it (emq wire downgrade)`,
    );
    expect(await cluster.node(0).admin.exists(`emq:{${bad}}:k`)).toBe(0);
    await cluster.node(0).admin.set(`emq:{${bad}}:version`, 'echomq:4.0.0');
    expect(await connector.run(call(count, 'k', [], bad))).toBe(1);
    expect(connector.stats().connects).toBe(1);
  });

  it('that is absent is not made with claim: false', async () => {
    await using connector = await connect({ claim: false });
    const queue = cluster.queueOn(0);
    await errorOf(connector.run(call(count, 'k', [], queue)), 'EMQWIRE');
    expect(await cluster.node(0).admin.dbsize()).toBe(0);
  });

  it('is looked at again after an EMQWIRE, and the call made again while there is time', async () => {
    await using connector = await connect({ replyTimeoutMs: 300 });
    const queue = cluster.queueOn(0);
    await connector.run(call(count, 'k', [], queue));
    await cluster.node(0).admin.flushall();
    const foreign = transition('foreign', "return redis.error_reply('EMQWIRE queue is unbranded, needs echomq:6.0.0')");
    await errorOf(connector.run(call(foreign, 'k', [], queue)), 'EMQWIRE');
    expect(await brand(0, queue)).toBe('echomq:4.0.0');
    expect(connector.stats().retries).toBeGreaterThan(2);
    // If it is foreign by then, that is final.
    await cluster.node(0).admin.set(`emq:{${queue}}:version`, 'echomq:6.0.0');
    const error = await errorOf(connector.run(call(foreign, 'k', [], queue)), 'EMQWIRE');
    expect(error.reason).toMatch(/is echomq:6.0.0/);
  });

  it('is not made by wire 6 where the module is not loaded', async () => {
    const error = await errorOf(connect({ wire: 6 }), 'EMQWIRE');
    expect(error.reason).toMatch(/trafikey is not loaded/);
    for (const { admin } of cluster.nodes) expect(await admin.dbsize()).toBe(0);
  });
});

it('heals a missing script on the node of the call, order kept', async () => {
  await using connector = await connect();
  const queues = [0, 1, 2].map((node) => cluster.queueOn(node));
  for (const queue of queues) await connector.run(call(append, 'list', ['first'], queue));
  for (const { admin } of cluster.nodes) {
    await admin.script('FLUSH');
    await admin.config('RESETSTAT');
  }
  const values = Array.from({ length: 10 }, (_, i) => String(i));
  const calls = values.flatMap((value) => queues.map((queue) => call(append, 'list', [value], queue)));
  expect((await connector.runAll(calls)).filter((o) => !o.ok)).toEqual([]);
  for (const [node, queue] of queues.entries()) {
    expect(await cluster.node(node).admin.lrange(`emq:{${queue}}:list`, 0, -1)).toEqual(['first', ...values]);
    // Loaded, not only evaluated: a node evicts what it knows from an EVAL.
    expect(await cluster.node(node).admin.info('commandstats')).toMatch(/cmdstat_script\|load:calls=1,/);
  }
});

describe('a slot that moves', () => {
  it('is waited for while it moves, and followed with its brand; nothing runs twice', async () => {
    await using connector = await connect({ replyTimeoutMs: 20_000 });
    const queue = cluster.queueOn(0, 'moving');
    const slot = slotOf(queue);
    const [from, to] = [cluster.node(0), cluster.node(1)];
    const [fromId, toId] = (await Promise.all([from, to].map(({ admin }) => admin.call('CLUSTER', 'MYID')))) as [
      string,
      string,
    ];
    let done = 0;
    let moving = true;
    const caller = (async () => {
      while (moving) {
        const outcomes = await connector.runAll([call(count, 'k', [], queue), call(count, 'k', [], queue)]);
        expect(outcomes.filter((o) => !o.ok)).toEqual([]);
        done += outcomes.length;
      }
    })();
    await to.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
    await from.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
    for (const key of (await from.admin.call('CLUSTER', 'GETKEYSINSLOT', slot, 10)) as string[]) {
      await from.admin.migrate('127.0.0.1', to.port, key, 0, 5_000);
    }
    // Its new node would run a script on what has come so far: the calls wait until the slot is its own.
    const { retries } = connector.stats();
    await expect.poll(() => connector.stats().retries).toBeGreaterThan(retries + 4);
    for (const { admin } of [to, from]) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
    const moved = done;
    await expect.poll(() => done).toBeGreaterThan(moved + 4);
    moving = false;
    await caller;
    expect(await to.admin.get(`emq:{${queue}}:k`)).toBe(String(done));
    expect(await brand(1, queue)).toBe('echomq:4.0.0');
    // Back, for the other tests.
    await to.admin.flushall();
    for (const { admin } of cluster.nodes) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', fromId);
    await cluster.settled();
  });
});

describe('a node that is lost', () => {
  it('takes only its own queues with it; its brands are looked at anew when it is back', async () => {
    await using connector = await connect({ waitMs: 200 });
    const [lost, kept] = [cluster.queueOn(2), cluster.queueOn(0)];
    for (const queue of [lost, kept]) await connector.run(call(count, 'k', [], queue));
    await cluster.node(2).end();
    const error = await errorOf(connector.run(call(count, 'k', [], lost)), 'EMQ_CONNECTION');
    expect(error.message).toMatch(/nothing was sent/);
    expect(await connector.run(call(count, 'k', [], kept))).toBe(2);
    // It comes back empty: brand and counter are gone.
    await cluster.node(2).boot();
    await cluster.settled();
    await expect.poll(() => connector.run(call(count, 'k', [], lost)).catch(() => 0)).toBe(1);
    expect(await brand(2, lost)).toBe('echomq:4.0.0');
    expect(connector.stats().unknownOutcomes).toBe(0);
  });

  it('answers what was in flight: unknown, or repeated when it is back', async () => {
    await using connector = await connect({ heartbeatMs: 50, heartbeatDeadlineMs: 150 });
    const queue = cluster.queueOn(1);
    await connector.runAll([call(count, 'k', [], queue), call(touch, 't', [], queue)]);
    cluster.node(1).signal('SIGSTOP');
    const unknown = errorOf(connector.run(call(count, 'k', [], queue)), 'EMQ_UNKNOWN_OUTCOME');
    const repeated = connector.run(call(touch, 't', [], queue));
    await unknown;
    cluster.node(1).signal('SIGCONT');
    expect(await repeated).toBeGreaterThanOrEqual(2);
    await cluster.settled();
  });

  it('with all the others is a lost connection, and is found again', async () => {
    await using own = await TestCluster.start();
    await using connector = await Connector.connect({
      cluster: { nodes: own.start },
      ...QUICK,
      waitMs: 20_000,
      replyTimeoutMs: 20_000,
    });
    const queue = own.queueOn(0);
    await connector.run(call(count, 'k', [], queue));
    const down = once(connector, 'disconnected');
    await Promise.all(own.nodes.map((node) => node.end()));
    const running = connector.run(call(read, 'k', [], queue));
    await down;
    await Promise.all(own.nodes.map((node) => node.boot()));
    expect(await running).toBeNull();
    expect(connector.stats().reconnects).toBeGreaterThanOrEqual(1);
  });
});

describe('one node, met without its cluster', () => {
  it('has the brand per queue, and sends other queues away with a clear error', async () => {
    await using connector = await Connector.connect(cluster.node(0).url);
    expect(connector.stats().perQueueBrand).toBe(true);
    const here = cluster.queueOn(0);
    expect(await connector.run(call(count, 'k', [], here))).toBe(1);
    expect(await brand(0, here)).toBe('echomq:4.0.0');
    const error = await errorOf(connector.run(call(count, 'k', [], cluster.queueOn(1))), 'MOVED');
    expect(error.reason).toMatch(/^MOVED \d+ 127.0.0.1:\d+/);
    expect(error.reason).toMatch(/connect with the cluster option/);
    for (const { admin } of cluster.nodes) expect(await admin.exists('{emq}:version').catch(() => 0)).toBe(0);
  });

  it('checks again after a reconnect', async () => {
    await using connector = await Connector.connect({ url: cluster.node(0).url, ...QUICK });
    const queue = cluster.queueOn(0);
    await connector.run(call(count, 'k', [], queue));
    await cluster.node(0).admin.set(`emq:{${queue}}:version`, 'echomq:6.0.0');
    const up = once(connector, 'connected');
    await cluster.node(0).killClients();
    await up;
    await errorOf(connector.run(call(count, 'k', [], queue)), 'EMQWIRE');
  });

  it('refuses a database other than 0', async () => {
    const error = await errorOf(Connector.connect(`${cluster.node(0).url}/1`), 'ERR');
    expect(error.reason).toMatch(/SELECT is not allowed|DB index/);
  });
});

describe('ways in', () => {
  it('an existing Cluster is duplicated and left alone', async () => {
    const mine = new Cluster(cluster.start, { redisOptions: { connectionName: 'mine' } });
    const queue = cluster.queueOn(1);
    await mine.set(`emq:{${queue}}:x`, '1');
    const options = { ...mine.options };
    {
      await using connector = await Connector.connect({ client: mine });
      expect(await connector.run(call(count, 'k', [], queue))).toBe(1);
    }
    expect(mine.options).toEqual(options);
    expect(mine.status).toBe('ready');
    expect(await mine.get(`emq:{${queue}}:x`)).toBe('1');
    mine.disconnect();
    await once(mine, 'end');
  });

  it('start nodes may be URLs', async () => {
    await using connector = await connect({ cluster: { nodes: cluster.nodes.map(({ url }) => url) } });
    expect(await connector.run(call(count, 'k', [], cluster.queueOn(2)))).toBe(1);
  });

  it('a server that is no cluster is said to be none', async () => {
    await using lone = await TestServer.start();
    const nodes = [{ host: '127.0.0.1', port: lone.port }];
    const error = await errorOf(Connector.connect({ cluster: { nodes } }), 'ERR');
    expect(error.reason).toMatch(/cluster support disabled/);
  });

  it('a wrong password is final', async () => {
    const options = { redisOptions: { username: 'nobody', password: 'wrong-password' } };
    const error = await errorOf(connect({ cluster: { nodes: cluster.start, options } }), 'WRONGPASS');
    expect(error.message).not.toContain('wrong-password');
  });

  it('leaves no connection behind', async () => {
    const connector = await connect();
    await connector.runAll([0, 1, 2].map((node) => call(count, 'k', [], cluster.queueOn(node))));
    const counts = (): Promise<number[]> =>
      Promise.all(cluster.nodes.map(async (node) => (await node.clients()).length));
    // The library's own connection for reading the slots goes a moment after it has read them.
    await expect.poll(counts).toEqual([1, 1, 1]);
    const started = performance.now();
    await connector.close();
    expect(performance.now() - started).toBeLessThan(500);
    await expect.poll(counts).toEqual([0, 0, 0]);
  });
});
