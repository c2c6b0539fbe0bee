/**
 * One round over one queue, or over all queues of a node: what is wrong, as it is found.
 *
 * Invariants: of all queues the keys are gone over once, whatever the number of queues. Does not: mend, or go to another node.
 */
import type { Arg, Reply } from '../../wire/call.js';
import { Keyspace } from '../../wire/keyspace.js';
import { isQueue } from '../registry.js';
import { pages, Walk, type AuditSource, type Found, type Looked } from './walk.js';

/** What one round found, and how much it looked at. */
export interface Round {
  readonly findings: AsyncGenerator<Found, void, undefined>;
  /** Grows as it goes. */
  readonly looked: Readonly<Looked>;
  /** What was not looked at, and why, a line each; complete when the findings are. */
  readonly skipped: () => string[];
}

const KEY = /^emq:\{([^{}]*)\}:(.*)$/s;

/** @param queue one, or undefined for all that have keys on the node. @param signal ends it; then the findings reject. */
export function roundOf(source: AuditSource, queue: string | undefined, signal?: AbortSignal): Round {
  const looked: Looked = { keys: 0, jobs: 0, lanes: 0 };
  const walks = new Map<string, Walk>();
  const walkOf = (name: string): Walk => {
    const walk = new Walk(source, new Keyspace(name), looked, signal);
    walks.set(name, walk);
    return walk;
  };
  const ask = async (command: string, ...args: Arg[]): Promise<Reply> => {
    signal?.throwIfAborted();
    return source.ask(command, args);
  };
  async function* findings(): AsyncGenerator<Found, void, undefined> {
    if (queue !== undefined) yield* walkOf(queue).begin();
    for await (const page of pages(ask, 'SCAN', { behind: ['MATCH', `emq:{${queue ?? '*'}}:*`] })) {
      for (const [name, keys] of byQueue(page)) {
        let walk = walks.get(name);
        if (walk === undefined) {
          walk = walkOf(name);
          yield* walk.begin();
        }
        yield* walk.keys(keys);
      }
    }
    for (const walk of walks.values()) yield* walk.end();
  }
  return { findings: findings(), looked, skipped: () => [...walks.values()].flatMap((walk) => walk.skipped) };
}

/** Keys by the queue whose they are, without its base. Names that no queue can have are nobody's. */
function byQueue(keys: readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const key of keys) {
    const [, queue = '', name = ''] = KEY.exec(key) ?? [];
    if (!found.has(queue) && !isQueue(queue)) continue;
    const names = found.get(queue) ?? [];
    names.push(name);
    found.set(queue, names);
  }
  return found;
}
