/**
 * What a random step is drawn from: the keyspace, the clock and the pools of ids and groups.
 *
 * Invariants: nothing here depends on anything but the scene and its generator. Does not: send anything.
 */
import { bytesOf, type Bytes, type Keys } from './keyspace-dump.js';
import type { RawCommand } from './node.js';
import type { Rng } from './prng.js';

/** `clean`: only what transitions and lanes do. `dirty`: ghosts, broken counters, odd bytes and bad arguments as well. */
export type Mode = 'clean' | 'dirty';

/**
 * `flows` or `lanes`: hardly anything but these, so that what takes many steps of one flow or lane comes about; `audits`: half
 * of the steps look for what is wrong and mend it.
 */
export type About = 'all' | 'flows' | 'lanes' | 'audits';

/** What a step is drawn from. */
export interface Scene {
  readonly rng: Rng;
  readonly keys: Keys;
  /** The base `emq:{q}:` of the queue that the step is about. */
  readonly base: Bytes;
  /** The base of the other queue of the bout, in which parents or children of this one's jobs may be. */
  readonly other: Bytes;
  /** The servers' clock, Unix ms. */
  readonly now: number;
  readonly mode: Mode;
  readonly about: About;
  /** True to plant leases of another run of the server, which the two executors treat differently on purpose. */
  readonly foreignEpochs: boolean;
}

const SECOND = 1000;
/** The ids of the pool. */
export const IDS: readonly Bytes[] = Array.from({ length: 12 }, (_, i) => `JOB0KHTOWnGL${'u'}${'ABCDEFGHIJKL'[i]}`);
/** The same length and more of what an id may hold when no client has looked at it. */
const ODD_IDS = ['JOB\r\n\0\xff*$', 'JOB', `JOB${'x'.repeat(1021)}`, 'JOB\xc3\x28'];
export const GROUPS = ['PRT0KHTOWnGLu1', 'PRT0KHTOWnGLu2'];
export const ODD_GROUPS = ['', 'g\0\r\n\xff', `G${'y'.repeat(1023)}`];
/** The members of a set, sorted by bytes. */
export function membersOf({ keys, base }: Scene, name: Bytes): Bytes[] {
  const entry = keys.get(base + name);
  return entry?.type === 'zset' ? [...entry.scores.keys()].sort() : [];
}

/** The score of a member of a set. */
export function scoreOf({ keys, base }: Scene, name: Bytes, member: Bytes): number | undefined {
  const entry = keys.get(base + name);
  return entry?.type === 'zset' ? entry.scores.get(member) : undefined;
}

/** A field of a hash. */
export function fieldOf({ keys, base }: Scene, name: Bytes, field: Bytes): Bytes | undefined {
  const entry = keys.get(base + name);
  return entry?.type === 'hash' ? entry.fields.get(field) : undefined;
}

/** The rows there are, sorted by bytes. */
export function rowsOf({ keys, base }: Scene): Bytes[] {
  const start = `${base}job:`;
  const all = [...keys]
    .filter(([key, entry]) => key.startsWith(start) && entry.type === 'hash')
    .map(([key]) => key.slice(start.length));
  return all.filter((id) => !/:(children|processed|unsuccessful|failed)$/.test(id)).sort();
}

/** The same step seen from the other queue. */
export const across = (scene: Scene): Scene => ({ ...scene, base: scene.other, other: scene.base });

/** The name of the queue of a base. */
export const queueOf = (base: Bytes): Bytes => base.slice('emq:{'.length, -'}:'.length);

/** The fields of a hash, sorted by bytes. */
export function fieldsOf({ keys, base }: Scene, name: Bytes): readonly (readonly [Bytes, Bytes])[] {
  const entry = keys.get(base + name);
  return entry?.type === 'hash' ? [...entry.fields].sort(([a], [b]) => (a < b ? -1 : 1)) : [];
}

/** The items of a list. */
export function itemsOf({ keys, base }: Scene, name: Bytes): readonly Bytes[] {
  const entry = keys.get(base + name);
  return entry?.type === 'list' ? entry.items : [];
}

/** The ids whose row has this subkey, sorted by bytes. */
export function withSubkey({ keys, base }: Scene, end: Bytes): Bytes[] {
  const start = `${base}job:`;
  const found = [...keys.keys()].filter((key) => key.startsWith(start) && key.endsWith(end));
  return found.map((key) => key.slice(start.length, -end.length)).sort();
}

/** An id of the pool. */
export function anyId({ rng, mode }: Scene): Bytes {
  return rng.pick(mode === 'dirty' && rng.chance(15) ? ODD_IDS : IDS);
}

/** A waiting time of at least 60 s, or as long ago, that ends at a distance from all other times. */
export function span(scene: Scene): number {
  const times = ['active', 'schedule', 'dead', 'gwait', 'flow:held', 'flow:landed'].flatMap((name) => {
    const entry = scene.keys.get(scene.base + name);
    return entry?.type === 'zset' ? [...entry.scores.values()] : [];
  });
  for (;;) {
    const ms = 60 * SECOND + 20 * SECOND * scene.rng.below(50_000);
    if (times.every((time) => Math.abs(time - (scene.now + ms)) > 5 * SECOND)) return ms;
  }
}

/** A raw command from latin1 texts. */
export const command = (name: string, ...args: Bytes[]): RawCommand => [name, ...args.map(bytesOf)];
