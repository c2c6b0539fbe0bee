/**
 * The connector's option `eviction`: a node that throws jobs away when its memory is full is told of, refused or let be,
 * before anything is written to it, at every connect, and at no cost of a round trip.
 */
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Connector, EmqError, Jobs, Queue, type ConnectorOptions } from '../../src/index.js';
import { TestCluster } from '../wire/nodes.js';
import { Proxy } from '../wire/proxy.js';
import { TestServer } from '../wire/server.js';
import { call, errorOf, touch } from '../wire/stand-ins.js';

const BAD = ['allkeys-lru', 'allkeys-lfu', 'allkeys-random'] as const;
const GOOD = ['noeviction', 'volatile-lru', 'volatile-lfu', 'volatile-random', 'volatile-ttl'] as const;
const FAST = { reconnectMinMs: 5, reconnectMaxMs: 20 } as const;

const open: Connector[] = [];
async function connect(options: ConnectorOptions): Promise<Connector> {
  const connector = await Connector.connect({ ...FAST, ...options });
  open.push(connector);
  return connector;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

/** The warnings that a connector gives from now on. */
function heard(connector: Connector): EmqError[] {
  const warnings: EmqError[] = [];
  connector.on('warning', (warning) => warnings.push(warning));
  return warnings;
}

/** What the process is warned of from now on. */
function processWarnings(): Error[] & Disposable {
  const warnings: Error[] = [];
  const listen = (warning: Error): void => void warnings.push(warning);
  process.on('warning', listen);
  return Object.assign(warnings, { [Symbol.dispose]: () => void process.off('warning', listen) });
}

describe('one server', () => {
  let server: TestServer;
  const policy = (name: string) => server.admin.config('SET', 'maxmemory-policy', name);
  const reconnected = async (connector: Connector): Promise<void> => {
    const up = once(connector, 'connected');
    await server.killClients();
    await up;
  };

  beforeAll(async () => {
    server = await TestServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    await server.admin.flushall();
    await policy('noeviction');
  });

  it.each(BAD)('%s: warned of with the node, the danger and the cure', async (name) => {
    await policy(name);
    const warnings = heard(await connect({ url: server.url }));
    await vi.waitUntil(() => warnings.length > 0);
    const [warning] = warnings;
    expect(warning).toBeInstanceOf(EmqError);
    expect(warning?.code).toBe('EMQ_EVICTION');
    expect(warning?.message).toMatch(
      new RegExp(`^EMQ_EVICTION 127.0.0.1:${server.port} has maxmemory-policy ${name}: as soon as maxmemory is set`),
    );
    expect(warning?.message).toMatch(/CONFIG SET maxmemory-policy noeviction.*eviction: 'ignore'/);
  });

  it('with a limit of memory the danger is there, not to come', async () => {
    await policy('allkeys-lru');
    await server.admin.config('SET', 'maxmemory', '1gb');
    const warnings = heard(await connect({ url: server.url }));
    await vi.waitUntil(() => warnings.length > 0);
    expect(warnings[0]?.message).toMatch(/allkeys-lru: when its memory is full, jobs and whole queues/);
    await server.admin.config('SET', 'maxmemory', '0');
  });

  it.each(GOOD)('%s: nothing to say, and refuse connects', async (name) => {
    await policy(name);
    const connector = await connect({ url: server.url, eviction: 'refuse' });
    const warnings = heard(connector);
    await reconnected(connector);
    await connector.run(call(touch));
    expect(warnings).toEqual([]);
  });

  it('tells of a node and its policy once, however often it connects, and anew when that has changed', async () => {
    await policy('allkeys-lru');
    const connector = await connect({ url: server.url });
    const warnings = heard(connector);
    await vi.waitUntil(() => warnings.length === 1);
    await reconnected(connector);
    await reconnected(connector);
    await policy('allkeys-random');
    await reconnected(connector);
    await vi.waitUntil(() => warnings.length === 2);
    await policy('noeviction');
    await reconnected(connector);
    await policy('allkeys-random');
    await reconnected(connector);
    await vi.waitUntil(() => warnings.length === 3);
    expect(warnings.map(({ reason }) => /policy (\S+):/.exec(reason)?.[1])).toEqual([
      'allkeys-lru',
      'allkeys-random',
      'allkeys-random',
    ]);
  });

  it('where nobody listens the process is warned, once', async () => {
    using warnings = processWarnings();
    await policy('allkeys-lru');
    const connector = await connect({ url: server.url });
    await vi.waitUntil(() => warnings.length > 0);
    await policy('allkeys-lfu');
    await reconnected(connector);
    await reconnected(connector);
    await connector.run(call(touch));
    expect(warnings.map((warning) => (warning as NodeJS.ErrnoException).code)).toEqual(['EMQ_EVICTION']);
  });

  it.each([4, 6] as const)('refuse, wire %i: no connection, nothing branded, final at once', async (wire) => {
    await policy('allkeys-lru');
    const monitor = await server.monitor();
    const error = await errorOf(Connector.connect({ url: server.url, wire, eviction: 'refuse' }), 'EMQ_EVICTION');
    await monitor.close();
    expect(error.reason).toMatch(/allkeys-lru.*CONFIG SET maxmemory-policy noeviction/);
    expect(error.reason).not.toMatch(/ignore/);
    expect(await server.admin.dbsize()).toBe(0);
    const sent = monitor.seen
      .map(([, command]) => command)
      .filter((command) => /^(get|set|eval|command)/.test(command!));
    expect(sent).toEqual([]);
    // one try was enough
    expect(monitor.seen.filter(([, command]) => command === 'info')).toHaveLength(1);
  });

  it('refuse at a reconnect: told, calls are refused with it, and all is well when it is mended', async () => {
    const connector = await connect({ url: server.url, eviction: 'refuse' });
    await policy('allkeys-lru');
    const refused = once(connector, 'refused');
    await server.killClients();
    expect((await refused)[0]).toMatchObject({ code: 'EMQ_EVICTION' });
    expect(connector.stats().state).toBe('refused');
    await errorOf(connector.run(call(touch)), 'EMQ_EVICTION');
    const up = once(connector, 'connected');
    await policy('noeviction');
    await up;
    expect(await connector.run(call(touch))).toBe(1);
  });

  it('a running consumer waits for the node to be mended, and loses nothing', async () => {
    const connector = await connect({ url: server.url, eviction: 'refuse' });
    const queue = new Queue<number>(connector, 'q');
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const consumer = queue.consume(() => held, { beatMs: 20 });
    await queue.enqueue(1);
    await vi.waitUntil(() => consumer.stats().running === 1);
    await policy('allkeys-lru');
    const refused = once(connector, 'refused');
    await server.killClients();
    await refused;
    release();
    await policy('noeviction');
    await vi.waitUntil(() => consumer.stats().completed === 1, { timeout: 10_000 });
    await consumer.close();
  });

  it('ignore: the node is not asked', async () => {
    await policy('allkeys-lru');
    const monitor = await server.monitor();
    const warnings = heard(await connect({ url: server.url, eviction: 'ignore' }));
    await monitor.close();
    expect(monitor.seen.some(([, command]) => command === 'info')).toBe(false);
    expect(warnings).toEqual([]);
  });

  it('the question leaves in the write of HELLO, and links of their own do not ask again', async () => {
    await using proxy = await Proxy.start(server.port);
    const asked = proxy.seen('memory');
    const monitor = await server.monitor();
    const connector = await connect({ url: proxy.url });
    expect((await asked).toString()).toMatch(/\r\nHELLO\r\n.*\r\nINFO\r\n/is);
    const consumer = new Queue(connector, 'q').consume(() => {}, { beatMs: 20 });
    await vi.waitUntil(async () => (await server.clients()).length >= 3);
    await consumer.close();
    await monitor.close();
    expect(monitor.seen.filter(([, command]) => command === 'info')).toHaveLength(1);
  });

  describe('a user who may not ask', () => {
    const login = { username: 'quiet', password: 'quiet-secret' } as const;
    beforeAll(async () => {
      await server.admin.call('ACL', 'SETUSER', 'quiet', 'on', '>quiet-secret', '~*', '&*', '+@all', '-info');
    });
    const redis = () => ({ host: '127.0.0.1', port: server.port, ...login });

    it('warn: silent, and the ACL LOG has it once, however often it connects', async () => {
      await policy('allkeys-lru');
      await server.admin.call('ACL', 'LOG', 'RESET');
      using told = processWarnings();
      const connector = await connect({ redis: redis() });
      const warnings = heard(connector);
      await reconnected(connector);
      await reconnected(connector);
      await connector.run(call(touch));
      expect([...warnings, ...told]).toEqual([]);
      const log = (await server.admin.call('ACL', 'LOG')) as unknown[][];
      expect(log.map((entry) => [entry[1], entry[7]])).toEqual([[1, 'info']]);
    });

    it('refuse: has to know', async () => {
      const error = await errorOf(Connector.connect({ redis: redis(), eviction: 'refuse' }), 'EMQ_EVICTION');
      expect(error.reason).toMatch(/has to know .*this user may not ask \(it needs \+info\)/);
      expect(JSON.stringify(error)).not.toContain(login.password);
      expect(await server.admin.dbsize()).toBe(0);
    });

    it('a wrong password is still called a wrong password', async () => {
      const wrong = { ...redis(), password: 'not-that-one' };
      for (const protocol of [2, 3] as const) {
        await errorOf(Connector.connect({ redis: wrong, eviction: 'refuse', protocol }), 'WRONGPASS');
      }
    });
  });

  it('a server that is busy with a script is waited for, not called unknown', async () => {
    await server.admin.config('SET', 'busy-reply-threshold', '1');
    const other = server.admin.duplicate();
    const endless = other.eval('while true do end', 0).catch((error: unknown) => error);
    await vi.waitUntil(async () => (await server.admin.ping().catch(() => 'busy')) === 'busy');
    const connecting = connect({ url: server.url, eviction: 'refuse' });
    await server.admin.script('KILL');
    await connecting;
    await endless;
    other.disconnect();
    await server.admin.config('SET', 'busy-reply-threshold', '5000');
  });
});

describe('a cluster', () => {
  let cluster: TestCluster;
  const policy = (i: number, name: string) => cluster.node(i).admin.config('SET', 'maxmemory-policy', name);
  beforeAll(async () => {
    cluster = await TestCluster.start();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());
  beforeEach(async () => {
    for (const [i, { admin }] of cluster.nodes.entries()) {
      await admin.flushall();
      await policy(i, 'noeviction');
    }
  });

  it('every primary is looked at, and told of by its own name', async () => {
    await policy(1, 'allkeys-lru');
    await policy(2, 'allkeys-random');
    const warnings = heard(await connect({ cluster: { nodes: cluster.start } }));
    await vi.waitUntil(() => warnings.length === 2);
    const told = warnings.map(({ reason }) => /(127\S+) has maxmemory-policy (\S+):/.exec(reason)?.slice(1)).sort();
    expect(told).toEqual(
      [
        [`127.0.0.1:${cluster.node(1).port}`, 'allkeys-lru'],
        [`127.0.0.1:${cluster.node(2).port}`, 'allkeys-random'],
      ].sort(),
    );
  });

  it('refuse: one is enough', async () => {
    await policy(2, 'allkeys-lru');
    const error = await errorOf(
      Connector.connect({ cluster: { nodes: cluster.start }, eviction: 'refuse' }),
      'EMQ_EVICTION',
    );
    expect(error.reason).toContain(`127.0.0.1:${cluster.node(2).port} has maxmemory-policy allkeys-lru`);
  });

  it('a node that is met anew is looked at before a queue is branded there, once', async () => {
    const connector = await connect({ cluster: { nodes: cluster.start }, eviction: 'refuse' });
    const [queue, other] = [cluster.queueOn(1), cluster.queueOn(1, 'other')];
    await policy(1, 'allkeys-lru');
    const { epoch } = connector;
    await cluster.node(1).killClients();
    await vi.waitUntil(() => connector.epoch > epoch);
    await errorOf(new Jobs(connector, queue).enqueue(1), 'EMQ_EVICTION');
    expect(await cluster.node(1).admin.dbsize()).toBe(0);
    await policy(1, 'noeviction');
    const monitor = await cluster.node(1).monitor();
    await new Jobs(connector, queue).enqueue(1);
    await new Jobs(connector, other).enqueue(1);
    await monitor.close();
    expect(monitor.seen.filter(([, command]) => command === 'info')).toHaveLength(1);
  });
});
