/**
 * What stands at the heads of a queue's sets, which tells what is stuck: jobs that are due, leases that have lapsed, and how
 * long the next job has waited.
 *
 * Invariants: reads only; a number of calls that grows with the logarithm of what is there. Does not: look at each lane: of
 * many it sees the first.
 */
import { isBranded, parseId } from '../../ids/brand.js';
import type { Runs } from '../../queue/child.js';
import { groupsIn, WITH_JOBS } from '../../queue/lane-walk.js';
import { checkGroup } from '../../wire/keyspace.js';
import { transitions, type PlaceName } from '../../wire/transitions.js';
import { serverNow } from './history.js';

export interface Heads {
  /** Scheduled jobs whose time has come. */
  readonly due: number;
  /** Claimed jobs whose lease has run out. */
  readonly lapsed: number;
  /** How long ago the oldest was made of those that are served next, flat and in each lane, ms; null: none waits. */
  readonly oldestMs: number | null;
}

/** So many lanes are looked at. */
const LANES = 100;

export async function readHeads(runs: Runs, counts: { active: number; scheduled: number }): Promise<Heads> {
  const now = await serverNow(runs);
  const [due, lapsed, born] = await Promise.all([
    countUntil(runs, { state: 'scheduled', total: counts.scheduled, until: now }),
    countUntil(runs, { state: 'active', total: counts.active, until: now }),
    nextBorn(runs),
  ]);
  return { due, lapsed, oldestMs: born.length === 0 ? null : Math.max(0, now - Math.min(...born)) };
}

/** How many of a set's scores are not above `until`: they stand in order, so the number is found by halves. */
export async function countUntil(
  runs: Runs,
  { state, total, until }: { state: PlaceName; total: number; until: number },
): Promise<number> {
  let [known, most] = [0, total];
  // the first tells most often that there is none
  for (let at = 0; known < most; at = Math.floor((known + most) / 2)) {
    const page = { state, order: 'asc', offset: at, limit: 1, scores: true } as const;
    const [, score] = await runs.run(transitions.browse, page);
    if (score !== undefined && Number(score) <= until) known = at + 1;
    else most = at;
  }
  return known;
}

/** When the jobs were made that are served next, Unix ms; ids of another kind have no age. */
async function nextBorn(runs: Runs): Promise<number[]> {
  const head = { state: 'pending', offset: 0, limit: 1, order: 'asc' } as const;
  const lanes: string[] = [];
  for await (const groups of groupsIn(runs, WITH_JOBS)) {
    lanes.push(...groups.filter(isGroup));
    if (lanes.length >= LANES) break;
  }
  const ids = await Promise.all([
    runs.run(transitions.browse, head),
    ...lanes.slice(0, LANES).map(async (lane) => runs.run(transitions.browse, { ...head, lane })),
  ]);
  return ids.flat().flatMap((id) => (isBranded(id) ? [parseId(id).unixMs] : []));
}

/** A queue may hold groups of any name. */
function isGroup(group: string): boolean {
  try {
    checkGroup(group);
    return true;
  } catch {
    return false;
  }
}
