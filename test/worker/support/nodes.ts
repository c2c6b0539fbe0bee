/**
 * Servers for the tests of the worker: real ones, one for each executor, that can be killed, paused, restarted and
 * replicated, with what a test wants to know of them and to do behind the workers' backs.
 *
 * Invariants: a node listens on loopback and a socket of its own, carries its executor's brand, and is gone when it is
 * disposed of, or with this process. Wire 4 is a plain server, wire 6 one with the module.
 * Does not: share a server between test files.
 */
import { Redis } from 'ioredis';
import { startServer, type EmbeddedServer } from '../../../src/dev/index.js';
import { Connector, Keyspace, Queue, type ConnectorOptions } from '../../../src/index.js';

export type Wire = 4 | 6;
/** For `describe.each`: every story is told on both executors. */
export const WIRES: readonly Wire[] = [4, 6];

let queues = 0;

/** A queue that no other test of this file uses. */
export function freshQueue(what = 'q'): string {
  return `${what}-${++queues}`;
}

export class WorkerNode implements AsyncDisposable {
  readonly wire: Wire;
  readonly server: EmbeddedServer;
  /** A plain client that outlives restarts: what it is asked meanwhile waits. */
  readonly admin: Redis;
  readonly #connectors: Connector[] = [];

  private constructor(wire: Wire, server: EmbeddedServer) {
    this.wire = wire;
    this.server = server;
    this.admin = new Redis({ path: server.socketPath, retryStrategy: () => 20, maxRetriesPerRequest: null });
    this.admin.on('error', () => {}); // why it has to wait is no news
  }

  /** @param args further arguments of the server: `--appendonly`, `yes` ... */
  static async start(wire: Wire, ...args: string[]): Promise<WorkerNode> {
    return new WorkerNode(wire, await startServer({ module: wire === 6, port: 'free', fetch: true, args }));
  }

  /** A replica of this node that has all of its data. */
  async replica(): Promise<WorkerNode> {
    // Without the delay the server would wait 5 s for more replicas before it sends its data.
    await this.admin.config('SET', 'repl-diskless-sync-delay', '0');
    const node = await WorkerNode.start(this.wire, '--replicaof', '127.0.0.1', String(this.port));
    for (;;) {
      const info = await node.admin.info('replication');
      if (info.includes('master_link_status:up')) return node;
    }
  }

  get port(): number {
    return this.server.port as number;
  }

  /** A connector, straight to this node unless `options` say another way; closed with the node. */
  async connect(options: ConnectorOptions = {}): Promise<Connector> {
    const place = options.url === undefined && options.client === undefined ? { url: this.server.url } : {};
    const connector = await Connector.connect({ ...place, wire: this.wire, ...options });
    this.#connectors.push(connector);
    return connector;
  }

  /** A queue for enqueueing and looking, on a connector of its own. */
  async queue<T = unknown>(name: string): Promise<Queue<T>> {
    return new Queue<T>(await this.connect(), name);
  }

  /** How many clients there are but for the admin and the replication. */
  async clients(): Promise<number> {
    const own = await this.admin.client('ID');
    const lines = String(await this.admin.client('LIST'))
      .trim()
      .split('\n');
    return lines.filter((line) => !line.startsWith(`id=${own} `) && !/ flags=\w*[SMO]/.test(line)).length;
  }

  /** Lets all leases of a queue lapse: a past score instead of waiting. Gives the number of jobs. */
  async lapse(queue: string): Promise<number> {
    const { active } = new Keyspace(queue);
    const ids = await this.admin.zrange(active, '0', '-1');
    if (ids.length > 0) await this.admin.zadd(active, 'XX', ...ids.flatMap((id) => ['1', id]));
    return ids.length;
  }

  /** The deadlines of all held jobs, Unix ms. */
  async deadlines(queue: string): Promise<number[]> {
    const flat = await this.admin.zrange(new Keyspace(queue).active, '0', '-1', 'WITHSCORES');
    return flat.filter((_, i) => i % 2 === 1).map(Number);
  }

  /** One field of the rows of these jobs; null where the row or the field is not there. */
  async fields(queue: string, ids: readonly string[], field: string): Promise<(string | null)[]> {
    const keys = new Keyspace(queue);
    return Promise.all(ids.map((id) => this.admin.hget(keys.job(id), field)));
  }

  /** Stops the clock of the process: it keeps its sockets and answers nothing, until `go`. */
  stop(): void {
    process.kill(this.server.pid, 'SIGSTOP');
  }

  go(): void {
    process.kill(this.server.pid, 'SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#connectors.map((connector) => connector.close()));
    this.admin.disconnect();
    await this.server.stop();
  }
}
