/** The ear of a process: one connection, opened and closed with need; back after every loss, with a gap; never in anybody's way. */
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { subscriberOf, type Subscription } from '../../src/bus/subscriber.js';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import { TestCluster } from '../wire/nodes.js';
import { Proxy } from '../wire/proxy.js';
import { TestServer } from '../wire/server.js';
import { call, count, errorOf } from '../wire/stand-ins.js';

let server: TestServer;
const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => server.admin.flushall());
afterEach(async () => {
  // Whatever a test did: nothing is left open.
  await vi.waitFor(async () => expect(await server.clients()).toEqual([]));
});

function connect(options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ url: server.url, ...QUICK, ...options });
}

interface Heard extends Subscription {
  /** Messages, and `gap` for a gap, as they came. */
  readonly heard: string[];
  /** The codes of the troubles. */
  readonly troubles: string[];
}

function listen(connector: Connector, channel: string): Heard {
  const heard: string[] = [];
  const troubles: string[] = [];
  const subscription = subscriberOf(connector).subscribe(channel, {
    message: (bytes) => heard.push(bytes.toString('latin1')),
    gap: () => heard.push('gap'),
    trouble: ({ code }) => troubles.push(code),
  });
  return Object.assign(subscription, { heard, troubles });
}

async function until(one: Heard, ...heard: string[]): Promise<void> {
  await vi.waitFor(() => expect(one.heard).toEqual(heard), { timeout: 5_000, interval: 5 });
}

const publish = (channel: string, message: string): Promise<number> => server.admin.publish(channel, message);
/** Connections that are subscribed to something. */
async function ears(): Promise<number> {
  const list = (await server.admin.client('LIST', 'TYPE', 'PUBSUB')) as string;
  return list.split('\n').filter(Boolean).length;
}

describe.each([2, 3] as const)('RESP%i', (protocol) => {
  it('listens to many channels on one connection, which comes with the first and goes with the last', async () => {
    await using connector = await connect({ protocol });
    expect(subscriberOf(connector)).toBe(subscriberOf(connector));
    const before = (await server.clients()).length;
    const monitor = await server.monitor();
    const one = listen(connector, 'one');
    const two = listen(connector, 'two');
    const again = listen(connector, 'one');
    await Promise.all([one.ready, two.ready, again.ready]);
    await monitor.close();
    expect(monitor.seen.filter(([, command]) => command === 'subscribe').map(([, , name]) => name)).toEqual([
      'one',
      'two',
    ]);
    expect((await server.clients()).length).toBe(before + 1);
    expect(subscriberOf(connector).stats()).toMatchObject({ channels: 2, connected: true, connects: 1, losses: 0 });
    expect([await publish('one', 'a'), await publish('two', 'b')]).toEqual([1, 1]);
    await Promise.all([until(one, 'a'), until(again, 'a'), until(two, 'b')]);

    const later = listen(connector, 'one');
    await later.ready;
    await later.close();
    await one.close();
    await publish('one', 'c');
    await until(again, 'a', 'c');
    await again.close();
    expect(await publish('one', 'd')).toBe(0);
    await publish('two', 'e');
    await until(two, 'b', 'e');
    expect(one.heard).toEqual(['a']);
    await two.close();
    expect((await server.clients()).length).toBe(before);
    expect(subscriberOf(connector).stats()).toMatchObject({ channels: 0, connected: false });

    const anew = listen(connector, 'two');
    await anew.ready;
    await publish('two', 'f');
    await until(anew, 'f');
  });

  it('passes bytes on as they are', async () => {
    await using connector = await connect({ protocol });
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const heard = new Promise<Buffer>((message) => {
      subscriberOf(connector)
        .subscribe('emq:{q}:events', { message, gap: () => {} })
        .ready.then(
          () => server.admin.publish('emq:{q}:events', bytes),
          () => {},
        );
    });
    expect(await heard).toEqual(bytes);
  });

  it('after a cut it listens again to everything and tells the gap before what comes next', async () => {
    await using proxy = await Proxy.start(server.port);
    await using connector = await connect({ url: proxy.url, protocol });
    const channels = ['one', 'two', 'three'];
    const all = channels.map((channel) => listen(connector, channel));
    await Promise.all(all.map(({ ready }) => ready));
    for (let times = 1; times <= 5; times++) {
      for (const one of all) one.heard.length = 0;
      proxy.cut();
      // From the moment the server counts it as a receiver nothing may be missed, and the gap is before it.
      for (const [i, channel] of channels.entries()) {
        await vi.waitFor(async () => expect(await publish(channel, `${times}`)).toBe(1), {
          timeout: 5_000,
          interval: 1,
        });
        await until(all[i] as Heard, 'gap', `${times}`);
      }
      expect(subscriberOf(connector).stats()).toMatchObject({ losses: times, connects: times + 1 });
    }
  });

  it('notices a half-open connection, also when it is never told anything', async () => {
    await using proxy = await Proxy.start(server.port);
    await using connector = await connect({ url: proxy.url, protocol, heartbeatMs: 20, heartbeatDeadlineMs: 100 });
    const one = listen(connector, 'one');
    await one.ready;
    const went = once(connector, 'disconnected');
    proxy.mode = 'deaf';
    await vi.waitFor(() => expect(subscriberOf(connector).stats().losses).toBe(1), { timeout: 2_000, interval: 5 });
    expect(subscriberOf(connector).stats().lastError?.message).toMatch(/no sign of life/);
    await went;
    proxy.mode = 'pass';
    proxy.cut();
    await until(one, 'gap');
    await publish('one', 'a');
    await until(one, 'gap', 'a');
  });

  it('a connection that stays silent while it is asked for is given up, and tried again', async () => {
    await using proxy = await Proxy.start(server.port);
    await using connector = await connect({ url: proxy.url, protocol, heartbeatDeadlineMs: 100 });
    proxy.mode = 'mute';
    const tried = once(proxy, 'connection');
    const one = listen(connector, 'one');
    await tried;
    // The second try.
    await once(proxy, 'connection');
    proxy.mode = 'pass';
    await one.ready;
    await publish('one', 'a');
    await until(one, 'a');
  });

  it('a user without the right to a channel is told so; it is listened to once it is allowed', async () => {
    await server.admin.call('ACL', 'SETUSER', 'narrow', 'on', '>secret-word', '~*', '+@all', 'resetchannels', '&one');
    await using connector = await connect({ protocol, redis: { username: 'narrow', password: 'secret-word' } });
    const one = listen(connector, 'one');
    const two = listen(connector, 'two');
    await one.ready;
    await errorOf(two.ready, 'NOPERM');
    expect(subscriberOf(connector).stats().lastError?.code).toBe('NOPERM');
    await publish('one', 'a');
    await until(one, 'a');
    await server.admin.call('ACL', 'SETUSER', 'narrow', '&two');
    await vi.waitFor(async () => expect(await publish('two', 'b')).toBe(1));
    await vi.waitFor(() => expect(two.heard).toContain('b'));
    // Refused again and again, told once; and only to whom it concerns.
    expect(two.troubles).toEqual(['NOPERM']);
    expect(one.troubles).toEqual([]);
  });
});

it('a server that is away at first is waited for', async () => {
  await using own = await TestServer.start();
  await using connector = await connect({ url: own.url });
  await own.end();
  const one = listen(connector, 'one');
  await vi.waitFor(() => expect(subscriberOf(connector).stats().lastError?.code).toBe('EMQ_CONNECTION'));
  await own.boot();
  await one.ready;
  await own.admin.publish('one', 'a');
  await until(one, 'a');
  expect(subscriberOf(connector).stats().lastError).toBeUndefined();
  await own.end();
  await vi.waitFor(() => expect(one.troubles).toEqual(['EMQ_CONNECTION', 'EMQ_CONNECTION']));
});

it('does not hold up calls, and a restart of the server is a gap', async () => {
  await using own = await TestServer.start();
  await using connector = await connect({ url: own.url, waitMs: 5_000 });
  const one = listen(connector, 'one');
  await one.ready;
  await own.end();
  await own.boot();
  await connector.run(call(count));
  await until(one, 'gap');
});

it('a foreign brand is told to who waits, and it listens when the brand has been mended', async () => {
  await using connector = await connect();
  await server.admin.set('{emq}:version', 'echomq:6.0.0');
  const one = listen(connector, 'one');
  await errorOf(one.ready, 'EMQWIRE');
  await server.admin.del('{emq}:version');
  await vi.waitFor(async () => expect(await publish('one', 'a')).toBe(1));
  await until(one, 'a');
});

it('a listener that throws breaks nothing', async () => {
  await using connector = await connect();
  const boom = (): never => {
    throw new Error('boom');
  };
  const bad = subscriberOf(connector).subscribe('one', { message: boom, gap: boom });
  const good = listen(connector, 'one');
  await Promise.all([bad.ready, good.ready]);
  await publish('one', 'a');
  await until(good, 'a');
  const back = once(connector, 'connected');
  await server.killClients();
  await back;
  await until(good, 'a', 'gap');
  expect(subscriberOf(connector).stats().listenerErrors).toBe(2);
});

it('one that comes and goes in the same turn, and one that follows, do not disturb each other', async () => {
  await using connector = await connect();
  const stays = listen(connector, 'other');
  for (let times = 0; times < 20; times++) {
    const first = listen(connector, 'one');
    const left = first.close();
    const second = listen(connector, 'one');
    await errorOf(first.ready, 'EMQ_CLOSED');
    await second.ready;
    expect(await publish('one', 'a')).toBe(1);
    await until(second, 'a');
    await Promise.all([left, second.close(), first.ended, second.ended]);
  }
  await stays.close();
  // The same where it is the last one: the connection goes, and another comes.
  for (let times = 0; times < 20; times++) {
    const first = listen(connector, 'one');
    if (times % 2 === 1) await first.ready;
    void first.close();
    const second = listen(connector, 'one');
    await second.ready;
    expect(await publish('one', 'a')).toBe(1);
    await until(second, 'a');
    await second.close();
    await second.close();
  }
});

describe('closing the connector', () => {
  it('ends every subscription, and new ones', async () => {
    const connector = await connect();
    const one = listen(connector, 'one');
    await one.ready;
    const late = listen(connector, 'two');
    await connector.close();
    await Promise.all([one.ended, late.ended]);
    const after = listen(connector, 'three');
    await errorOf(after.ready, 'EMQ_CLOSED');
    await after.ended;
    await Promise.all([one, late, after].map((each) => each.close()));
    await vi.waitFor(async () => expect(await ears()).toBe(0));
  });

  it('ends one that waits for its server, at once', async () => {
    await using own = await TestServer.start();
    const connector = await connect({ url: own.url, reconnectMinMs: 20_000, reconnectMaxMs: 20_000 });
    await own.end();
    const one = listen(connector, 'one');
    await vi.waitFor(() => expect(subscriberOf(connector).stats().lastError?.code).toBe('EMQ_CONNECTION'));
    const started = performance.now();
    await connector.close();
    await errorOf(one.ready, 'EMQ_CLOSED');
    await one.ended;
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

it('closing while it is being opened leaves no connection', async () => {
  await using proxy = await Proxy.start(server.port);
  await using connector = await connect({ url: proxy.url });
  proxy.mode = 'mute';
  const tried = once(proxy, 'connection');
  const one = listen(connector, 'one');
  await tried;
  await one.close();
  await vi.waitFor(async () => expect((await server.clients()).length).toBe(1));
});

describe('on a cluster', () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await TestCluster.start();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  const subscribed = async (): Promise<number[]> =>
    Promise.all(cluster.nodes.map(async ({ admin }) => ((await admin.call('PUBSUB', 'CHANNELS')) as unknown[]).length));

  it('is one connection to one node that hears of all, and moves on when that node is lost', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start }, ...QUICK });
    const one = listen(connector, 'one');
    await one.ready;
    // Nodes that have just met may not be connected to each other yet: what one publishes is heard there once they are.
    for (const [i, { admin }] of cluster.nodes.entries()) {
      await vi.waitFor(async () => {
        await admin.publish('one', String(i));
        expect(one.heard).toContain(String(i));
      });
    }
    const at = (await subscribed()).indexOf(1);
    expect(await subscribed()).toEqual([0, 1, 2].map((i) => Number(i === at)));
    await cluster.node(at).end();
    await vi.waitFor(() => expect(one.heard).toContain('gap'), { timeout: 5_000 });
    for (const { admin } of cluster.nodes.filter((_, i) => i !== at)) await admin.publish('one', 'on');
    await vi.waitFor(() => expect(one.heard.slice(-3)).toEqual(['gap', 'on', 'on']));
    await cluster.node(at).boot();
    await cluster.settled();
  });

  it('leaves a node that its cluster has lost, though it is still up', async () => {
    await using connector = await Connector.connect({ cluster: { nodes: cluster.start }, ...QUICK });
    const one = listen(connector, 'one');
    await one.ready;
    const { admin } = cluster.node((await subscribed()).indexOf(1));
    // The shared connections only: not those that subscribe.
    await admin.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'SKIPME', 'YES');
    await until(one, 'gap');
    await vi.waitFor(async () => expect((await subscribed()).reduce((sum, n) => sum + n)).toBe(1));
  });
});
