/**
 * The image of Dockerfile.valkey, built and run by a Docker engine through testcontainers: what it is, how it starts and
 * ends, whom it answers, the brand; the parity battery against it; and the cluster of compose.yaml.
 *
 * Without an engine nothing here is run: vitest then counts the tests as skipped, under a title that says why, and the
 * same line is printed. In CI that cannot happen unseen: there an engine is started (engine.ts), or the start fails.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ValkeyContainer } from '@testcontainers/valkey';
import { Cluster } from 'ioredis';
import { Network, Wait, type StartedTestContainer } from 'testcontainers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadVectors, runRandom, runVectors, type ParityNode } from '../../src/parity/index.js';
import { Jobs } from '../../src/queue/jobs.js';
import { Connector } from '../../src/wire/connector.js';
import { BRANDS } from '../../src/wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../src/wire/keyspace.js';
import { freePort } from '../wire/server.js';
import { Compose } from './compose.js';
import { CI, Engine, findCompose, findDocker } from './engine.js';
import { CONTEXT, Image, PORT, ROOT, brandFirst, clientOf, inside, logOf, talk, urlOf } from './image.js';

/** How much larger than its Debian the image may be, in bytes. It was 10 MB on trixie, 15 MB on bookworm. */
const ROOM = 20_000_000;
const SEED = Math.floor(Math.random() * 2 ** 31);
const STEPS = 300;

const docker = await findDocker();
const compose = await findCompose();
const run = docker.state !== 'absent';
// In CI there is a compose, or the tests that need it fail.
const runCompose = run && (compose !== undefined || CI);
const notRun = run ? '' : ` (not run: image tests, ${docker.reason})`;
const noCompose =
  run && !runCompose ? ' (not run: compose tests, neither docker compose nor docker-compose is here)' : notRun;
for (const line of new Set([notRun, noCompose])) if (line !== '') console.warn(line.slice(2, -1));

let image: Image;
/** What is to be undone at the end, the last first, however far we came. */
const undo: (() => Promise<void>)[] = [];

beforeAll(async () => {
  if (!run) return;
  const engine = await Engine.open(docker);
  undo.push(() => engine.stop());
  image = await Image.build();
  undo.push(() => image.remove());
}, 600_000);

afterAll(async () => {
  const results = [];
  for (const take of undo.reverse()) results.push(await take().catch((error: unknown) => error));
  expect(results.filter((error) => error !== undefined)).toEqual([]);
}, 120_000);

/** One job from end to end by the native commands. */
async function runJob(emq: Connector, queue: string): Promise<void> {
  const jobs = new Jobs<string>(emq, queue);
  const { id } = await jobs.enqueue('work');
  const job = await jobs.claim({ leaseMs: 60_000 });
  if (job === null) throw new Error('nothing to claim');
  expect(job).toMatchObject({ id, payload: 'work' });
  expect(await jobs.complete(job)).toBe('completed');
}

describe.runIf(run)(`the image${notRun}`, () => {
  test('the build context holds what the Dockerfile copies, and nothing else', async () => {
    const dockerfile = await readFile(join(ROOT, 'Dockerfile.valkey'), 'utf8');
    const copied = [...dockerfile.matchAll(/^COPY (?!--)(\S+)/gm)].map(([, source]) => source).sort();
    const ignore = await readFile(join(ROOT, '.dockerignore'), 'utf8');
    const allowed = [...ignore.matchAll(/^!(.*)$/gm)].map(([, name]) => name).sort();
    expect(ignore).toMatch(/^\*$/m);
    expect(allowed).toEqual(copied);
    expect([...CONTEXT].sort()).toEqual(copied);
  });

  test('is small, runs as a user of its own, and says its licences', async () => {
    const [found, base] = await Promise.all(
      [image.tag, 'debian:trixie-slim'].map((name) => image.engine.getImage(name).inspect()),
    );
    expect(found!.Size - base!.Size).toBeLessThan(ROOM);
    expect(found!.Config).toMatchObject({ User: '999:999', WorkingDir: '/data', Volumes: { '/data': {} } });
    expect(found!.Config.Labels['org.opencontainers.image.licenses']).toBe('MIT AND BSD-3-Clause');
    await using node = await image.idle().start();
    expect(await inside(node, 'sh', '-c', 'command -v valkey-server; command -v gcc || echo no compiler')).toMatch(
      /no compiler$/,
    );
    expect(await inside(node, 'cat', '/usr/share/doc/echomq/copyright')).toBe(
      (await readFile(join(ROOT, 'LICENSE'), 'utf8')).trim(),
    );
  });

  test('is healthy, has the module and the brand, and keeps its data', async () => {
    await using node = await image.container().withWaitStrategy(Wait.forHealthCheck()).start();
    expect(await inside(node, 'stat', '-c', '%u:%g', '/proc/1', '/data')).toBe('999:999\n999:999');
    expect(await inside(node, 'cat', '/proc/1/comm')).toBe('valkey-server');
    expect(await inside(node, 'valkey-cli', 'MODULE', 'LIST')).toMatch(/trafikey/);
    await using emq = await Connector.connect({ url: urlOf(node), wire: 6, claim: false });
    await runJob(emq, 'q');
    expect(await inside(node, 'valkey-cli', 'INFO', 'commandstats')).toMatch(/^cmdstat_emq\.complete:calls=1/m);
    await using client = await clientOf(node);
    const settings = await client.config('GET', 'appendonly', 'appendfsync', 'save', 'maxmemory-policy', 'dir');
    expect(Object.fromEntries(pairs(settings))).toEqual({
      appendonly: 'yes',
      appendfsync: 'everysec',
      save: '',
      'maxmemory-policy': 'noeviction',
      dir: '/data',
    });
  });

  test('answers no one from outside without a password, and is closed to the dangerous commands', async () => {
    await using node = await image.container({}).start();
    expect(await talk(node.getMappedPort(PORT), 'PING\r\nQUIT\r\n')).toMatch(/^-DENIED [^]*no password is set/);
    expect(await inside(node, 'valkey-cli', 'PING')).toBe('PONG');
    expect(await logOf(image, node.getId())).toMatch(/VALKEY_PASSWORD/);
    for (const command of ['DEBUG SLEEP 0', 'MODULE LOAD /x.so', 'CONFIG SET dir /tmp']) {
      expect(await inside(node, 'valkey-cli', ...command.split(' '))).toMatch(/^ERR .*(not allowed|protected)/);
    }
  });

  const PASSWORDS = ['plain', ' sp ace "quoted" \\back\\x41 #$!`\' ä'];
  test.each(PASSWORDS)('takes a password from the environment: %s', async (password) => {
    await using node = await image.container({ VALKEY_PASSWORD: password }).start();
    await using client = await clientOf(node, { password });
    expect(await client.get(NODE_VERSION_KEY)).toBe(BRANDS[6]);
    const url = urlOf(node);
    await expect(Connector.connect({ url, wire: 6 })).rejects.toMatchObject({ code: 'NOAUTH' });
    const other = Connector.connect({ url, wire: 6, redis: { password: 'other' } });
    await expect(other).rejects.toMatchObject({ code: 'WRONGPASS' });
    expect(await inside(node, 'echomq-health')).toBe('ok');
    expect(await inside(node, 'sh', '-c', 'cat /proc/1/cmdline /proc/1/environ')).not.toContain(password);
  });

  test('takes a password from a file', async () => {
    const target = '/run/secrets/password';
    await using node = await image
      .container({ VALKEY_PASSWORD_FILE: target })
      .withCopyContentToContainer([{ content: 'from a file\n', target, mode: 0o444 }])
      .start();
    await using client = await clientOf(node, { password: 'from a file' });
    expect(await client.ping()).toBe('PONG');
    expect(await inside(node, 'echomq-health')).toBe('ok');
  });

  test('says what is wrong and does not start', async () => {
    await using node = await image.idle().start();
    const start = (env: Record<string, string>, ...args: string[]) =>
      node.exec(['echomq-entrypoint', 'valkey-server', ...args], { env });
    const wrong = [
      [await start({ VALKEY_PASSWORD: 'a', VALKEY_PASSWORD_FILE: '/b' }), /both set: give one/],
      [await start({ VALKEY_PASSWORD_FILE: '/nowhere' }), /user 999 cannot read \/nowhere/],
      [await start({ VALKEY_PASSWORD_FILE: '/dev/null' }), /is empty/],
      [await start({ VALKEY_PASSWORD: 'two\nlines' }), /one line/],
      [await start({ ALLOW_EMPTY_PASSWORD: 'maybe' }), /yes or no/],
      [await start({}, '/nowhere.conf'), /cannot read the settings file \/nowhere.conf/],
      [await start({}, '--nosuch', 'x'), /Bad directive[^]*cannot start with these settings/],
      [await start({}, '--dir', '/usr', '--appendonly', 'no'), /Permission denied[^]*cannot start/],
    ] as const;
    for (const [result, text] of wrong) {
      expect(result.output).toMatch(text);
      expect(result.exitCode).toBe(64);
    }
  });

  test('takes settings as arguments, and from a file of the caller', async () => {
    await using node = await image
      .container()
      .withCopyContentToContainer([{ content: 'maxmemory 64mb\nappendonly no\nport 7000\n', target: '/own.conf' }])
      .withCommand(['valkey-server', '/own.conf', '--port', String(PORT)])
      .start();
    await using client = await clientOf(node);
    const settings = await client.config('GET', 'maxmemory', 'appendonly', 'maxmemory-policy');
    const expected = { maxmemory: String(64 << 20), appendonly: 'no', 'maxmemory-policy': 'noeviction' };
    expect(Object.fromEntries(pairs(settings))).toEqual(expected);
    expect(await client.get(NODE_VERSION_KEY)).toBe(BRANDS[6]);
  });

  test('runs as any user that may write its data, and without capabilities', async () => {
    await using node = await image
      .container()
      .withUser('12345:0')
      .withTmpFs({ '/run/valkey': '', '/data': 'uid=12345' })
      .withDroppedCapabilities('ALL')
      .withSecurityOpt('no-new-privileges')
      .start();
    expect(await inside(node, 'echomq-health')).toBe('ok');
  });
});

/** CONFIG GET answers with pairs, in a row or as an object. */
function pairs(settings: unknown): [string, string][] {
  if (!Array.isArray(settings)) return Object.entries(settings as Record<string, string>);
  const list = settings as string[];
  return list.flatMap((name, at) => (at % 2 === 0 ? [[name, list[at + 1] ?? ''] as [string, string]] : []));
}

describe.runIf(run)(`the brand${notRun}`, () => {
  test.each([
    ['kept on disk', []],
    ['nothing kept on disk', ['--appendonly', 'no']],
  ])('survives a restart and is never overwritten: %s', async (_, args) => {
    await using node = await image
      .container()
      .withCommand(['valkey-server', ...args])
      .start();
    const ask = (...command: string[]) => inside(node, 'valkey-cli', ...command);
    const kept = args.length === 0;
    await ask('SET', 'job', 'data');
    await node.restart();
    expect(await ask('MGET', NODE_VERSION_KEY, 'job')).toBe(`${BRANDS[6]}\n${kept ? 'data' : ''}`.trim());
    await ask('SET', NODE_VERSION_KEY, BRANDS[4]);
    if (!kept) await ask('SAVE');
    await node.restart();
    expect(await ask('GET', NODE_VERSION_KEY)).toBe(BRANDS[4]);
    const health = await node.exec('echomq-health');
    expect(health.exitCode).toBe(1);
    expect(health.output).toContain(`the brand is '${BRANDS[4]}', wire 6 needs ${BRANDS[6]}`);
  });

  test('is set on data that had none', async () => {
    await using node = await image.container().start();
    await using client = await clientOf(node);
    await client.set('job', 'data');
    await client.del(NODE_VERSION_KEY);
    await node.restart();
    await using second = await clientOf(node);
    expect(await second.mget(NODE_VERSION_KEY, 'job')).toEqual([BRANDS[6], 'data']);
  });

  test.each([
    ['kept on disk', undefined, [], BRANDS[6]],
    ['nothing kept on disk', undefined, ['--appendonly', 'no'], BRANDS[6]],
    // The same race without the entrypoint: it shows that the client would win if there were a gap.
    ['no entrypoint', ['valkey-server', '--protected-mode', 'no'], [], BRANDS[4]],
  ])('cannot be taken by a client of wire 4 that is there from the start: %s', async (_, entrypoint, args, brand) => {
    const port = await freePort();
    const over = new AbortController();
    const first = brandFirst(port, over.signal);
    const container = image.container().withExposedPorts({ container: PORT, host: port });
    if (entrypoint !== undefined) container.withEntrypoint(entrypoint);
    try {
      await using node = await container.withCommand([...(entrypoint ? [] : ['valkey-server']), ...args]).start();
      expect(await first).toBe(brand);
      expect(await inside(node, 'valkey-cli', 'GET', NODE_VERSION_KEY)).toBe(brand);
    } finally {
      over.abort();
      await first.catch(() => {});
    }
  });

  test('of a replica is its primary’s, and a node of a cluster has none', async () => {
    await using network = await new Network().start();
    await using primary = await image
      .container({ VALKEY_PASSWORD: 'p' })
      .withNetwork(network)
      .withNetworkAliases('one')
      .start();
    await using client = await clientOf(primary, { password: 'p' });
    await client.set(NODE_VERSION_KEY, 'echomq:9.9.9');
    await using replica = await image
      .container({ VALKEY_PASSWORD: 'p' })
      .withNetwork(network)
      .withCommand(['--replicaof', 'one', String(PORT)])
      .withWaitStrategy(Wait.forLogMessage(/PRIMARY <-> REPLICA sync: Finished with success/))
      .start();
    await using reader = await clientOf(replica, { password: 'p' });
    expect(await reader.get(NODE_VERSION_KEY)).toBe('echomq:9.9.9');
    await using node = await image.container().withCommand(['--cluster-enabled', 'yes']).start();
    expect(await inside(node, 'valkey-cli', 'DBSIZE')).toBe('0');
    expect(await inside(node, 'echomq-health')).toBe('ok');
  });
});

describe.runIf(run)(`its end${notRun}`, () => {
  /** Stops it as `docker stop` does, and tells how it ended and what it had said. */
  async function stop(container: StartedTestContainer): Promise<{ code: number; log: string; tookMs: number }> {
    const start = performance.now();
    const inner = image.engine.getContainer(container.getId());
    await inner.stop({ t: 30 });
    const code = (await inner.inspect()).State.ExitCode;
    return { code, log: await logOf(image, container.getId()), tookMs: performance.now() - start };
  }

  test('comes in good order on SIGTERM', async () => {
    await using node = await image.container().start();
    const { code, log, tookMs } = await stop(node);
    expect(log).toMatch(/ready to exit, bye bye/);
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(10_000);
  });

  test('comes as soon while it still loads its data for the brand', async () => {
    const snapshot = ['--appendonly', 'no'];
    await using node = await image.container().withCommand(snapshot).start();
    await using client = await clientOf(node);
    for (let at = 0; at < 60; at += 1) await client.set(`k${at}`, 'x'.repeat(100_000));
    await client.save();
    // A second container on these data, which takes half a second for each key.
    const [mount] = (await image.engine.getContainer(node.getId()).inspect()).Mounts;
    await node.stop({ remove: false, timeout: 10_000 });
    try {
      await using slow = await image
        .container()
        .withBindMounts([{ source: mount!.Source, target: '/data' }])
        .withCommand([...snapshot, '--loading-process-events-interval-bytes', '1024', '--key-load-delay', '500000'])
        .withWaitStrategy(Wait.forSuccessfulCommand('grep -q Loading /run/valkey/first.log'))
        .start();
      const { code, tookMs } = await stop(slow);
      expect(code).toBe(143);
      expect(tookMs).toBeLessThan(10_000);
    } finally {
      await image.engine.getContainer(node.getId()).remove({ v: true });
    }
  });
});

describe.runIf(run)(`by @testcontainers/valkey${notRun}`, () => {
  test.each([
    ['with a password', (valkey: ValkeyContainer) => valkey.withPassword('secret')],
    ['with a user', (valkey: ValkeyContainer) => valkey.withPassword('secret').withUsername('ann')],
    ['open, when told so', (valkey: ValkeyContainer) => valkey.withEnvironment({ ALLOW_EMPTY_PASSWORD: 'yes' })],
  ])('one job: %s', async (_, configure) => {
    await using valkey = await configure(new ValkeyContainer(image.tag)).start();
    await using emq = await Connector.connect({ url: valkey.getConnectionUrl(), wire: 6, claim: false });
    await runJob(emq, 'q');
    const open = valkey.getPassword() === '';
    expect(await inside(valkey, 'echomq-health')).toMatch(open ? /^ok$/ : /module and brand not checked/);
    // With a password its own way of calling redis-cli does not work with any image.
    if (open) expect((await valkey.executeCliCmd('get', [NODE_VERSION_KEY])).trim()).toBe(BRANDS[6]);
  });
});

describe.runIf(run)(`the parity battery${notRun}`, () => {
  test('vectors on both wires, and random steps side by side', { timeout: 180_000 }, async () => {
    await using six = await image.container().start();
    await using four = await image
      .container()
      .withEntrypoint(['valkey-server'])
      .withCommand(['--protected-mode', 'no', '--save', ''])
      .start();
    await using nativeClient = await clientOf(six);
    await using scriptClient = await clientOf(four);
    const native: ParityNode = { client: nativeClient, executor: 'native', own: true };
    const script: ParityNode = { client: scriptClient, executor: 'script', own: true };
    expect(await scriptClient.call('MODULE', 'LIST')).toEqual([]);
    const vectors = await loadVectors();
    for (const node of [native, script]) {
      const results = await runVectors(node, vectors);
      expect(results.filter(({ outcome }) => outcome !== 'passed')).toEqual([]);
      expect(results.length).toBe(
        vectors.scenarios.filter(({ executors }) => executors.includes(node.executor)).length,
      );
      await node.client.flushall();
    }
    console.log(`image.ci.test.ts: random steps, seed ${SEED}`);
    expect(await runRandom(native, script, { seed: SEED, steps: STEPS })).toEqual({
      outcome: 'passed',
      seed: SEED,
      steps: STEPS,
    });
  });
});

describe.runIf(runCompose)(`compose.yaml${noCompose}`, () => {
  let project: Compose;
  beforeAll(async () => {
    if (compose === undefined) throw new Error('no compose here: apt-get install docker-compose');
    project = await Compose.open(compose, image);
    undo.push(() => project.close());
  });

  test('one node, on this machine only', async () => {
    await project.run('up', '-d', '--no-build', 'valkey');
    await using emq = await Connector.connect({ url: `redis://127.0.0.1:${project.port}`, wire: 6, claim: false });
    await runJob(emq, 'q');
    const { NetworkSettings, HostConfig } = await (await project.container('valkey')).inspect();
    expect(NetworkSettings.Ports[`${PORT}/tcp`]).toEqual([{ HostIp: '127.0.0.1', HostPort: String(project.port) }]);
    expect(HostConfig).toMatchObject({ ReadonlyRootfs: true, CapDrop: ['ALL'] });
  });

  test('three nodes become one cluster, and the job that makes it may be run twice', { timeout: 120_000 }, async () => {
    await makeCluster();
    const made = await clusterNodes();
    await makeCluster();
    expect(await clusterNodes()).toEqual(made);
    expect(made.map((line) => line.split(' ').at(-1)).sort()).toEqual(['0-5460', '10922-16383', '5461-10921']);

    const nodes = project.clusterPorts.map((port) => ({ host: '127.0.0.1', port }));
    const plain = new Cluster(nodes);
    await using emq = await Connector.connect({ cluster: { nodes }, wire: 6 });
    try {
      const queues = await queuesOfEach(plain);
      for (const queue of queues) {
        expect(await plain.get(new Keyspace(queue).version)).toBeNull();
        await runJob(emq, queue);
        expect(await plain.get(new Keyspace(queue).version)).toBe(BRANDS[6]);
      }
      expect(await plain.get(NODE_VERSION_KEY)).toBeNull();
      for (const node of plain.nodes('master')) {
        const calls = await node.info('commandstats');
        for (const name of ['claim', 'complete'])
          expect(calls).toMatch(new RegExp(`^cmdstat_emq\\.${name}:calls=1,`, 'm'));
      }
    } finally {
      plain.disconnect();
    }
  });

  /** Runs the job that makes the cluster, to its end. */
  async function makeCluster(): Promise<void> {
    await project.run('up', '-d', '--no-build', 'cluster-init');
    const { StatusCode } = (await (await project.container('cluster-init')).wait()) as { StatusCode: number };
    expect(StatusCode).toBe(0);
  }

  /** Each node, its role and its slots, as the first node sees them, without what changes by itself. */
  async function clusterNodes(): Promise<string[]> {
    const port = String(project.clusterPorts[0]);
    const args = ['exec', '-T', 'cluster-1', 'valkey-cli', '-p', port, 'CLUSTER', 'NODES'];
    const lines = (await project.run(...args)).trim().split('\n');
    return lines
      .map((line) =>
        line
          .trim()
          .split(' ')
          .filter((_, at) => ![4, 5].includes(at))
          .join(' '),
      )
      .sort();
  }

  /** One queue name for each of the three nodes, by their slots. */
  async function queuesOfEach(plain: Cluster): Promise<string[]> {
    const found = new Map<number, string>();
    for (let at = 0; found.size < 3; at += 1) {
      const slot = Number(await plain.cluster('KEYSLOT', new Keyspace(`q${at}`).base));
      found.set(Math.floor((slot * 3) / 16_384), `q${at}`);
    }
    return [...found.values()];
  }
});
