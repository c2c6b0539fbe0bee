/**
 * What the doctor knows of a node: everything that is read, read once.
 *
 * Invariants: only commands that write nothing are sent; what a user may not read is undefined, and no error. A lost
 * connection is an error, and so is a node that wants a password first: nothing can be read there.
 * Does not: judge (checks.ts, fence-checks.ts), or read a queue (queue.ts).
 */
import type { Reply } from '../../wire/call.js';
import { EmqError } from '../../wire/errors.js';
import { NATIVE_COMMANDS } from '../../wire/fence.js';
import { Keyspace, NODE_VERSION_KEY } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';

/** A value, or why it could not be read. */
export type Read<T> = { readonly value: T } | { readonly refused: EmqError };

export interface Facts {
  /** The fields of INFO, module sections included. */
  readonly info: Read<ReadonlyMap<string, string>>;
  /** The ACL user of the connection. */
  readonly user: Read<string>;
  /** Which of the native commands the server does not know. */
  readonly missingCommands: Read<readonly string[]>;
  /**
   * The key whose brand counts, and the brand; null when it is absent. In a cluster without a queue there is no such
   * key.
   */
  readonly brandKey: string | undefined;
  readonly brand: Read<string | null> | undefined;
  readonly cluster: boolean;
  /** `ok` or what else the node thinks of its cluster. */
  readonly clusterState: string | undefined;
  /** Settings that INFO does not tell; undefined where CONFIG GET is refused. */
  readonly appendfsync: string | undefined;
  readonly save: string | undefined;
  /** How far the server's clock is ahead of this machine's, ms, give or take half a round trip. */
  readonly skewMs: Read<number>;
  /** The median of a few round trips, ms. */
  readonly roundTripMs: number | undefined;
}

const PINGS = 5;

/** Reads all of it. @throws EmqError when the connection is lost. */
export async function readFacts(node: PlainNode, queue: string | undefined): Promise<Facts> {
  const info = await attempt(node, ['INFO', 'everything'], (reply) => fieldsOf(String(reply)));
  const cluster = 'value' in info && info.value.get('cluster_enabled') === '1';
  const brandKey = !cluster ? NODE_VERSION_KEY : queue === undefined ? undefined : new Keyspace(queue).version;
  return {
    info,
    user: await attempt(node, ['ACL', 'WHOAMI'], String),
    missingCommands: await attempt(node, ['COMMAND', 'INFO', ...NATIVE_COMMANDS], (reply) =>
      NATIVE_COMMANDS.filter((_, i) => !Array.isArray(Array.isArray(reply) ? reply[i] : undefined)),
    ),
    brandKey,
    brand:
      brandKey === undefined
        ? undefined
        : await attempt(node, ['GET', brandKey], (reply) => (reply === null ? null : String(reply))),
    cluster,
    clusterState: cluster ? await clusterState(node) : undefined,
    appendfsync: await setting(node, 'appendfsync'),
    save: await setting(node, 'save'),
    ...(await readClock(node)),
  };
}

/** Runs a command and reads its reply; the server's own refusal is a value. @throws EmqError no answer, or `NOAUTH`. */
export async function attempt<T>(
  node: PlainNode,
  [command, ...args]: readonly [string, ...string[]],
  read: (reply: Reply) => T,
): Promise<Read<T>> {
  try {
    return { value: read(await node.ask(command, ...args)) };
  } catch (error) {
    if (isRefusal(error)) return { refused: error };
    throw error;
  }
}

/** True for the server's own answer. A client-side code means that there was none; without a login all is refused. */
export function isRefusal(error: unknown): error is EmqError {
  return error instanceof EmqError && !error.code.startsWith('EMQ_') && error.code !== 'NOAUTH';
}

async function setting(node: PlainNode, name: string): Promise<string | undefined> {
  const read = await attempt(node, ['CONFIG', 'GET', name], (reply) => (Array.isArray(reply) ? reply[1] : undefined));
  return 'value' in read && read.value !== undefined ? String(read.value) : undefined;
}

async function clusterState(node: PlainNode): Promise<string | undefined> {
  const read = await attempt(node, ['CLUSTER', 'INFO'], (reply) => /^cluster_state:(\w+)/m.exec(String(reply))?.[1]);
  return 'value' in read ? read.value : undefined;
}

async function readClock(node: PlainNode): Promise<Pick<Facts, 'skewMs' | 'roundTripMs'>> {
  const trips: number[] = [];
  for (let i = 0; i < PINGS; i++) {
    const begun = performance.now();
    if ('value' in (await attempt(node, ['PING'], () => null))) trips.push(performance.now() - begun);
  }
  const begun = Date.now();
  const skewMs = await attempt(node, ['TIME'], (reply) => {
    const middle = (begun + Date.now()) / 2;
    const [seconds, micros] = Array.isArray(reply) ? reply : [];
    return Number(String(seconds)) * 1000 + Number(String(micros)) / 1000 - middle;
  });
  return { skewMs, roundTripMs: trips.sort((a, b) => a - b)[Math.floor(trips.length / 2)] };
}

function fieldsOf(info: string): Map<string, string> {
  const lines = info.split(/\r?\n/).flatMap((line): [string, string][] => {
    const at = line.indexOf(':');
    return line.startsWith('#') || at < 1 ? [] : [[line.slice(0, at), line.slice(at + 1)]];
  });
  // modules come one a line under one name: the first of a name must not be lost to the last
  const fields = new Map<string, string>();
  for (const [name, value] of lines) {
    fields.set(name, name === 'module' && fields.has(name) ? `${fields.get(name)}\n${value}` : value);
  }
  return fields;
}
