/**
 * A server whose disk can be full: the size of its files can be limited and set free again while it runs, which a server
 * meets as it would a full disk: a write that is cut short.
 *
 * Needs `prlimit` (Linux). Invariants: in a folder of its own, gone with the test.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, stat, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { vi } from 'vitest';
import { findServer } from '../../src/dev/find.js';
import { GuardedProcess, type Ended } from '../../src/dev/process.js';

const run = promisify(execFile);
/** The signal would end the process at the first write too many; a full disk sends none. */
const WITHOUT_SIGNAL = ['/bin/sh', '-c', 'trap "" XFSZ; exec "$@"', 'sh'] as const;

export class DiskServer implements AsyncDisposable {
  #process: GuardedProcess | undefined;
  readonly admin: Redis;

  private constructor(
    readonly dir: string,
    readonly args: readonly string[],
  ) {
    this.admin = new Redis({
      path: this.socket,
      retryStrategy: () => 20,
      maxRetriesPerRequest: null,
      lazyConnect: true,
    });
    this.admin.on('error', () => {});
  }

  static async start(...args: string[]): Promise<DiskServer> {
    const server = new DiskServer(await mkdtemp(join(tmpdir(), 'emq-disk-')), args);
    await server.boot();
    return server;
  }

  get socket(): string {
    return join(this.dir, 's');
  }

  get url(): string {
    return `unix://${this.socket}`;
  }

  /** Starts it, or starts it again on the same data. */
  async boot(): Promise<void> {
    const { path } = await findServer();
    const own = ['--port', '0', '--unixsocket', this.socket, '--dir', this.dir, '--save', '', '--appendonly', 'yes'];
    this.#process = await GuardedProcess.start({
      command: [...WITHOUT_SIGNAL, path, ...own, ...this.args],
      cwd: this.dir,
      logFile: join(this.dir, 'log'),
      ownFolder: this.dir,
    });
    await vi.waitUntil(async () => (await this.admin.ping().catch(() => '')) === 'PONG', { timeout: 10_000 });
  }

  /** No file may grow beyond what the log of writes has now, and a little. */
  async fill(): Promise<void> {
    const folder = join(this.dir, 'appendonlydir');
    const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
    await this.#limit(String(Math.max(...sizes) + 500));
  }

  async free(): Promise<void> {
    await this.#limit('unlimited');
  }

  /** When it ends by itself. */
  async ended(): Promise<Ended> {
    return this.#process!.ended;
  }

  async log(): Promise<string> {
    return readFile(join(this.dir, 'log'), 'utf8');
  }

  // only the soft limit: it can be raised again without rights
  async #limit(bytes: string): Promise<void> {
    await run('prlimit', ['--pid', String(this.#process!.pid), `--fsize=${bytes}:`]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.admin.disconnect();
    await this.#process?.kill();
    await rm(this.dir, { recursive: true, force: true });
  }
}
