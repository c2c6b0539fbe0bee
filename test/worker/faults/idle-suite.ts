/**
 * P11 and P12: an idle worker whose server, or the way to it, was away. Its blocking read must come back by itself, and a
 * job that is added then runs within 5 s; with each version of the client library. For the quick and the long suite.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { expect, it, vi } from 'vitest';
import { Queue } from '../../../src/index.js';
import { Stopwatch } from '../support/clock.js';
import { WorkerNode, freshQueue, type Wire } from '../support/nodes.js';
import { FaultyProxy } from '../support/proxy.js';

const RUNNING_WITHIN_MS = 5_000;
const SOON = { timeout: 20_000, interval: 5 };

const LIBRARIES = {
  'ioredis 6': (port: number) => new Redis({ port, lazyConnect: true }),
  'ioredis 5.11': (port: number) => new Redis5({ port, lazyConnect: true }),
} as const;

interface Absence {
  readonly name: string;
  /** Resolves when the server can be reached. @param blockMs how long one blocking read of the worker is */
  happen(node: WorkerNode, proxy: FaultyProxy, blockMs: number): Promise<void>;
}

const ABSENCES: readonly Absence[] = [
  {
    name: 'the server was away for three blocks',
    happen: async (node, _, blockMs) => {
      await node.server.kill();
      // How long it is away is what this fault is.
      await pause(3 * blockMs);
      await node.server.restart();
    },
  },
  {
    name: 'all its connections were killed (CLIENT KILL)',
    happen: async (node) => void (await node.admin.call('CLIENT', 'KILL', 'TYPE', 'normal')),
  },
  { name: 'its connections went half-open', happen: async (_node, proxy) => proxy.halfOpen() },
];

/** How many connections wait in a blocking read. */
async function blocked(node: WorkerNode): Promise<number> {
  return String(await node.admin.client('LIST'))
    .split('\n')
    .filter((line) => / cmd=blpop /.test(line) && / flags=\w*b/.test(line)).length;
}

/** @param times how often, in all lanes together; each lane has a server of its own */
export function idleSuite(wire: Wire, times: number, lanes: number, beatMs: number): void {
  for (const [library, client] of Object.entries(LIBRARIES)) {
    for (const absence of ABSENCES) {
      it.concurrent(
        `P11, P12 (${library}): after ${absence.name}, a job runs within 5 s, ${times} times`,
        async () => {
          await Promise.all(Array.from({ length: lanes }, () => lane(client, absence)));
        },
        240_000,
      );
    }
  }

  async function lane(client: (port: number) => Redis | Redis5, absence: Absence): Promise<void> {
    // An idle queue has nothing to keep but its brand.
    await using node = await WorkerNode.start(wire, '--appendonly', 'yes', '--appendfsync', 'always');
    await using proxy = await FaultyProxy.start(node.port);
    const connector = await node.connect({ client: client(proxy.port) });
    const name = freshQueue('idle');
    const consumer = new Queue<number>(connector, name).consume(() => {}, { beatMs });
    consumer.on('warning', () => {});
    const producer = await node.queue<number>(name);
    await vi.waitUntil(async () => (await blocked(node)) === 1, SOON);
    for (let i = 0; i < times / lanes; i++) {
      await absence.happen(node, proxy, Math.min(beatMs, 1_000));
      using watch = new Stopwatch();
      const running = once(consumer, 'claimed');
      const completed = once(consumer, 'completed');
      // the producer's own connection may be on its way back too
      await vi.waitFor(() => producer.enqueue(i), SOON);
      await running;
      expect(watch.ms).toBeLessThan(RUNNING_WITHIN_MS);
      await completed;
      // Not by the beat alone: it listens again, and on one connection.
      proxy.heal();
      await vi.waitUntil(async () => (await blocked(node)) === 1, SOON);
    }
    await consumer.close();
    await connector.close();
  }
}
