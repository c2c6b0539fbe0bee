/**
 * Where brands lie: one node, or all nodes of a cluster, each with a plain connection of its own, and what is known of the
 * module on them.
 *
 * Invariants: nothing is written here; the nodes of a cluster and the replicas are reached as the first node was: same
 * user, same certificates. What cannot be asked (a replica behind another address, a right that is missing) is `unknown`,
 * with the reason, and never taken for a module that is there. Does not: judge, or move (move.ts).
 */
import { keyed, isQueue, registered } from '../../queue/registry.js';
import type { Reply } from '../../wire/call.js';
import { commandsOf } from '../../wire/command.js';
import { readUrl } from '../../wire/connector-url.js';
import { EmqError } from '../../wire/errors.js';
import { missingCommands, NATIVE_COMMANDS, type Ask } from '../../wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../wire/keyspace.js';
import { openNode, type PlainNode } from '../node.js';
import { isCluster } from '../operate/session.js';
import type { Target } from '../target.js';

/** Whether the native commands are there: all, some (an older module), none; or it could not be asked. */
export type ModuleState = 'loaded' | 'older' | 'missing' | 'unknown';

export interface NodeFacts {
  readonly where: string;
  readonly role: 'primary' | 'replica';
  readonly module: ModuleState;
  /** Why it is unknown. */
  readonly why?: string;
}

/** What carries a brand: a node, or in a cluster a queue. */
export interface Branded {
  /** null: the node. */
  readonly queue: string | null;
  readonly key: string;
  readonly ask: Ask;
  /** null: absent. */
  readonly brand: string | null;
}

export interface Place {
  readonly where: string;
  readonly cluster: boolean;
  /** True where the one node is a replica: it cannot be written to. */
  readonly isReplica: boolean;
  /** The primary of a replica, `host:port`. */
  readonly primary: string | undefined;
  readonly nodes: readonly NodeFacts[];
  /** True when the replicas of a node could not be listed. */
  readonly replicasUnknown: boolean;
  /** Sends to the primary that is asked, or to each of a cluster. */
  readonly primaries: readonly PlainNode[];
  readonly branded: readonly Branded[];
}

/**
 * Looks at all of it; `use` gets it while the connections are open.
 * @param queue in a cluster, the only queue to look at.
 * @throws EmqError no connection to a primary, `NOPERM`, or what a primary says.
 */
export async function lookAt<T>(
  target: Target,
  queue: string | undefined,
  signal: AbortSignal,
  use: (place: Place) => Promise<T>,
): Promise<T> {
  const opened: PlainNode[] = [];
  const open = async (at: Target): Promise<PlainNode> => {
    const node = await openNode(at, signal, 'EMQ_URL');
    opened.push(node);
    return node;
  };
  try {
    const first = await open(target);
    return await use(
      (await isCluster(first)) ? await wholeCluster(first, target, queue, open) : await single(first, target, open),
    );
  } finally {
    for (const node of opened) await node.close();
  }
}

/** The node itself, or every node of the cluster that it belongs to, replicas too. @throws EmqError no connection. */
export async function nodesOf(target: Target, signal: AbortSignal): Promise<readonly Target[]> {
  const node = await openNode(target, signal, 'EMQ_URL');
  try {
    if (!(await isCluster(node))) return [target];
    const shards = shardsOf(await node.ask('CLUSTER', 'SLOTS'), readUrl(target.url).host ?? '127.0.0.1');
    const all = new Map(shards.flatMap(({ nodes }) => nodes.map((one) => [one.join(':'), one] as const)));
    return [...all.values()].map(([host, port]) => targetOn(target, host, port));
  } finally {
    await node.close();
  }
}

/** The names in the registry, and the jobs that are in flight in these queues; undefined where it may not be read. */
export async function inFlight({ primaries, branded, cluster }: Place): Promise<number | undefined> {
  try {
    const [node] = primaries;
    if (node === undefined) return undefined;
    const targets: { queue: string; ask: Ask }[] = cluster
      ? branded.flatMap(({ queue, ask }) => (queue === null ? [] : [{ queue, ask }]))
      : (await registered(askOf(node), false)).filter(isQueue).map((queue) => ({ queue, ask: askOf(node) }));
    let all = 0;
    for (const { queue, ask } of targets) all += Number(await ask('ZCARD', [new Keyspace(queue).active]));
    return all;
  } catch (error) {
    if (error instanceof EmqError && !error.code.startsWith('EMQ_')) return undefined;
    throw error;
  }
}

type Open = (at: Target) => Promise<PlainNode>;

async function single(node: PlainNode, target: Target, open: Open): Promise<Place> {
  const ask = askOf(node);
  const info = await infoOf(node);
  const isReplica = info?.get('role') === 'slave';
  const primary = isReplica ? `${info.get('master_host') ?? '?'}:${info.get('master_port') ?? '?'}` : undefined;
  const replicas = [...(info ?? [])].flatMap(([name, value]): [string, number][] => {
    if (!/^slave\d+$/.test(name)) return [];
    const [, ip = '', port = ''] = /^ip=(.*?),port=(\d+)/.exec(value) ?? [];
    return [[ip, Number(port)]];
  });
  const own = await moduleOn(node, isReplica ? 'replica' : 'primary');
  const others = await Promise.all(replicas.map(([host, port]) => replicaAt(host, port, target, open)));
  const brand = text(await ask('GET', [NODE_VERSION_KEY]));
  return {
    ...{ where: node.where, cluster: false, isReplica, primary, nodes: [own, ...others], primaries: [node] },
    ...{ replicasUnknown: info === undefined, branded: [{ queue: null, key: NODE_VERSION_KEY, ask, brand }] },
  };
}

interface Shard {
  readonly first: number;
  readonly last: number;
  /** The primary, then its replicas. */
  readonly nodes: readonly (readonly [host: string, port: number])[];
}

async function wholeCluster(first: PlainNode, target: Target, queue: string | undefined, open: Open): Promise<Place> {
  const shards = shardsOf(await first.ask('CLUSTER', 'SLOTS'), readUrl(target.url).host ?? '127.0.0.1');
  const primaries = new Map<string, PlainNode>();
  const replicas = new Map<string, readonly [string, number]>();
  for (const { nodes } of shards) {
    const [primary, ...rest] = nodes;
    if (primary === undefined) continue;
    const name = primary.join(':');
    if (!primaries.has(name)) primaries.set(name, await open(targetOn(target, ...primary)));
    for (const one of rest) replicas.set(one.join(':'), one);
  }
  const asks = [...primaries.values()];
  const names = queue === undefined ? await queuesOn(asks) : [queue];
  const slot = commandsOf(first.client);
  const branded: Branded[] = [];
  for (const name of names) {
    const { version } = new Keyspace(name);
    const at = slot('get', [version]).getSlot();
    const shard = shards.find(({ first: low, last }) => low <= at && at <= last);
    const node = primaries.get(shard?.nodes[0]?.join(':') ?? '');
    if (node === undefined) throw new EmqError('CLUSTERDOWN', `CLUSTERDOWN no node serves queue ${name}`);
    const ask = askOf(node);
    branded.push({ queue: name, key: version, ask, brand: text(await ask('GET', [version])) });
  }
  const nodes = await Promise.all([
    ...asks.map((node) => moduleOn(node, 'primary')),
    ...[...replicas.values()].map(([host, port]) => replicaAt(host, port, target, open)),
  ]);
  const where = `the cluster of ${first.where}`;
  return {
    ...{ where, cluster: true, isReplica: false, primary: undefined, nodes, replicasUnknown: false },
    ...{ primaries: asks, branded },
  };
}

async function queuesOn(nodes: readonly PlainNode[]): Promise<string[]> {
  const names = new Set<string>();
  for (const node of nodes) {
    for (const name of await registered(askOf(node), true)) names.add(name);
    for await (const name of keyed(askOf(node))) names.add(name);
  }
  return [...names].filter(isQueue).sort();
}

/** CLUSTER SLOTS; an empty address means the one that was asked. */
function shardsOf(reply: Reply, asked: string): Shard[] {
  return (Array.isArray(reply) ? reply : []).flatMap((range) => {
    if (!Array.isArray(range)) return [];
    const [first, last, ...nodes] = range;
    const addresses = nodes.flatMap((node): (readonly [string, number])[] => {
      if (!Array.isArray(node)) return [];
      const host = String(node[0] ?? '');
      return [[host === '' || host === '?' ? asked : host, Number(node[1])]];
    });
    return [{ first: Number(first), last: Number(last), nodes: addresses }];
  });
}

async function replicaAt(host: string, port: number, target: Target, open: Open): Promise<NodeFacts> {
  try {
    return await moduleOn(await open(targetOn(target, host, port)), 'replica');
  } catch (error) {
    if (!(error instanceof EmqError) || error.code === 'EMQ_CLOSED') throw error;
    return { where: `${host}:${port}`, role: 'replica', module: 'unknown', why: error.reason };
  }
}

async function moduleOn(node: PlainNode, role: NodeFacts['role']): Promise<NodeFacts> {
  const facts = { where: node.where, role };
  try {
    const { length } = await missingCommands(askOf(node));
    return { ...facts, module: length === 0 ? 'loaded' : length < NATIVE_COMMANDS.length ? 'older' : 'missing' };
  } catch (error) {
    if (!(error instanceof EmqError) || error.code.startsWith('EMQ_')) throw error;
    return { ...facts, module: 'unknown', why: error.reason };
  }
}

async function infoOf(node: PlainNode): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    const lines = String(await node.ask('INFO', 'replication')).split(/\r?\n/);
    return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
  } catch (error) {
    if (error instanceof EmqError && error.code === 'NOPERM') return undefined;
    throw error;
  }
}

/** Another node, by the user and the certificates of the first. */
function targetOn(target: Target, host: string, port: number): Target {
  const { username, password, tls } = readUrl(target.url);
  const login = [username, password].map((part) => (part === undefined ? '' : encodeURIComponent(part)));
  const user = username === undefined && password === undefined ? '' : `${login.join(':')}@`;
  const name = host.includes(':') ? `[${host}]` : host;
  return { ...target, url: `${tls === undefined ? 'valkey' : 'valkeys'}://${user}${name}:${port}` };
}

function askOf(node: PlainNode): Ask {
  return (command, args) => node.ask(command, ...args);
}

function text(reply: Reply): string | null {
  return reply === null ? null : String(reply);
}
