/**
 * A cluster of three primaries, each with a replica, on loopback, made by hand; and what an operator does to one: a slot is
 * moved key by key, a node is lost.
 *
 * Invariants: node i has the i-th third of the slots, and replica i is its own; everything is gone with the cluster. A slot
 * that was moved is moved back by whoever moved it. Does not: promote a replica.
 */
import { once } from 'node:events';
import { copyFile, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { vi } from 'vitest';
import { startServer, type EmbeddedServer } from '../../src/dev/index.js';
import { slotOf } from '../wire/nodes.js';

export { slotOf } from '../wire/nodes.js';

const RANGES = [
  [0, 5460],
  [5461, 10922],
  [10923, 16383],
] as const;
/** A port of a node's bus is so much higher. */
const BUS = 10_000;
/** Ports that are given out, the bus included. */
const [LOWEST, HIGHEST] = [12_000, 32_000];
const SOON = { timeout: 20_000, interval: 20 } as const;

export interface ClusterSettings {
  /** The module is loaded everywhere. Default true. */
  readonly module?: boolean;
  /** A replica for each primary. Default true. */
  readonly replicas?: boolean;
  /** The path of the server program; default: the one that is here. */
  readonly server?: string | undefined;
  /** How long a node may be silent before it is taken for lost, ms. Default 1500. */
  readonly nodeTimeoutMs?: number;
  readonly args?: readonly string[];
}

/** How a slot is moved key by key. */
export interface Move {
  /** So many keys in one MIGRATE. Default 10. */
  readonly step?: number;
  /** Between two of them, ms. Default 0. */
  readonly pauseMs?: number;
  /** Called when the slot is open at both ends, before any key has moved. */
  readonly open?: () => Promise<unknown>;
  /** All at once, by the server: Valkey 9. Then none of the others counts. */
  readonly atomic?: boolean;
}

export class Nodes implements AsyncDisposable {
  /** The primaries at the start, then their replicas. */
  readonly #servers: readonly EmbeddedServer[];
  readonly #admins: readonly Redis[];
  readonly #ids: string[] = [];

  private constructor(servers: readonly EmbeddedServer[]) {
    this.#servers = servers;
    // it outlives restarts of its node
    const options = { protocol: 2, retryStrategy: () => 20, maxRetriesPerRequest: null } as const;
    this.#admins = servers.map(({ socketPath }) => new Redis({ path: socketPath, ...options }).on('error', () => {}));
  }

  static async start(settings: ClusterSettings = {}): Promise<Nodes> {
    const { module = true, replicas = true, server, nodeTimeoutMs = 1_500, args = [] } = settings;
    const own = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--repl-diskless-sync-delay', '0'];
    const all = [...own, '--cluster-node-timeout', String(nodeTimeoutMs), '--enable-debug-command', 'local', ...args];
    const servers: EmbeddedServer[] = [];
    for (let i = 0; i < (replicas ? 6 : 3); i++) {
      const port = await clusterPort();
      servers.push(await startServer({ module, server, port, fetch: true, brand: false, args: all }));
    }
    const nodes = new Nodes(servers);
    await nodes.#join();
    return nodes;
  }

  async #join(): Promise<void> {
    const first = this.#servers[0]!;
    for (const admin of this.#admins) this.#ids.push(String(await admin.call('CLUSTER', 'MYID')));
    for (const [i, admin] of this.#admins.entries()) {
      await admin.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
      const range = RANGES[i];
      if (range !== undefined) await admin.call('CLUSTER', 'ADDSLOTSRANGE', ...range);
      if (i > 0) await admin.call('CLUSTER', 'MEET', '127.0.0.1', first.port!);
    }
    for (const [i, admin] of this.#admins.entries()) {
      const primary = this.#ids[i - 3];
      if (primary === undefined) continue;
      await vi.waitUntil(async () => String(await admin.call('CLUSTER', 'NODES')).includes(primary), SOON);
      await admin.call('CLUSTER', 'REPLICATE', primary);
    }
    await this.settled();
  }

  /** Until every node knows every other and the owner of every slot, and the replicas follow. There is no event: they are asked. */
  async settled(): Promise<void> {
    const known = new RegExp(
      `cluster_state:ok[^]*cluster_slots_ok:16384[^]*cluster_known_nodes:${this.#servers.length}`,
    );
    for (const [i, admin] of this.#admins.entries()) {
      await vi.waitUntil(async () => known.test(String(await admin.call('CLUSTER', 'INFO'))), SOON);
      if (i < 3) continue;
      await vi.waitUntil(async () => /master_link_status:up/.test(await admin.info('replication')), SOON);
    }
  }

  /** Ends it as a crash does. It can be started again: what it knows of the cluster is kept as it was when that was in order. */
  async lose(i: number): Promise<void> {
    const [config, kept] = this.#configs(i);
    // Until a node has heard the shards of all others it may note a replica in another shard than its primary; Valkey 8.0
    // then calls its own notes corrupted, and does not start.
    const inOrder = async (): Promise<boolean> => {
      await this.admin(i).call('CLUSTER', 'SAVECONFIG');
      await copyFile(config, kept);
      return agrees(await readFile(kept, 'utf8'));
    };
    await vi.waitUntil(inOrder, SOON);
    await this.server(i).kill();
  }

  /** Starts it again. */
  async bring(i: number): Promise<void> {
    const [config, kept] = this.#configs(i);
    await copyFile(kept, config);
    await this.server(i).restart();
  }

  #configs(i: number): [string, string] {
    const config = join(this.server(i).dir, 'nodes.conf');
    return [config, `${config}.kept`];
  }

  server(i: number): EmbeddedServer {
    const server = this.#servers[i];
    if (server === undefined) throw new Error(`no node ${i}`);
    return server;
  }

  /** A plain client of one node: 0 to 2 are the primaries, 3 to 5 their replicas. */
  admin(i: number): Redis {
    const admin = this.#admins[i];
    if (admin === undefined) throw new Error(`no node ${i}`);
    return admin;
  }

  get primaries(): readonly Redis[] {
    return this.#admins.slice(0, 3);
  }

  id(i: number): string {
    return this.#ids[i] ?? '';
  }

  get start(): { host: string; port: number }[] {
    return this.#servers.slice(0, 3).map(({ port }) => ({ host: '127.0.0.1', port: port ?? 0 }));
  }

  /** The name of a queue that lies on that node. @param but other names than these */
  queueOn(i: number, prefix = 'q'): string {
    const [first, last] = RANGES[i] ?? [0, 0];
    for (let n = 0; ; n++) {
      const slot = slotOf(`${prefix}${n}`);
      if (slot >= first && slot <= last) return `${prefix}${n}`;
    }
  }

  /** Empty nodes that know no script. */
  async empty(): Promise<void> {
    for (const admin of this.primaries) {
      await admin.flushall();
      await admin.script('FLUSH');
    }
  }

  /** How often the nodes have said so, since their start: `MOVED`, `ASK`, `TRYAGAIN` ... */
  async said(word: string): Promise<number> {
    const counts = this.#admins.map(async (admin) => {
      const found = new RegExp(`^errorstat_${word}:count=(\\d+)`, 'm').exec(await admin.info('errorstats'));
      return Number(found?.[1] ?? 0);
    });
    return (await Promise.all(counts)).reduce((sum, n) => sum + n, 0);
  }

  /** Which primary has the slot, as it says itself. While it is handed over nobody does, for a moment. */
  ownerOf(slot: number): Promise<number> {
    return vi
      .waitUntil(async () => {
        for (const [i, admin] of this.primaries.entries()) {
          const ranges = (await admin.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
          const port = ranges.find(([first, last]) => slot >= first && slot <= last)?.[2][1];
          // not the number by itself: 0 would be waited for
          if (port === this.server(i).port) return { owner: i };
        }
        return undefined;
      }, SOON)
      .then(({ owner }) => owner);
  }

  /** Moves a slot key by key from its owner to that node, as an operator's tool would. */
  async move(slot: number, to: number, { step = 10, pauseMs = 0, open, atomic = false }: Move = {}): Promise<void> {
    const from = await this.ownerOf(slot);
    if (from === to) return;
    const [source, target] = [this.admin(from), this.admin(to)];
    if (atomic) {
      await source.call('CLUSTER', 'MIGRATESLOTS', 'SLOTSRANGE', slot, slot, 'NODE', this.id(to));
      await vi.waitUntil(async () => (await this.ownerOf(slot)) === to, SOON);
      return;
    }
    await target.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', this.id(from));
    await source.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', this.id(to));
    await open?.();
    for (;;) {
      const keys = (await source.callBuffer('CLUSTER', 'GETKEYSINSLOT', slot, step)) as Buffer[];
      if (keys.length === 0) break;
      const { port } = this.server(to);
      await source.call('MIGRATE', '127.0.0.1', port!, '', 0, 5_000, 'KEYS', ...keys);
      if (pauseMs > 0) await pause(pauseMs);
    }
    // the one that gets it first: in between nobody would say that it is his
    for (const node of [target, source, ...this.primaries.filter((one) => one !== target && one !== source)]) {
      await node.call('CLUSTER', 'SETSLOT', slot, 'NODE', this.id(to));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const admin of this.#admins) admin.disconnect();
    await Promise.all(this.#servers.map((server) => server.stop()));
  }
}

/**
 * A free port whose bus has one too. Below those that the system gives to clients: a node that is started again wants the same
 * ones.
 */
async function clusterPort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - BUS - LOWEST));
    if ((await isFree(port)) && (await isFree(port + BUS))) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  const listening = once(probe.listen(port, '127.0.0.1'), 'listening');
  try {
    await listening;
  } catch {
    return false;
  }
  probe.close();
  await once(probe, 'close');
  return true;
}

/** Whether every replica is noted in the shard of its primary. */
function agrees(config: string): boolean {
  const shards = new Map<string, string>();
  const lines = config.split('\n').map((line) => line.split(' '));
  for (const [id = '', place = ''] of lines) shards.set(id, /shard-id=(\w+)/.exec(place)?.[1] ?? '');
  return lines.every(
    ([id = '', , , primary = '-']) => primary === '-' || !shards.has(primary) || shards.get(primary) === shards.get(id),
  );
}
