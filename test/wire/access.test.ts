/** Ways in: sockets, TLS, users, protocols, a client that exists already; and that no secret comes out. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connector } from '../../src/wire/connector.js';
import { TestServer, freePort } from './server.js';
import { call, count, errorOf, read } from './stand-ins.js';

let server: TestServer;
const SECRET = 'correct-horse-battery';
/** What a connector needs, and nothing else: the documented rules for wire 4 on queue q. */
const RULES = ['~emq:{q}:*', '%R~{emq}:version', '+get', '+evalsha', '+eval', '+script|load', '+incr'];

beforeAll(async () => {
  server = await TestServer.start();
  await server.admin.set('{emq}:version', 'echomq:4.0.0');
});
afterAll(() => server[Symbol.asyncDispose]());

it('connects over a unix socket', async () => {
  await using connector = await Connector.connect(`unix://${server.socket}`);
  await connector.run(call(count));
  expect(await server.admin.get('emq:{q}:k')).toBe('1');
});

it('takes host and port from the redis option, and the rest of a URL from it', async () => {
  await using one = await Connector.connect({ redis: { host: '127.0.0.1', port: server.port } });
  await using two = await Connector.connect({ url: server.url, redis: { port: 1, connectionName: 'named' } });
  expect(await server.admin.client('LIST')).toMatch(/name=named/);
  expect([one.stats().state, two.stats().state]).toEqual(['up', 'up']);
});

describe('users', () => {
  beforeAll(async () => {
    await server.admin.call('ACL', 'SETUSER', 'worker', 'on', `>${SECRET}`, 'resetkeys', '-@all', ...RULES);
  });

  it.each([2, 3] as const)('an ACL user with the documented rights, RESP%i', async (protocol) => {
    await using connector = await Connector.connect({
      url: `valkey://worker:${SECRET}@127.0.0.1:${server.port}`,
      protocol,
      claim: false,
    });
    await connector.run(call(count));
    // What its rights do not cover is refused before anything is written.
    await errorOf(connector.run(call(count, 'k', [], 'other')), 'NOPERM');
    expect(await connector.run(call(read))).toEqual(Buffer.from(String(await server.admin.get('emq:{q}:k'))));
    expect(await server.admin.exists('emq:{other}:k')).toBe(0);
  });

  it.each([2, 3] as const)('a wrong password is final, and told without it, RESP%i', async (protocol) => {
    const started = performance.now();
    const error = await errorOf(
      Connector.connect({ url: `valkey://worker:${SECRET}-wrong@127.0.0.1:${server.port}`, protocol }),
      'WRONGPASS',
    );
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
  });

  it('a user who may not read the brand is NOPERM, at once', async () => {
    await server.admin.call('ACL', 'SETUSER', 'blind', 'on', `>${SECRET}`, '-@all', '+eval');
    const error = await errorOf(
      Connector.connect({ url: server.url, redis: { username: 'blind', password: SECRET } }),
      'NOPERM',
    );
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
  });

  it('no password where one is needed is NOAUTH, at once', async () => {
    await using locked = await TestServer.start();
    await locked.admin.config('SET', 'requirepass', SECRET);
    await errorOf(Connector.connect(locked.url), 'NOAUTH');
    await using connector = await Connector.connect(`valkey://:${SECRET}@127.0.0.1:${locked.port}`);
    await connector.run(call(count));
  });

  it('no error, event, statistic or picture of a connector shows a secret', async () => {
    const url = `valkey://worker:${SECRET}@127.0.0.1:${server.port}`;
    await using connector = await Connector.connect({
      url,
      claim: false,
      waitMs: 50,
      reconnectMinMs: 10,
      reconnectMaxMs: 20,
    });
    const told: unknown[] = [];
    for (const event of ['connected', 'disconnected', 'retrying', 'refused'] as const) {
      connector.on(event, (...args: unknown[]) => told.push(args));
    }
    const retrying = once(connector, 'retrying');
    await server.admin.call('ACL', 'SETUSER', 'worker', 'off');
    await server.killClients();
    await retrying;
    told.push(await errorOf(connector.run(call(count, 'k', ['private payload'])), 'EMQ_CONNECTION'));
    await server.admin.call('ACL', 'SETUSER', 'worker', 'on');
    told.push(connector.stats(), connector, JSON.stringify(connector));
    const shown = inspect(told, { depth: 20, showHidden: true });
    expect(shown).toMatch(/WRONGPASS/);
    expect(shown).not.toContain(SECRET);
    expect(shown).not.toContain('private payload');
  });
});

describe('TLS', () => {
  let dir: string;
  let tls: TestServer;
  let tlsPort: number;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'emq-tls-'));
    const [key, cert] = [join(dir, 'key'), join(dir, 'cert')];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
    const form = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    execFileSync('openssl', ['req', ...form, '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' });
    tlsPort = await freePort();
    tls = await TestServer.start(
      ...['--tls-port', String(tlsPort), '--tls-cert-file', cert, '--tls-key-file', key],
      ...['--tls-ca-cert-file', cert, '--tls-auth-clients', 'no'],
    );
  });
  afterAll(async () => {
    await tls[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  it.each([2, 3] as const)('connects, runs and comes back, RESP%i', async (protocol) => {
    const ca = await readFile(join(dir, 'cert'));
    const url = `valkeys://localhost:${tlsPort}`;
    await using connector = await Connector.connect({ url, redis: { tls: { ca } }, protocol, reconnectMinMs: 10 });
    const first = (await connector.run(call(count))) as number;
    const up = once(connector, 'connected');
    await tls.killClients();
    await up;
    const outcomes = await connector.runAll([call(count), call(count)]);
    expect(outcomes).toEqual([
      { ok: true, reply: first + 1 },
      { ok: true, reply: first + 2 },
    ]);
  });

  it('does not trust an unknown certificate, and says so at once', async () => {
    const started = performance.now();
    const error = await errorOf(Connector.connect(`valkeys://localhost:${tlsPort}`), 'EMQ_CONNECTION');
    expect(error.message).toMatch(/self.signed certificate/);
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  it('reports the wrong kind of port in time', async () => {
    const limits = { connectTimeoutMs: 300 };
    await errorOf(Connector.connect({ url: `valkeys://127.0.0.1:${tls.port}`, ...limits }), 'EMQ_CONNECTION');
    await errorOf(Connector.connect({ url: `valkey://127.0.0.1:${tlsPort}`, ...limits }), 'EMQ_CONNECTION');
  });
});

describe('an existing client', () => {
  it.each([{}, { protocol: 2 as const }, { lazyConnect: true }])(
    'is duplicated and left alone (%o)',
    async (options) => {
      const mine = new Redis({
        ...{ host: '127.0.0.1', port: server.port, connectionName: 'mine', commandTimeout: 5_000 },
        ...{ stringNumbers: true, maxRetriesPerRequest: null, enableAutoPipelining: true, ...options },
      });
      if (!('lazyConnect' in options)) await mine.ping();
      const snapshot = { status: mine.status, options: { ...mine.options }, listeners: mine.eventNames().length };
      {
        await using connector = await Connector.connect({ client: mine });
        const n = (await connector.run(call(count))) as number;
        expect(typeof n).toBe('number');
        if ('protocol' in options) expect(connector.stats().protocol).toBe(2);
        const names = (await server.admin.client('LIST')) as string;
        expect(names.match(/name=mine/g)).toHaveLength('lazyConnect' in options ? 1 : 2);
      }
      expect({ status: mine.status, options: { ...mine.options }, listeners: mine.eventNames().length }).toEqual(
        snapshot,
      );
      expect(await mine.ping()).toBe('PONG');
      mine.disconnect();
      await once(mine, 'end');
    },
  );

  it('may have been closed, and keeps its database', async () => {
    const mine = new Redis({ path: server.socket, db: 5, lazyConnect: true });
    await mine.set('{emq}:version', 'echomq:6.0.0');
    mine.disconnect();
    const error = await errorOf(Connector.connect({ client: mine }), 'EMQWIRE');
    expect(error.reason).toMatch(/is echomq:6.0.0/);
    await server.admin.select(5);
    await server.admin.set('{emq}:version', 'echomq:4.0.0');
    await server.admin.select(0);
    await using connector = await Connector.connect({ client: mine });
    expect(await connector.run(call(count))).toBe(1);
    expect(mine.status).toBe('end');
  });
});

it('leaves no connection behind', async () => {
  expect(await server.clients()).toEqual([]);
});
