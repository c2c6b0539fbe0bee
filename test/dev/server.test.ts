/**
 * The embedded server from its start to its end: addresses, folders, the module, the brand, and every way a start fails.
 * The death of the parent is in parent.test.ts.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { Redis } from 'ioredis';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  buildModule,
  findServer,
  startServer,
  type EmbeddedServer,
  type StartServerOptions,
} from '../../src/dev/index.js';
import { ask, freshFolder, isAlive, processesWith, shellProgram } from './support.js';

const BRAND = '{emq}:version';

/** The option for a server that is found once, so that no test pays for the search. */
let server: string;

beforeAll(async () => {
  ({ path: server } = await findServer());
}, 120_000);

/** A server that ends with the test. */
async function start(options: StartServerOptions = {}): Promise<EmbeddedServer> {
  const started = await startServer({ server, ...options });
  onTestFinished(() => started.stop());
  return started;
}

async function failure(options: StartServerOptions): Promise<Error> {
  const error = (await start(options).catch((error: unknown) => error)) as Error;
  expect(error).toBeInstanceOf(Error);
  return error;
}

describe('startServer', () => {
  it('starts a private server on a socket and stops it without a trace', async () => {
    const own = await start();
    expect(own.url).toBe(`unix://${own.socketPath}`);
    expect(Buffer.byteLength(own.socketPath)).toBeLessThanOrEqual(100);
    expect(own.port).toBeUndefined();
    expect(own.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'port')).toEqual(['port', '0']);
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'save')).toEqual(['save', '']);
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no']);
    expect(await ask(own.socketPath, 'GET', BRAND)).toBeNull();
    expect(isAlive(own.pid)).toBe(true);

    await own.stop();
    await own.stop();
    expect(isAlive(own.pid)).toBe(false);
    expect(existsSync(own.dir)).toBe(false);
    expect(await own.ended).toEqual({ code: 0, signal: null });
    await expect.poll(() => processesWith(own.dir)).toEqual([]);
  });

  it('listens on a free loopback port when asked, and on no other address', async () => {
    const own = await start({ port: 'free' });
    expect(own.url).toBe(`redis://127.0.0.1:${own.port}`);
    const redis = new Redis(own.url);
    expect(await redis.ping()).toBe('PONG');
    redis.disconnect();
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'bind')).toEqual(['bind', '127.0.0.1']);
  });

  it('takes a port that is named, and says so when it is taken', async () => {
    const probe = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void probe.close());
    await new Promise((done) => probe.once('listening', done));
    const { port } = probe.address() as AddressInfo;
    expect((await failure({ port })).message).toMatch(
      /^EMQ_CONNECTION the server ended before it was ready.*\n?.*in use/,
    );
    await new Promise((done) => probe.close(done));

    const own = await start({ port });
    expect(own.port).toBe(port);
    const socket = connect(port, '127.0.0.1');
    await new Promise((done, failed) => socket.once('connect', done).once('error', failed));
    socket.destroy();
  });

  it.each([0, -1, 65_536, 1.5, Number.NaN])('refuses the port %s', async (port) => {
    expect(await failure({ port })).toMatchObject({
      code: 'EMQ_INPUT',
      reason: expect.stringContaining('port') as string,
    });
  });

  it('starts two at once, each on its own', async () => {
    const [one, two] = await Promise.all([start({ port: 'free' }), start({ port: 'free' })]);
    expect(one.dir).not.toBe(two.dir);
    expect(one.port).not.toBe(two.port);
    await ask(one.socketPath, 'SET', 'which', 'one');
    expect(await ask(two.socketPath, 'GET', 'which')).toBeNull();
  });

  it('keeps a folder that was given, with its log, and uses it', async () => {
    const dir = join(await freshFolder(), 'not', 'yet');
    const own = await start({ dir, args: ['--appendonly', 'yes'] });
    expect(own.dir).toBe(dir);
    expect(dirname(own.socketPath)).toBe(dir);
    await ask(own.socketPath, 'SET', 'k', 'v');
    await own.stop();
    expect(await readdir(dir)).toContain('appendonlydir');
    expect(await readFile(own.logFile, 'utf8')).toContain('Ready to accept connections');

    const again = await start({ dir, args: ['--appendonly', 'yes'] });
    expect(await ask(again.socketPath, 'GET', 'k')).toBe('v');
  });

  it('finds a short place for the socket where the folder has a long name', async () => {
    const dir = join(await freshFolder(), 'long'.repeat(30));
    const own = await start({ dir });
    expect(Buffer.byteLength(own.socketPath)).toBeLessThanOrEqual(100);
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'dir')).toEqual(['dir', dir]);
    await own.stop();
    expect(existsSync(dirname(own.socketPath))).toBe(false);
    expect(existsSync(dir)).toBe(true);
  });

  it('puts the socket where it is told, and writes a URL that says so', async () => {
    const folder = await freshFolder();
    const own = await start({ socket: join(folder, 'my %41 socket') });
    expect(await ask(join(folder, 'my %41 socket'), 'PING')).toBe('PONG');
    expect(own.url).toBe(`unix://${folder}/my%20%2541%20socket`);
    expect((await failure({ socket: join(folder, 'x'.repeat(100)) })).message).toMatch(
      /^EMQ_INPUT .*at most 100 bytes/,
    );
  });

  it('lets further arguments win', async () => {
    const own = await start({ args: ['--maxmemory', '50mb', '--save', '3600 1'] });
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', String(50 << 20)]);
    expect(await ask(own.socketPath, 'CONFIG', 'GET', 'save')).toEqual(['save', '3600 1']);
  });

  it('is stopped by "await using"', async () => {
    let pid: number;
    {
      await using own = await startServer({ server });
      pid = own.pid;
      expect(isAlive(pid)).toBe(true);
    }
    expect(isAlive(pid)).toBe(false);
  });
});

describe('kill and restart', () => {
  it('kill keeps the folder; restart comes back at the same address with what was saved', async () => {
    const own = await start({ port: 'free', args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    const { url, dir, pid, ended } = own;
    await ask(own.socketPath, 'SET', 'k', 'v');
    await own.kill();
    expect(await ended).toEqual({ code: null, signal: 'SIGKILL' });
    expect(isAlive(pid)).toBe(false);
    expect(existsSync(dir)).toBe(true);

    await own.restart();
    expect(own).toMatchObject({ url, dir });
    expect(own.pid).not.toBe(pid);
    expect(await ask(own.socketPath, 'GET', 'k')).toBe('v');

    await own.kill();
    await own.stop();
    expect(existsSync(dir)).toBe(false);
  });

  it('restart ends a server that runs, in good order', async () => {
    const own = await start({ args: ['--save', '3600 1'] });
    await ask(own.socketPath, 'SET', 'k', 'v');
    const before = own.ended;
    await own.restart();
    expect(await before).toEqual({ code: 0, signal: null });
    expect(await ask(own.socketPath, 'GET', 'k')).toBe('v');
    // A second time: the guard of the first must not have taken the folder along.
    await own.restart();
    expect(await ask(own.socketPath, 'GET', 'k')).toBe('v');
  });

  it('leaves nothing of a server whose program is a wrapper that stays', async () => {
    const wrapper = await shellProgram(join(await freshFolder(), 'wrapper'), `"${server}" "$@"\nexit $?`);
    const own = await start({ server: wrapper });
    const [ready] = String(await ask(own.socketPath, 'INFO', 'server')).match(/process_id:\d+/) ?? [];
    await own.restart();
    expect(String(await ask(own.socketPath, 'INFO', 'server'))).not.toContain(`${ready}\r`);
    await own.stop();
    await expect.poll(() => processesWith(own.dir)).toEqual([]);
  });

  it('restart after stop is refused', async () => {
    const own = await start();
    await own.stop();
    await expect(own.restart()).rejects.toMatchObject({ code: 'EMQ_CLOSED' });
  });

  it('tells of a server that ends by itself', async () => {
    const own = await start();
    await ask(own.socketPath, 'SHUTDOWN', 'NOSAVE').catch(() => {}); // the reply is the end of the connection
    expect(await own.ended).toEqual({ code: 0, signal: null });
    await own.restart();
    expect(await ask(own.socketPath, 'PING')).toBe('PONG');
  });
});

describe('the abort signal', () => {
  it('stops a running server', async () => {
    const abort = new AbortController();
    const own = await start({ signal: abort.signal });
    abort.abort();
    await own.ended;
    await own.stop();
    expect(existsSync(own.dir)).toBe(false);
  });

  it('ends a start that is under way, and its process', async () => {
    const folder = await freshFolder();
    const pidFile = join(folder, 'pid');
    // Never answers; tells of itself once it runs.
    const silent = await shellProgram(join(folder, 'silent'), `echo $$ > ${pidFile}; exec sleep 1000`);
    const abort = new AbortController();
    const starting = failure({ server: silent, signal: abort.signal });
    await expect.poll(() => readFile(pidFile, 'utf8').catch(() => '')).toMatch(/\d\n/);
    abort.abort(new Error('enough'));
    expect(await starting).toMatchObject({ code: 'EMQ_CLOSED', cause: new Error('enough') });
    expect(isAlive(Number(await readFile(pidFile, 'utf8')))).toBe(false);
  });

  it('starts nothing when it was aborted before', async () => {
    const folder = await freshFolder();
    const program = await shellProgram(join(folder, 'program'), `: > ${join(folder, 'ran')}`);
    expect(await failure({ server: program, signal: AbortSignal.abort() })).toMatchObject({ code: 'EMQ_CLOSED' });
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });
});

describe('a start that fails', () => {
  it('gives the last words of a server that ended at once', async () => {
    const program = await shellProgram(join(await freshFolder(), 'program'), 'echo "no fuel" >&2; exit 3');
    expect((await failure({ server: program })).message).toBe(
      'EMQ_CONNECTION the server ended before it was ready (exit code 3): no fuel',
    );
  });

  it('gives the complaint about an unknown argument', async () => {
    expect((await failure({ args: ['--no-such-thing', '1'] })).message).toMatch(/exit code 1\)[^]*no-such-thing/);
  });

  it('gives up on one that never answers, and ends it', async () => {
    const folder = await freshFolder();
    const silent = await shellProgram(join(folder, 'silent'), `echo $$ > ${join(folder, 'pid')}; exec sleep 1000`);
    expect(await failure({ server: silent, startTimeoutMs: 500 })).toMatchObject({
      code: 'EMQ_TIMEOUT',
      reason: expect.stringContaining('not ready within 500 ms') as string,
    });
    expect(isAlive(Number(await readFile(join(folder, 'pid'), 'utf8')))).toBe(false);
  });

  it('in a folder that cannot be made says so', async () => {
    const file = join(await freshFolder(), 'file');
    await writeFile(file, '');
    expect((await failure({ dir: join(file, 'dir') })).message).toMatch(
      /^EMQ_INPUT the server cannot be started in .*ENOTDIR/,
    );
  });

  it('takes no file away and no folder from a server that is alive', async () => {
    const dir = await freshFolder();
    const file = join(dir, 'a file');
    await writeFile(file, 'mine');
    expect((await failure({ socket: file })).message).toContain('exists and is no socket');
    expect(await readFile(file, 'utf8')).toBe('mine');

    const first = await start({ dir });
    expect((await failure({ dir })).message).toContain(`a server is listening at ${first.socketPath}`);
    expect(isAlive(first.pid)).toBe(true);
    // The socket of one that was killed is in nobody's way.
    await first.kill();
    expect(existsSync(first.socketPath)).toBe(true);
    await start({ dir });
  });

  it('leaves no folder behind', async () => {
    const temporary = await freshFolder();
    const program = await shellProgram(join(temporary, 'program'), 'exit 1');
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = temporary;
    try {
      await failure({ server: program });
    } finally {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
    }
    expect(await readdir(temporary)).toEqual(['program']);
  });
});

describe('the module', () => {
  it('is loaded, and the node branded for wire 6', async () => {
    const own = await start({ module: true });
    const modules = (await ask(own.socketPath, 'MODULE', 'LIST')) as unknown[][];
    expect(modules.map((module) => module[1])).toEqual(['trafikey']);
    expect(await ask(own.socketPath, 'GET', BRAND)).toBe('echomq:6.0.0');
  });

  it('leaves a brand that is there, and none where none is wanted', async () => {
    const own = await start({ module: true, args: ['--save', '3600 1'] });
    await ask(own.socketPath, 'SET', BRAND, 'echomq:4.0.0');
    await own.restart();
    expect(await ask(own.socketPath, 'GET', BRAND)).toBe('echomq:4.0.0');
    const plain = await start({ module: true, brand: false });
    expect(await ask(plain.socketPath, 'GET', BRAND)).toBeNull();
  });

  it('does not pass data of wire 4 off as wire 6', async () => {
    const dir = await freshFolder();
    const args = ['--appendonly', 'yes'];
    const first = await start({ dir, args, brand: 4 });
    await first.stop();
    const error = await failure({ dir, args, module: true });
    expect(error.message).toMatch(/^EMQWIRE the data in .* is branded echomq:4\.0\.0, not echomq:6\.0\.0: /);
    const again = await start({ dir, args, module: true, brand: false });
    expect(await ask(again.socketPath, 'GET', BRAND)).toBe('echomq:4.0.0');
  });

  it('brands a node without the module when asked', async () => {
    const own = await start({ brand: 4 });
    expect(await ask(own.socketPath, 'GET', BRAND)).toBe('echomq:4.0.0');
  });

  it('leaves the brand of a cluster node and of a replica to others', async () => {
    const cluster = await start({ module: true, args: ['--cluster-enabled', 'yes'] });
    expect(await ask(cluster.socketPath, 'CLUSTER', 'MYID')).toMatch(/^[0-9a-f]{40}$/);
    const replica = await start({ module: true, args: ['--replicaof', '127.0.0.1', '1'] });
    expect(await ask(replica.socketPath, 'GET', BRAND)).toBeNull();
  });

  it('that is missing or no module is refused in words', async () => {
    const folder = await freshFolder();
    expect((await failure({ module: join(folder, 'none.so') })).message).toBe(
      `EMQ_INPUT there is no module at ${join(folder, 'none.so')}`,
    );
    const file = join(folder, 'text.so');
    await writeFile(file, 'not a module', { mode: 0o755 });
    expect((await failure({ module: file })).message).toMatch(
      /^EMQ_CONNECTION the server ended before it was ready \(exit code 1\): .*text\.so.*failed to load/,
    );
  });

  it('that refuses the server is quoted', async () => {
    const sources = join(await freshFolder(), 'module');
    await mkdir(sources);
    await writeFile(
      join(sources, 'refuses.c'),
      `__attribute__((visibility("default"))) int ValkeyModule_OnLoad(void *ctx, void **argv, int argc);
       int ValkeyModule_OnLoad(void *ctx, void **argv, int argc) { (void)ctx; (void)argv; (void)argc; return 1; }\n`,
    );
    const { path } = await buildModule({ via: 'cc', sources, out: join(sources, 'refuses.so') });
    const { message } = await failure({ module: path });
    expect(message).toMatch(/ended before it was ready \(exit code 1\)[^]*refuses\.so/);
    await rm(path);
  });
});
