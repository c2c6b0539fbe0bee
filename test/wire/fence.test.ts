/** The fence on one server: every state of the node, at the first connect and at a reconnect, and what comes first on the wire. */
import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { BRANDS, NATIVE_COMMANDS, proveModule } from '../../src/wire/fence.js';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import { Proxy } from './proxy.js';
import { TestServer } from './server.js';
import { call, count, errorOf, read } from './stand-ins.js';

const KEY = '{emq}:version';
let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await server.admin.flushall();
});

function connect(options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ url: server.url, reconnectMinMs: 20, reconnectMaxMs: 100, ...options });
}

describe('at the first connect', () => {
  it('brands an unbranded node, and finds its own brand again', async () => {
    await using first = await connect();
    expect(await server.admin.get(KEY)).toBe('echomq:4.0.0');
    await using second = await connect({ claim: false });
    expect([first.wire, second.wire]).toEqual([4, 4]);
  });

  it('refuses an unbranded node with claim: false, and brands nothing', async () => {
    const error = await errorOf(connect({ claim: false }), 'EMQWIRE');
    expect(error.reason).toBe('EMQWIRE node is unbranded, needs echomq:4.0.0, and claim: false does not brand');
    expect(await server.admin.dbsize()).toBe(0);
  });

  it.each([
    ['echomq:6.0.0', /node is echomq:6.0.0, needs echomq:4.0.0: connect with wire: 6/],
    ['echomq:4.0.1', /node is echomq:4.0.1, needs echomq:4.0.0$/],
    ['', /node is "", needs/],
    ['echomq:4.0.0\n', /node is "echomq:4.0.0\\n"/],
    ['x'.repeat(500), /node is x{60}\.\.\., needs/],
  ])('refuses the brand %j at once, naming both, and writes nothing', async (brand, words) => {
    await server.admin.set(KEY, brand);
    const error = await errorOf(connect({ connectTimeoutMs: 60_000 }), 'EMQWIRE');
    expect(error.reason).toMatch(words);
    expect(await server.admin.get(KEY)).toBe(brand);
    expect(await server.admin.dbsize()).toBe(1);
    expect(await server.clients()).toEqual([]);
  });

  it('reports a brand key of another type as what it is', async () => {
    await server.admin.lpush(KEY, 'echomq:4.0.0');
    await errorOf(connect(), 'WRONGTYPE');
    expect(await server.admin.lrange(KEY, 0, -1)).toEqual(['echomq:4.0.0']);
  });

  it('brands once when many come at once', async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => connect()));
    await Promise.all(all.map((connector) => connector.close()));
    expect(await server.admin.get(KEY)).toBe('echomq:4.0.0');
  });

  it('refuses wire 6 without the module before it looks at any brand, and brands nothing', async () => {
    const error = await errorOf(connect({ wire: 6 }), 'EMQWIRE');
    expect(error.reason).toMatch(/^EMQWIRE the module trafikey is not loaded .*EMQ.CLAIM/);
    expect(await server.admin.dbsize()).toBe(0);
  });

  it('fences the database that was asked for', async () => {
    await server.admin.set(KEY, 'echomq:6.0.0');
    await using connector = await connect({ redis: { db: 3 } });
    await connector.run(call(count));
    expect(await server.admin.get(KEY)).toBe('echomq:6.0.0');
    expect(await server.admin.dbsize()).toBe(1);
  });

  it('never falls back to database 0', async () => {
    const error = await errorOf(connect({ url: `${server.url}/9999` }), 'ERR');
    expect(error.reason).toMatch(/DB index is out of range/);
    expect(await server.admin.dbsize()).toBe(0);
  });
});

it('proves the module by all of its commands', async () => {
  const command = ['name', -1, [], 1, 1, 1];
  const all = NATIVE_COMMANDS.map(() => command);
  await proveModule(() => Promise.resolve(all as never));
  const partly = proveModule(() => Promise.resolve([...all.slice(1), null] as never));
  expect((await errorOf(partly, 'EMQWIRE')).reason).toMatch(/older than this client \(no EMQ.STALLED.CHECK\)/);
  const none = proveModule(() => Promise.resolve(all.map(() => null) as never));
  expect((await errorOf(none, 'EMQWIRE')).reason).toMatch(/is not loaded \(no EMQ.CLAIM, .*EMQ.STALLED.CHECK\)/);
  expect(BRANDS).toEqual({ 4: 'echomq:4.0.0', 6: 'echomq:6.0.0' });
});

describe('at a reconnect', () => {
  it('claims again when the brand went away', async () => {
    await using connector = await connect();
    await server.admin.del(KEY);
    const up = once(connector, 'connected');
    await server.killClients();
    await up;
    expect(await server.admin.get(KEY)).toBe('echomq:4.0.0');
    expect(connector.stats()).toMatchObject({ state: 'up', connects: 2, reconnects: 1 });
  });

  it('reports a foreign brand, refuses calls with it, writes nothing, and goes on when it is mended', async () => {
    await using connector = await connect();
    await server.admin.set(KEY, 'echomq:6.0.0');
    const refused = once(connector, 'refused');
    await server.killClients();
    const [reported] = await refused;
    expect(reported).toMatchObject({ code: 'EMQWIRE' });
    expect(connector.stats().state).toBe('refused');
    // At once: no time passes between the call and its refusal.
    let error: unknown;
    connector.run(call(count)).catch((reason: unknown) => (error = reason));
    await Promise.resolve();
    expect(error).toMatchObject({ code: 'EMQWIRE' });
    expect(error).toMatchObject({
      reason: expect.stringMatching(/node is echomq:6.0.0, needs echomq:4.0.0/) as string,
    });
    expect(await server.admin.dbsize()).toBe(1);
    const up = once(connector, 'connected');
    await server.admin.set(KEY, 'echomq:4.0.0');
    await up;
    expect(await connector.run(call(count))).toBe(1);
  });

  it('hands the refusal to calls that were waiting for the reconnect', async () => {
    await using connector = await connect({ waitMs: 30_000, replyTimeoutMs: 30_000 });
    await server.admin.set(KEY, 'echomq:6.0.0');
    const down = once(connector, 'disconnected');
    await server.killClients();
    await down;
    await errorOf(connector.run(call(count)), 'EMQWIRE');
  });
});

describe('what comes first on the wire', () => {
  it('no call is sent on a connection before its fence', async () => {
    const monitor = await server.monitor();
    await using connector = await connect({ waitMs: 10_000 });
    let calls = 0;
    for (let round = 0; round < 10; round++) {
      const up = once(connector, 'connected');
      await server.killClients();
      let over = false;
      void up.then(() => (over = true));
      // Made at every moment of a reconnect: these are what could be sent too early.
      while (!over) {
        calls++;
        await connector.run(call(read));
      }
    }
    await monitor.close();
    const evals = monitor.seen.filter(([source, command]) => source !== 'lua' && /^eval/.test(command ?? ''));
    const sources = new Set(evals.map(([source]) => source));
    expect(evals.length).toBeGreaterThanOrEqual(calls);
    expect(sources.size).toBeGreaterThanOrEqual(10);
    for (const source of sources) {
      const commands = monitor.seen.filter(([from]) => from === source).map(([, command, key]) => [command, key]);
      const fenced = commands.findIndex(([command, key]) => command === 'get' && key === KEY);
      const called = commands.findIndex(([command]) => /^eval/.test(command ?? ''));
      expect(fenced).toBeGreaterThanOrEqual(0);
      expect(called).toBeGreaterThan(fenced);
    }
  });
});

describe('error replies are not brands', () => {
  it('a server that is loading is waited for', async () => {
    await using loading = await slowToLoad(300);
    await using connector = await Connector.connect({ url: loading.url, connectTimeoutMs: 60_000 });
    expect(connector.stats().connects).toBe(1);
    expect(await loading.admin.get(KEY)).toBe('echomq:4.0.0');
  });

  it('a server that goes on loading is reported as LOADING', async () => {
    await using loading = await slowToLoad(10_000);
    await errorOf(Connector.connect({ url: loading.url, connectTimeoutMs: 500 }), 'LOADING');
  });

  it('what a try met is told, and not that the last one was cut short', async () => {
    await using loading = await slowToLoad(5_000);
    await using proxy = await Proxy.start(loading.port);
    let connections = 0;
    proxy.on('connection', () => {
      if (++connections > 1) proxy.mode = 'deaf';
    });
    await errorOf(Connector.connect({ url: proxy.url, connectTimeoutMs: 500 }), 'LOADING');
    expect(connections).toBe(2);
  });

  it('an unbranded read-only replica is READONLY; a branded one can be read', async () => {
    await using replica = await TestServer.start('--replicaof', `127.0.0.1 ${server.port}`);
    await linkUp(replica);
    const error = await errorOf(Connector.connect(replica.url), 'READONLY');
    expect(error.reason).toMatch(/^READONLY /);
    expect(await replica.admin.dbsize()).toBe(0);
    await server.admin.set(KEY, 'echomq:4.0.0');
    await server.admin.wait(1, 5_000);
    await using connector = await Connector.connect(replica.url);
    expect(await connector.run(call(read))).toBeNull();
  });

  it('a replica without its primary is MASTERDOWN, and waited for', async () => {
    const lone = await TestServer.start();
    await using replica = await TestServer.start(
      '--replica-serve-stale-data',
      'no',
      '--replicaof',
      `127.0.0.1 ${lone.port}`,
    );
    await linkUp(replica);
    await lone[Symbol.asyncDispose]();
    await linkDown(replica);
    await errorOf(Connector.connect({ url: replica.url, connectTimeoutMs: 300 }), 'MASTERDOWN');
  });
});

/** A server in the middle of loading its data: about a millisecond for each key. */
async function slowToLoad(keys: number): Promise<TestServer> {
  const slow = await TestServer.start('--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024');
  await slow.admin.eval("for i = 1, ARGV[1] do redis.call('SET', i, string.rep('x', 200)) end", 0, keys);
  await slow.admin.save();
  await slow.end();
  await slow.launch(/Loading RDB/);
  return slow;
}

/** Replication comes up within a second or so; there is no event for it, so the server is asked until it has. */
async function linkUp(replica: TestServer): Promise<void> {
  while (!(await replica.admin.info('replication')).includes('master_link_status:up')) await new Promise(setImmediate);
}

async function linkDown(replica: TestServer): Promise<void> {
  while (!(await replica.admin.info('replication')).includes('master_link_status:down'))
    await new Promise(setImmediate);
}
