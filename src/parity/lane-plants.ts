/**
 * What time and operators do to lanes and limits between two transitions: rates rest, buckets are partly spent, settings
 * come and go; and in a dirty battery they break.
 *
 * Invariants: a bucket is planted half-way between two tokens, so that servers a few seconds apart count the same; the
 * window of a rate that is planted is long. Does not: send anything.
 */
import type { Bytes } from './keyspace-dump.js';
import { DEDUPS, groupOf } from './lane-steps.js';
import type { RawCommand } from './node.js';
import { command, fieldOf, membersOf, rowsOf, span, type Scene } from './scene.js';

export type Plant = (scene: Scene) => RawCommand[];

/** OWN(key, g). */
export const own = (s: Scene, key: Bytes, group: Bytes): Bytes | undefined =>
  fieldOf(s, key, group) ?? fieldOf(s, key, '*');

/** Some of the lanes have waited long enough. */
const lapseLanes: Plant = (s) =>
  membersOf(s, 'gwait')
    .filter(() => s.rng.chance(70))
    .map((group) => command('ZADD', `${s.base}gwait`, String(1000 * s.rng.below(4)), group));

/** A bucket is full again. */
const restQueue: Plant = (s) => [command('DEL', `${s.base}limiter`)];
const restLane: Plant = (s) => [command('DEL', `${s.base}g:${groupOf(s)}:limiter`)];

/** A bucket that lacks some tokens and a half; without a rate it says until when nothing is claimed. */
function spent(s: Scene, key: Bytes, max: Bytes | undefined, duration: Bytes | undefined): RawCommand[] {
  const step = Math.floor((1000 * Number(duration)) / Number(max));
  const valid = Number.isSafeInteger(step) && step > 60_000_000;
  const missing = valid ? step * (s.rng.below(3) + 0.5) : 1000 * span(s);
  const full = Math.floor(1000 * s.now + missing);
  return [command('SET', key, String(full), 'PXAT', String(Math.ceil(full / 1000)))];
}

const spendQueue: Plant = (s) =>
  fieldOf(s, 'meta', 'max') === undefined && s.rng.chance(60)
    ? []
    : spent(s, `${s.base}limiter`, fieldOf(s, 'meta', 'max'), fieldOf(s, 'meta', 'duration'));

const spendLane: Plant = (s) => {
  const group = groupOf(s);
  const max = own(s, 'gmax', group);
  return max === undefined ? [] : spent(s, `${s.base}g:${group}:limiter`, max, own(s, 'gduration', group));
};

/** The ceiling goes: what was at it may be claimed. */
const liftCeiling: Plant = (s) => [command('HDEL', `${s.base}meta`, 'concurrency')];

/** A row that has no dedup id gets one, which it may hold after its end. */
const dedup: Plant = (s) => {
  const ids = rowsOf(s).filter((id) => fieldOf(s, `job:${id}`, 'dedup') === undefined);
  if (ids.length === 0) return [];
  const id = s.rng.pick(ids);
  const name = s.rng.pick(DEDUPS);
  const lapses = s.rng.chance(60);
  // As an admission leaves it: an id that is kept has a time, by which a reprocess takes it anew.
  const time = lapses ? ['dedup_ttl', '9000000'] : [];
  const keep = lapses && s.rng.chance(40) ? ['dedup_keep', '1'] : [];
  return [
    command('HSET', `${s.base}job:${id}`, 'dedup', name, ...time, ...keep),
    command('SET', `${s.base}de:${name}`, id, ...(lapses ? ['PXAT', String(s.now + 9_000_000)] : [])),
  ];
};

/** The history was rolled some minutes ago. */
const rolled: Plant = (s) => {
  const minute = Math.floor(s.now / 60_000) - s.rng.pick([2, 3, 5, 2000]);
  return [command('HSET', `${s.base}metrics:rolled`, 'minute', String(minute), 'completed', '1', 'failed', '0')];
};

export const LANE_CLEAN: readonly Plant[] = [
  ...Array<Plant>(3).fill(lapseLanes),
  restQueue,
  restQueue,
  restLane,
  restLane,
  spendQueue,
  spendLane,
  liftCeiling,
  dedup,
  dedup,
  rolled,
];

const BROKEN = ['x', '', '1.5', '01', '-3', '0', '1', '2', '9223372036854775807'];

/** A setting breaks, or goes. */
const breakSetting: Plant = (s) => {
  const value = s.rng.pick(BROKEN);
  const group = s.rng.pick(['*', groupOf(s), groupOf(s)]);
  const gone = s.rng.chance(50);
  const [key, field, window] = s.rng.pick([
    ['meta', 'concurrency', ''],
    ['meta', 'max', 'duration'],
    ['gmax', group, 'gduration'],
    ['gweight', group, ''],
    ['glimit', group, ''],
    ['metrics:rolled', s.rng.pick(['minute', 'completed', 'failed']), ''],
  ] as const);
  if (gone) return [command('HDEL', s.base + key, field)];
  const long = '2147483647';
  return [
    command('HSET', s.base + key, field, value),
    ...(window === 'duration' ? [command('HSET', `${s.base}meta`, 'duration', long)] : []),
    ...(window === 'gduration' ? [command('HSET', `${s.base}gduration`, group, long)] : []),
  ];
};

/** A limiter breaks, or what a stranger wrote there goes. */
const breakLimiter: Plant = (s) => {
  const key = s.base + s.rng.pick(['limiter', `g:${groupOf(s)}:limiter`]);
  return [s.rng.chance(40) ? command('SET', key, s.rng.pick(BROKEN)) : command('DEL', key)];
};

/** Somebody writes a lane into `gwait`, or takes it out, or spoils the turn. */
const breakWaits: Plant = (s) => [
  s.rng.pick([
    command('ZADD', `${s.base}gwait`, s.rng.pick(['0', '4000000000000']), groupOf(s)),
    command('ZREM', `${s.base}gwait`, groupOf(s)),
    command('HSET', `${s.base}meta`, 'turn', groupOf(s), 'given', s.rng.pick(['0', '1', '9', 'x', '-1', '01'])),
    command('HDEL', `${s.base}meta`, 'turn'),
  ]),
];

/** A dedup key that names another, or nobody; a row that says what it does not hold. */
const breakDedup: Plant = (s) => {
  const key = `${s.base}de:${s.rng.pick(DEDUPS)}`;
  const ids = rowsOf(s);
  return [
    s.rng.pick([
      command('SET', key, 'JOB0KHTOWnGLzz'),
      command('SET', key, 'JOB0KHTOWnGLzz', 'PXAT', String(s.now + 9_000_000)),
      command('DEL', key),
      ...(ids.length > 0 ? [command('HSET', `${s.base}job:${s.rng.pick(ids)}`, 'dedup', s.rng.pick(DEDUPS))] : []),
    ]),
  ];
};

/** A record that others have spoilt. */
const breakRepeat: Plant = (s) => [
  s.rng.pick([
    command('ZADD', `${s.base}repeat`, s.rng.pick(['1000', 'inf', '4000000000000']), s.rng.pick(['r', 'ghost'])),
    command('ZREM', `${s.base}repeat`, 'r'),
    command('HSET', `${s.base}repeat:r`, s.rng.pick(['count', 'next', 'limit', 'end']), s.rng.pick(BROKEN)),
    command('HDEL', `${s.base}repeat:s`, 'payload'),
  ]),
];

export const LANE_DIRTY: readonly Plant[] = [
  ...Array<Plant>(3).fill(breakSetting),
  ...Array<Plant>(2).fill(breakLimiter),
  breakWaits,
  breakWaits,
  breakDedup,
  breakDedup,
  breakRepeat,
];

/** What is broken of lanes and limits is whole again. */
export const mendLanes: Plant = (s) => [
  command('DEL', ...['limiter', 'gmax', 'gduration', 'gweight', 'metrics:rolled'].map((name) => s.base + name)),
  command(
    'DEL',
    ...[...s.keys.keys()].filter((key) => key.startsWith(`${s.base}g:`) && key.endsWith(':limiter')),
    `${s.base}x`,
  ),
  command('HDEL', `${s.base}meta`, 'concurrency', 'max', 'duration'),
];
