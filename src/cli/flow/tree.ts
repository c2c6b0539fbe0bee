/**
 * A flow as a tree, read from its root downwards.
 *
 * Invariants: reads only; a tree has an end whatever the links say, and a size: so many children of a kind are shown of a
 * parent, and so many jobs in all, the upper levels first; the rest is counted. Large flows are not one moment.
 * Does not: draw (draw.ts).
 */
import { isBranded } from '../../ids/brand.js';
import { EmqError } from '../../wire/errors.js';
import { Keyspace } from '../../wire/keyspace.js';
import { isRefusal } from '../doctor/facts.js';
import type { PlainNode } from '../node.js';
import { word } from '../terminal.js';
import { readBooks, unlisted, type Books, type Ended, type Listed } from './books.js';
import { readJob, type Counts, type Link, type Row } from './job.js';

/** What a look at a job's row gave: the row, or that there is none, or why it was not read. */
export type Seen = { readonly row: Row } | 'gone' | { readonly unread: string };

/** A job in the tree. */
export interface Shown {
  readonly id: string;
  readonly queue: string;
  /** Its parent has heard that it has landed; true for the root. */
  readonly landed: boolean;
  seen: Seen;
  /** Its children; null for a job that is no parent. */
  family: Family | null;
}

/** How a child stands in its parent's books. */
export type Kind = 'open' | 'failed' | 'ignored' | 'done';
export const KINDS: readonly Kind[] = ['open', 'failed', 'ignored', 'done'];

export interface Family {
  readonly counts: Counts;
  /** All that the parent knows of. */
  readonly total: number;
  readonly open: readonly Shown[];
  readonly failed: readonly Ended[];
  readonly ignored: readonly Ended[];
  readonly done: readonly string[];
  /** How many of each kind are not among them. */
  readonly more: Readonly<Record<Kind, number>>;
}

/** So many times as many jobs in all as children of a kind of one parent. */
const JOBS = 20;
/** The API allows 8; other clients may do what they like. */
const DEEPEST = 16;
/** So many parents are looked at at once. */
const AT_ONCE = 50;
/** So often a small parent is read again when a child ended meanwhile. */
const TRIES = 3;

/**
 * Reads the flow below a job.
 * @param most how many children of a kind are shown of a parent
 * @returns null when the job has no row. @throws EmqError for the root; what is refused of another job is told in its place.
 */
export async function readTree(node: PlainNode, queue: string, id: string, most: number): Promise<Shown | null> {
  const row = await readJob(node, queue, id);
  if (row === null) return null;
  const root: Shown = { id, queue, landed: true, seen: { row }, family: null };
  const met = new Set([`${queue} ${id}`]);
  let left = most * JOBS;
  let level = [root];
  for (let depth = 1; level.length > 0; depth++) {
    const parents = level.filter(isParent);
    // shared out, so that what is shown does not hang on which answer comes first
    const share = depth > DEEPEST ? 0 : Math.min(most, Math.floor(left / Math.max(1, parents.length)));
    for (let i = 0; i < parents.length; i += AT_ONCE) {
      await Promise.all(parents.slice(i, i + AT_ONCE).map((parent) => addFamily(node, parent, share)));
    }
    level = parents
      .flatMap((parent) => (parent.family?.open ?? []).filter((job) => !isStranger(job, parent)))
      .filter((job) => isNew(met, job));
    left -= level.length;
  }
  return root;
}

/** Where a climb from a child ends, and why it did not go further where there was more. */
export interface Top {
  readonly queue: string;
  readonly id: string;
  readonly stopped: string | null;
}

/** Climbs to the root of a job's flow. @returns null when the job has no row. @throws EmqError */
export async function climb(node: PlainNode, queue: string, id: string): Promise<Top | null> {
  let row = await readJob(node, queue, id);
  if (row === null) return null;
  let at = { queue, id };
  for (let height = 1; row.parent !== null; height++) {
    const { parent }: Row = row;
    const stop = (why: string): Top => ({ ...at, stopped: `its parent ${nameOf(parent)} ${why}` });
    if (height > DEEPEST) return stop('is not looked at: the links go on too far');
    let above: Row | null;
    try {
      above = await readJob(node, parent.queue, parent.id);
    } catch (error) {
      return stop(`cannot be read: ${refusal(error)}`);
    }
    if (above === null) return stop('is gone');
    at = { queue: parent.queue, id: parent.id };
    row = above;
  }
  return { ...at, stopped: null };
}

/** A parent in words. */
export function nameOf({ id, queue }: Pick<Link, 'id' | 'queue'>): string {
  return `${word(id, 60)} in queue ${word(queue, 128)}`;
}

/** The row of a job, if it was read. */
export function rowOf({ seen }: Shown): Row | null {
  return typeof seen === 'object' && 'row' in seen ? seen.row : null;
}

/** True for a child whose row is that of another job, which has taken its id. */
export function isStranger(job: Shown, parent: Pick<Shown, 'id' | 'queue'>): boolean {
  const row = rowOf(job);
  return row !== null && !(row.parent?.id === parent.id && row.parent.queue === parent.queue);
}

function isParent(job: Shown): boolean {
  return (rowOf(job)?.counts ?? null) !== null;
}

/** A job that is met a second time, since its links make a ring, is not looked into again. */
function isNew(met: Set<string>, { queue, id }: Shown): boolean {
  const before = met.size;
  return met.add(`${queue} ${id}`).size > before;
}

async function addFamily(node: PlainNode, parent: Shown, most: number): Promise<void> {
  try {
    parent.family = await readFamily(node, parent, most);
  } catch (error) {
    parent.seen = { unread: refusal(error) };
  }
}

async function readFamily(node: PlainNode, parent: Shown, most: number): Promise<Family | null> {
  const keys = new Keyspace(parent.queue);
  for (let tries = 1; ; tries++) {
    const books = await readBooks(node, keys, parent.id, most);
    const jobs = await Promise.all(books.open.map((child) => readChild(node, child)));
    const gone = jobs.filter(({ seen, landed }) => seen === 'gone' && landed).map(({ id }) => id);
    const ended = new Set(await unlisted(node, keys.job(parent.id), gone));
    if (ended.size > 0 && books.whole && tries < TRIES) continue;
    return familyOf(
      books,
      jobs.filter(({ id }) => !ended.has(id)),
    );
  }
}

async function readChild(node: PlainNode, { id, queue, landed }: Listed): Promise<Shown> {
  const shown = { id, queue, landed, family: null };
  if (!isBranded(id)) return { ...shown, seen: { unread: 'its id is none' } };
  try {
    const row = await readJob(node, queue, id);
    return { ...shown, seen: row === null ? 'gone' : { row } };
  } catch (error) {
    return { ...shown, seen: { unread: refusal(error) } };
  }
}

function familyOf({ counts, lost, failed, ignored, done }: Books, open: readonly Shown[]): Family | null {
  if (counts === null) return null;
  return {
    counts,
    total: counts.open + counts.done + counts.ignored + lost,
    open,
    failed,
    ignored,
    done,
    more: {
      open: Math.max(0, counts.open - open.length),
      failed: lost - failed.length,
      ignored: Math.max(0, counts.ignored - ignored.length),
      done: Math.max(0, counts.done - done.length),
    },
  };
}

/** Why a job could not be read. @throws what is no answer of the server about this job. */
function refusal(error: unknown): string {
  if (!(error instanceof EmqError)) throw error;
  const moved = /^MOVED \d+ (\S+)/.exec(error.reason)?.[1];
  if (moved !== undefined) return `its queue is on node ${moved} of the cluster: ask that one`;
  const answered: boolean = error.code === 'EMQ_INPUT' || isRefusal(error);
  if (!answered) throw error;
  return error.reason;
}
