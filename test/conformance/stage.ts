/**
 * Where the conformance suites play: one private server for each executor, a connector on it, and a raw client that
 * looks at keys and makes time pass.
 *
 * Invariants: the scripts run on a plain server, the native commands on one with the module; the server comes unbranded,
 * so that the connector's own fence brands it; everything is gone with the stage. Nobody sleeps here: a lease or a delay
 * lapses because its score is written into the past.
 * Does not: share a server between test files: some scenarios flush the script cache or fill the memory.
 */
import { Redis, type RedisOptions } from 'ioredis';
import { expect } from 'vitest';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import {
  Connector,
  EmqError,
  Jobs,
  type ConnectorOptions,
  type EmqCode,
  type HeldJob,
  type Job,
  type JobsOptions,
} from '../../src/index.js';
import { changedKeys, snapshot } from '../../src/parity/keyspace-dump.js';

export type Wire = 4 | 6;

/** The rows of `describe.each`: every suite runs once for each. */
export const EXECUTORS = [
  ['wire 4, scripts', 4],
  ['wire 6, native', 6],
] as const satisfies readonly (readonly [string, Wire])[];

/** A minute: no lease or delay of a test ends before the test does, unless it is made to. */
export const MINUTE = 60_000;

/** Well formed, and the row of no job. */
export const MISSING = 'JOB00000000000';
/** Well formed, but no job's namespace. */
export const ORDER = 'ORD0KHTOWnGLuC';

export interface StageOptions {
  /** Further arguments of the server. */
  readonly args?: readonly string[];
  readonly port?: 'free';
  /** Further options of the connector. */
  readonly connector?: ConnectorOptions;
  /** What has to be done before the connector connects. */
  readonly before?: (raw: Redis) => Promise<unknown>;
}

export class Stage implements AsyncDisposable {
  readonly #clients: Redis[] = [];
  readonly #connectors: Connector[] = [];
  connector!: Connector;
  raw!: Redis;

  private constructor(
    readonly wire: Wire,
    readonly server: EmbeddedServer,
  ) {}

  static async start(wire: Wire, { args = [], port, connector, before }: StageOptions = {}): Promise<Stage> {
    const server = await startServer({ module: wire === 6, brand: false, args, port });
    const stage = new Stage(wire, server);
    try {
      stage.raw = await stage.client();
      await before?.(stage.raw);
      stage.connector = await stage.connect(connector);
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** One more raw client, closed with the stage. */
  async client(options: Pick<RedisOptions, 'username' | 'password'> = {}): Promise<Redis> {
    const own = { path: this.server.socketPath, protocol: 2, lazyConnect: true, retryStrategy: () => null } as const;
    const client = new Redis({ ...own, ...options });
    this.#clients.push(client);
    await client.connect();
    return client;
  }

  /** One more connector of this stage's wire, closed with the stage. */
  async connect(options: ConnectorOptions = {}): Promise<Connector> {
    const connector = await Connector.connect({ redis: { path: this.server.socketPath }, wire: this.wire, ...options });
    this.#connectors.push(connector);
    return connector;
  }

  jobs<T = unknown, Input = T>(queue: string, options: JobsOptions<T, Input> = {}): Jobs<T, Input> {
    return new Jobs(this.connector, queue, options);
  }

  /** The lease, or the waiting time, of one id is over. */
  async lapse(set: string, id: string): Promise<void> {
    expect(await this.raw.zadd(set, 'XX', 'CH', 1, id)).toBe(1);
  }

  /** The server's clock, Unix ms. */
  async now(): Promise<number> {
    const [seconds, micros] = (await this.raw.time()).map(Number);
    return (seconds ?? 0) * 1000 + Math.floor((micros ?? 0) / 1000);
  }

  /**
   * The error of a call that is to be refused. Fails if it is not refused with that code, or if any key of the server is
   * not exactly what it was before.
   */
  async refused(code: EmqCode, act: () => unknown): Promise<EmqError> {
    const before = await snapshot(this.raw);
    const error = await errorOf(act);
    expect(error).toMatchObject({ name: 'EmqError', code });
    expect(changedKeys(before, await snapshot(this.raw))).toEqual([]);
    return error;
  }

  /** Fails if the call changes any key of the server. */
  async unchanged<R>(act: () => Promise<R>): Promise<R> {
    const before = await snapshot(this.raw);
    const result = await act();
    expect(changedKeys(before, await snapshot(this.raw))).toEqual([]);
    return result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#connectors.map((connector) => connector.close()));
    for (const client of this.#clients) client.disconnect();
    await this.server.stop();
  }
}

/** What it throws or rejects with, which has to be an `EmqError`: the package throws nothing else. */
export async function errorOf(act: () => unknown): Promise<EmqError> {
  let outcome: unknown;
  try {
    outcome = await act();
  } catch (error) {
    if (error instanceof EmqError) return error;
    throw new Error(`not an EmqError: ${String(error)}`, { cause: error });
  }
  throw new Error(`not refused, but answered ${JSON.stringify(outcome)}`);
}

/** Adds a job and claims it: the queue must have been empty. */
export async function claimed<T, Input>(jobs: Jobs<T, Input>, payload: Input | Uint8Array): Promise<Job<T>> {
  const { id } = await jobs.enqueue(payload);
  const job = await jobs.claim({ leaseMs: MINUTE });
  if (job === null) throw new Error('nothing was claimed');
  expect(job.id).toBe(id);
  return job;
}

/** The same job by a token that nobody holds. */
export const stale = (job: HeldJob): HeldJob => ({ id: job.id, token: job.token + 98 });
