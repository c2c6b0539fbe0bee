/**
 * Bringing back many of the dead, by what killed them.
 *
 * The dead are paged from the one that died first. What matches is brought back page by page and so leaves the set; what does
 * not match stays, and the next page begins behind it. The last that stayed is read once more with each page: is it no longer
 * where it was, then others have taken out jobs before it, and the pass begins again, so that none is passed over.
 * Invariants: only jobs that were dead when the pass began, so that one that dies again at once is not met twice; each is
 * judged by its row as it is then.
 * Does not: bring back children of flows that their parents no longer wait for, or judge payloads.
 */
import { inputError, show } from '../wire/errors.js';
import { checkGroup, type Keyspace } from '../wire/keyspace.js';
import { transitions } from '../wire/transitions.js';
import type { AdminReads } from './admin-reads.js';
import { callOf, type Wire } from './job-controls.js';
import type { JobRow } from './job.js';
import { known, notNegative, positive } from './input.js';
import { STEP } from './lane-walk.js';
import { readOpts } from './opts.js';

/** Which of the dead; all that is given must hold. */
export interface DeadFilter {
  /** A part of the last error, or an expression that it matches. */
  error?: string | RegExp;
  /** The job's name. */
  name?: string;
  /** Its lane. */
  group?: string;
  /** It died at least, or at most, so many ms ago, by the server's clock. */
  olderThanMs?: number;
  newerThanMs?: number;
}

export interface Reprocessed {
  /** Jobs that wait again. */
  readonly reprocessed: number;
  /** Jobs that fit and stay dead, since another job has their dedup id: free it (`Jobs.freeDedup`) to bring them back too. */
  readonly held: number;
  /** Dead jobs that were looked at. */
  readonly looked: number;
}

/** @internal */
export type Judge = (row: JobRow, diedAt: number, now: number) => boolean;

/** @throws EmqError `EMQ_INPUT`; else what a call met, with all that was done before it done. */
export async function reprocessAll(
  { wire, keys, reads, now }: { wire: Wire; keys: Keyspace; reads: AdminReads; now: () => Promise<number> },
  options: { filter?: DeadFilter; limit?: number },
): Promise<Reprocessed> {
  const { filter = {}, limit } = known('reprocessAll', options, ['filter', 'limit']);
  const fits = judgeOf(filter);
  const most = limit === undefined ? Infinity : positive('limit', limit);
  const start = await now();
  const seen = new Set<string>();
  let [reprocessed, held] = [0, 0];
  let anchor: string | undefined;
  for (let offset = 0; ;) {
    const from = anchor === undefined ? offset : offset - 1;
    const page = await reads.rows({ state: 'dead', offset: from, limit: STEP + 1, order: 'asc' });
    if (anchor !== undefined && page.shift()?.id !== anchor) {
      [offset, anchor] = [0, undefined];
      continue;
    }
    const old = page.filter(({ score }) => score <= start);
    for (const { id } of old) seen.add(id);
    const matches = old
      .filter(({ row, score }) => row !== null && fits(row, score, start))
      .slice(0, most - reprocessed);
    const outcomes = await wire.runAll(matches.map(({ id }) => callOf(keys, transitions.reprocess, { id })));
    const back = new Set<string>();
    for (const [i, outcome] of outcomes.entries()) {
      const id = matches[i]?.id ?? '';
      if (outcome.ok) {
        back.add(id);
        if (transitions.reprocess.read(outcome.reply) !== 'gone') reprocessed += 1;
      } else if (outcome.error.code !== 'EMQSTATE') throw outcome.error;
      else if (outcome.error.message.includes('dedup id taken')) held += 1;
      // somebody else has brought it back
      else back.add(id);
    }
    if (reprocessed >= most || old.length < page.length || page.length === 0) {
      return { reprocessed, held, looked: seen.size };
    }
    const stay = old.filter(({ id }) => !back.has(id));
    offset += stay.length;
    anchor = stay.at(-1)?.id ?? anchor;
  }
}

/** What a filter lets pass. @throws EmqError `EMQ_INPUT`. @internal */
export function judgeOf(filter: DeadFilter): Judge {
  const names = ['error', 'name', 'group', 'olderThanMs', 'newerThanMs'] as const;
  const { error, name, group, olderThanMs, newerThanMs } = known('a filter of the dead', filter, names);
  if (error !== undefined && typeof error !== 'string' && !(error instanceof RegExp)) {
    throw inputError(`error of a filter must be a text or a RegExp, got ${show(error)}`);
  }
  if (name !== undefined && typeof name !== 'string') {
    throw inputError(`name of a filter must be a text, got ${show(name)}`);
  }
  if (group !== undefined) checkGroup(group);
  const [older, newer] = [
    olderThanMs === undefined ? 0 : notNegative('olderThanMs', olderThanMs),
    newerThanMs === undefined ? Infinity : notNegative('newerThanMs', newerThanMs),
  ];
  // an expression that remembers where it was would pass over every second one
  const pattern = error instanceof RegExp ? new RegExp(error.source, error.flags.replace(/[gy]/g, '')) : undefined;
  return (row, diedAt, now) => {
    const last = row.lastError?.toString() ?? '';
    const age = now - diedAt;
    return (
      (pattern === undefined || pattern.test(last)) &&
      (typeof error !== 'string' || last.includes(error)) &&
      (name === undefined || readOpts(row.fields.get('opts') ?? null).name === name) &&
      (group === undefined || row.group === group) &&
      age >= older &&
      age <= newer
    );
  };
}
