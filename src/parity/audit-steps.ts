/**
 * The drawing of audits and mends.
 *
 * Invariants: ids, groups and names are those that a bout uses, so that what is wrong there is found. Does not: send
 * anything.
 */
import type { Bytes } from './keyspace-dump.js';
import { DEDUPS, groupOf } from './lane-steps.js';
import { IDS, anyId, fieldsOf, membersOf, withSubkey, type Scene } from './scene.js';
import { call, idOf, type Make } from './step-parts.js';

const PLACES: readonly Bytes[] = ['rows', 'rows', 'pending', 'active', 'schedule', 'dead', 'flow:held'];

/** What is looked at, and of which one item. */
function subject(s: Scene): [Bytes, Bytes] | [Bytes, Bytes, Bytes] | [Bytes] {
  const what = s.rng.pick(['jobs', 'jobs', 'jobs', 'lane', 'lanes', 'counts', 'dedups', 'repeats', 'rest', 'queue']);
  const group = groupOf(s);
  switch (what) {
    case 'jobs':
      return [what, idOf(s, s.rng.pick(PLACES))];
    case 'lane':
      return [what, group, idOf(s, `g:${group}:pending`)];
    case 'lanes':
    case 'counts':
      return [what, group];
    case 'dedups':
      return [what, s.rng.pick(DEDUPS)];
    case 'repeats':
      return [what, s.rng.pick(['r', 's', 'ghost'])];
    case 'queue':
      return [what];
    default: {
      if (s.rng.chance(50)) return ['cancels', anyId(s)];
      const parents = withSubkey(s, ':children');
      const parent = parents.length > 0 ? s.rng.pick(parents) : anyId(s);
      const children = fieldsOf(s, `job:${parent}:children`).map(([child]) => child);
      return ['children', parent, children.length > 0 ? s.rng.pick(children) : anyId(s)];
    }
  }
}

/** In a clean battery all jobs that there may be are looked at: nothing is ever wrong with them. */
const audit: Make = (s) => {
  if (s.rng.chance(40)) return call('audit', [s.base], ['jobs', ...IDS]);
  const group = groupOf(s);
  if (s.rng.chance(20))
    return call(
      'audit',
      [s.base],
      ['lane', ...[...membersOf(s, `g:${group}:pending`), anyId(s)].flatMap((id) => [group, id])],
    );
  return call('audit', [s.base], spoilt(s, subject(s)));
};

const mend: Make = (s) => call('mend', [s.base], spoilt(s, subject(s)));

function spoilt(s: Scene, words: Bytes[]): Bytes[] {
  if (s.mode === 'clean' || !s.rng.chance(4)) return words;
  return s.rng.pick([['job', 'x'], [], words.slice(0, 1), [...words, 'x']]);
}

/** How often each is drawn, and how its call is made. */
export const AUDIT_MAKES: Readonly<Record<string, readonly [number, Make]>> = {
  audit: [4, audit],
  mend: [6, mend],
};

/** The same for a battery about audits: as often as all the others together. */
export const AUDITS_ABOVE_ALL: typeof AUDIT_MAKES = { audit: [8, audit], mend: [16, mend] };

/** What else a battery about audits needs: jobs in all places, lanes, flows, and what moves them. */
export const BESIDE_AUDITS: Readonly<Record<string, number>> = {
  enqueue: 2,
  schedule: 1,
  admit: 2,
  take: 2,
  complete: 1,
  fail: 1,
  stalled_check: 1,
  enqueue_flow: 1,
  flow_hold: 1,
  flow_list: 1,
  flow_land: 1,
  repeat_put: 1,
  lane_pause: 1,
};
