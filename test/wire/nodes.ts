/** A cluster of three primaries on loopback, made by hand: each node its third of the slots. */
import { Redis } from 'ioredis';
import { vi } from 'vitest';
import { commandsOf } from '../../src/wire/command.js';
import { TestServer } from './server.js';

const RANGES = [
  [0, 5460],
  [5461, 10922],
  [10923, 16383],
] as const;

export class TestCluster {
  private constructor(readonly nodes: readonly TestServer[]) {}

  static start(...args: string[]): Promise<TestCluster> {
    return TestCluster.startEach(() => args);
  }

  /** The same with arguments of its own for each node. */
  static async startEach(argsOf: (node: number) => readonly string[]): Promise<TestCluster> {
    const settings = [
      '--cluster-enabled',
      'yes',
      '--cluster-node-timeout',
      '3000',
      '--cluster-config-file',
      'nodes.conf',
    ];
    const nodes = await Promise.all(RANGES.map((_, i) => TestServer.start(...settings, ...argsOf(i))));
    const cluster = new TestCluster(nodes);
    for (const [i, [first, last]] of RANGES.entries()) {
      const { admin } = cluster.node(i);
      await admin.call('CLUSTER', 'ADDSLOTSRANGE', first, last);
      await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
      await cluster.node(0).admin.call('CLUSTER', 'MEET', '127.0.0.1', cluster.node(i).port);
    }
    await cluster.settled();
    return cluster;
  }

  node(i: number): TestServer {
    const node = this.nodes[i];
    if (node === undefined) throw new Error(`no node ${i}`);
    return node;
  }

  get start(): { host: string; port: number }[] {
    return this.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  /** Until every node knows every slot's owner. Gossip has no event: the nodes are asked. */
  async settled(): Promise<void> {
    const sound = /cluster_state:ok[^]*cluster_slots_ok:16384[^]*cluster_known_nodes:3/;
    for (const { admin } of this.nodes) {
      await vi.waitUntil(async () => sound.test((await admin.call('CLUSTER', 'INFO')) as string), {
        timeout: 20_000,
        interval: 50,
      });
    }
  }

  /** The name of a queue that lies on that node. */
  queueOn(i: number, prefix = 'q'): string {
    const [first, last] = RANGES[i] ?? [0, 0];
    for (let n = 0; ; n++) {
      const slot = slotOf(`${prefix}${n}`);
      if (slot >= first && slot <= last) return `${prefix}${n}`;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node[Symbol.asyncDispose]()));
  }
}

const slots = commandsOf(new Redis({ lazyConnect: true }));

export function slotOf(queue: string): number {
  return slots('get', [`emq:{${queue}}:version`]).getSlot();
}
