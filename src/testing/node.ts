/**
 * A private node for a test file: a server of its own with a connector on it, in one line.
 *
 * Invariants: it shares nothing with any other node, keeps nothing on disk, ends with this process at the latest, and does
 * not keep it alive by itself. Does not: close consumers (close them before the node).
 */
import { existsSync } from 'node:fs';
import { Redis } from 'ioredis';
import { defaultModulePath, startServer, type EmbeddedServer, type StartServerOptions } from '../dev/server.js';
import type { JobsOptions } from '../queue/admission.js';
import { known } from '../queue/input.js';
import { Queue } from '../worker/queue.js';
import { Connector } from '../wire/connector.js';
import type { ConnectorOptions } from '../wire/connector-options.js';
import { inputError } from '../wire/errors.js';
import type { Wire } from '../wire/executor.js';
import { BRANDS } from '../wire/fence.js';
import { NODE_VERSION_KEY } from '../wire/keyspace.js';

export interface TestNodeOptions {
  /**
   * 6 loads the module, which must have been built (`emq build-module`); 4 runs scripts on any server. Default: 6 if the
   * module is there, else 4; the answers are the same.
   */
  readonly wire?: 4 | 6;
  /** How the server is found and started; see `startServer` of `echomq/dev`. */
  readonly server?: Omit<StartServerOptions, 'brand'>;
  /** Further options of the connector. */
  readonly connector?: Omit<ConnectorOptions, 'url' | 'wire' | 'client'>;
}

/** A running node. `await using`, or `close()` after the last test, ends it. */
export interface TestNode extends AsyncDisposable {
  readonly server: EmbeddedServer;
  readonly connector: Connector;
  /** For a `Connector` in another process, with the same wire. */
  readonly url: string;
  readonly wire: Wire;
  /** A queue on the node's connector. */
  queue<T = unknown, Input = T>(name: string, options?: JobsOptions<T, Input>): Queue<T, Input>;
  /** Empties the node, between two tests of a file: all queues of all names. Close their consumers first. */
  reset(): Promise<void>;
  /** Ends the connector and the server. May be called twice. */
  close(): Promise<void>;
}

/**
 * Starts a private node.
 * @throws EmqError `EMQ_INPUT` when there is no server or no module; what `startServer` and `Connector.connect` throw.
 */
export async function testNode(options: TestNodeOptions = {}): Promise<TestNode> {
  known('testNode', options, ['wire', 'server', 'connector']);
  const { server: how = {} } = options;
  const wire = options.wire ?? (existsSync(defaultModulePath()) || how.module !== undefined ? 6 : 4);
  // a caller without types may have given anything
  if (!([4, 6] as unknown[]).includes(wire)) throw inputError('wire must be 4 (scripts) or 6 (the module)');
  const server = await startServer({ module: wire === 6, ...how, brand: wire });
  try {
    const connector = await Connector.connect({ ...options.connector, url: server.url, wire });
    return new Node(server, connector, wire);
  } catch (error) {
    await server.stop();
    throw error;
  }
}

class Node implements TestNode {
  readonly server: EmbeddedServer;
  readonly connector: Connector;
  readonly wire: Wire;
  #closed: Promise<void> | undefined;

  constructor(server: EmbeddedServer, connector: Connector, wire: Wire) {
    this.server = server;
    this.connector = connector;
    this.wire = wire;
  }

  get url(): string {
    return this.server.url;
  }

  queue<T = unknown, Input = T>(name: string, options: JobsOptions<T, Input> = {}): Queue<T, Input> {
    return new Queue<T, Input>(this.connector, name, options);
  }

  async reset(): Promise<void> {
    const redis = new Redis({ path: this.server.socketPath, lazyConnect: true, retryStrategy: () => null });
    // the connect rejects with it
    redis.on('error', () => {});
    try {
      await redis.connect();
      // in one step, so that nobody meets a node without a brand
      await redis.multi().flushall('SYNC').set(NODE_VERSION_KEY, BRANDS[this.wire]).exec();
    } finally {
      redis.disconnect();
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.connector.close();
    await this.server.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
