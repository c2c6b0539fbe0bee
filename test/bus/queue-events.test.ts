/** A queue's events as a program sees them: complete after ready, gaps told, strangers harmless; on both executors and both RESP versions. */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { eventText, type QueueEvent } from '../../src/bus/event.js';
import type { EventGap } from '../../src/bus/feed.js';
import { QueueEvents } from '../../src/bus/queue-events.js';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { mint } from '../../src/ids/mint.js';
import { Jobs } from '../../src/queue/jobs.js';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import { Keyspace } from '../../src/wire/keyspace.js';
import { transitions } from '../../src/wire/transitions.js';
import { Proxy } from '../wire/proxy.js';
import { errorOf } from '../wire/stand-ins.js';

const PLANES = [
  { executor: 'scripts', wire: 4, module: false },
  { executor: 'the module', wire: 6, module: true },
] as const;
const PROTOCOLS = [2, 3] as const;

describe.each(PLANES)('with $executor', ({ wire, module }) => {
  let server: EmbeddedServer;
  let proxy: Proxy;
  let publisher: Connector;
  let queues = 0;

  beforeAll(async () => {
    server = await startServer({ module, fetch: true, port: 'free' });
    proxy = await Proxy.start(server.port ?? 0);
    publisher = await Connector.connect({ url: server.url, wire });
  });
  afterAll(async () => {
    await publisher.close();
    await proxy[Symbol.asyncDispose]();
    await server.stop();
  });

  const connect = (options: ConnectorOptions = {}): Promise<Connector> =>
    Connector.connect({ url: proxy.url, wire, reconnectMinMs: 10, reconnectMaxMs: 50, ...options });
  const freshQueue = (): string => `q${queues++}`;

  /** As a consumer does. */
  async function publish(queue: string, ...messages: (string | Buffer)[]): Promise<void> {
    const keys = new Keyspace(queue);
    const { publish: transition } = transitions;
    await publisher.run({ transition, queue, ...transition.layout(keys, { messages }) });
  }
  const completed = (job: number | string): string => eventText('completed', String(job));

  describe.each(PROTOCOLS)('RESP%i', (protocol) => {
    it('P42: after ready, 100 runs lose none', async () => {
      await using connector = await connect({ protocol });
      const runs = Array.from({ length: 100 }, async (_, run) => {
        const queue = freshQueue();
        await using events = new QueueEvents(connector, queue);
        const heard: string[] = [];
        events.on('completed', ({ job }) => heard.push(job));
        await events.ready();
        const all = Array.from({ length: 20 }, (_, i) => `${run}-${i}`);
        for (const job of all) await publish(queue, completed(job));
        await vi.waitFor(() => expect(heard).toEqual(all), { timeout: 10_000 });
      });
      await Promise.all(runs);
    });

    it('emits each event by its name and as event, with what it carries', async () => {
      await using connector = await connect({ protocol });
      const queue = freshQueue();
      await using events = new QueueEvents(connector, queue);
      const seen: unknown[] = [];
      for (const name of ['completed', 'failed', 'scheduled', 'delayed', 'stalled', 'progress', 'event'] as const) {
        events.on(name, (event) => seen.push([name, event]));
      }
      await events.ready();
      const sent = [
        { event: 'completed', job: 'a' },
        { event: 'failed', job: 'b', error: 'no "quotes"\n\u0000é😀' },
        { event: 'scheduled', job: 'c', error: '' },
        { event: 'delayed', job: 'd' },
        { event: 'stalled', job: 'e' },
        { event: 'progress', job: 'f', progress: '{"half":true}' },
      ];
      await publish(queue, ...sent.map(({ event, job, ...extras }) => eventText(event, job, extras)));
      const both = sent.flatMap((event) => [
        [event.event, event],
        ['event', event],
      ]);
      await vi.waitFor(() => expect(seen).toEqual(both));
      expect(events.stats()).toMatchObject({ received: 6, malformed: 0 });
    });

    it('hears the progress that a job writes', async () => {
      await using connector = await connect({ protocol });
      const queue = freshQueue();
      const jobs = new Jobs(publisher, queue);
      await using events = new QueueEvents(connector, queue);
      await events.ready();
      const { id } = await jobs.enqueue({});
      const told = once(events, 'progress');
      await jobs.updateProgress(id, 'a "third"');
      expect(await told).toEqual([{ event: 'progress', job: id, progress: 'a "third"' }]);
    });

    it('P42: a slow reader gets an explicit notice of what it missed; a quick one next to it misses nothing', async () => {
      await using connector = await connect({ protocol });
      const queue = freshQueue();
      await using events = new QueueEvents(connector, queue, { bufferSize: 10 });
      await events.ready();
      const slow = events[Symbol.asyncIterator]();
      const quick: unknown[] = [];
      const reading = (async () => {
        for await (const { event, job } of events) quick.push(job ?? event);
      })();
      const all = Array.from({ length: 100 }, (_, i) => String(i));
      for (const job of all) await publish(queue, completed(job));
      await vi.waitFor(() => expect(quick).toEqual(all));
      expect(events.stats()).toMatchObject({ readers: 2, dropped: 90 });
      expect((await slow.next()).value).toEqual({ event: 'gap', missed: 90 });
      for (const job of all.slice(-10)) expect((await slow.next()).value).toEqual({ event: 'completed', job });
      await publish(queue, completed('last'));
      expect((await slow.next()).value).toEqual({ event: 'completed', job: 'last' });
      await events.close();
      expect(await slow.next()).toEqual({ done: true, value: undefined });
      await reading;
    });

    it.each(['cut', 'half-open'] as const)('a connection that is %s is a gap, in its place', async (how) => {
      await using connector = await connect({ protocol, heartbeatMs: 20, heartbeatDeadlineMs: 200 });
      const queue = freshQueue();
      await using events = new QueueEvents(connector, queue);
      const items: unknown[] = [];
      const gaps = vi.fn();
      events.on('gap', gaps);
      await events.ready();
      const reading = (async () => {
        for await (const item of events) items.push(item);
      })();
      await publish(queue, completed('before'));
      await vi.waitFor(() => expect(items).toHaveLength(1));
      if (how === 'half-open') {
        const down = once(connector, 'disconnected');
        proxy.mode = 'deaf';
        await publish(queue, completed('lost'));
        await down;
        proxy.mode = 'pass';
      }
      proxy.cut();
      await vi.waitFor(() => expect(items).toHaveLength(2), { timeout: 5_000 });
      await publish(queue, completed('after'));
      const gap: EventGap = { event: 'gap', missed: null };
      await vi.waitFor(() =>
        expect(items).toEqual([{ event: 'completed', job: 'before' }, gap, { event: 'completed', job: 'after' }]),
      );
      expect(gaps.mock.calls).toEqual([[gap]]);
      expect(events.stats()).toMatchObject({ gaps: 1, received: 2 });
      await events.close();
      await reading;
    });
  });

  it('a stranger cannot crash a process, make up a gap, or pass off rubbish', async () => {
    await using connector = await connect();
    const queue = freshQueue();
    await using events = new QueueEvents(connector, queue);
    const seen: QueueEvent[] = [];
    const named = vi.fn();
    events.on('event', (event) => seen.push(event));
    events.on('gap', named);
    (events as unknown as NodeJS.EventEmitter).on('newListener', named).on('anything', named);
    named.mockClear();
    await events.ready();
    const strange = ['error', 'newListener', 'removeListener', 'event', 'anything', '__proto__', 'constructor'];
    await publish(
      queue,
      '',
      'rubbish',
      Buffer.from([0xff, 0xfe, 0x00]),
      '[1]',
      '{"event":"completed"}',
      '{"event":"completed","job":7}',
      eventText('gap', 'x'),
      ...strange.map((name) => eventText(name, 'x')),
      completed('end'),
    );
    await vi.waitFor(() => expect(seen.at(-1)).toEqual({ event: 'completed', job: 'end' }));
    expect(seen.map(({ event }) => event)).toEqual([...strange, 'completed']);
    expect(named).not.toHaveBeenCalled();
    expect(events.stats()).toMatchObject({ malformed: 7, received: 8, gaps: 0 });
  });

  it('many share one connection, and hear of their own queue only', async () => {
    await using connector = await connect();
    const connections = new Set<object>();
    proxy.on('connection', () => connections.add({}));
    const two = [new QueueEvents(connector, freshQueue()), new QueueEvents(connector, freshQueue())];
    const heard = two.map((events) => {
      const jobs: string[] = [];
      events.on('completed', ({ job }) => jobs.push(job));
      return jobs;
    });
    await Promise.all(two.map((events) => events.ready()));
    for (const [i, events] of two.entries()) await publish(events.queue, completed(i));
    await vi.waitFor(() => expect(heard).toEqual([['0'], ['1']]));
    expect(connections.size).toBe(1);
    proxy.removeAllListeners('connection');
    await Promise.all(two.map((events) => events.close()));
  });
});

describe('without a server of its own', () => {
  let server: EmbeddedServer;
  beforeAll(async () => {
    server = await startServer({ fetch: true });
  });
  afterAll(() => server.stop());

  it('close ends it: iterators, ready, and what comes later; twice', async () => {
    await using connector = await Connector.connect(server.url);
    const events = new QueueEvents(connector, 'q');
    const waiting = events[Symbol.asyncIterator]().next();
    const closed = events.close();
    expect(await waiting).toEqual({ done: true, value: undefined });
    await errorOf(events.ready(), 'EMQ_CLOSED');
    await Promise.all([closed, events.close()]);
    expect(await events[Symbol.asyncIterator]().next()).toEqual({ done: true, value: undefined });
    expect(events.stats().readers).toBe(0);
  });

  it('ends with its connector', async () => {
    const connector = await Connector.connect(server.url);
    const events = new QueueEvents(connector, 'q');
    await events.ready();
    const reading = (async () => {
      for await (const item of events) throw new Error(`nothing was published, got ${item.event}`);
    })();
    await connector.close();
    await reading;
    await events.close();
  });

  it('an iterator that is left keeps nothing, and the others go on', async () => {
    await using connector = await Connector.connect(server.url);
    await using events = new QueueEvents(connector, 'q');
    await events.ready();
    const jobs = new Jobs(connector, 'q');
    const { id } = await jobs.enqueue({});
    const stays = events[Symbol.asyncIterator]();
    const leaves = (async () => {
      for await (const item of events) return item;
    })();
    await jobs.updateProgress(id, 1);
    expect(await leaves).toEqual({ event: 'progress', job: id, progress: '1' });
    expect(events.stats().readers).toBe(1);
    await jobs.updateProgress(id, 2);
    expect([await stays.next(), await stays.next()]).toMatchObject([
      { value: { progress: '1' } },
      { value: { progress: '2' } },
    ]);
  });

  it('a listener that throws stops nobody else, and its error is not swallowed', async () => {
    await using connector = await Connector.connect(server.url);
    await using events = new QueueEvents(connector, 'q');
    await events.ready();
    const own = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    try {
      const thrown = once(process, 'uncaughtException');
      const iterator = events[Symbol.asyncIterator]();
      events.on('progress', () => {
        throw new Error('boom');
      });
      const seen = once(events, 'event');
      const jobs = new Jobs(connector, 'q');
      const { id } = await jobs.enqueue({}, { id: mint('JOB') });
      await jobs.updateProgress(id, 1);
      expect(await seen).toMatchObject([{ job: id }]);
      expect((await iterator.next()).value).toMatchObject({ job: id });
      expect(await thrown).toMatchObject([{ message: 'boom' }, 'uncaughtException']);
    } finally {
      for (const listener of own) process.on('uncaughtException', listener);
    }
  });

  it('refuses what cannot be', async () => {
    await using connector = await Connector.connect(server.url);
    expect(() => new QueueEvents(connector, 'no spaces')).toThrow(/queue name/);
    expect(() => new QueueEvents(connector, 'q', { bufferSize: 0 })).toThrow(/bufferSize must be an integer from 1/);
    expect(() => new QueueEvents(connector, 'q', { buffer: 5 } as object)).toThrow(/unknown option "buffer"/);
  });
});
