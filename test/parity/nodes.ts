/**
 * Nodes for the parity suites: private servers, one for each executor, and plain clients on them.
 *
 * Invariants: a node listens on a socket of its own, carries its executor's brand, has all scripts loaded, and is gone
 * with the suite. Does not: share a server between test files.
 */
import { Redis } from 'ioredis';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { brandOf, loadScripts, need, type ExecutorName, type ParityNode } from '../../src/parity/node.js';
import { NODE_VERSION_KEY } from '../../src/wire/keyspace.js';

export interface TestNode extends ParityNode, AsyncDisposable {
  readonly server: EmbeddedServer;
  readonly own: true;
  /** One more client on the same server, closed with the node. */
  connect(options?: { readonly username: string; readonly password: string }): Promise<Redis>;
  /** An empty keyspace but for the brand. */
  reset(): Promise<void>;
}

export interface TestNodeOptions {
  /** RESP version of the clients. Default 2. */
  readonly protocol?: 2 | 3;
  /** Further arguments of the server. */
  readonly args?: readonly string[];
}

/** Starts the node of an executor: with the module for the native one, without it for scripts. */
export async function startNode(
  executor: ExecutorName,
  { protocol = 2, args = [] }: TestNodeOptions = {},
): Promise<TestNode> {
  const server = await startServer({ module: executor === 'native', fetch: true, args });
  const clients: Redis[] = [];
  const connect: TestNode['connect'] = async (options) => {
    const client = new Redis({
      path: server.socketPath,
      protocol,
      lazyConnect: true,
      retryStrategy: () => null,
      ...options,
    });
    clients.push(client);
    await client.connect();
    return client;
  };
  const client = await connect();
  const reset = async (): Promise<void> => {
    await need(client, ['FLUSHALL', 'SYNC']);
    await need(client, ['SET', NODE_VERSION_KEY, brandOf(executor)]);
  };
  await loadScripts(client);
  await reset();
  return {
    server,
    client,
    executor,
    own: true,
    connect,
    reset,
    async [Symbol.asyncDispose]() {
      for (const one of clients) one.disconnect();
      await server.stop();
    },
  };
}

export const EXECUTORS: readonly ExecutorName[] = ['script', 'native'];
