/**
 * The primaries of a node's cluster, each met by a plain connection of its own, for what looks at all of them.
 *
 * Invariants: user, password and certificates are those of the node that was named; one that cannot be reached is told and
 * keeps the others from nothing; whoever opens them closes them. Does not: follow a redirect.
 */
import { EmqError } from '../../wire/errors.js';
import { openNode, type PlainNode } from '../node.js';
import type { Target } from '../target.js';
import { quoted } from '../terminal.js';
import { isRefusal } from './facts.js';
import { bad, warn, type Finding } from './findings.js';

export interface Primaries {
  /** Those that answer. The named node itself is among them, if it is one. */
  readonly nodes: readonly PlainNode[];
  /** Those that do not, a finding each. */
  readonly away: readonly Finding[];
  /** Closes those that were opened here: not the named node. */
  close(): Promise<void>;
}

/** Connects to all of them. @param signal gives up. @throws EmqError when the connection to the named node is lost. */
export async function openPrimaries(named: PlainNode, target: Target, signal: AbortSignal): Promise<Primaries> {
  const away: Finding[] = [];
  const opened: PlainNode[] = [];
  const nodes: PlainNode[] = [];
  const close = async (): Promise<void> => void (await Promise.all(opened.map((node) => node.close())));
  try {
    const self = String(await named.ask('CLUSTER', 'MYID'));
    for (const { id, host, port } of await primariesOf(named)) {
      signal.throwIfAborted();
      if (id === self) {
        nodes.push(named);
        continue;
      }
      try {
        const node = await openNode({ ...target, url: urlAt(target.url, host, port) }, signal, 'EMQ_URL');
        opened.push(node);
        nodes.push(node);
      } catch (error) {
        if (!(error instanceof EmqError) || signal.aborted) throw error;
        const text = `the primary ${host}:${port} was not looked at: ${quoted(error.reason)}`;
        away.push(bad('cluster', text, 'see to that node: its queues stand still'));
      }
    }
  } catch (error) {
    if (!isRefusal(error)) {
      await close();
      throw error;
    }
    const text = `only this node was looked at: ${quoted(error.reason)}`;
    return { nodes: [named], away: [warn('cluster', text, 'grant +cluster|slots +cluster|myid')], close };
  }
  return { nodes, away, close };
}

interface Place {
  readonly id: string;
  readonly host: string;
  readonly port: number;
}

async function primariesOf(node: PlainNode): Promise<Place[]> {
  const places = new Map<string, Place>();
  const ranges = await node.ask('CLUSTER', 'SLOTS');
  for (const range of Array.isArray(ranges) ? ranges : []) {
    const primary = Array.isArray(range) ? range[2] : undefined;
    if (!Array.isArray(primary)) continue;
    const [host, port, id] = primary;
    // a node that does not know its own address gives none: it is the one where we are
    const at = String(host ?? '') || (node.client.options.host ?? '127.0.0.1');
    places.set(String(id), { id: String(id), host: at, port: Number(port) });
  }
  return [...places.values()];
}

/** The same user, password and scheme at another address. Behind a socket the others are plain TCP. */
function urlAt(url: string, host: string, port: number): string {
  const { protocol, username, password } = new URL(url);
  const login = username === '' && password === '' ? '' : `${username}${password === '' ? '' : `:${password}`}@`;
  const scheme = protocol === 'unix:' ? 'valkey:' : protocol;
  return `${scheme}//${login}${host.includes(':') ? `[${host}]` : host}:${port}`;
}
