/**
 * The drawing of the transitions of lanes, limits and dedup ids.
 *
 * Invariants: a rate is drawn with its window, and so slow that no token comes while a battery runs; in a clean battery
 * nothing changes the ceiling of all lanes, which leaves the ring wrong until lanes are mended. Does not: send anything.
 */
import type { Bytes } from './keyspace-dump.js';
import { anyId, GROUPS, membersOf, ODD_GROUPS, span, type Scene } from './scene.js';
import { BYTES, call, idOf, small, timeUntil, tokenOf, type Make } from './step-parts.js';

/** A group, now and then an odd one. */
export const groupOf = ({ rng, mode }: Scene): Bytes =>
  rng.pick(mode === 'dirty' && rng.chance(20) ? ODD_GROUPS : GROUPS);

export const DEDUPS = ['a', 'b'];

/** What is drawn in a dirty battery too. */
const also = ({ mode }: Scene, odd: readonly Bytes[]): readonly Bytes[] => (mode === 'dirty' ? odd : []);

const admit: Make = (s) => {
  const id = s.mode === 'dirty' && s.rng.chance(4) ? s.rng.pick(['EVT0KHTOWnGLuC', '']) : anyId(s);
  const modes = ['now', 'now', 'now', 'in', 'in', 'at', ...(s.rng.chance(4) ? also(s, ['', 'NOW']) : [])];
  const mode = s.rng.pick(modes);
  const ms = mode === 'in' ? timeUntil(s) : mode === 'at' ? s.rng.pick(['0', '1000', '4000000000000']) : '0';
  const group = s.rng.chance(70) ? groupOf(s) : '';
  const how = s.rng.pick(['drop', 'throttle', 'replace', 'replace', ...(s.rng.chance(4) ? also(s, ['x']) : [])]);
  const kept = s.rng.chance(25);
  const ttl = kept || how === 'throttle' || s.rng.chance(30) ? s.rng.pick(['7200000', '9000000']) : '0';
  const dedup = s.rng.chance(60) ? [s.rng.pick(DEDUPS), how, ttl, kept ? '1' : '0'] : ['', '', '0', '0'];
  const words = [s.rng.pick(BYTES), s.rng.pick(['', '', '4', '2097152']), s.rng.pick(['', '{"name":"x"}'])];
  const args = [id, ...words, mode, ms, group, ...dedup];
  if (s.mode === 'dirty' && s.rng.chance(2)) args.pop();
  return call('admit', [`${s.base}job:${id}`, s.base], args);
};

const takeBatch: Make = (s) => {
  const keys = ['pending', 'ring', 'active', ''].map((name) => s.base + name);
  const source = s.rng.pick(['flat', 'lanes', 'lanes', ...(s.rng.chance(4) ? also(s, ['both', '']) : [])]);
  const least = s.rng.pick(['1', '1', '2', '3']);
  return call('take_batch', keys, [String(span(s)), s.rng.pick(['1', '2', '3', '100']), least, source]);
};

const backOff: Make = (s) => {
  const id = idOf(s, 'active', 'active', 'rows');
  const keys = ['active', 'pending', `job:${id}`].map((name) => s.base + name);
  const scope = s.rng.pick(['own', 'own', 'own', 'queue', ...(s.rng.chance(4) ? also(s, ['']) : [])]);
  return call('back_off', keys, [id, tokenOf(s, id), String(span(s)), scope, s.base]);
};

/** A rate with its window, or none. */
const rate = ({ rng }: Scene): Bytes[] =>
  rng.chance(40)
    ? ['max', '', 'duration', '']
    : ['max', rng.pick(['1', '2', '3', '5']), 'duration', rng.pick(['600000', '3600000', '2147483647'])];

const setLimits: Make = (s) => {
  const ceiling = ['concurrency', s.rng.pick(['', '', '1', '2', '4', '9'])];
  const words = [...(s.rng.chance(60) ? ceiling : []), ...(s.rng.chance(60) ? rate(s) : [])];
  if (s.mode === 'dirty' && s.rng.chance(3)) words.push(s.rng.pick(['weight', 'max']));
  return call('set_limits', [s.base], words.length === 0 && s.mode === 'clean' ? ceiling : words);
};

const laneSet: Make = (s) => {
  const group = s.rng.chance(12) ? '*' : groupOf(s);
  const all = group === '*' && s.mode === 'clean';
  const words = [
    ...(s.rng.chance(40) && !all ? ['limit', s.rng.pick(['', '1', '2', '3'])] : []),
    ...(s.rng.chance(40) ? ['weight', s.rng.pick(['', '1', '2', '3'])] : []),
    ...(s.rng.chance(40) ? rate(s) : []),
  ];
  if (s.mode === 'dirty' && s.rng.chance(3)) words.push(s.rng.pick(['concurrency', 'limit']));
  return call('lane_set', [s.base], [group, ...(words.length === 0 ? ['weight', '2'] : words)]);
};

const oneGroup =
  (transition: string, keys: readonly Bytes[]): Make =>
  (s) =>
    call(
      transition,
      keys.map((name) => s.base + name),
      s.mode === 'dirty' && s.rng.chance(2) ? [] : [groupOf(s)],
    );

/** Groups of the queue, perhaps one of them twice. */
const groups = (s: Scene): Bytes[] => Array.from({ length: s.rng.below(4) }, () => groupOf(s));

const reassign: Make = (s) => {
  const waiting = [...GROUPS, ...also(s, ODD_GROUPS)].flatMap((group) => membersOf(s, `g:${group}:pending`));
  const id = waiting.length > 0 && s.rng.chance(85) ? s.rng.pick(waiting) : idOf(s, 'rows');
  return call('reassign', [`${s.base}job:${id}`, s.base], [id, groupOf(s)]);
};

const reapGroup: Make = (s) =>
  call('reap_group', [`${s.base}active`, s.base], [groupOf(s), small(s.rng), s.rng.pick(['0', '0', '1'])]);

const lanes: Make = (s) => {
  const places = ['ring', 'paused', 'gactive', 'gwait', 'glimit', 'gweight', 'gmax', ...also(s, ['gduration'])];
  return call('lanes', [s.base], [s.rng.pick(places), '0', '1000']);
};

const dedupKey = (s: Scene): Bytes => `${s.base}de:${s.rng.pick(DEDUPS)}`;

/** What else a battery about lanes draws, how often each. */
export const BESIDE_LANES: Readonly<Record<string, number>> = {
  take: 40,
  claim_batch: 3,
  complete: 8,
  fail: 4,
  release: 4,
  delay: 2,
  promote: 6,
  reap: 5,
  stalled_check: 4,
  quarantine: 2,
  remove: 2,
  resume: 3,
  agenda: 2,
};

/** How often each is drawn, and how its call is made. */
export const LANE_MAKES: Readonly<Record<string, readonly [number, Make]>> = {
  admit: [16, admit],
  take_batch: [8, takeBatch],
  back_off: [5, backOff],
  consult: [
    1,
    (s) =>
      call(
        'consult',
        ['meta', 'active', 'limiter'].map((name) => s.base + name),
        [],
      ),
  ],
  limits: [1, (s) => call('limits', [s.base], [])],
  set_limits: [4, setLimits],
  lane_set: [5, laneSet],
  lane_mend: [3, (s) => call('lane_mend', [s.base], s.mode === 'clean' ? [groupOf(s), ...groups(s)] : groups(s))],
  lane_pause: [2, oneGroup('lane_pause', ['paused', 'ring'])],
  lane_resume: [4, oneGroup('lane_resume', [''])],
  reassign: [3, reassign],
  reap_group: [3, reapGroup],
  lanes: [2, lanes],
  lane_info: [2, (s) => call('lane_info', [s.base], groups(s))],
  dedup: [1, (s) => call('dedup', [dedupKey(s)], [])],
  dedup_free: [1, (s) => call('dedup_free', [dedupKey(s)], [])],
};
