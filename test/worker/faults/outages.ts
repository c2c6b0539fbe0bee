/**
 * Ways in which a server goes away and comes back, as itself or as its replica, with the data kept.
 * Does not: know of workers.
 */
import { vi } from 'vitest';
import { WorkerNode, type Wire } from '../support/nodes.js';

/** A server and what may take its place. */
export interface Outage {
  readonly name: string;
  /** Starts the server; gives what can be done to it. */
  start(wire: Wire): Promise<Scene>;
}

export interface Scene extends AsyncDisposable {
  /** The server that is there in the beginning. */
  readonly node: WorkerNode;
  /** The port of the one that will be there afterwards. */
  readonly heir: number;
  /** Away and back. Resolves with the server that is there then, in which all is as it was. */
  strike(): Promise<WorkerNode>;
}

const ALWAYS = ['--appendonly', 'yes', '--appendfsync', 'always'];

function restarted(name: string, signal: 'SIGTERM' | 'SIGKILL', ...args: string[]): Outage {
  return {
    name,
    start: async (wire) => {
      const node = await WorkerNode.start(wire, ...args);
      return {
        node,
        heir: node.port,
        strike: async () => {
          const { ended, pid } = node.server;
          process.kill(pid, signal);
          await ended;
          await node.server.restart();
          return node;
        },
        [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
      };
    },
  };
}

/** @param take lets the replica take over. */
function failedOver(name: string, take: (node: WorkerNode, replica: WorkerNode) => Promise<void>): Outage {
  return {
    name,
    start: async (wire) => {
      const node = await WorkerNode.start(wire);
      const replica = await node.replica();
      return {
        node,
        heir: replica.port,
        strike: async () => {
          // Replication is in order: when this has arrived, all before it has.
          await node.admin.set('mark', '1');
          if ((await node.admin.wait(1, 10_000)) !== 1) throw new Error('the replica is not there');
          await take(node, replica);
          await vi.waitUntil(async () => (await replica.admin.info('replication')).includes('role:master'), {
            timeout: 10_000,
            interval: 5,
          });
          return replica;
        },
        async [Symbol.asyncDispose]() {
          await replica[Symbol.asyncDispose]();
          await node[Symbol.asyncDispose]();
        },
      };
    },
  };
}

export const RESTART_AOF = restarted('restart (SIGTERM, append-only file)', 'SIGTERM', '--appendonly', 'yes');
export const RESTART_SAVE = restarted('restart (SIGTERM, snapshot)', 'SIGTERM', '--save', '3600 1');
export const CRASH_AOF = restarted('crash (SIGKILL, append-only file)', 'SIGKILL', ...ALWAYS);

export const FAILOVER = failedOver('failover (FAILOVER)', async (node, replica) => {
  await node.admin.call('FAILOVER', 'TO', '127.0.0.1', replica.port);
});

export const CRASH_PROMOTE = failedOver('failover (SIGKILL, REPLICAOF NO ONE)', async (node, replica) => {
  await node.server.kill();
  await replica.admin.replicaof('NO', 'ONE');
});
