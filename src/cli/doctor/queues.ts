/**
 * What the doctor finds in all queues of a node, when none was named.
 *
 * Invariants: calls that write nothing, a bounded number of them: it searches the first million keys or so, and looks into
 * a hundred queues at most, and says so. Does not: go over the nodes of a cluster.
 */
import { isQueue, keyed, registered } from '../../queue/registry.js';
import { Keyspace } from '../../wire/keyspace.js';
import type { Ask } from '../../wire/fence.js';
import type { PlainNode } from '../node.js';
import { quoted } from '../terminal.js';
import { isRefusal } from './facts.js';
import { ok, warn, type Finding } from './findings.js';
import { checkQueue } from './queue.js';

const MOST_QUEUES = 100;
/** Steps of the search, of about 1000 keys each. */
const MOST_STEPS = 1_000;
/** So many queues at a time. */
const AT_ONCE = 10;

/** Looks into them. @param signal ends it; then it rejects. @throws EmqError when the connection is lost. */
export async function checkQueues(node: PlainNode, signal: AbortSignal): Promise<Finding[]> {
  const { names, all } = await find(node, signal);
  const seen = names.slice(0, MOST_QUEUES);
  const findings = [all ?? ok('queues', told(names.length))];
  for (let i = 0; i < seen.length; i += AT_ONCE) {
    signal.throwIfAborted();
    const some = seen.slice(i, i + AT_ONCE).map(async (name) => checkQueue(node, new Keyspace(name), signal));
    findings.push(...(await Promise.all(some)).flat());
  }
  return findings;
}

function told(count: number): string {
  if (count === 0) return 'no queue is here yet';
  const many = count === 1 ? '1 queue is here, and' : `${count} queues are here, and`;
  if (count <= MOST_QUEUES) return `${many} ${count === 1 ? 'it' : 'each'} was looked into`;
  return `${many} the first ${MOST_QUEUES} of them were looked into: --queue NAME looks into one`;
}

/** The names, sorted; `all` is what is to be said where these are perhaps not all. */
async function find(node: PlainNode, signal: AbortSignal): Promise<{ names: string[]; all?: Finding }> {
  const names = new Set<string>();
  const sorted = (): string[] => [...names].filter(isQueue).sort();
  let steps = 0;
  const ask: Ask = async (command, args) => {
    signal.throwIfAborted();
    if (command !== 'SCAN') return node.ask(command, ...args);
    steps += 1;
    return steps > MOST_STEPS ? [Buffer.from('0'), []] : node.ask(command, ...args);
  };
  try {
    for (const name of await registered(ask, true)) names.add(name);
    for await (const name of keyed(ask)) names.add(name);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const text = `perhaps not all queues were found: ${quoted(error.reason)}`;
    return { names: sorted(), all: warn('queues', text, 'grant +scan, or --queue NAME looks into one') };
  }
  if (steps <= MOST_STEPS) return { names: sorted() };
  const text = `perhaps not all queues were found: there are more than about ${MOST_STEPS} thousand keys, the others were not looked at`;
  return { names: sorted(), all: warn('queues', text, '--queue NAME looks into one, emq queues lists all') };
}
