/**
 * The options of a connector: what may be given, what is taken where nothing is given, and what is refused.
 *
 * Invariants: everything is checked before anything is opened; an unknown option is refused, so that a misspelt one is
 * not silently ignored; no error repeats a value that may hold a secret.
 * Does not: create a client (client-source.ts).
 */
import type { ClusterNode, ClusterOptions, RedisOptions } from 'ioredis';

import { EmqError, inputError } from './errors.js';
import type { Wire } from './executor.js';

/** What is done about a node that throws jobs away when its memory is full. */
export type EvictionRule = 'warn' | 'refuse' | 'ignore';

/** A client of ioredis, of whatever version or copy: only what the connector needs of it. */
export interface ExistingClient {
  readonly options: object;
  readonly isCluster?: boolean;
  duplicate(...args: never[]): unknown;
}

/**
 * Where to connect, as whom, and how long to wait.
 *
 * What the user must be allowed (ACL): `+get +evalsha +eval +script|load`, the commands inside the scripts, and the
 * queue's keys `~emq:{q}:*`; on one server also `%R~{emq}:version`, and to brand it `+set` and `~{emq}:version`; on wire 6
 * `+@emq +command|info`; on a cluster `+cluster|slots`, and `+set` to brand queues.
 *
 * One of `url` (with `redis` for what a URL cannot say), `redis`,
 * `client` or `cluster`; without any, 127.0.0.1:6379. All times are milliseconds.
 */
export interface ConnectorOptions {
  /** `redis://`, `rediss://`, `valkey://`, `valkeys://` (TLS) or `unix:///path`. It wins over `redis`. */
  readonly url?: string;
  /** ioredis options: `host`, `port`, `username`, `password`, `tls`, `db`, `sentinels` ... Retries and queues are ours. */
  readonly redis?: RedisOptions;
  /** An existing ioredis `Redis` or `Cluster`. It is duplicated and never used or changed itself. */
  readonly client?: ExistingClient;
  /** A cluster: its start nodes, and ioredis cluster options (`redisOptions` holds user, password and `tls`). */
  readonly cluster?: { readonly nodes: readonly ClusterNode[]; readonly options?: ClusterOptions };
  /** 4 = Lua scripts (default), 6 = the native commands of the module. */
  readonly wire?: Wire;
  /** Brand a node (in a cluster, a queue) that has no brand yet. Default true. */
  readonly claim?: boolean;
  /**
   * What is done about a node whose `maxmemory-policy` is `allkeys-*`, which throws jobs away when its memory is full. Looked
   * at with every connection. `warn` (default): the event `warning`, or a warning of the process. `refuse`: no connection,
   * `EMQ_EVICTION`; needs `+info`. `ignore`: it is not looked at.
   */
  readonly eviction?: EvictionRule;
  /** RESP version. Default: what ioredis prefers (3 from ioredis 6 on; ioredis 5 speaks 2 only). */
  readonly protocol?: 2 | 3;
  /** The whole first connect, retries included. Default 10 000. */
  readonly connectTimeoutMs?: number;
  /** How long a call waits for a connection before it rejects `EMQ_CONNECTION`, nothing sent. Default 1 000. */
  readonly waitMs?: number;
  /** How long a call may take in all. Default 10 000. */
  readonly replyTimeoutMs?: number;
  /** A silent connection is asked for a sign of life this often. Default 1 000. */
  readonly heartbeatMs?: number;
  /** How long a peer may stay silent when asked, or take to accept a connection, before it is given up. Default 2 500. */
  readonly heartbeatDeadlineMs?: number;
  /** First and longest pause between two tries to reconnect. Defaults 100 and 2 000. */
  readonly reconnectMinMs?: number;
  readonly reconnectMaxMs?: number;
  /** How long `close()` waits for the replies of calls in flight. Default 1 000. */
  readonly closeGraceMs?: number;
  /** How many calls may be in flight at once; one more is refused with `EMQ_CONNECTION`. Default 10 000. */
  readonly maxPending?: number;
  /** Gives up the first connect. */
  readonly signal?: AbortSignal;
}

/** The options, checked and complete. */
export interface Settings {
  readonly options: ConnectorOptions;
  readonly wire: Wire;
  readonly claim: boolean;
  readonly eviction: EvictionRule;
  readonly connectTimeoutMs: number;
  readonly waitMs: number;
  readonly replyTimeoutMs: number;
  readonly heartbeatMs: number;
  readonly heartbeatDeadlineMs: number;
  readonly reconnectMinMs: number;
  readonly reconnectMaxMs: number;
  readonly closeGraceMs: number;
  readonly maxPending: number;
  readonly signal: AbortSignal | undefined;
}

const TIMES = {
  connectTimeoutMs: 10_000,
  waitMs: 1_000,
  replyTimeoutMs: 10_000,
  heartbeatMs: 1_000,
  heartbeatDeadlineMs: 2_500,
  reconnectMinMs: 100,
  reconnectMaxMs: 2_000,
  closeGraceMs: 1_000,
} as const;
/** Zero means: do not wait at all. Elsewhere it would mean a connection that can never be. */
const MAY_BE_ZERO: ReadonlySet<string> = new Set(['waitMs', 'closeGraceMs']);
const KNOWN = new Set([
  ...Object.keys(TIMES),
  ...['url', 'redis', 'client', 'cluster', 'wire', 'claim', 'eviction', 'protocol', 'maxPending', 'signal'],
]);
/** What a timer of Node can hold. */
const MAX_MS = 2 ** 31 - 1;

/** @throws EmqError `EMQ_INPUT` with what is wrong and what to write instead. */
export function readOptions(given: ConnectorOptions | string = {}): Settings {
  try {
    return checkOptions(given);
  } catch (error) {
    // A getter, or a proxy. What it threw may hold anything.
    throw error instanceof EmqError
      ? error
      : inputError('the options of a connector cannot be read: one of them throws');
  }
}

function checkOptions(given: ConnectorOptions | string): Settings {
  const all: ConnectorOptions = typeof given === 'string' ? { url: given } : given;
  if (!isObject(all)) throw inputError('the options of a connector must be a URL or an object');
  // Each is read once: what a getter says later is not looked at.
  const options = Object.fromEntries(
    [...KNOWN].filter((key) => key in all).map((key) => [key, all[key as keyof ConnectorOptions]]),
  ) as ConnectorOptions;
  for (const key of Object.keys(all)) {
    if (!KNOWN.has(key))
      throw inputError(`unknown connector option ${JSON.stringify(key)}: ${[...KNOWN].sort().join(', ')} are known`);
  }
  checkTarget(options);
  const { wire = 4, claim = true, eviction = 'warn', protocol, signal } = options;
  if (wire !== 4 && wire !== 6) throw inputError('wire must be 4 (scripts) or 6 (native commands)');
  if (typeof claim !== 'boolean') throw inputError('claim must be true or false');
  if (!['warn', 'refuse', 'ignore'].includes(eviction)) {
    throw inputError('eviction must be warn, refuse or ignore: what to do about a node that throws jobs away');
  }
  if (protocol !== undefined && protocol !== 2 && protocol !== 3) throw inputError('protocol must be 2 or 3');
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw inputError('signal must be an AbortSignal');
  const maxPending = whole(options.maxPending ?? 10_000, 'maxPending', 1, Number.MAX_SAFE_INTEGER);
  const times = Object.fromEntries(
    Object.entries(TIMES).map(([name, preset]) => {
      const value = options[name as keyof typeof TIMES] ?? preset;
      return [name, whole(value, name, MAY_BE_ZERO.has(name) ? 0 : 1, MAX_MS)];
    }),
  ) as Record<keyof typeof TIMES, number>;
  if (times.reconnectMinMs > times.reconnectMaxMs) throw inputError('reconnectMinMs must not exceed reconnectMaxMs');
  return { options, wire, claim, eviction, signal, maxPending, ...times };
}

/** One target, and one whose keys are not prefixed: the contract's key names are the whole key. */
function checkTarget(options: ConnectorOptions): void {
  const { url, redis, client, cluster } = options;
  // An unset variable must not mean the server of this machine, which the first client brands.
  if ('url' in options && url === undefined) {
    throw inputError('url is undefined: is the variable that should hold it set? Without url it is 127.0.0.1:6379');
  }
  const targets = [url !== undefined || redis !== undefined, client !== undefined, cluster !== undefined];
  if (targets.filter(Boolean).length > 1) {
    throw inputError('give one of url (with redis for the rest), client or cluster, not several');
  }
  if (url !== undefined && typeof url !== 'string') throw inputError('url must be a string');
  if (redis !== undefined) {
    if (!isObject(redis)) throw inputError('redis must be an object of ioredis options');
    refusePrefix(redis, 'redis.keyPrefix');
  }
  if (client !== undefined) {
    if (!isObject(client) || typeof client.duplicate !== 'function' || !isObject(client.options)) {
      throw inputError('client must be an ioredis Redis or Cluster; give its options as redis or cluster instead');
    }
    refusePrefix(client.options, "the client's keyPrefix");
    refusePrefix((client.options as ClusterOptions).redisOptions, "the client's redisOptions.keyPrefix");
  }
  if (cluster !== undefined) {
    if (!isObject(cluster) || !Array.isArray(cluster.nodes) || cluster.nodes.length === 0) {
      throw inputError('cluster.nodes must name at least one node, as { host, port }');
    }
    if (cluster.options !== undefined && !isObject(cluster.options))
      throw inputError('cluster.options must be an object');
    refusePrefix(cluster.options, 'cluster.options.keyPrefix');
    refusePrefix(cluster.options?.redisOptions, 'cluster.options.redisOptions.keyPrefix');
  }
}

function refusePrefix(options: object | undefined, what: string): void {
  const { keyPrefix } = (options ?? {}) as { keyPrefix?: unknown };
  if (keyPrefix !== undefined && keyPrefix !== '' && keyPrefix !== null) {
    throw inputError(
      `${what} must be empty: a key's name is fixed by the wire contract; use another database or server`,
    );
  }
}

function whole(value: unknown, name: string, least: number, most: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
    throw inputError(`${name} must be a whole number, ${least} or more${most === MAX_MS ? ` (milliseconds)` : ''}`);
  }
  return value;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
