/**
 * Real servers for the tests of the wire: each in a folder of its own, on a unix socket and a free port of loopback,
 * and gone with the test, or with this process. It can be ended in any way, and started again on the same data.
 * Not `startServer`: these are also looked at before they are ready, stopped in mid-breath, and made sentinels.
 */
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { findServer } from '../../src/dev/find.js';
import { GuardedProcess } from '../../src/dev/process.js';

export class TestServer {
  readonly #args: readonly string[];
  #process: GuardedProcess | undefined;
  #admin: Redis | undefined;
  #stopped = false;

  private constructor(
    readonly dir: string,
    readonly port: number,
    args: readonly string[],
  ) {
    this.#args = args;
  }

  /** @param args further settings, as on the command line: `--appendonly`, `yes` ... */
  static async start(...args: string[]): Promise<TestServer> {
    const dir = await mkdtemp(join(tmpdir(), 'emq-wire-'));
    const server = new TestServer(dir, await freePort(), args);
    await server.boot();
    return server;
  }

  /** A sentinel, which is the same program in another role. */
  static async sentinel(conf: string): Promise<TestServer> {
    const server = new TestServer(await mkdtemp(join(tmpdir(), 'emq-wire-')), await freePort(), [conf]);
    await server.launch(/\+monitor master/, false);
    return server;
  }

  get socket(): string {
    return join(this.dir, 's');
  }

  /** Over TCP, so that proxies and CLIENT KILL see a normal connection. */
  get url(): string {
    return `valkey://127.0.0.1:${this.port}`;
  }

  /** A plain client for looking and for setting the scene; over the socket. */
  get admin(): Redis {
    // It outlives restarts: what it sends meanwhile waits, and why it has to wait is no news.
    this.#admin ??= new Redis({ path: this.socket, retryStrategy: () => 20, maxRetriesPerRequest: null }).on(
      'error',
      () => {},
    );
    return this.#admin;
  }

  /** Starts it, or starts it again on the same data, and waits until it accepts connections. */
  async boot(): Promise<void> {
    await this.launch(/Ready to accept connections/);
  }

  /** Starts it and waits for a line of its log: it need not be ready then. */
  async launch(line: RegExp, store = true): Promise<void> {
    const { path } = await findServer();
    const fixed = ['--port', String(this.port), '--bind', '127.0.0.1', '--unixsocket', this.socket, '--dir', this.dir];
    const quiet = ['--save', '', '--repl-diskless-sync-delay', '0', '--enable-debug-command', 'local'];
    const args = store ? [...fixed, ...quiet, ...this.#args] : [...this.#args, '--sentinel', ...fixed];
    const logFile = join(this.dir, 'log');
    const skip = await stat(logFile).then(
      ({ size }) => size,
      () => 0,
    );
    const started = await GuardedProcess.start({
      command: [path, ...args],
      cwd: this.dir,
      logFile,
      ownFolder: this.dir,
    });
    this.#process = started;
    let over = false;
    void started.ended.then(() => (over = true));
    for (;;) {
      const log = (await readFile(logFile)).subarray(skip).toString();
      if (line.test(log)) return;
      if (over) throw new Error(`the server ended at once:\n${log}`);
      await pause(5);
    }
  }

  /** Ends it: SIGTERM saves and says goodbye, SIGKILL does not. */
  async end(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): Promise<void> {
    await (signal === 'SIGKILL' ? this.#process?.kill() : this.#process?.terminate(20_000));
  }

  /** Stops the clock of the process: it holds its sockets and answers nothing. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    if (this.#process !== undefined) process.kill(this.#process.pid, signal);
  }

  /** The ids of all connections of clients under test. */
  async clients(): Promise<string[]> {
    const own = await this.admin.client('ID');
    const list = ((await this.admin.client('LIST')) as string).trim().split('\n');
    return (
      list
        // Monitors, and the socket that one node keeps to another after a MIGRATE.
        .filter((line) => !/ flags=\w*O| cmd=restore-asking/.test(line))
        .map((line) => /^id=(\d+)/.exec(line)?.[1] ?? '')
        .filter((id) => id !== String(own))
    );
  }

  /** CLIENT KILL for all of them. */
  async killClients(): Promise<void> {
    for (const id of await this.clients()) await this.admin.client('KILL', 'ID', id).catch(() => {});
  }

  /** Everything the server is told from now on, as `[source, command, arguments...]`, until the returned close(). */
  async monitor(): Promise<{ readonly seen: string[][]; close(): Promise<void> }> {
    const seen: string[][] = [];
    const socket = connect(this.socket);
    let rest = '';
    let told: (() => void) | undefined;
    const end = `end-${Math.random()}`;
    const started = new Promise<void>((resolve) => (told = resolve));
    const ended = new Promise<void>((resolve) =>
      socket.on('data', (bytes: Buffer) => {
        const lines = (rest + bytes.toString('latin1')).split('\r\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          if (line === '+OK') told?.();
          const [, source = ''] = /\[\d+ (\S+)\]/.exec(line) ?? [];
          const words = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word]) => word ?? '');
          if (words[1] === end) resolve();
          seen.push([source, (words[0] ?? '').toLowerCase(), ...words.slice(1)]);
        }
      }),
    );
    socket.write('MONITOR\r\n');
    await started;
    const close = async (): Promise<void> => {
      // What was sent before this has been told when this is told.
      await this.admin.echo(end);
      await ended;
      socket.destroy();
    };
    return { seen, close };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#admin?.disconnect();
    await this.end();
    await rm(this.dir, { recursive: true, force: true });
  }
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
