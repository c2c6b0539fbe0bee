/**
 * What the doctor finds in all queues of a node, or of all primaries of its cluster, when none was named.
 *
 * Invariants: calls that write nothing, a bounded number of them: it searches the first million keys or so of each node, and
 * looks into a hundred queues at most, and says so. Does not: look for the nodes of a cluster (cluster.ts).
 */
import { isQueue, keyed, registered } from '../../queue/registry.js';
import { Keyspace, REGISTRY_KEY } from '../../wire/keyspace.js';
import type { Ask } from '../../wire/fence.js';
import type { PlainNode } from '../node.js';
import { quoted } from '../terminal.js';
import { isRefusal } from './facts.js';
import { ok, warn, type Finding } from './findings.js';
import { checkQueue } from './queue.js';

const MOST_QUEUES = 100;
/** Steps of the search on one node, of about 1000 keys each. */
const MOST_STEPS = 1_000;
/** So many queues at a time. */
const AT_ONCE = 10;
/** So many names in one finding. */
const MOST_NAMES = 10;

/**
 * Looks into them. @param nodes one server, or the primaries of a cluster. @param signal ends it; then it rejects.
 * @throws EmqError when a connection is lost.
 */
export async function checkQueues(nodes: readonly PlainNode[], signal: AbortSignal): Promise<Finding[]> {
  const { places, bare, wanting } = await find(nodes, signal);
  const all = [...places].sort(([a], [b]) => (a < b ? -1 : 1));
  const seen = all.slice(0, MOST_QUEUES);
  const findings = wanting.length > 0 ? [...wanting] : [ok('queues', told(all.length))];
  for (let i = 0; i < seen.length; i += AT_ONCE) {
    signal.throwIfAborted();
    const some = seen.slice(i, i + AT_ONCE).map(([name, node]) => checkQueue(node, new Keyspace(name), signal));
    findings.push(...(await Promise.all(some)).flat());
  }
  return bare.length > 0 ? [...findings, ok('names', toldBare(bare))] : findings;
}

function told(count: number): string {
  if (count === 0) return 'no queue is here yet';
  const many = count === 1 ? '1 queue is here, and' : `${count} queues are here, and`;
  if (count <= MOST_QUEUES) return `${many} ${count === 1 ? 'it' : 'each'} was looked into`;
  return `${many} the first ${MOST_QUEUES} of them were looked into: --queue NAME looks into one`;
}

function toldBare(names: readonly string[]): string {
  const some = names.slice(0, MOST_NAMES).join(', ');
  const list = names.length > MOST_NAMES ? `${some} and ${names.length - MOST_NAMES} more` : some;
  const what = names.length === 1 ? 'a queue is named and has' : `${names.length} queues are named and have`;
  return `${what} no key, perhaps of old (ZREM ${REGISTRY_KEY} takes a name away): ${list}`;
}

interface Found {
  /** Where each queue is. In a cluster nobody knows that of one without keys. */
  readonly places: ReadonlyMap<string, PlainNode>;
  /** Queues that are in the registry and have no key, sorted. */
  readonly bare: readonly string[];
  /** What is to be said where these are perhaps not all. */
  readonly wanting: readonly Finding[];
}

async function find(nodes: readonly PlainNode[], signal: AbortSignal): Promise<Found> {
  const places = new Map<string, PlainNode>();
  const named = new Set<string>();
  const wanting: Finding[] = [];
  for (const node of nodes) {
    let steps = 0;
    const ask: Ask = async (command, args) => {
      signal.throwIfAborted();
      if (command !== 'SCAN') return node.ask(command, ...args);
      steps += 1;
      return steps > MOST_STEPS ? [Buffer.from('0'), []] : node.ask(command, ...args);
    };
    try {
      for (const name of await registered(ask, true)) if (isQueue(name)) named.add(name);
      for await (const name of keyed(ask)) if (isQueue(name)) places.set(name, node);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const text = `perhaps not all queues were found${at(node, nodes)}: ${quoted(error.reason)}`;
      wanting.push(warn('queues', text, 'grant +scan, or --queue NAME looks into one'));
    }
    if (steps <= MOST_STEPS) continue;
    const text = `perhaps not all queues were found${at(node, nodes)}: there are more than about ${MOST_STEPS} thousand keys, the others were not looked at`;
    wanting.push(warn('queues', text, '--queue NAME looks into one, emq queues lists all'));
  }
  const bare = wanting.length > 0 ? [] : [...named].filter((name) => !places.has(name)).sort();
  const [only, ...others] = nodes;
  if (only !== undefined && others.length === 0) for (const name of named) places.set(name, only);
  return { places, bare, wanting };
}

function at(node: PlainNode, nodes: readonly PlainNode[]): string {
  return nodes.length > 1 ? ` on ${node.where}` : '';
}
