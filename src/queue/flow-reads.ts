/**
 * What a flow parent's children have left with it.
 *
 * Invariants: nothing here writes; large flows are read a page at a time, so that no call holds the server up; a child is
 * told of once. What is read in several pages is not one moment.
 * Does not: know how a flow is added.
 */
import { transitions } from '../wire/transitions.js';
import type { FlowBook } from '../wire/flow-transitions.js';
import type { Runs } from './child.js';
import { decodeResult } from './results.js';

/** What a handler finds of its job's children; empty maps where the job has none. Keys are child ids, in their order. */
export interface Children {
  /** What those that completed gave; undefined for one that gave nothing. */
  readonly values: Map<string, unknown>;
  /** Why children died that were to be ignored, or that let the parent go on. */
  readonly ignored: Map<string, string>;
  /** Why children died that fail their parent: of a parent that was brought back. */
  readonly failures: Map<string, string>;
}

/** So many children a page, about. */
export const PAGE = 500;

/** Every child of a book, each once, in no order. */
export async function* entries(runs: Runs, id: string, book: FlowBook): AsyncGenerator<readonly [string, Buffer]> {
  const seen = new Set<string>();
  let cursor = '0';
  do {
    const page = await runs.run(transitions.flowChildren, { id, book, cursor, count: PAGE });
    const whole = cursor === '0' && page.next === '0';
    for (const entry of page.entries) {
      // a scan may come upon an entry twice, a page by itself does not
      if (!whole && seen.size === seen.add(entry[0]).size) continue;
      yield entry;
    }
    cursor = page.next;
  } while (cursor !== '0');
}

export async function childrenValues(runs: Runs, id: string): Promise<Map<string, unknown>> {
  return gather(runs, id, 'processed', decodeResult);
}

export async function errorsOf(runs: Runs, id: string, book: 'unsuccessful' | 'failed'): Promise<Map<string, string>> {
  return gather(runs, id, book, (_child, bytes) => bytes.toString('utf8'));
}

export async function children(runs: Runs, id: string): Promise<Children> {
  const [values, ignored, failures] = await Promise.all([
    childrenValues(runs, id),
    errorsOf(runs, id, 'unsuccessful'),
    errorsOf(runs, id, 'failed'),
  ]);
  return { values, ignored, failures };
}

async function gather<R>(
  runs: Runs,
  id: string,
  book: FlowBook,
  read: (child: string, bytes: Buffer) => R,
): Promise<Map<string, R>> {
  const found: (readonly [string, R])[] = [];
  for await (const [child, bytes] of entries(runs, id, book)) found.push([child, read(child, bytes)]);
  return new Map(found.sort(([a], [b]) => (a < b ? -1 : 1)));
}
