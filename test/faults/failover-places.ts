/**
 * Places that lose their primary: a pair behind an address that moves, a pair behind a sentinel, a cluster, and one server
 * that is started again. Each is struck, is mended, and can be struck again.
 *
 * Invariants: `strike` resolves with the moment (performance.now()) at which a new primary was seen to be there; after
 * `mend` everything is as at the start but for who is the primary. Loopback only, all gone with the place.
 * Does not: know what runs on it.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { vi } from 'vitest';
import type { ConnectorOptions, Durability } from '../../src/index.js';
import { Nodes } from '../cluster/nodes.js';
import { TestServer } from '../wire/server.js';
import { WorkerNode, type Wire } from '../worker/support/nodes.js';
import { FaultyProxy } from '../worker/support/proxy.js';

export interface Strike {
  /** When the new primary was there: performance.now(). */
  readonly at: number;
  readonly queue: string;
}

export interface Place extends AsyncDisposable {
  /**
   * What becomes of jobs that were answered and not confirmed: `kept`, where the old primary hands over or is the new one;
   * `lost`, where it dies with some of them, as they will in every other round.
   */
  readonly plain: 'kept' | 'lost';
  readonly queues: readonly string[];
  /** Where clients connect. */
  readonly options: ConnectorOptions;
  /** A plain client of the queue's primary. */
  admin(queue: string): Redis;
  /** The primary of one queue is no more. */
  strike(round: number): Promise<Strike>;
  mend(): Promise<void>;
}

/** Longer than a durable producer waits: what it is told meanwhile must not be that its job is safe. */
const CUT_OFF_MS = 400;
const ONE_REPLICA: Durability = { replicas: 1, timeoutMs: 100 };

/** How a primary is lost, and what a producer asks for so that nothing is. */
export const PLACES: readonly {
  readonly name: string;
  readonly open: (wire: Wire) => Promise<Place>;
  readonly durability: Durability;
}[] = [
  { name: 'FAILOVER, and an address that moves', open: pairBehindAddress, durability: ONE_REPLICA },
  { name: 'kill -9 of the primary, and a sentinel', open: pairWithSentinel, durability: ONE_REPLICA },
  { name: 'kill -9 of a primary of a cluster', open: (wire) => cluster(wire, 'killed'), durability: ONE_REPLICA },
  { name: 'CLUSTER FAILOVER', open: (wire) => cluster(wire, 'handed over'), durability: ONE_REPLICA },
  { name: 'kill -9 and a restart, AOF everysec', open: lone, durability: { fsync: true } },
];

const SOON = { timeout: 30_000, interval: 5 } as const;

/** The moment at which a server says that it is a primary, and a cluster's that it serves its slots. */
async function promoted(admin: Redis): Promise<number> {
  await vi.waitUntil(async () => ((await admin.call('ROLE')) as unknown[])[0] === 'master', SOON);
  await vi.waitUntil(async () => !/cluster_state:fail/.test(await clusterInfo(admin)), SOON);
  return performance.now();
}

/** Empty where there is no cluster. */
function clusterInfo(admin: Redis): Promise<string> {
  return admin.call('CLUSTER', 'INFO').then(String, () => '');
}

/**
 * A primary that dies with what it had not sent yet: the replica is cut off, and writes go on for a moment. Every other time,
 * so that a replica that is up to date is promoted too.
 */
async function fallBehind(round: number, primary: Redis, replica: Redis): Promise<void> {
  if (round % 2 === 0) return;
  await replica.call('CONFIG', 'SET', 'masteruser', 'nobody', 'masterauth', 'nothing');
  await primary.call('CLIENT', 'KILL', 'TYPE', 'replica');
  await pause(CUT_OFF_MS);
}

/** It may follow another one day. */
async function forgive(promoted: Redis): Promise<void> {
  await promoted.call('CONFIG', 'SET', 'masteruser', '', 'masterauth', '');
}

async function follows(replica: Redis, primary: Redis): Promise<void> {
  await vi.waitUntil(async () => /master_link_status:up/.test(await replica.info('replication')), SOON);
  await vi.waitUntil(async () => /state=online/.test(await primary.info('replication')), SOON);
}

/** An operator's FAILOVER; then the address that clients know leads to the new primary. Old connections stay where they are. */
export async function pairBehindAddress(wire: Wire): Promise<Place> {
  const nodes = await pair(wire);
  const proxy = await FaultyProxy.start(nodes.primary.port);
  return {
    plain: 'kept',
    queues: ['q'],
    options: { url: proxy.url },
    admin: () => nodes.primary.admin,
    async strike() {
      await nodes.primary.admin.call('FAILOVER');
      const at = await promoted(nodes.replica.admin);
      nodes.swap();
      proxy.target = nodes.primary.port;
      return { at, queue: 'q' };
    },
    mend: () => follows(nodes.replica.admin, nodes.primary.admin),
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await nodes.end();
    },
  };
}

/** The primary is killed, and a sentinel promotes the replica. */
export async function pairWithSentinel(wire: Wire): Promise<Place> {
  const nodes = await pair(wire);
  const conf = join(nodes.primary.server.dir, 'sentinel.conf');
  const lines = [
    `sentinel monitor main 127.0.0.1 ${nodes.primary.port} 1`,
    'sentinel down-after-milliseconds main 500',
    'sentinel failover-timeout main 1000',
  ];
  await writeFile(conf, lines.map((line) => `${line}\n`).join(''));
  const sentinel = await TestServer.sentinel(conf);
  /** It promotes nobody of whom it knows nothing good. */
  const sees = async (): Promise<void> => {
    const good = new RegExp(`${nodes.replica.port},.*flags,slave,.*master-link-status,ok`);
    let told = '';
    try {
      await vi.waitUntil(async () => {
        const all = (await sentinel.admin.call('SENTINEL', 'REPLICAS', 'main')) as string[][];
        told = all.join('\n');
        return all.some((one) => good.test(one.join()));
      }, SOON);
    } catch {
      throw new Error(`the sentinel sees no replica at ${nodes.replica.port}: ${told}`);
    }
  };
  await sees();
  return {
    plain: 'lost',
    queues: ['q'],
    options: { redis: { sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: 'main' } },
    admin: () => nodes.primary.admin,
    async strike(round) {
      await fallBehind(round, nodes.primary.admin, nodes.replica.admin);
      await nodes.primary.server.kill();
      const at = await promoted(nodes.replica.admin);
      await forgive(nodes.replica.admin);
      nodes.swap();
      return { at, queue: 'q' };
    },
    async mend() {
      await nodes.startReplica();
      await follows(nodes.replica.admin, nodes.primary.admin);
      await sees();
    },
    async [Symbol.asyncDispose]() {
      await sentinel[Symbol.asyncDispose]();
      await nodes.end();
    },
  };
}

/** A primary of a cluster is killed and its replica takes over, or takes over at an operator's word. */
export async function cluster(wire: Wire, how: 'killed' | 'handed over'): Promise<Place> {
  const nodes = await Nodes.start({ module: wire === 6, nodeTimeoutMs: 2_000 });
  /** Who is the primary of each third, and who its replica. */
  const thirds = [0, 1, 2].map((i) => ({ primary: i, replica: i + 3 }));
  const queues = [0, 1, 2].map((i) => nodes.queueOn(i));
  let struck = thirds[0]!;
  return {
    plain: how === 'killed' ? 'lost' : 'kept',
    queues,
    options: { cluster: { nodes: nodes.start } },
    admin: (queue) => nodes.admin(thirds[queues.indexOf(queue)]!.primary),
    async strike(round) {
      struck = thirds[round % 3]!;
      const { primary, replica } = struck;
      if (how === 'killed') {
        await fallBehind(round, nodes.admin(primary), nodes.admin(replica));
        await nodes.server(primary).kill();
      } else await nodes.admin(replica).call('CLUSTER', 'FAILOVER');
      const at = await promoted(nodes.admin(replica));
      await forgive(nodes.admin(replica));
      [struck.primary, struck.replica] = [replica, primary];
      return { at, queue: queues[round % 3]! };
    },
    async mend() {
      if (how === 'killed') await nodes.server(struck.replica).restart();
      await follows(nodes.admin(struck.replica), nodes.admin(struck.primary));
      for (const i of [0, 1, 2, 3, 4, 5]) {
        const whole = /cluster_state:ok[^]*cluster_slots_ok:16384/;
        await vi.waitUntil(async () => whole.test(await clusterInfo(nodes.admin(i))), SOON);
      }
    },
    [Symbol.asyncDispose]: () => nodes[Symbol.asyncDispose](),
  };
}

/** One server, killed and started again on its append-only file. */
export async function lone(wire: Wire): Promise<Place> {
  const node = await WorkerNode.start(wire, '--appendonly', 'yes', '--appendfsync', 'everysec');
  return {
    plain: 'kept',
    queues: ['q'],
    options: { url: node.server.url },
    admin: () => node.admin,
    async strike() {
      await node.server.kill();
      await node.server.restart();
      return { at: performance.now(), queue: 'q' };
    },
    mend: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  };
}

interface Pair {
  primary: WorkerNode;
  replica: WorkerNode;
  swap(): void;
  /** Starts the one that is down again, as a replica from its first breath: a sentinel must not see two primaries. */
  startReplica(): Promise<void>;
  end(): Promise<void>;
}

async function pair(wire: Wire): Promise<Pair> {
  const folder = await mkdtemp(join(tmpdir(), 'emq-pair-'));
  /** What each reads at its start. */
  const roles = new Map<WorkerNode, string>();
  const start = async (name: string, role: string): Promise<WorkerNode> => {
    const file = join(folder, name);
    await writeFile(file, role);
    const node = await WorkerNode.start(wire, '--repl-diskless-sync-delay', '0', '--include', file);
    roles.set(node, file);
    return node;
  };
  const replicaOf = ({ port }: WorkerNode): string => `replicaof 127.0.0.1 ${port}\n`;
  const first = await start('first', '');
  const second = await start('second', replicaOf(first));
  await follows(second.admin, first.admin);
  const both: Pair = {
    primary: first,
    replica: second,
    swap() {
      [both.primary, both.replica] = [both.replica, both.primary];
    },
    async startReplica() {
      await writeFile(roles.get(both.replica)!, replicaOf(both.primary));
      await both.replica.server.restart();
    },
    async end() {
      await both.replica[Symbol.asyncDispose]();
      await both.primary[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return both;
}
