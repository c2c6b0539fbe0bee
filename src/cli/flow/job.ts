/**
 * One job of a flow as it stands: its row, its link to a parent, and its counts as a parent.
 *
 * Invariants: reads only, a fixed number of commands, never the payload. What the row holds was written by others: it is
 * taken leniently, and what makes no sense counts as absent.
 * Does not: read a parent's children (family.ts).
 */
import { readOpts } from '../../queue/opts.js';
import type { Reply } from '../../wire/call.js';
import { Keyspace } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';

/** What the death of a child means for its parent, in the words of the API. */
export type Policy = 'fail' | 'ignore' | 'remove' | 'continue';

export interface Link {
  readonly id: string;
  readonly queue: string;
  readonly policy: Policy;
}

/** How many children of which kind; `open` counts those that are not listed too. */
export interface Counts {
  readonly open: number;
  readonly listed: number;
  readonly done: number;
  readonly ignored: number;
  readonly failed: number;
  /** Still to land. */
  readonly landing: number;
  /** No longer waited for, and still to be cancelled. */
  readonly toCancel: number;
}

/** A job that has a row. */
export interface Row {
  readonly state: string;
  readonly attempts: number;
  readonly name: string | null;
  readonly error: Buffer | null;
  readonly parent: Link | null;
  /** Null for a job that is no parent. */
  readonly counts: Counts | null;
}

const POLICIES: ReadonlyMap<string, Policy> = new Map([
  ['id', 'ignore'],
  ['rd', 'remove'],
  ['cp', 'continue'],
]);
const FIELDS = ['state', 'attempts', 'opts', 'last_error', 'parent', 'parent_queue', 'parent_policy', 'landing'];

/** @returns null when there is no row. @throws EmqError the server's; `EMQ_INPUT` for a queue or an id that is none. */
export async function readJob(node: PlainNode, queue: string, id: string): Promise<Row | null> {
  const keys = new Keyspace(queue);
  const row = keys.job(id);
  // in one write, so that they are of one moment, or nearly
  const [there, fields, counts] = await Promise.all([
    node.ask('EXISTS', row),
    node.ask('HMGET', row, ...FIELDS),
    readCounts(node, keys, id),
  ]);
  if (there !== 1) return null;
  const [state, attempts, opts, error, parent, parentQueue, policy] = list(fields);
  return {
    state: text(state) ?? 'unknown',
    attempts: count(attempts),
    name: readOpts(bytes(opts)).name ?? null,
    error: bytes(error),
    parent:
      text(parent) === null
        ? null
        : {
            id: text(parent) ?? '',
            queue: text(parentQueue) ?? queue,
            policy: POLICIES.get(text(policy) ?? '') ?? 'fail',
          },
    counts,
  };
}

/** @returns null for a job that is no parent. */
export async function readCounts(node: PlainNode, keys: Keyspace, id: string): Promise<Counts | null> {
  const row = keys.job(id);
  const [dependencies, landing, ...lengths] = await Promise.all([
    node.ask('GET', `${row}:dependencies`),
    node.ask('HGET', row, 'landing'),
    ...['children', 'processed', 'unsuccessful', 'failed'].map((book) => node.ask('HLEN', `${row}:${book}`)),
    node.ask('HLEN', keys.toCancel(id)),
  ]);
  const [listed = 0, done = 0, ignored = 0, failed = 0, toCancel = 0] = lengths.map(Number);
  if (dependencies === null && landing === null && lengths.every((length) => length === 0)) return null;
  const open = Math.max(count(dependencies), listed);
  return { open, listed, done, ignored, failed, landing: count(landing), toCancel };
}

export function list(reply: Reply): Reply[] {
  return Array.isArray(reply) ? reply : [];
}

export function bytes(reply: Reply | undefined): Buffer | null {
  return Buffer.isBuffer(reply) ? reply : null;
}

/** Byte for byte, so that no two ids become one. */
export function text(reply: Reply | undefined): string | null {
  return bytes(reply)?.toString('latin1') ?? null;
}

function count(reply: Reply | undefined): number {
  const value = Number(text(reply));
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
}
