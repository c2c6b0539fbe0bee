/**
 * Where fresh ioredis clients come from: one unconnected client for every connection that the connector makes.
 *
 * Invariants: a client lives for one connection. It never retries, queues, resends or reconnects by itself: all of
 * that is the connector's, which alone knows what may be repeated. An existing client is only asked to duplicate itself.
 * Does not: connect. What ioredis would do and why it may not:
 * - reconnecting and resending: it would send a caller's command before the fence of the new connection;
 * - the offline queue and MaxRetries: a call would wait without end, or be sent after its caller gave up;
 * - the ready check: it polls INFO on timers that outlive a close; the fence's own reads tell the same.
 */
import type { ConnectionOptions } from 'node:tls';

import { Cluster, Redis, type ClusterNode, type ClusterOptions, type RedisOptions } from 'ioredis';

import type { Settings } from './connector-options.js';
import { readUrl } from './connector-url.js';
import { inputError } from './errors.js';

/** A host and a port, and how TLS is spoken to it, if it is. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly tls: ConnectionOptions | undefined;
}

/** Makes clients for one place. */
export interface ClientSource {
  /** The place, for errors and events: an address or a path, never a user or a password. */
  readonly where: string;
  /** The one address that it begins with; undefined for a socket, and behind sentinels. */
  readonly endpoint?: Endpoint | undefined;
  /** A new client, not connected. */
  create(): Redis | Cluster;
  /** Takes the password out of a text that the server wrote. */
  redact(text: string): string;
}

/** Gives the options of ioredis that the connector takes over, whatever the caller set. */
function tamed(settings: Settings): RedisOptions & { replyMapping: 'legacy' } {
  const { protocol } = settings.options;
  return {
    lazyConnect: true,
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
    reconnectOnError: null,
    connectTimeout: settings.heartbeatDeadlineMs,
    // Only for a socket that ioredis ends before it hands it out; all others are destroyed at once.
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    enableAutoPipelining: false,
    commandTimeout: undefined,
    socketTimeout: undefined,
    blockingTimeout: undefined,
    scripts: undefined,
    monitor: false,
    readOnly: false,
    stringNumbers: false,
    replyMapping: 'legacy',
    himportFieldsets: undefined,
    ...(protocol === undefined ? {} : { protocol }),
  };
}

function tamedCluster(): ClusterOptions {
  return {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    // A node that reconnected by itself would keep the brands that were seen on its old connection.
    clusterNodeRetryStrategy: undefined,
    enableOfflineQueue: false,
    // It would leave connect() pending for ever when the cluster is down; CLUSTERDOWN is retried call by call.
    enableReadyCheck: false,
    scaleReads: 'master',
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    shardedSubscribers: false,
    enableAutoPipelining: false,
    scripts: undefined,
    himportFieldsets: undefined,
  };
}

/** @throws EmqError `EMQ_INPUT` for a target that cannot be one. */
export function clientSource(settings: Settings): ClientSource {
  const { url, redis, client, cluster } = settings.options;
  if (cluster !== undefined) return fromCluster(cluster.nodes, cluster.options ?? {}, settings);
  if (client === undefined) return fromRedis(merge(url, redis ?? {}), settings);
  // One duplicate now, so that a later change of the client's options changes nothing here. It is never connected.
  if (client.isCluster === true) {
    const options = client.options as ClusterOptions;
    const original = client as unknown as Cluster;
    const template = original.duplicate([], { ...tamedCluster(), redisOptions: tamedNode(settings) });
    return source('the cluster', () => template.duplicate([]), secretsOf(options.redisOptions));
  }
  const options = client.options as RedisOptions;
  const template = (client as unknown as Redis).duplicate(tamed(settings));
  return source(address(options), () => template.duplicate(), secretsOf(options), endpointOf(options));
}

function fromRedis(options: RedisOptions, settings: Settings): ClientSource {
  const all = { ...options, ...tamed(settings) };
  return source(address(options), () => new Redis(all), secretsOf(options), endpointOf(options));
}

function fromCluster(nodes: readonly ClusterNode[], options: ClusterOptions, settings: Settings): ClientSource {
  const { start, tls } = readNodes(nodes);
  const redisOptions = { ...(tls ? { tls: {} } : {}), ...options.redisOptions, ...tamedNode(settings) };
  const all = { ...options, ...tamedCluster(), redisOptions };
  const where = `the cluster at ${start.map(({ host, port }) => `${host}:${port}`).join(', ')}`;
  const first = endpointOf({ ...start[0], tls: redisOptions.tls });
  return source(where, () => new Cluster(start.slice(), all), secretsOf(redisOptions), first);
}

/**
 * Connections of their own to one node of a cluster, with all that the cluster's client found out about reaching it.
 * @param node that client's connection to it.
 */
export function nodeSource(node: Redis, cluster: ClientSource, settings: Settings): ClientSource {
  const create = (): Redis => node.duplicate(tamed(settings));
  return { where: address(node.options), create, redact: (text) => cluster.redact(text) };
}

/** The same for a node of a cluster: what Cluster itself decides about its nodes is not ours to set. */
function tamedNode(settings: Settings): NonNullable<ClusterOptions['redisOptions']> & { replyMapping: 'legacy' } {
  const {
    retryStrategy: _retry,
    enableOfflineQueue: _queue,
    readOnly: _read,
    himportFieldsets: _sets,
    ...rest
  } = tamed(settings);
  return rest;
}

function readNodes(nodes: readonly ClusterNode[]): { start: { host: string; port: number }[]; tls: boolean } {
  let tls = false;
  const start = nodes.map((node) => {
    if (typeof node === 'object' && node !== null) return checkNode(node);
    if (typeof node === 'number') return checkNode({ port: node });
    const found = readUrl(String(node).includes('://') ? String(node) : `valkey://${String(node)}`);
    if (
      found.host === undefined ||
      found.db !== undefined ||
      found.username !== undefined ||
      found.password !== undefined
    ) {
      throw inputError('a cluster node is a host and a port: user and password go to cluster.options.redisOptions');
    }
    tls ||= found.tls !== undefined;
    return { host: found.host, port: found.port ?? 6379 };
  });
  return { start, tls };
}

/** The library would throw, or ask the system for anything. Each part is read once. */
function checkNode(node: { readonly host?: unknown; readonly port?: unknown }): { host: string; port: number } {
  let [host, port]: unknown[] = [];
  try {
    host = node.host ?? '127.0.0.1';
    port = node.port ?? 6379;
  } catch {
    throw inputError('a node of cluster.nodes cannot be read: its host or port throws');
  }
  // an environment variable is text
  const number = typeof port === 'string' && /^\d{1,5}$/.test(port) ? Number(port) : port;
  if (
    typeof host === 'string' &&
    host !== '' &&
    Number.isInteger(number) &&
    Number(number) >= 1 &&
    Number(number) < 65_536
  )
    return { host, port: Number(number) };
  throw inputError('a node of cluster.nodes must be { host, port }: text, and a number from 1 to 65535');
}

function merge(url: string | undefined, redis: RedisOptions): RedisOptions {
  if (url === undefined) return redis;
  const { tls, ...endpoint } = readUrl(url);
  return { ...redis, ...endpoint, ...(tls === undefined ? {} : { tls: redis.tls ?? tls }) };
}

function source(
  where: string,
  create: () => Redis | Cluster,
  secrets: readonly string[],
  endpoint?: Endpoint,
): ClientSource {
  const redact = (text: string) => secrets.reduce((left, secret) => left.replaceAll(secret, '***'), text);
  return { where, endpoint, create, redact };
}

function secretsOf(options: { password?: unknown; sentinelPassword?: unknown } | null | undefined): string[] {
  // A password of a few letters would take ordinary words to pieces, and is no secret.
  return [options?.password, options?.sentinelPassword].filter(
    (s): s is string => typeof s === 'string' && s.length > 3,
  );
}

function endpointOf({ host = 'localhost', port = 6379, path, sentinels, tls }: RedisOptions): Endpoint | undefined {
  return path === undefined && sentinels === undefined ? { host, port, tls } : undefined;
}

/** Where these options lead, for errors, and to tell one node from another. */
export function address(options: RedisOptions): string {
  if (options.sentinels) return `${options.name ?? 'the primary'} behind sentinels`;
  return options.path ?? `${options.host ?? 'localhost'}:${options.port ?? 6379}`;
}
