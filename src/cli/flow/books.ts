/**
 * A flow parent's children, out of the hashes in which it keeps them: the first few of each kind.
 *
 * Invariants: a large hash is read a page at a time, and of its values only those that are shown, so that no call holds
 * the server up; the first few are the smallest ids, whatever order the server gives. No result of a child is read.
 * Does not: read the children's rows (tree.ts).
 */
import type { Reply } from '../../wire/call.js';
import { EmqError } from '../../wire/errors.js';
import type { Keyspace } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';
import { bytes, list, readCounts, text, type Counts } from './job.js';

/** A child that its parent waits for, as that lists it. */
export interface Listed {
  readonly id: string;
  readonly queue: string;
  /** Its parent has heard that it has landed. */
  readonly landed: boolean;
}

/** A child that its parent does not wait for, and why it died. */
export interface Ended {
  readonly id: string;
  readonly error: Buffer;
}

export interface Books {
  /** Null when it is no parent any more. */
  readonly counts: Counts | null;
  /** Failed children whose rows are gone, which are counted nowhere else. */
  readonly lost: number;
  readonly open: readonly Listed[];
  readonly failed: readonly Ended[];
  readonly ignored: readonly Ended[];
  readonly done: readonly string[];
  /** All came at once, so that they fit together. */
  readonly whole: boolean;
}

/** So many children a page, about. Small hashes come whole. */
const PAGE = 1_000;

/** @param most how many of each kind @throws EmqError the server's. */
export async function readBooks(node: PlainNode, keys: Keyspace, id: string, most: number): Promise<Books> {
  const row = keys.job(id);
  const lost = new Set<string>();
  // all that is asked first leaves in one write, and is of one moment, or nearly
  const [counts, open, done, ignored, failed] = await Promise.all([
    readCounts(node, keys, id),
    smallest(node, `${row}:children`, true, most),
    smallest(node, `${row}:processed`, false, most),
    smallest(node, `${row}:unsuccessful`, false, most),
    smallest(node, `${row}:failed`, false, most, async (ids) => {
      // one that may still be brought back is open, and told of there
      const gone = await unlisted(node, row, ids);
      for (const one of gone) lost.add(one);
      return gone;
    }),
  ]);
  return {
    counts,
    lost: lost.size,
    open: open.found.map(([child, value]) => {
      const landed = !value.startsWith('+');
      return { id: child, queue: (landed ? value : value.slice(1)) || keys.queue, landed };
    }),
    done: done.found.map(([child]) => child),
    ignored: await errors(node, `${row}:unsuccessful`, ignored.found),
    failed: await errors(node, `${row}:failed`, failed.found),
    whole: open.whole && done.whole && ignored.whole && failed.whole,
  };
}

/** Those of some children that their parent does not list as open. */
export async function unlisted(node: PlainNode, row: string, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const values = list(await node.ask('HMGET', `${row}:children`, ...ids.map((id) => Buffer.from(id, 'latin1'))));
  return ids.filter((_, i) => bytes(values[i]) === null);
}

type Found = readonly (readonly [id: string, value: string])[];

/** The smallest ids of a hash, in their order. @param those which of a page's ids count; all by default */
async function smallest(
  node: PlainNode,
  key: string,
  values: boolean,
  most: number,
  those?: (ids: string[]) => Promise<string[]>,
): Promise<{ found: Found; whole: boolean }> {
  let kept = new Map<string, string>();
  const first = (): [string, string][] => [...kept].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, most);
  if (most === 0 && those === undefined) return { found: [], whole: true };
  let pages = 0;
  for await (const page of scan(node, key, values)) {
    pages += 1;
    const ids = those === undefined ? undefined : new Set(await those(page.map(([id]) => id)));
    // an id that comes twice is one
    for (const [id, value] of page) if (ids?.has(id) !== false) kept.set(id, value);
    if (kept.size > most + PAGE) kept = new Map(first());
  }
  return { found: first(), whole: pages <= 1 };
}

async function* scan(node: PlainNode, key: string, values: boolean): AsyncGenerator<[string, string][]> {
  let bare = !values;
  let cursor = '0';
  const next = async (): Promise<Reply[]> => {
    const words = [key, cursor, 'COUNT', String(PAGE)];
    if (!bare) return list(await node.ask('HSCAN', ...words));
    try {
      return list(await node.ask('HSCAN', ...words, 'NOVALUES'));
    } catch (error) {
      // servers before Valkey 8.0 give the values along
      if (!(error instanceof EmqError) || error.code !== 'ERR') throw error;
      bare = false;
      return next();
    }
  };
  do {
    const [after, flat] = await next();
    cursor = text(after) ?? '0';
    const parts = list(flat ?? null).map((part) => text(part) ?? '');
    const step = bare ? 1 : 2;
    yield parts.flatMap((id, i): [string, string][] =>
      i % step === 0 ? [[id, values ? (parts[i + 1] ?? '') : '']] : [],
    );
  } while (cursor !== '0');
}

async function errors(node: PlainNode, key: string, found: Found): Promise<Ended[]> {
  if (found.length === 0) return [];
  const replies = list(await node.ask('HMGET', key, ...found.map(([id]) => Buffer.from(id, 'latin1'))));
  return found.map(([id], i) => ({ id, error: bytes(replies[i]) ?? Buffer.alloc(0) }));
}
