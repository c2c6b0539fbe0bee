/**
 * The module in a stock server under valgrind, through all native scenarios of the contract: no read or write of memory
 * that is not there, and none of memory that has been given back. A handle that outlives its key shows only so: the
 * read happens in the server's own code, where a sanitizer built into the module does not look.
 *
 * Needs valgrind, a C compiler and a server whose libraries fit this system's loader; where one is missing the suite
 * says so by name and does not run. In CI that is a failure.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { findServer } from '../../src/dev/index.js';
import { loadVectors, runVectors } from '../../src/parity/index.js';

const here = dirname(fileURLToPath(import.meta.url));
const sources = join(here, '..', '..', 'module');

function has(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

const missing = ['valgrind', 'cc'].filter((program) => !has(program));
if (process.platform !== 'linux') missing.push('Linux');
if (missing.length > 0) console.log(`not run: memory tests, this machine has no ${missing.join(', no ')}`);

describe.runIf(missing.length === 0 || process.env.CI === 'true')('the module under valgrind', () => {
  let folder: string;
  let server: ChildProcess;
  let log: string;
  let client: Redis;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'emq-mem-'));
    const shim = join(folder, 'shim.so');
    const module = join(folder, 'trafikey.so');
    const compile = (...args: string[]) => execFileSync('cc', ['-O1', '-g', '-fPIC', '-shared', ...args]);
    compile('-o', shim, join(here, 'malloc-shim.c'));
    const files = readdirSync(sources).filter((name) => name.endsWith('.c'));
    compile('-std=c11', '-o', module, ...files.map((name) => join(sources, name)));

    // A server of ours is started by a wrapper with a loader of its own; valgrind needs the program itself.
    const { path } = await findServer({ fetch: true });
    const root = join(dirname(realpathSync(path)), '..', 'root');
    const program = existsSync(root) ? join(root, 'usr', 'bin', 'valkey-server') : path;
    log = join(folder, 'valgrind.log');
    const socket = join(folder, 's');
    // without compression: the compressor's own habits with fresh memory are not what is looked for
    const settings = ['--port', '0', '--save', '', '--rdbcompression', 'no', '--dir', folder];
    const words = [...settings, '--unixsocket', socket, '--loadmodule', module];
    const valgrind = ['--error-exitcode=9', '--leak-check=no', `--log-file=${log}`, program, ...words];
    server = spawn('valgrind', valgrind, {
      stdio: 'ignore',
      env: {
        ...process.env,
        LD_PRELOAD: shim,
        LD_LIBRARY_PATH: existsSync(root) ? join(root, 'usr', 'lib', 'x86_64-linux-gnu') : '',
      },
    });
    client = new Redis({ path: socket, retryStrategy: () => 50, maxRetriesPerRequest: null });
    client.on('error', () => {}); // until it listens
    const ended = once(server, 'exit').then(async ([code]) => {
      throw new Error(`the server ended with ${code}: ${await readFile(log, 'utf8')}`);
    });
    await Promise.race([client.ping(), ended]);
    ended.catch(() => {});
  }, 120_000);

  afterAll(async () => {
    client.disconnect();
    if (server.exitCode === null && server.signalCode === null) {
      server.kill('SIGKILL');
      await once(server, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  });

  it('goes through all native scenarios and ends without an error', { timeout: 300_000 }, async () => {
    const results = await runVectors({ client, executor: 'native', own: true }, await loadVectors());
    // A slow machine's clock is not what is judged here; that a scenario ran to its end is.
    expect(results.length).toBeGreaterThan(100);
    expect(results.filter(({ outcome }) => outcome === 'not run')).toEqual([]);
    const exit = once(server, 'exit');
    client.shutdown('NOSAVE').catch(() => {}); // it does not answer
    const [code] = (await exit) as [number];
    // valgrind's exit code for an error is 9; the message says which.
    expect(code, await readFile(log, 'utf8')).toBe(0);
  });
});
