/**
 * TLS with client certificates: what works, also on the connections that consumers, events and confirmed jobs have of their
 * own; and each way in which it does not, told at once and for good, without a secret. And the command line's options for it.
 */
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { defaultModulePath } from '../../src/dev/index.js';
import { Connector, Jobs, Queue, QueueEvents, type ConnectorOptions } from '../../src/index.js';
import { errorOf, EXECUTORS } from '../conformance/stage.js';
import { emq } from '../fleets/command.js';
import { freePort, TestServer } from '../wire/server.js';
import { Certificates, tlsSettings, type Pair } from './certificates.js';

let made: Certificates;
let [ca, stranger, own, client, expired, foreign]: Pair[] = [];
beforeAll(async () => {
  made = await Certificates.make();
  [ca, stranger] = await Promise.all([made.authority('ca'), made.authority('stranger')]);
  [own, client, expired, foreign] = await Promise.all([
    made.issue('server', ca),
    made.issue('client', ca),
    made.issue('expired', ca, -1),
    made.issue('foreign', stranger),
  ]);
});
afterAll(() => made.remove());

/** The certificate, whichever it is; they are all there before the first test. */
const pair = (one: Pair | undefined): Pair => {
  if (one === undefined) throw new Error('no certificate');
  return one;
};

/** A server with a plain port and one with TLS. */
async function start(...more: string[]): Promise<{ server: TestServer; port: number }> {
  const port = await freePort();
  const server = await TestServer.start('--tls-port', String(port), ...tlsSettings(pair(own), pair(ca)), ...more);
  return { server, port };
}

describe.each(EXECUTORS)('with a client certificate, %s', (_executor, wire) => {
  let server: TestServer;
  let port: number;
  let options: ConnectorOptions;
  beforeAll(async () => {
    const module = wire === 6 ? ['--loadmodule', defaultModulePath()] : [];
    // the plain port is another one: what came over TLS is told from what did not
    ({ server, port } = await start('--appendonly', 'yes', '--appendfsync', 'always', ...module));
    const tls = { ca: pair(ca).cert, cert: pair(client).cert, key: pair(client).key };
    options = { url: `valkeys://localhost:${port}`, redis: { tls }, wire };
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it('a job is added, confirmed, heard of and run, and every connection is one of TLS', async () => {
    await using connector = await Connector.connect(options);
    const queue = new Queue<string>(connector, 'mail');
    const events = new QueueEvents(connector, 'mail');
    await events.ready();
    const heard = new Promise((resolve) => events.once('completed', resolve));
    const consumer = queue.consume(() => {});
    await queue.enqueue('x', { durability: { fsync: true } });
    await heard;
    // the connector, its wait for work, its channels, its confirmed jobs
    await expect.poll(async () => (await server.clients()).length).toBeGreaterThanOrEqual(4);
    const list = String(await server.admin.client('LIST'));
    const addresses = [...list.matchAll(/ laddr=\S+:(\d+) .* user=default/g)].map(([, local]) => local);
    expect(new Set(addresses.filter((local) => local !== '0'))).toEqual(new Set([String(port)]));
    await events.close();
    await consumer.close();
    const shown = inspect([connector, connector.stats(), options.url], { depth: 20, showHidden: true });
    expect(shown).not.toContain('PRIVATE KEY');
  });

  it('a connection that is lost comes back with it', async () => {
    await using connector = await Connector.connect({ ...options, reconnectMinMs: 5, reconnectMaxMs: 20 });
    const up = new Promise((resolve) => connector.once('connected', resolve));
    await server.killClients();
    await up;
    await new Jobs(connector, 'mail').enqueue('x');
  });
});

describe('what does not work is told at once, for good, and what it is', () => {
  let server: TestServer;
  let port: number;
  beforeAll(async () => {
    ({ server, port } = await start());
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const tlsUrl = () => `valkeys://localhost:${port}`;
  const trusted = () => ({ ca: pair(ca).cert });
  const showing = (one: Pair | undefined) => ({ ca: pair(ca).cert, cert: pair(one).cert, key: pair(one).key });

  it.each<[string, () => ConnectorOptions, RegExp]>([
    ['no client certificate', () => ({ url: tlsUrl(), redis: { tls: trusted() } }), /certificate required/],
    ['one that has run out', () => ({ url: tlsUrl(), redis: { tls: showing(expired) } }), /certificate expired/],
    ['one of a stranger', () => ({ url: tlsUrl(), redis: { tls: showing(foreign) } }), /unknown ca|certificate/],
    [
      "an authority that is not the server's",
      () => ({ url: tlsUrl(), redis: { tls: { ...showing(client), ca: pair(stranger).cert } } }),
      /unable to verify|self.signed/,
    ],
    ['no authority at all', () => ({ url: tlsUrl() }), /unable to verify|self.signed/],
    [
      'a name that is not in the certificate',
      () => ({ url: tlsUrl(), redis: { tls: { ...showing(client), servername: 'other.example' } } }),
      /other\.example/,
    ],
    [
      'a key that is not the certificate’s',
      () => ({ url: tlsUrl(), redis: { tls: { ...showing(client), key: pair(foreign).key } } }),
      /key/,
    ],
    ['a key that is none', () => ({ url: tlsUrl(), redis: { tls: { ...showing(client), key: 'no key' } } }), /./],
    [
      'TLS to a plain port',
      () => ({ url: `valkeys://localhost:${server.port}`, redis: { tls: showing(client) } }),
      /TLS|SSL/i,
    ],
    ['plain to a TLS port', () => ({ url: `valkey://127.0.0.1:${port}` }), /TLS/],
  ])('%s', async (_name, options, text) => {
    const begun = performance.now();
    // far longer than the test may take: it is not tried again until the time is up
    const error = await errorOf(() => Connector.connect({ ...options(), connectTimeoutMs: 120_000 }));
    expect(error.code).toBe('EMQ_CONNECTION');
    expect(error.message).toMatch(text);
    expect(performance.now() - begun).toBeLessThan(20_000);
    expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('PRIVATE KEY');
    expect(await server.admin.dbsize()).toBe(0);
  });
});

describe('the command line', () => {
  let server: TestServer;
  let port: number;
  beforeAll(async () => {
    ({ server, port } = await start());
    await server.admin.set('{emq}:version', 'echomq:4.0.0');
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const files = () => {
    const { certFile, keyFile } = pair(client);
    return { ca: ['--tls-ca', pair(ca).certFile], cert: ['--tls-cert', certFile], key: ['--tls-key', keyFile] };
  };
  const url = () => ['--url', `valkeys://localhost:${port}`];
  const all = () => Object.values(files()).flat();

  it.each([
    [['queues']],
    [['stats', 'mail']],
    [['jobs', 'mail']],
    [['doctor']],
    [['wire']],
    [['flow', 'JOB00000000000', '--queue', 'mail']],
    [['acl', '--user', 'u', '--role', 'observer', '--queue', 'mail', '--apply', '--yes']],
  ])('emq %j takes the files', async (args) => {
    const said = await emq([...args, ...url(), ...all(), '--json']);
    // there is no such flow: but that was asked over TLS
    expect(said.code, said.stdout).toBe(args[0] === 'flow' ? 1 : 0);
    expect(said.stdout).toContain(`localhost:${port}`);
    const without = await emq([...args, ...url(), ...files().ca, '--json']);
    expect(without).toMatchObject({ code: 3, json: [{ error: { code: 'EMQ_CONNECTION' } }] });
    expect(without.json[0].error.reason).toMatch(/certificate required/);
  });

  it('takes them from the environment', async () => {
    const env = {
      EMQ_TLS_CA: pair(ca).certFile,
      EMQ_TLS_CERT: pair(client).certFile,
      EMQ_TLS_KEY: pair(client).keyFile,
    };
    expect(await emq(['queues', ...url()], { env })).toMatchObject({ code: 0 });
  });

  it('emq trace on a node of yours', async () => {
    const said = await emq(['trace', '--url4', `valkeys://localhost:${port}`, ...all(), '--json']);
    expect(said.json.at(-1)).toMatchObject({ summary: { agree: true } });
  });

  it.each<[string, () => string[], RegExp]>([
    [
      'a file that is not there',
      () => [...url(), '--tls-ca', '/no/such/file'],
      /--tls-ca: "\/no\/such\/file" cannot be read \(ENOENT\)/,
    ],
    ['a file that is no PEM', () => [...url(), '--tls-ca', '/etc/passwd'], /--tls-ca: "\/etc\/passwd" is no PEM file/],
    [
      'a certificate without its key',
      () => [...url(), ...files().ca, ...files().cert],
      /give both --tls-cert and --tls-key/,
    ],
    ['a URL without TLS', () => ['--url', server.url, ...all()], /the url is one without TLS: write valkeys:\/\//],
  ])('%s is refused before anything is opened', async (_name, args, text) => {
    const said = await emq(['queues', ...args()]);
    expect(said.code).toBe(2);
    expect(said.stderr).toMatch(text);
    expect(said.stderr).not.toMatch(/PRIVATE KEY|root:/);
  });
});
