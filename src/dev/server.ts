/**
 * The embedded Valkey: a private server for development and tests, started with the module or without.
 *
 * Invariants: it listens on a unix socket of its own, and on a loopback port only when asked; it keeps nothing on disk
 * unless `args` say so; it is ready when `startServer` resolves; it ends with this process (process.ts) and does not
 * keep this process alive. With the module it brands itself at its first start (wire contract, section 8).
 * Does not: run a cluster or a replica by itself, but `args` may make it one; then it is not branded here, since its
 * brand is per queue, or its primary's.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Redis } from 'ioredis';
import { EmqError, fromReply, inputError } from '../wire/errors.js';
import { BRANDS } from '../wire/fence.js';
import { NODE_VERSION_KEY } from '../wire/keyspace.js';
import { lastLines } from './command.js';
import { findServer, type FindServerOptions } from './find.js';
import { GuardedProcess, type Ended } from './process.js';
import { packageRoot } from './root.js';

export interface StartServerOptions extends FindServerOptions {
  /** True loads this package's own build of the module, a string the one at that path. Default: no module. */
  readonly module?: string | boolean | undefined;
  /** A TCP port on 127.0.0.1, or `free` for any free one. Default: no port. */
  readonly port?: number | 'free' | undefined;
  /** The path of the unix socket, at most 100 bytes. Default: in `dir`, or in a short folder of its own. */
  readonly socket?: string | undefined;
  /** Further arguments of the server, such as `['--appendonly', 'yes']`; they win over ours. */
  readonly args?: readonly string[] | undefined;
  /** The server's working folder; made when missing, never removed. Default: a fresh one, removed by `stop`. */
  readonly dir?: string | undefined;
  /** The brand set at the start if there is none: wire 4 or 6. Default: 6 with the module, none without. */
  readonly brand?: 4 | 6 | false | undefined;
  /** Milliseconds until the server must be ready, loading of its data included. Default 15,000. */
  readonly startTimeoutMs?: number | undefined;
  /** Aborting it stops the server, during the start or later. */
  readonly signal?: AbortSignal | undefined;
}

/** A running server. `await using` stops it. */
export interface EmbeddedServer extends AsyncDisposable {
  /** For the Connector: `redis://127.0.0.1:<port>` where a port was asked for, else `unix:///path` (percent-encoded). */
  readonly url: string;
  readonly socketPath: string;
  readonly port: number | undefined;
  readonly dir: string;
  readonly logFile: string;
  /** Of the present process: a restart changes it. */
  readonly pid: number;
  /** Valkey's version, such as `8.0.1`. */
  readonly version: string;
  /** Resolves when the present process has ended, for whatever reason. */
  readonly ended: Promise<Ended>;
  /** Ends the server in good order and removes what `startServer` made. May be called twice. */
  stop(): Promise<void>;
  /** Ends it by SIGKILL, as a crash would. The folder stays, until `stop`. */
  kill(): Promise<void>;
  /** Starts it again in the same folder at the same address; one that still runs is ended in good order first. */
  restart(): Promise<void>;
}

/** The system's limit is 104 bytes on macOS and 108 on Linux, a closing NUL included. */
const SOCKET_BYTES = 100;
const SOCKET = 'valkey.sock';
/** How long a server that was asked to end may take, in ms: it may have data to save. */
const STOP_MS = 15_000;
/** Between two tries to connect to a server that is starting, in ms. */
const RETRY_MS = 5;
const PORT_TRIES = 5;

/**
 * Starts a private Valkey and resolves when it answers.
 *
 * @throws EmqError `EMQ_INPUT` when no server or module is found; `EMQ_CONNECTION` when the server ended at once, with
 * the last lines of its log; `EMQ_TIMEOUT` when it was not ready in time; `EMQ_CLOSED` when `signal` was aborted.
 */
export async function startServer(options: StartServerOptions = {}): Promise<EmbeddedServer> {
  if (options.signal?.aborted) throw aborted(options.signal);
  if (
    typeof options.port === 'number' &&
    !(Number.isInteger(options.port) && options.port > 0 && options.port < 65_536)
  ) {
    throw inputError(`port must be 1 to 65535 or "free", not ${options.port}`);
  }
  const module = modulePath(options.module);
  const { path } = await findServer(options);
  for (let tries = 1; ; tries += 1) {
    const server = new LocalServer(path, module, options, await makePlace(options));
    try {
      await server.launch();
      return server;
    } catch (error) {
      // A free port may be taken by another between the choice and the bind.
      const lost = options.port === 'free' && tries < PORT_TRIES && /Address already in use/.test(String(error));
      await server.stop();
      if (!lost) throw error;
    }
  }
}

/** Where the module's build of this package lies, or would. */
export function defaultModulePath(): string {
  return join(packageRoot(), 'build', 'trafikey.so');
}

function modulePath(module: string | boolean | undefined): string | undefined {
  if (module === undefined || module === false) return undefined;
  const path = module === true ? defaultModulePath() : resolve(module);
  if (existsSync(path)) return path;
  throw inputError(
    module === true
      ? `the module is not built where it is looked for (${path}): run "emq build-module" without --out`
      : `there is no module at ${path}`,
  );
}

/** Where one server lives. */
interface Place {
  readonly dir: string;
  readonly socketPath: string;
  readonly port: number | undefined;
  /** The folder that was made for it, if one was: it goes with the server. */
  readonly own: string | undefined;
}

/**
 * The server takes away whatever is at the path of its socket, and two servers on one folder would write one another's
 * files: so neither a file of the caller nor a server that is alive may be there.
 */
async function mustBeFree(socketPath: string): Promise<void> {
  const found = await stat(socketPath).catch(() => undefined);
  if (found === undefined) return;
  if (!found.isSocket()) throw inputError(`${socketPath} exists and is no socket: choose another path`);
  const alive = await new Promise<boolean>((resolve) => {
    const socket = connect(socketPath, () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
  if (alive) throw inputError(`a server is listening at ${socketPath}: stop it, or choose another folder or socket`);
}

async function makePlace(options: StartServerOptions): Promise<Place> {
  const port = options.port === 'free' ? await freePort() : options.port;
  const given = options.dir === undefined ? undefined : resolve(options.dir);
  let socketPath = options.socket === undefined ? undefined : resolve(options.socket);
  if (socketPath !== undefined && !fits(socketPath)) {
    throw inputError(`the path of the socket must have at most ${SOCKET_BYTES} bytes: ${socketPath}`);
  }
  if (given !== undefined && fits(join(given, SOCKET))) socketPath ??= join(given, SOCKET);
  if (socketPath !== undefined) await mustBeFree(socketPath);
  let own: string | undefined;
  if (given === undefined || socketPath === undefined) {
    const parent = fits(join(tmpdir(), 'emq-XXXXXX', SOCKET)) ? tmpdir() : '/tmp';
    own = await mkdtemp(join(parent, 'emq-'));
  }
  const dir = given ?? own!;
  return { dir, socketPath: socketPath ?? join(own!, SOCKET), port, own };
}

function fits(path: string): boolean {
  return Buffer.byteLength(path) <= SOCKET_BYTES;
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((done, failed) => probe.once('error', failed).listen(0, '127.0.0.1', done));
  const { port } = probe.address() as AddressInfo;
  await new Promise((done) => probe.close(done));
  return port;
}

class LocalServer implements EmbeddedServer {
  readonly dir: string;
  readonly socketPath: string;
  readonly port: number | undefined;
  readonly logFile: string;
  version = '';
  readonly #command: readonly [string, ...string[]];
  readonly #options: StartServerOptions;
  readonly #own: string | undefined;
  #process: GuardedProcess | undefined;
  #stopping: Promise<void> | undefined;
  /** An abort has no one to tell that the folder could not be removed. */
  readonly #onAbort = (): void => void this.stop().catch(() => {});

  constructor(program: string, module: string | undefined, options: StartServerOptions, place: Place) {
    this.dir = place.dir;
    this.socketPath = place.socketPath;
    this.port = place.port;
    this.logFile = join(place.dir, 'valkey.log');
    this.#own = place.own;
    this.#options = options;
    this.#command = [
      program,
      ...['--port', String(place.port ?? 0), '--bind', '127.0.0.1'],
      ...['--unixsocket', place.socketPath, '--unixsocketperm', '700'],
      ...['--dir', place.dir, '--logfile', '', '--daemonize', 'no', '--save', '', '--appendonly', 'no'],
      ...(module === undefined ? [] : ['--loadmodule', module]),
      ...(options.args ?? []),
    ];
    options.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get url(): string {
    return this.port === undefined
      ? pathToFileURL(this.socketPath).href.replace(/^file:/, 'unix:')
      : `redis://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.#running.pid;
  }

  get ended(): Promise<Ended> {
    return this.#running.ended;
  }

  get #running(): GuardedProcess {
    if (this.#process === undefined) throw new EmqError('EMQ_CLOSED', 'the server was never started');
    return this.#process;
  }

  /** Starts the process and resolves when it answers. */
  async launch(): Promise<void> {
    let process: GuardedProcess | undefined;
    try {
      if (this.#options.signal?.aborted) throw aborted(this.#options.signal);
      await mkdir(this.dir, { recursive: true });
      const logStart = (await stat(this.logFile).catch(() => undefined))?.size ?? 0;
      process = await GuardedProcess.start({
        command: this.#command,
        cwd: this.dir,
        logFile: this.logFile,
        ownFolder: this.#own,
      });
      this.#process = process;
      if (this.#stopping !== undefined) throw aborted(this.#options.signal);
      await this.#ready(process, logStart);
    } catch (error) {
      await process?.kill();
      if (this.#stopping !== undefined) throw aborted(this.#options.signal);
      if (error instanceof EmqError) throw error;
      throw inputError(`the server cannot be started in ${this.dir}: ${(error as Error).message}`);
    }
  }

  async stop(): Promise<void> {
    await (this.#stopping ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    await this.#process?.terminate(STOP_MS);
    if (this.#own !== undefined) await rm(this.#own, { recursive: true, force: true });
  }

  async kill(): Promise<void> {
    await this.#running.kill();
  }

  async restart(): Promise<void> {
    if (this.#stopping !== undefined) throw new EmqError('EMQ_CLOSED', 'the server was stopped: start a new one');
    await this.#running.terminate(STOP_MS);
    await this.launch();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Connects until the server answers, or has ended, or time is up; then learns what it is and brands it. */
  async #ready(process: GuardedProcess, logStart: number): Promise<void> {
    const { startTimeoutMs = 15_000 } = this.#options;
    const redis = new Redis({ path: this.socketPath, retryStrategy: () => RETRY_MS, maxRetriesPerRequest: null });
    let trouble = 'no connection';
    redis.on('error', (error: Error) => (trouble = error.message));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new EmqError('EMQ_TIMEOUT', `the server was not ready within ${startTimeoutMs} ms (${trouble})`)),
        startTimeoutMs,
      );
    });
    const early = process.ended.then(async (ended) => {
      throw await this.#diedEarly(ended, logStart);
    });
    try {
      // ioredis sends this only when the server has loaded its data.
      const info = await Promise.race([redis.info(), early, late]);
      const first = this.version === '';
      this.version = field(info, 'valkey_version') ?? field(info, 'redis_version') ?? '';
      const brand = this.#brandFor(info);
      if (brand !== undefined) {
        await redis.set(NODE_VERSION_KEY, brand, 'NX');
        const found = await redis.get(NODE_VERSION_KEY);
        // Data of an earlier start says which wire it is of. After a restart of ours it is what its user made of it.
        if (first && found !== brand) {
          throw new EmqError(
            'EMQWIRE',
            `EMQWIRE the data in ${this.dir} is branded ${found}, not ${brand}: start it as it was, or in another folder`,
          );
        }
      }
    } catch (error) {
      throw error instanceof EmqError ? error : fromReply((error as Error).message);
    } finally {
      clearTimeout(timer);
      redis.disconnect();
    }
  }

  #brandFor(info: string): string | undefined {
    const { module, brand = module ? 6 : false } = this.#options;
    const alone = field(info, 'cluster_enabled') === '0' && field(info, 'role') === 'master';
    return alone && brand !== false ? BRANDS[brand] : undefined;
  }

  async #diedEarly({ code, signal }: Ended, logStart: number): Promise<EmqError> {
    const how = signal === null ? `exit code ${code}` : signal;
    const log = (await readFile(this.logFile).catch(() => Buffer.alloc(0))).subarray(logStart).toString();
    return new EmqError('EMQ_CONNECTION', `the server ended before it was ready (${how}): ${complaints(log)}`);
  }
}

/** What a server said that is not just news: its warnings and what it said outside its log's format. */
function complaints(log: string): string {
  const said = log
    .split('\n')
    .filter((line) => !/^\d+:\w .* [*.-] |Memory overcommit/.test(line))
    .map((line) => line.replace(/^\d+:\w .*? # /, ''));
  return lastLines(said.join('\n') || log, 6);
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}

function aborted(signal: AbortSignal | undefined): EmqError {
  return new EmqError('EMQ_CLOSED', 'the start of the server was aborted', { cause: signal?.reason });
}
