/**
 * Real servers for the tests of the wire: each in a folder of its own, on a unix socket and a free port of loopback,
 * and gone with the test. It can be ended in any way, and started again on the same data.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { findServer } from '../../src/dev/find.js';

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

export class TestServer {
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;
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

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts it, or starts it again on the same data, and waits until it accepts connections. */
  async boot(): Promise<void> {
    await this.launch(/Ready to accept connections/);
  }

  /** Starts it and waits for a line of its log: it need not be ready then. */
  async launch(line: RegExp): Promise<void> {
    const { path } = await findServer({ fetch: true });
    const fixed = ['--port', String(this.port), '--bind', '127.0.0.1', '--unixsocket', this.socket, '--dir', this.dir];
    const quiet = [
      '--save',
      '',
      '--repl-diskless-sync-delay',
      '0',
      '--daemonize',
      'no',
      '--enable-debug-command',
      'local',
    ];
    const child = spawn(path, [...fixed, ...quiet, ...this.#args], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    running.add(child);
    child.once('exit', () => running.delete(child));
    await new Promise<void>((resolve, reject) => {
      let log = '';
      child.once('error', reject);
      child.once('close', () => reject(new Error(`the server ended at once:\n${log}`)));
      child.stdout.on('data', (chunk: Buffer) => {
        log = `${log}${chunk.toString()}`.slice(-4_000);
        if (line.test(log)) resolve();
      });
    });
  }

  /** Ends it: SIGTERM saves and says goodbye, SIGKILL does not. */
  async end(signal: 'SIGTERM' | 'SIGKILL' = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  /** Stops the clock of the process: it holds its sockets and answers nothing. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(signal);
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
