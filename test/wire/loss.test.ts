/** Lost replies, lost servers, lost peers: what is repeated, what is reported, and that every call gets one answer in time. */
import { once } from 'node:events';
import { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import type { EmqError } from '../../src/wire/errors.js';
import { Proxy } from './proxy.js';
import { TestServer, freePort } from './server.js';
import { append, call, count, errorOf, read, touch, transition } from './stand-ins.js';

let server: TestServer;
let proxy: Proxy;
const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await server.admin.flushall();
  for (const { script } of [append, count, read, touch]) await server.admin.script('LOAD', script.source);
});

async function throughProxy(options: ConnectorOptions = {}): Promise<Connector> {
  proxy = await Proxy.start(server.port);
  return Connector.connect({ url: proxy.url, ...QUICK, ...options });
}

/** The call was run, and its reply swallowed: then the connection goes. */
async function loseReply(): Promise<void> {
  proxy.mode = 'mute';
  await once(proxy, 'swallowed');
  proxy.mode = 'pass';
  proxy.cut();
}

describe('a lost reply', () => {
  it('of a call that may not be repeated is an unknown outcome', async () => {
    await using connector = await throughProxy();
    await using _ = proxy;
    const running = connector.run(call(count));
    const [error] = await Promise.all([errorOf(running, 'EMQ_UNKNOWN_OUTCOME'), loseReply()]);
    expect(error.message).toMatch(/^EMQ_UNKNOWN_OUTCOME count was sent to 127.0.0.1:\d+ and its reply was lost/);
    expect(await server.admin.get('emq:{q}:k')).toBe('1');
    expect(connector.stats()).toMatchObject({ unknownOutcomes: 1, repeats: 0 });
    expect(await connector.run(call(count))).toBe(2);
  });

  it('of a call that may be repeated is asked for again', async () => {
    await using connector = await throughProxy();
    await using _ = proxy;
    const running = connector.run(call(touch));
    await loseReply();
    // It ran twice, by its own permission, and its caller has one answer.
    expect(await running).toBe(2);
    expect(connector.stats()).toMatchObject({ repeats: 1, unknownOutcomes: 0, reconnects: 1 });
  });

  it('of a read is asked for again', async () => {
    await server.admin.set('emq:{q}:k', 'v');
    await using connector = await throughProxy();
    await using _ = proxy;
    const running = connector.run(call(read));
    await loseReply();
    expect(await running).toEqual(Buffer.from('v'));
  });

  it('in a pipeline gives each call its own outcome', async () => {
    await using connector = await throughProxy();
    await using _ = proxy;
    const running = connector.runAll([call(count, 'a'), call(touch, 'b'), call(count, 'c'), call(read, 'a')]);
    await loseReply();
    const outcomes = await running;
    expect(outcomes.map((o) => (o.ok ? o.reply : o.error.code))).toEqual([
      'EMQ_UNKNOWN_OUTCOME',
      2,
      'EMQ_UNKNOWN_OUTCOME',
      Buffer.from('1'),
    ]);
  });

  it('of a call that never arrived is unknown too: it was written', async () => {
    await using connector = await throughProxy();
    await using _ = proxy;
    proxy.cutBefore = 'EVALSHA';
    await errorOf(connector.run(call(count)), 'EMQ_UNKNOWN_OUTCOME');
    proxy.cutBefore = undefined;
    expect(await connector.run(call(count))).toBe(1);
  });

  it('is repeated as long as the call has time, then it is a timeout', async () => {
    await using connector = await throughProxy({ replyTimeoutMs: 400 });
    await using _ = proxy;
    proxy.cutBefore = 'EVALSHA';
    const started = performance.now();
    await errorOf(connector.run(call(touch)), 'EMQ_TIMEOUT');
    expect(performance.now() - started).toBeGreaterThanOrEqual(390);
    expect(connector.stats().repeats).toBeGreaterThan(1);
  });
});

describe('a call that is right only now (once)', () => {
  const now = (what: typeof touch) => ({ ...call(what), once: true as const });

  it('is not sent again, though that would do no harm', async () => {
    await using connector = await throughProxy();
    await using _ = proxy;
    const running = connector.run(now(touch));
    await Promise.all([errorOf(running, 'EMQ_UNKNOWN_OUTCOME'), loseReply()]);
    expect(await connector.run(call(touch))).toBe(2);
    expect(connector.stats()).toMatchObject({ repeats: 0, unknownOutcomes: 1 });
  });

  it('does not wait for a connection', async () => {
    await using connector = await throughProxy({ reconnectMinMs: 300, reconnectMaxMs: 300, waitMs: 5_000 });
    await using _ = proxy;
    const lost = once(connector, 'disconnected');
    proxy.cut();
    await lost;
    const patient = connector.run(call(touch));
    const error = await errorOf(connector.run(now(touch)), 'EMQ_CONNECTION');
    expect(error.message).toContain('nothing was sent');
    expect(connector.stats().waiting).toBe(1);
    expect(await patient).toBe(1);
  });

  it('is not tried again when the server is not ready', async () => {
    await using connector = await throughProxy();
    await using _ = proxy;
    const unready = transition('unready', "return redis.error_reply('LOADING not yet')", { repeatable: true });
    await errorOf(connector.run(now(unready)), 'LOADING');
    expect(connector.stats().retries).toBe(0);
  });
});

describe('no reply in time', () => {
  it('is a timeout for a call that may be repeated, and unknown for another', async () => {
    await using connector = await throughProxy({ replyTimeoutMs: 200 });
    await using _ = proxy;
    proxy.mode = 'mute';
    const errors = await Promise.all([
      errorOf(connector.run(call(touch)), 'EMQ_TIMEOUT'),
      errorOf(connector.run(call(read)), 'EMQ_TIMEOUT'),
      errorOf(connector.run(call(count)), 'EMQ_UNKNOWN_OUTCOME'),
    ]);
    expect(errors[2].message).toMatch(/no reply to count within 200 ms/);
    // The connection is as it was: late replies are dropped, and those to come find their own calls.
    proxy.mode = 'pass';
    expect(connector.stats()).toMatchObject({ connects: 1, pending: 0 });
  });
});

describe('a reply that was there, unread, when its time was up', () => {
  it('counts: this process was too busy to read it', async () => {
    await using connector = await Connector.connect({ url: server.url, ...QUICK, replyTimeoutMs: 100 });
    for (let n = 1; n <= 3; n++) {
      const running = connector.run(call(count));
      // Written, and then the event loop stands still.
      process.nextTick(() => {
        const end = performance.now() + 200;
        while (performance.now() < end);
      });
      expect(await running).toBe(n);
    }
  });
});

describe('no connection', () => {
  it('is reported after waitMs, and nothing was sent', async () => {
    await using own = await TestServer.start('--appendonly', 'yes', '--appendfsync', 'always');
    await using connector = await Connector.connect({ url: own.url, ...QUICK, waitMs: 150 });
    const down = once(connector, 'disconnected');
    await own.end();
    await down;
    const started = performance.now();
    const error = await errorOf(connector.run(call(count)), 'EMQ_CONNECTION');
    const took = performance.now() - started;
    expect(took).toBeGreaterThanOrEqual(140);
    expect(took).toBeLessThan(1_000);
    expect(error.message).toMatch(/nothing was sent .*ECONNREFUSED/);
    const up = once(connector, 'connected');
    await own.boot();
    await up;
    expect(await connector.run(call(count))).toBe(1);
  });

  it('is waited out by calls that have the time, in their order', async () => {
    await using own = await TestServer.start();
    await using connector = await Connector.connect({ url: own.url, ...QUICK, waitMs: 20_000, replyTimeoutMs: 20_000 });
    const down = once(connector, 'disconnected');
    await own.end();
    await down;
    const values = Array.from({ length: 50 }, (_, i) => String(i));
    const running = connector.runAll(values.map((value) => call(append, 'list', [value])));
    expect(connector.stats()).toMatchObject({ state: 'down', waiting: 50 });
    await own.boot();
    expect((await running).filter((o) => !o.ok)).toEqual([]);
    expect(await own.admin.lrange('emq:{q}:list', 0, -1)).toEqual(values);
  });

  it('is tried for with growing pauses, which start anew after a connection that held', async () => {
    await using own = await TestServer.start();
    const pauses = { reconnectMinMs: 8, reconnectMaxMs: 128 };
    await using connector = await Connector.connect({ url: own.url, ...pauses });
    for (let i = 0; i < 5; i++) {
      const up = once(connector, 'connected');
      await own.killClients();
      await up;
    }
    const flapping = once(connector, 'retrying');
    await own.end();
    expect(((await flapping) as [EmqError, number])[1]).toBeGreaterThanOrEqual(64);
    const up = once(connector, 'connected');
    await own.boot();
    await up;
    await pause(150);
    const rested = once(connector, 'retrying');
    await own.end();
    expect(((await rested) as [EmqError, number])[1]).toBeLessThanOrEqual(16);
  });

  it('is reported with what keeps it away', async () => {
    await using own = await TestServer.start();
    await using connector = await Connector.connect({ url: own.url, ...QUICK, waitMs: 300 });
    await own.admin.config('SET', 'requirepass', 'changed');
    const retrying = once(connector, 'retrying');
    await own.killClients();
    const [reason, delayMs] = (await retrying) as [EmqError, number];
    expect(reason.code).toBe('NOAUTH');
    expect(delayMs).toBeGreaterThan(0);
    const error = await errorOf(connector.run(call(count)), 'EMQ_CONNECTION');
    expect(error.message).toMatch(/NOAUTH/);
    await own.admin.config('SET', 'requirepass', '');
  });
});

describe('every call gets one answer, and counts at most once', () => {
  /** Calls all the time while something is done to the server; then compares what callers heard with what happened. */
  async function underLoad(own: TestServer, connector: Connector, havoc: () => Promise<void>): Promise<void> {
    let going = true;
    let good = 0;
    const codes = new Map<string, number>();
    const caller = async (): Promise<void> => {
      while (going) {
        const outcomes = await connector.runAll(Array.from({ length: 5 }, () => call(count)));
        for (const outcome of outcomes) {
          if (outcome.ok) good++;
          else codes.set(outcome.error.code, (codes.get(outcome.error.code) ?? 0) + 1);
        }
      }
    };
    const callers = Array.from({ length: 4 }, caller);
    await havoc();
    going = false;
    await Promise.all(callers);
    const unknown = codes.get('EMQ_UNKNOWN_OUTCOME') ?? 0;
    codes.delete('EMQ_UNKNOWN_OUTCOME');
    codes.delete('EMQ_CONNECTION');
    expect([...codes]).toEqual([]);
    const happened = Number(await own.admin.get('emq:{q}:k'));
    expect(happened).toBeGreaterThanOrEqual(good);
    expect(happened).toBeLessThanOrEqual(good + unknown);
    expect(good).toBeGreaterThan(0);
    expect(connector.stats()).toMatchObject({ pending: 0, waiting: 0 });
  }

  it('through CLIENT KILL, many times', async () => {
    await using connector = await Connector.connect({ url: server.url, ...QUICK });
    await underLoad(server, connector, async () => {
      for (let i = 0; i < 15; i++) {
        const up = once(connector, 'connected');
        await server.killClients();
        await up;
      }
    });
    expect(connector.stats().reconnects).toBeGreaterThanOrEqual(15);
  });

  it.each(['SIGKILL', 'SIGTERM'] as const)('through restarts by %s', async (signal) => {
    await using own = await TestServer.start('--appendonly', 'yes', '--appendfsync', 'always');
    await using connector = await Connector.connect({ url: own.url, ...QUICK, waitMs: 5_000 });
    await underLoad(own, connector, async () => {
      for (let i = 0; i < 4; i++) {
        const up = once(connector, 'connected');
        await own.end(signal);
        await own.boot();
        await up;
      }
    });
  });
});

describe('a half-open peer', () => {
  it.each(['mute', 'deaf'] as const)('that is %s is noticed while idle, and left', async (mode) => {
    await using connector = await throughProxy({ heartbeatMs: 50, heartbeatDeadlineMs: 100 });
    await using _ = proxy;
    const down = once(connector, 'disconnected');
    proxy.mode = mode;
    const [reason] = (await down) as [EmqError];
    expect(reason.message).toMatch(/no sign of life for 100 ms/);
    // A new connection to the same deaf peer is given up in the same time, again and again.
    const [again] = (await once(connector, 'retrying')) as [EmqError];
    expect(again.message).toMatch(/did not accept a connection within 100 ms/);
    const up = once(connector, 'connected');
    proxy.mode = 'pass';
    await up;
    expect(await connector.run(call(count))).toBe(1);
  });

  it('answers the calls that were in flight to it', async () => {
    await using connector = await throughProxy({ heartbeatMs: 50, heartbeatDeadlineMs: 100 });
    await using _ = proxy;
    proxy.mode = 'mute';
    const lost = errorOf(connector.run(call(count)), 'EMQ_UNKNOWN_OUTCOME');
    const repeated = connector.run(call(touch));
    await once(connector, 'disconnected');
    proxy.mode = 'pass';
    expect((await lost).message).toMatch(/no sign of life/);
    expect(await repeated).toBeGreaterThanOrEqual(3);
  });

  it('that is a stopped process is noticed too', async () => {
    await using own = await TestServer.start();
    await using connector = await Connector.connect({
      url: own.url,
      ...QUICK,
      heartbeatMs: 50,
      heartbeatDeadlineMs: 100,
    });
    const down = once(connector, 'disconnected');
    own.signal('SIGSTOP');
    await down;
    const up = once(connector, 'connected');
    own.signal('SIGCONT');
    await up;
  });

  it('is not seen by a process that was merely too busy itself to read the answer', async () => {
    await using connector = await Connector.connect({
      ...{ url: server.url, ...QUICK },
      ...{ heartbeatMs: 40, heartbeatDeadlineMs: 80 },
    });
    const events: string[] = [];
    connector.on('disconnected', () => events.push('disconnected'));
    // From the moment the peer is asked, before its answer can be read, the event loop stands still for two deadlines.
    const write = Reflect.get(Socket.prototype, 'write') as (this: Socket, ...args: unknown[]) => boolean;
    let asked = 0;
    let allAsked: () => void = () => {};
    const done = new Promise<void>((resolve) => (allAsked = resolve));
    const spy = vi.spyOn(Socket.prototype, 'write').mockImplementation(function (this: Socket, ...args: unknown[]) {
      if (String(args[0]).includes('PING')) process.nextTick(standStill);
      return write.apply(this, args);
    });
    function standStill(): void {
      const end = performance.now() + 160;
      while (performance.now() < end);
      if (++asked === 4) allAsked();
    }
    try {
      await done;
      await connector.run(call(read));
    } finally {
      spy.mockRestore();
    }
    expect(events).toEqual([]);
    expect(connector.stats().connects).toBe(1);
  });
});

describe('refusals that pass', () => {
  it('MASTERDOWN is waited out', async () => {
    await using own = await TestServer.start('--replica-serve-stale-data', 'no');
    await using connector = await Connector.connect({ url: own.url, ...QUICK });
    await connector.run(call(count));
    await own.admin.replicaof('127.0.0.1', await freePort());
    const running = connector.run(call(count));
    while (connector.stats().retries < 2) await new Promise(setImmediate);
    await own.admin.replicaof('NO', 'ONE');
    expect(await running).toBe(2);
    expect(connector.stats().connects).toBe(1);
  });

  it('MASTERDOWN that does not pass is reported as what it is', async () => {
    await using own = await TestServer.start('--replica-serve-stale-data', 'no');
    await using connector = await Connector.connect({ url: own.url, ...QUICK, replyTimeoutMs: 300 });
    await own.admin.replicaof('127.0.0.1', await freePort());
    await errorOf(connector.run(call(count)), 'MASTERDOWN');
  });

  it('the same words from the middle of a script are no such promise, and the call is not repeated', async () => {
    await using connector = await Connector.connect({ url: server.url, ...QUICK });
    const half = transition('half', "redis.call('INCR', KEYS[1]) error({ err = 'LOADING half way' })");
    await errorOf(connector.run(call(half)), 'LOADING');
    expect(await server.admin.get('emq:{q}:k')).toBe('1');
    expect(connector.stats().retries).toBe(0);
  });
});

describe('a server that is no longer what it was', () => {
  it('a demoted primary answers READONLY, writes nothing, and is left for a new connection', async () => {
    await using own = await TestServer.start();
    await using connector = await Connector.connect({ url: own.url, ...QUICK });
    await connector.run(call(count));
    await own.admin.replicaof('127.0.0.1', await freePort());
    const up = once(connector, 'connected');
    await errorOf(connector.run(call(count)), 'READONLY');
    await up;
    await own.admin.replicaof('NO', 'ONE');
    // The first call may still meet the old role on the wire; none is executed there.
    expect(await connector.run(call(count))).toBe(2);
    expect(connector.stats().reconnects).toBe(1);
  });

  it('lets the replies that are under way come in before it leaves', async () => {
    await using own = await TestServer.start();
    await using toOwn = await Proxy.start(own.port);
    await using connector = await Connector.connect({ url: toOwn.url, ...QUICK });
    await connector.runAll([call(count), call(read)]);
    await own.admin.replicaof('127.0.0.1', await freePort());
    // The refusal comes back before the other call has gone out.
    toOwn.hold = { before: 'held', until: () => pause(50) };
    const outcomes = await connector.runAll([call(count), call(read, 'held'), call(read)]);
    expect(outcomes.map((o) => (o.ok ? o.reply : o.error.code))).toEqual(['READONLY', null, Buffer.from('1')]);
    expect(connector.stats().repeats).toBe(0);
  });

  it('a node that answers EMQWIRE is fenced anew, and the call made again, once', async () => {
    await using connector = await Connector.connect({ url: server.url, ...QUICK });
    const foreign = transition('foreign', "return redis.error_reply('EMQWIRE node is unbranded, needs echomq:6.0.0')");
    await server.admin.del('{emq}:version');
    await errorOf(connector.run(call(foreign)), 'EMQWIRE');
    expect(await server.admin.get('{emq}:version')).toBe('echomq:4.0.0');
    expect(await connector.run(call(count))).toBe(1);
    expect(connector.stats().reconnects).toBe(2);
  });
});
