/**
 * What the situations are made of: their shape, the names in them, and the commands that set a scene.
 *
 * Invariants: text is latin1, one character a byte. Does not: send anything.
 */
import { bytesOf, type Bytes, type Entry } from '../../../src/parity/keyspace-dump.js';
import type { RawCommand } from '../../../src/parity/node.js';

/** The names in one situation; latin1, one character a byte. */
export interface Names {
  readonly b: Bytes;
  readonly id: Bytes;
  readonly other: Bytes;
  readonly group: Bytes;
}

export type KeyType = Exclude<Entry['type'], 'stream'>;

export interface Situation {
  readonly name: string;
  readonly setup: readonly RawCommand[];
  readonly keys: readonly Bytes[];
  readonly args: readonly Bytes[];
  readonly touches: Readonly<Record<Bytes, KeyType>>;
  /** Keys of which the type is not asked, only whether they are there: they may be of any type. */
  readonly untyped?: readonly Bytes[];
  /** Counters that are read: key, field, and the argument that must hold the same text for the counter to be reached. */
  readonly counters?: readonly (readonly [Bytes, Bytes, number?])[];
  /** Counters that are a key of their own. */
  readonly strings?: readonly Bytes[];
  /** Where they are not those of all situations of the transition. */
  readonly numbers?: Cases['numbers'];
}

/** A refusal of the transition itself. */
export interface OwnRefusal {
  readonly name: string;
  readonly setup: readonly RawCommand[];
  readonly keys: readonly Bytes[];
  readonly args: readonly Bytes[];
  readonly text: Bytes | { readonly script: Bytes; readonly native: Bytes };
}

export interface Cases {
  /** Arguments that are numbers: their place, the word in the refusal, and whether they must be at least 1, or a window. */
  readonly numbers: readonly (readonly [number, string, 'positive' | 'any' | 'window'])[];
  readonly situations: (names: Names) => Situation[];
  readonly refusals: (names: Names) => OwnRefusal[];
}

export const cmd = (name: string, ...args: Bytes[]): RawCommand => [name, ...args.map(bytesOf)];

/** Far enough in the future, on any clock. */
export const LATER = '4000000000000';

export const row = (n: Names, id: Bytes, fields: Readonly<Record<Bytes, Bytes>>): RawCommand =>
  cmd(
    'HSET',
    `${n.b}job:${id}`,
    ...Object.entries({ state: 'pending', attempts: '1', payload: 'p', ...fields }).flat(),
  );
export const put = (n: Names, set: Bytes, score: Bytes, id: Bytes): RawCommand => cmd('ZADD', n.b + set, score, id);

export type Fields = Readonly<Record<Bytes, Bytes>>;
export const pending = (n: Names, f: Fields = {}): RawCommand[] => [row(n, n.id, f), put(n, 'pending', '0', n.id)];
export const active = (n: Names, f: Fields = {}, until = LATER): RawCommand[] => [
  row(n, n.id, { state: 'active', ...f }),
  put(n, 'active', until, n.id),
];
export const scheduled = (n: Names, f: Fields = {}, at = LATER): RawCommand[] => [
  row(n, n.id, { state: 'scheduled', ...f }),
  put(n, 'schedule', at, n.id),
];
export const dead = (n: Names, f: Fields = {}): RawCommand[] => [
  row(n, n.id, { state: 'dead', ...f }),
  put(n, 'dead', '5', n.id),
];

interface HeldOptions {
  /** Default `JOB0KHTOWnGLuA`. */
  readonly id?: Bytes;
  /** `:dependencies`; default as many as are listed. */
  readonly count?: Bytes;
  /** Default: all have landed. */
  readonly landing?: Bytes;
  readonly fields?: Fields;
}

/** A flow parent that waits for these children: id -> their queue, with a `+` before it for one that has not landed. */
export function held(n: Names, children: Fields, options: HeldOptions = {}): RawCommand[] {
  const { id = 'JOB0KHTOWnGLuA', count = String(Object.keys(children).length || 1), landing, fields = {} } = options;
  return [
    row(n, id, { state: 'awaiting_children', attempts: '0', ...fields, ...(landing === undefined ? {} : { landing }) }),
    put(n, 'flow:held', '5', id),
    cmd('SET', `${n.b}job:${id}:dependencies`, count),
    ...Object.entries(children).map((child) => cmd('HSET', `${n.b}job:${id}:children`, ...child)),
  ];
}

export const laneKey = (n: Names): Bytes => `${n.b}g:${n.group}:pending`;
/** The lane of the group has a slot in use, another job waits in it, and its limit is reached: it will ring. */
export const lane = (n: Names): RawCommand[] => [
  row(n, n.other, { group: n.group }),
  cmd('ZADD', laneKey(n), '0', n.other),
  cmd('HSET', `${n.b}gactive`, n.group, '1'),
  cmd('HSET', `${n.b}glimit`, n.group, '1'),
];
/** What a lane that rings is read and written in. */
export const laneTouches = (n: Names): Record<Bytes, KeyType> => ({
  [laneKey(n)]: 'zset',
  [`${n.b}gactive`]: 'hash',
  [`${n.b}glimit`]: 'hash',
  [`${n.b}paused`]: 'set',
  [`${n.b}gwait`]: 'zset',
  [`${n.b}ring`]: 'list',
  [`${n.b}wake`]: 'list',
});
export const laneCounters = (n: Names): (readonly [Bytes, Bytes])[] => [
  [`${n.b}gactive`, n.group],
  [`${n.b}glimit`, n.group],
];

/** The queue is at its ceiling, with one job at work, and another waits. */
export const atCeiling = (n: Names): RawCommand[] => [
  cmd('HSET', `${n.b}meta`, 'concurrency', '1'),
  row(n, 'JOB0KHTOWnGLuE', {}),
  put(n, 'pending', '9', 'JOB0KHTOWnGLuE'),
];
/** What whoever frees a place there reads and writes. */
export const roomTouches = (n: Names): Record<Bytes, KeyType> =>
  touch(n, { meta: 'hash', pending: 'zset', wake: 'list' });

/** The dedup key of a job that has one. */
export const parked = (n: Names): RawCommand => cmd('SET', `${n.b}de:d`, n.id);
export const parkedTouches = (n: Names): Record<Bytes, KeyType> => touch(n, { 'de:d': 'string' });

/** A rate of the queue of which tokens are left, until far in the future. */
export const limited = (n: Names): RawCommand[] => [
  cmd('HSET', `${n.b}meta`, 'max', '9', 'duration', '2147483647', 'concurrency', '9'),
];
/** What a claim reads of limits. */
export const limitTouches = (n: Names): Record<Bytes, KeyType> => touch(n, { meta: 'hash', limiter: 'string' });
export const limitCounters = (n: Names): (readonly [Bytes, Bytes])[] => [
  [`${n.b}meta`, 'concurrency'],
  [`${n.b}meta`, 'max'],
];

export const touch = (n: Names, names: Readonly<Record<Bytes, KeyType>>): Record<Bytes, KeyType> =>
  Object.fromEntries(Object.entries(names).map(([name, type]) => [n.b + name, type]));

export const subkeys = (n: Names): Bytes[] =>
  [':logs', ':lock', ':dependencies', ':children', ':processed', ':unsuccessful', ':failed'].map(
    (end) => `${n.b}job:${n.id}${end}`,
  );

// ---- flows -----------------------------------------------------------------------------------------------------------

/** The parent of the situations, and one more job of a flow. */
export const ROOT = 'JOB0KHTOWnGLuA';
export const NODE = 'JOB0KHTOWnGLuB';

/** Keys of a job, by their ends. */
export const ofRow = (n: Names, id: Bytes, ends: Readonly<Record<Bytes, KeyType>>): Record<Bytes, KeyType> =>
  touch(n, Object.fromEntries(Object.entries(ends).map(([end, type]) => [`job:${id}${end}`, type])));

/** What a parent keeps of its children. */
export const books = (n: Names, id: Bytes): Record<Bytes, KeyType> =>
  ofRow(n, id, { '': 'hash', ':children': 'hash', ':processed': 'hash', ':unsuccessful': 'hash', ':failed': 'hash' });

/** The key of a parent's count. */
export const count = (n: Names, id: Bytes): Bytes => `${n.b}job:${id}:dependencies`;
