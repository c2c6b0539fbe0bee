/** Closing, at every moment there is: in time, with an answer to every call, and nothing left open. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Connector, type ConnectorOptions } from '../../src/wire/connector.js';
import { Proxy } from './proxy.js';
import { TestServer, freePort } from './server.js';
import { call, count, errorOf, read, touch } from './stand-ins.js';

let server: TestServer;
let before: string[];
const QUICK = { reconnectMinMs: 10, reconnectMaxMs: 50 };

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await server.admin.flushall();
  for (const { script } of [count, read, touch]) await server.admin.script('LOAD', script.source);
  before = sockets();
});
afterEach(async () => {
  expect(await server.clients()).toEqual([]);
});

/** The sockets of this process, the test runner's own included. Timers: see the last test. */
function sockets(): string[] {
  return process
    .getActiveResourcesInfo()
    .filter((name) => /TCP|Pipe|TLS/.test(name))
    .sort();
}

/** Sockets disappear from the list a turn or two after they are closed. */
async function expectNothingLeft(): Promise<void> {
  for (let turn = 0; turn < 10 && sockets().length > before.length; turn++) await new Promise(setImmediate);
  expect(sockets()).toEqual(before);
}

function connect(options: ConnectorOptions = {}): Promise<Connector> {
  return Connector.connect({ url: server.url, ...QUICK, ...options });
}

async function timed(work: Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work;
  return performance.now() - started;
}

it('closes an idle connector at once and leaves nothing', async () => {
  const connector = await connect();
  await connector.run(call(count));
  const closed = once(connector, 'closed');
  expect(await timed(connector.close())).toBeLessThan(500);
  await closed;
  expect(connector.stats().state).toBe('closed');
  await expectNothingLeft();
});

it('may be closed twice, and by await using', async () => {
  let connector: Connector;
  {
    await using scoped = await connect();
    connector = scoped;
  }
  expect(connector.close()).toBe(connector.close());
  await connector.close();
  await expectNothingLeft();
});

it('refuses calls after close with EMQ_CLOSED', async () => {
  const connector = await connect();
  await connector.close();
  await errorOf(connector.run(call(count)), 'EMQ_CLOSED');
  const [outcome] = await connector.runAll([call(count)]);
  expect(outcome).toMatchObject({ ok: false, error: { code: 'EMQ_CLOSED' } });
  expect(await server.admin.exists('emq:{q}:k')).toBe(0);
});

it('lets calls in flight have their replies', async () => {
  const connector = await connect({ closeGraceMs: 10_000 });
  const sleeping = server.admin.call('DEBUG', 'SLEEP', '0.3');
  const running = connector.runAll([call(count), call(count), call(read)]);
  const took = await timed(connector.close());
  expect(await running).toEqual([
    { ok: true, reply: 1 },
    { ok: true, reply: 2 },
    { ok: true, reply: Buffer.from('2') },
  ]);
  expect(took).toBeLessThan(5_000);
  await sleeping;
  await expectNothingLeft();
});

it('heals a missing script while it waits for the last replies', async () => {
  const connector = await connect();
  await server.admin.script('FLUSH');
  const running = connector.run(call(count));
  await connector.close();
  expect(await running).toBe(1);
});

it('cuts off what does not come in the grace: unknown, or closed for what may be repeated', async () => {
  await using proxy = await Proxy.start(server.port);
  const connector = await connect({ url: proxy.url, closeGraceMs: 150 });
  proxy.mode = 'mute';
  const running = connector.runAll([call(count), call(touch), call(read)]);
  const took = await timed(connector.close());
  const outcomes = await running;
  expect(outcomes.map((o) => !o.ok && o.error.code)).toEqual(['EMQ_UNKNOWN_OUTCOME', 'EMQ_CLOSED', 'EMQ_CLOSED']);
  expect(took).toBeGreaterThanOrEqual(140);
  expect(took).toBeLessThan(1_000);
});

it('does not wait at all with a grace of 0', async () => {
  await using proxy = await Proxy.start(server.port);
  const connector = await connect({ url: proxy.url, closeGraceMs: 0 });
  proxy.mode = 'mute';
  const running = errorOf(connector.run(call(count)), 'EMQ_UNKNOWN_OUTCOME');
  expect(await timed(connector.close())).toBeLessThan(200);
  await running;
});

it('ends at once while it is reconnecting, and answers the calls that wait', async () => {
  await using own = await TestServer.start();
  const connector = await Connector.connect({
    url: own.url,
    waitMs: 30_000,
    replyTimeoutMs: 30_000,
    reconnectMinMs: 20_000,
    reconnectMaxMs: 20_000,
  });
  const down = once(connector, 'disconnected');
  await own.end();
  await down;
  const waiting = [
    errorOf(connector.run(call(count)), 'EMQ_CLOSED'),
    errorOf(connector.run(call(touch)), 'EMQ_CLOSED'),
  ];
  expect(await timed(connector.close())).toBeLessThan(200);
  await Promise.all(waiting);
  await expectNothingLeft();
});

it('ends at once in the middle of a try to reconnect', async () => {
  await using proxy = await Proxy.start(server.port);
  const connector = await connect({ url: proxy.url });
  proxy.mode = 'deaf';
  const trying = once(proxy, 'connection');
  proxy.cut();
  await trying;
  expect(await timed(connector.close())).toBeLessThan(200);
});

it('ends at once when its server was lost without a word', async () => {
  await using proxy = await Proxy.start(server.port);
  const connector = await connect({ url: proxy.url });
  proxy.mode = 'deaf';
  expect(await timed(connector.close())).toBeLessThan(500);
});

it('leaves nothing when the first connect fails, or is given up in the middle', async () => {
  await server.admin.set('{emq}:version', 'foreign');
  await errorOf(connect(), 'EMQWIRE');
  await errorOf(connect({ url: `valkey://127.0.0.1:${await freePort()}`, connectTimeoutMs: 100 }), 'EMQ_CONNECTION');
  await using proxy = await Proxy.start(server.port);
  proxy.mode = 'deaf';
  const inTime = await timed(errorOf(connect({ url: proxy.url, connectTimeoutMs: 200 }), 'EMQ_CONNECTION'));
  expect(inTime).toBeLessThan(1_000);
  const controller = new AbortController();
  const connecting = connect({ url: proxy.url, signal: controller.signal });
  await once(proxy, 'connection');
  controller.abort();
  expect(await timed(errorOf(connecting, 'EMQ_CLOSED'))).toBeLessThan(200);
  await proxy[Symbol.asyncDispose]();
  await expectNothingLeft();
});

it('emits nothing more once it is closed', async () => {
  const connector = await connect();
  const events: string[] = [];
  for (const event of ['connected', 'disconnected', 'retrying', 'refused', 'closed'] as const) {
    connector.on(event, () => events.push(event));
  }
  await connector.close();
  await server.killClients();
  await pause(50);
  expect(events).toEqual(['closed']);
});

it('lets the process end by itself: no timer and no socket keeps it', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'emq-exit-'));
  const file = join(dir, 'scenario.mjs');
  // It ends when nothing is left to wait for, or this test kills it.
  const scenario = `
    import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
    import { Connector } from ${JSON.stringify(join(import.meta.dirname, '../../src/wire/connector.ts'))};
    import { call, count, touch } from ${JSON.stringify(join(import.meta.dirname, 'stand-ins.ts'))};
    const url = process.argv[2];
    const connector = await Connector.connect({ url, waitMs: 60_000 });
    await connector.runAll([call(count), call(touch)]);
    await connector.close();
    const lost = await Connector.connect({ url, reconnectMinMs: 10, reconnectMaxMs: 60_000 });
    const { Redis } = await import('ioredis');
    const admin = new Redis(url.replace('valkey:', 'redis:'));
    const down = once(lost, 'disconnected');
    await admin.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await down;
    lost.run(call(count)).catch(() => {});
    await lost.close();
    admin.disconnect();
    await Connector.connect({ url, claim: false, redis: { db: 9 } }).catch(() => {});
    await Connector.connect({ url: 'valkey://127.0.0.1:1', connectTimeoutMs: 50 }).catch(() => {});
    console.log('done');
  `;
  try {
    await build({
      ...{ stdin: { contents: scenario, resolveDir: import.meta.dirname, loader: 'ts' }, outfile: file },
      ...{ bundle: true, platform: 'node', format: 'esm', target: 'node20', logLevel: 'error' },
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    const started = performance.now();
    const child = spawn(process.execPath, [file, server.url], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 10_000,
    });
    let out = '';
    let doneAt = Infinity;
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      if (out.includes('done')) doneAt = performance.now();
    });
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
    expect({ code, signal, out }).toEqual({ code: 0, signal: null, out: 'done\n' });
    expect(performance.now() - doneAt).toBeLessThan(1_000);
    expect(doneAt).toBeGreaterThan(started);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
