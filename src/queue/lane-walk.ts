/**
 * Going over the lanes of a queue, in bounded steps.
 *
 * Invariants: a group is told of once; every lane that holds a job is in one of the places of `WITH_JOBS` at any moment, so
 * one that stays is not missed. Does not: know what is done with them.
 */
import type { LanePlace } from '../wire/lane-transitions.js';
import { transitions } from '../wire/transitions.js';
import type { Runs } from './child.js';

/** So many jobs or lanes a step. */
export const STEP = 100;

/** Where lanes with jobs are found, and paused ones. */
export const WITH_JOBS: readonly LanePlace[] = ['ring', 'paused', 'gactive', 'gwait'];
/** Where lanes with settings of their own are. */
export const WITH_SETTINGS: readonly LanePlace[] = ['glimit', 'gweight', 'gmax'];

/** Groups page by page, each once. */
export async function* groupsIn(runs: Runs, places: readonly LanePlace[]): AsyncGenerator<string[], void, undefined> {
  const seen = new Set<string>();
  for (const place of places) {
    let cursor = '0';
    do {
      const page = await runs.run(transitions.lanes, { place, cursor, count: STEP });
      const fresh = page.groups.filter((group) => seen.size < seen.add(group).size);
      if (fresh.length > 0) yield fresh;
      cursor = page.next;
    } while (cursor !== '0');
  }
}

/** A list in parts of `step`. */
export function* steps<T>(list: readonly T[], step = STEP): Generator<T[], void, undefined> {
  for (let i = 0; i < list.length; i += step) yield list.slice(i, i + step);
}
