/** Links of their own: fenced, watched, routed on a cluster, and gone with their connector; and the count of interruptions. */
import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import type { Link } from '../../src/wire/transport.js';
import { TestCluster } from './nodes.js';
import { Proxy } from './proxy.js';
import { TestServer } from './server.js';
import { call, count, errorOf, spoken } from './stand-ins.js';

let server: TestServer;
const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };
const { signal } = new AbortController();

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => server.admin.flushall());

function connect(options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ url: server.url, ...QUICK, ...options });
}

/** The reason of a link's loss. Listen before it can be lost. */
function lost(link: Link): Promise<Error> {
  return new Promise((resolve) => (link.onLost = resolve));
}

async function hears(link: Link, channel: string, message: string): Promise<void> {
  const heard = new Promise<string[]>((resolve) => {
    link.onMessage = (...parts) => resolve(parts.map(String));
  });
  await server.admin.publish(channel, message);
  expect(await heard).toEqual([channel, message]);
}

describe.each([2, 3] as const)('RESP%i', (protocol) => {
  it('blocks without holding up the calls of the connector', async () => {
    await using connector = await connect({ protocol });
    const link = await connector.openDedicated(signal, { queue: 'q', blockMs: 10_000 });
    expect(link.protocol).toBe(spoken(protocol));
    const popped = link.ask('q', 'BLPOP', ['emq:{q}:wake', '10']);
    expect(await connector.run(call(count))).toBe(1);
    await server.admin.lpush('emq:{q}:wake', '1');
    expect(await popped).toEqual([Buffer.from('emq:{q}:wake'), Buffer.from('1')]);
  });

  it('subscribes and unsubscribes', async () => {
    await using connector = await connect({ protocol });
    const link = await connector.openDedicated(signal);
    await link.subscribe('one');
    await link.subscribe('two');
    await hears(link, 'one', 'a');
    await hears(link, 'two', 'b');
    await link.unsubscribe('one');
    expect(await server.admin.publish('one', 'c')).toBe(0);
    await hears(link, 'two', 'd');
    await link.unsubscribe('two');
    await link.subscribe('one');
    await hears(link, 'one', 'e');
  });

  it('stays up while it is idle in a subscription, and is lost when the other side is half-open', async () => {
    await using proxy = await Proxy.start(server.port);
    await using connector = await connect({ url: proxy.url, protocol, heartbeatMs: 20, heartbeatDeadlineMs: 60 });
    const link = await connector.openDedicated(signal);
    await link.subscribe('one');
    // Ten signs of life asked for and given: it is not taken for dead while nothing is published.
    for (let asked = 0; asked < 10; asked++) await proxy.seen('PING');
    expect(link.usable).toBe(true);
    await hears(link, 'one', 'a');
    const loss = lost(link);
    proxy.mode = 'deaf';
    expect((await loss).message).toMatch(/no sign of life for 60 ms/);
    await link.ended;
    expect(link.usable).toBe(false);
  });

  it('a blocked read is no half-open peer: the peer has as much more time as it may block', async () => {
    await using proxy = await Proxy.start(server.port);
    await using connector = await connect({ url: proxy.url, protocol, heartbeatMs: 20, heartbeatDeadlineMs: 60 });
    const link = await connector.openDedicated(signal, { queue: 'q', blockMs: 1_000 });
    // Silent for five times what an ordinary connection would be given.
    expect(await link.ask('q', 'BLPOP', ['emq:{q}:wake', '0.3'])).toBeNull();
    const loss = lost(link);
    proxy.mode = 'deaf';
    const asked = performance.now();
    expect((await loss).message).toMatch(/no sign of life for 1060 ms/);
    expect(performance.now() - asked).toBeLessThan(3_000);
  });
});

it('passes the fence, and is refused by it like every other connection', async () => {
  await using connector = await connect();
  await server.admin.set('{emq}:version', 'echomq:6.0.0');
  const before = await server.clients();
  await errorOf(connector.openDedicated(signal), 'EMQWIRE');
  await vi.waitFor(async () => expect(await server.clients()).toEqual(before));
});

it('a server that is away is EMQ_CONNECTION, after one try', async () => {
  await using own = await TestServer.start();
  await using connector = await connect({ url: own.url });
  await own.end();
  await errorOf(connector.openDedicated(signal), 'EMQ_CONNECTION');
});

it('an abort gives up a try that hangs, and leaves an open link alone', async () => {
  await using proxy = await Proxy.start(server.port);
  await using connector = await connect({ url: proxy.url });
  const giveUp = new AbortController();
  const link = await connector.openDedicated(giveUp.signal);
  proxy.mode = 'mute';
  const connected = once(proxy, 'connection');
  const opening = connector.openDedicated(giveUp.signal);
  await connected;
  giveUp.abort();
  expect((await errorOf(opening, 'EMQ_CLOSED')).message).toMatch(/given up/);
  proxy.mode = 'pass';
  expect(await link.ask('q', 'GET', ['none'])).toBeNull();
  await errorOf(connector.openDedicated(giveUp.signal), 'EMQ_CLOSED');
});

it('close ends the open ones and the half open ones at once, and refuses new ones', async () => {
  await using proxy = await Proxy.start(server.port);
  const connector = await connect({ url: proxy.url });
  const blocked = await connector.openDedicated(signal, { queue: 'q', blockMs: 60_000 });
  const popped = errorOf(blocked.ask('q', 'BLPOP', ['emq:{q}:wake', '60']), 'EMQ_CONNECTION');
  const subscriber = await connector.openDedicated(signal);
  await subscriber.subscribe('one');
  proxy.mode = 'mute';
  const connected = once(proxy, 'connection');
  const opening = errorOf(connector.openDedicated(signal), 'EMQ_CLOSED');
  await connected;
  const started = performance.now();
  await connector.close();
  expect(performance.now() - started).toBeLessThan(800);
  expect((await opening).message).toMatch(/closed/);
  await Promise.all([popped, blocked.ended, subscriber.ended]);
  await errorOf(connector.openDedicated(signal), 'EMQ_CLOSED');
  await vi.waitFor(async () => expect(await server.clients()).toEqual([]));
});

it('a link that was destroyed is told to nobody twice and forgotten', async () => {
  const connector = await connect();
  const link = await connector.openDedicated(signal);
  const onLost = vi.fn();
  link.onLost = onLost;
  await link.destroy();
  await link.ended;
  await link.destroy();
  expect(onLost).toHaveBeenCalledTimes(1);
  await connector.close();
});

it('the epoch grows with every connection that is taken up, and at no other time', async () => {
  await using connector = await connect();
  const first = connector.epoch;
  const link = await connector.openDedicated(signal);
  await connector.run(call(count));
  await link.destroy();
  expect(connector.epoch).toBe(first);
  for (let times = 1; times <= 3; times++) {
    const back = once(connector, 'connected');
    await server.killClients();
    await back;
    expect(connector.epoch).toBe(first + times);
  }
});

describe('on a cluster', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.start();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  const start = (options: ConnectorOptions = {}): Promise<Connector> =>
    Connector.connect({ cluster: { nodes: cluster.start }, ...QUICK, ...options });

  it.each([0, 1, 2])('one connection to the node that serves the queue: node %i', async (i) => {
    await using connector = await start();
    const queue = cluster.queueOn(i);
    const others = await Promise.all(cluster.nodes.map((node) => node.clients()));
    const link = await connector.openDedicated(signal, { queue, blockMs: 10_000 });
    const now = await Promise.all(cluster.nodes.map((node) => node.clients()));
    expect(now.map((ids, at) => ids.length - (others[at]?.length ?? 0))).toEqual(
      [0, 1, 2].map((at) => Number(at === i)),
    );
    const popped = link.ask(queue, 'BLPOP', [`emq:{${queue}}:wake`, '10']);
    await cluster.node(i).admin.lpush(`emq:{${queue}}:wake`, '1');
    expect(await popped).toEqual([Buffer.from(`emq:{${queue}}:wake`), Buffer.from('1')]);
    expect(await cluster.node(i).admin.get(`emq:{${queue}}:version`)).toBe('echomq:4.0.0');
  });

  it('the brand of the queue is its fence', async () => {
    await using connector = await start();
    const queue = cluster.queueOn(1, 'foreign');
    await cluster.node(1).admin.set(`emq:{${queue}}:version`, 'echomq:6.0.0');
    const before = await cluster.node(1).clients();
    const error = await errorOf(connector.openDedicated(signal, { queue }), 'EMQWIRE');
    expect(error.message).toContain(queue);
    await vi.waitFor(async () => expect(await cluster.node(1).clients()).toEqual(before));
  });

  it('hears on whatever node what is published on any', async () => {
    await using connector = await start();
    const link = await connector.openDedicated(signal);
    await link.subscribe('one');
    const heard: string[] = [];
    link.onMessage = (_, message) => heard.push(String(message));
    // Nodes that have just met may not be connected to each other yet: what one publishes is heard there once they are.
    for (const [i, { admin }] of cluster.nodes.entries()) {
      await vi.waitFor(async () => {
        await admin.publish('one', String(i));
        expect(heard).toContain(String(i));
      });
    }
  });

  it('the epoch grows when a node is lost', async () => {
    await using connector = await start();
    for (const i of [0, 1, 2]) await connector.run(call(count, 'k', [], cluster.queueOn(i)));
    const before = connector.epoch;
    await cluster.node(2).killClients();
    await vi.waitFor(() => expect(connector.epoch).toBeGreaterThan(before));
    expect(connector.stats().connects).toBe(1);
  });

  it('without a connection there is no node to go to: EMQ_CONNECTION, and EMQ_CLOSED after close', async () => {
    const connector = await start({ heartbeatMs: 20, heartbeatDeadlineMs: 200 });
    const down = once(connector, 'disconnected');
    for (const node of cluster.nodes) node.signal('SIGSTOP');
    try {
      await down;
      await errorOf(connector.openDedicated(signal, { queue: 'q' }), 'EMQ_CONNECTION');
    } finally {
      for (const node of cluster.nodes) node.signal('SIGCONT');
    }
    await connector.close();
    await errorOf(connector.openDedicated(signal, { queue: 'q' }), 'EMQ_CLOSED');
  });
});
