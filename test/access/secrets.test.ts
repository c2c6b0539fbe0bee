/**
 * A user with the documented rights and nothing else, through the ways that production uses: TLS, a password that a URL
 * has to escape, a cluster. And the password is in no error, event or picture of a connector.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Connector, Jobs, type ConnectorOptions } from '../../src/index.js';
import { errorOf, EXECUTORS, MINUTE, Stage, type Wire } from '../conformance/stage.js';
import { freePort } from '../wire/server.js';
import { CLUSTER, PRODUCER, QUIET_CLUSTER, WIRE_4, WIRE_6 } from './rules.js';

/** Everything that a URL, a shell or a pattern might trip over. */
const SECRET = 'p@ss:w/ord?#%&+ {a}*$~>é';
const USER = 'worker';
const documented = (wire: Wire) => (wire === 6 ? WIRE_6 : WIRE_4);

/** One job from its admission to its end. */
async function oneJob(connector: Connector): Promise<void> {
  const jobs = new Jobs<string>(connector, 'a');
  const { id } = await jobs.enqueue('private payload');
  const job = await jobs.claim({ leaseMs: MINUTE });
  expect(job).toMatchObject({ id, payload: 'private payload' });
  if (job !== null) expect(await jobs.complete(job)).toBe('completed');
}

/** Fails if the secret, plain or as a URL has it, can be seen in it, hidden properties and causes included. */
function showsNoSecret(...things: readonly unknown[]): void {
  const shown = inspect(things, { depth: 20, showHidden: true }) + JSON.stringify(things);
  for (const form of [SECRET, encodeURIComponent(SECRET), JSON.stringify(SECRET).slice(1, -1), SECRET.slice(0, 8)]) {
    expect(shown).not.toContain(form);
  }
}

describe.each(EXECUTORS)('over TLS, %s', (_executor, wire) => {
  let dir: string;
  let stage: Stage;
  let port: number;
  let ca: Buffer;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'emq-access-'));
    const [key, cert] = [join(dir, 'key'), join(dir, 'cert')];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
    const form = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    execFileSync('openssl', ['req', ...form, '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' });
    ca = await readFile(cert);
    port = await freePort();
    const files = ['--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert];
    stage = await Stage.start(wire, { args: ['--tls-port', String(port), ...files, '--tls-auth-clients', 'no'] });
    await grant(documented(wire));
  });
  afterAll(async () => {
    await stage[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  const grant = (rules: readonly string[]) =>
    stage.raw.call('ACL', 'SETUSER', USER, 'reset', 'on', `>${SECRET}`, ...rules);
  const url = (password: string) => `valkeys://${USER}:${encodeURIComponent(password)}@localhost:${port}`;
  const options = (password: string): ConnectorOptions => ({ url: url(password), redis: { tls: { ca } }, wire });

  it.each([2, 3] as const)('the user of a URL runs a job, RESP%i', async (protocol) => {
    await using connector = await Connector.connect({ ...options(SECRET), protocol });
    expect(connector.stats().protocol).toBe(protocol);
    await oneJob(connector);
    showsNoSecret(connector.stats(), connector);
  });

  it.each([2, 3] as const)('user and password as options, RESP%i', async (protocol) => {
    const redis = { host: 'localhost', port, username: USER, password: SECRET, tls: { ca } };
    await using connector = await Connector.connect({ redis, wire, protocol });
    await oneJob(connector);
  });

  it.each([2, 3] as const)('a wrong password is WRONGPASS, told without it, RESP%i', async (protocol) => {
    const error = await errorOf(() => Connector.connect({ ...options(`${SECRET}!`), protocol }));
    expect(error.code).toBe('WRONGPASS');
    showsNoSecret(error);
  });

  it('a certificate that nobody vouches for is told without it', async () => {
    const error = await errorOf(() => Connector.connect({ url: url(SECRET), wire }));
    expect(error.code).toBe('EMQ_CONNECTION');
    expect(error.message).toMatch(/self.signed certificate/);
    showsNoSecret(error);
  });

  it('a right that is missing is NOPERM, at connect and in a verb, told without it', async () => {
    await using connector = await Connector.connect(options(SECRET));
    const rules = documented(wire);
    await grant(rules.filter((rule) => rule !== '+get'));
    const refused = await stage.refused('NOPERM', () => Connector.connect(options(SECRET)));
    await grant(PRODUCER);
    const verb = await stage.refused('NOPERM', () => new Jobs(connector, 'a').claim({ leaseMs: MINUTE }));
    showsNoSecret(refused, verb, connector);
    await grant(rules);
  });

  it('a user who is gone loses the connection, is told so on every try, and comes back when it is', async () => {
    const pauses = { reconnectMinMs: 5, reconnectMaxMs: 10, waitMs: 10 };
    await using connector = await Connector.connect({ ...options(SECRET), ...pauses });
    const told: unknown[] = [];
    for (const event of ['connected', 'disconnected', 'retrying', 'refused'] as const) {
      connector.on(event, (...args: unknown[]) => told.push([event, ...args]));
    }
    await stage.raw.call('ACL', 'DELUSER', USER);
    await vi.waitUntil(() => told.some((one) => inspect(one).includes('WRONGPASS')), { timeout: 20_000 });
    const error = await errorOf(() => new Jobs(connector, 'a').enqueue('private payload'));
    expect(error.code).toBe('EMQ_CONNECTION');
    showsNoSecret(told, error, connector);
    expect(inspect([told, error], { depth: 20, showHidden: true })).not.toContain('private payload');
    await grant(documented(wire));
    await vi.waitUntil(() => connector.stats().state === 'up', { timeout: 20_000 });
    await oneJob(connector);
  });
});

describe.each(EXECUTORS)('in a cluster, %s', (_executor, wire) => {
  // The brand is the queue's own key here.
  const rules = [...documented(wire).filter((rule) => !rule.includes('{emq}')), ...CLUSTER];
  let stage: Stage;
  const grant = (granted: readonly string[]) =>
    stage.raw.call('ACL', 'SETUSER', USER, 'reset', 'on', `>${SECRET}`, ...granted);
  const connect = () => {
    const nodes = [{ host: '127.0.0.1', port: Number(stage.server.port) }];
    const options = { redisOptions: { username: USER, password: SECRET } };
    return Connector.connect({ cluster: { nodes, options }, wire, connectTimeoutMs: 3_000 });
  };

  beforeAll(async () => {
    // A node that has met no other does not know its own address.
    const address = ['--cluster-announce-ip', '127.0.0.1'];
    const args = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', ...address];
    stage = await Stage.start(wire, { args, port: 'free' });
    await stage.raw.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    // Gossip with oneself has no event: the node is asked.
    const ok = async () => String(await stage.raw.call('CLUSTER', 'INFO')).includes('cluster_state:ok');
    await vi.waitUntil(ok, { timeout: 20_000 });
  });
  afterAll(() => stage[Symbol.asyncDispose]());

  it('a queue that is branded: the rules without the node’s brand, and the slots', async () => {
    await oneJob(stage.connector);
    await grant(rules);
    const connector = await connect();
    await oneJob(connector);
    // Another queue cannot even be looked at.
    const error = await stage.refused('NOPERM', () => new Jobs(connector, 'b').enqueue(1));
    showsNoSecret(error, connector);
    await connector.close();
  });

  it('the quiet rules keep the ACL LOG empty', async () => {
    await stage.raw.call('ACL', 'LOG', 'RESET');
    await grant([...rules, ...QUIET_CLUSTER]);
    const connector = await connect();
    await stage.raw.script('FLUSH');
    await oneJob(connector);
    await connector.close();
    expect(await stage.raw.call('ACL', 'LOG')).toEqual([]);
  });

  it('the slots are needed', async () => {
    await grant(rules.filter((rule) => rule !== '+cluster|slots'));
    const error = await errorOf(connect);
    expect(error.code).toBe('NOPERM');
    showsNoSecret(error);
  });

  it('a queue that is not branded needs SET, on a key that it has the right to', async () => {
    await stage.raw.del('emq:{a}:version');
    await grant(rules.filter((rule) => rule !== '+set'));
    const connector = await connect();
    await stage.refused('NOPERM', () => new Jobs(connector, 'a').enqueue(1));
    await grant(rules);
    await oneJob(connector);
    expect(await stage.raw.get('emq:{a}:version')).toBe(`echomq:${wire}.0.0`);
    await connector.close();
  });
});
