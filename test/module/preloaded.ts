/**
 * A stock server with a module that was built to be watched: under valgrind, or with the sanitizers in it. The shim
 * (malloc-shim.c) gives all memory of the server to the watcher.
 *
 * Invariants: everything is in a folder of its own that is gone with the server. Does not: judge the server's end.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, realpathSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';

import { findServer } from '../../src/dev/index.js';

const here = dirname(fileURLToPath(import.meta.url));
const sources = join(here, '..', '..', 'module');

export interface Watcher {
  /** How the module is compiled, beyond -g. */
  readonly flags: readonly string[];
  /** A program that runs the server, with its options; the folder is for its files. */
  readonly under?: (folder: string) => readonly string[];
  /** Libraries to load before the server's own, behind the shim. */
  readonly preload?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export class WatchedServer {
  private constructor(
    readonly folder: string,
    readonly client: Redis,
    readonly process: ChildProcess,
    readonly ended: Promise<number | null>,
  ) {}

  /** Starts it; rejects with what it wrote when it ends before it answers. */
  static async start({ flags, under = () => [], preload = [], env = {} }: Watcher): Promise<WatchedServer> {
    const folder = await mkdtemp(join(tmpdir(), 'emq-mem-'));
    const [shim, module, socket] = ['shim.so', 'trafikey.so', 's'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const compile = (...args: string[]) => execFileSync('cc', ['-g', '-D_GNU_SOURCE', '-fPIC', '-shared', ...args]);
    compile('-O1', '-o', shim, join(here, 'malloc-shim.c'), '-ldl');
    const files = readdirSync(sources).filter((name) => name.endsWith('.c'));
    compile('-std=c11', ...flags, '-o', module, ...files.map((name) => join(sources, name)));

    // A server of ours is started by a wrapper with a loader of its own; a watcher needs the program itself.
    const { path } = await findServer({ fetch: true });
    const root = join(dirname(realpathSync(path)), '..', 'root');
    const program = existsSync(root) ? join(root, 'usr', 'bin', 'valkey-server') : path;
    // Without compression: the compressor's own habits with fresh memory are not what is looked for.
    const quiet = ['--port', '0', '--save', '', '--rdbcompression', 'no', '--dir', folder];
    const words = [
      ...under(folder),
      program,
      ...quiet,
      '--logfile',
      'log',
      '--unixsocket',
      socket,
      '--loadmodule',
      module,
    ];
    const output = openSync(join(folder, 'report'), 'w');
    const child = spawn(words[0] ?? '', words.slice(1), {
      cwd: folder,
      stdio: ['ignore', output, output],
      env: {
        ...process.env,
        ...env,
        LD_PRELOAD: [shim, ...preload].join(':'),
        LD_LIBRARY_PATH: existsSync(root) ? join(root, 'usr', 'lib', 'x86_64-linux-gnu') : '',
      },
    });
    closeSync(output);
    const ended = once(child, 'exit').then(([code]) => code as number | null);
    const client = new Redis({ path: socket, retryStrategy: () => 50, maxRetriesPerRequest: null });
    client.on('error', () => {}); // until it listens
    const server = new WatchedServer(folder, client, child, ended);
    const early = ended.then(async (code) => {
      throw new Error(`the server ended with ${code}: ${await server.written()}`);
    });
    try {
      await Promise.race([client.ping(), early]);
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    early.catch(() => {});
    return server;
  }

  /** All that the server and its watcher wrote into the folder, as text. */
  async written(): Promise<string> {
    const files = readdirSync(this.folder).filter((name) => /^(log|report)/.test(name));
    return (await Promise.all(files.map((name) => readFile(join(this.folder, name), 'utf8')))).join('\n');
  }

  /** SHUTDOWN, and the server's exit code, null for a signal. */
  async end(): Promise<number | null> {
    this.client.shutdown('NOSAVE').catch(() => {}); // it does not answer
    return this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.disconnect();
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill('SIGKILL');
      await this.ended;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}
