/**
 * The ground that the reference model stands on: a keyspace in memory with the few commands that the transitions need.
 *
 * The model is written from docs/wire.md and not from the scripts, so that a mistake which both executors share is seen.
 * Invariants: a key that holds nothing does not exist; reading or writing a key of another type is refused as WRONGTYPE,
 * as a server would. Does not: lapse keys, or know of any transition.
 */
import type { Bytes, Content, Keys } from '../keyspace-dump.js';
import type { ExecutorName } from '../node.js';

/** What the model answers; strings are latin1, one character a byte. */
export type ModelReply = Bytes | number | null | ModelReply[];

/** A refusal: a class, or the whole text where the contract fixes it. */
export class Refused extends Error {
  override readonly name = 'Refused';
}

/** The largest number on the wire. */
const LARGEST = 2n ** 52n;

/** A canonical decimal integer between -2^52 and 2^52, or undefined. */
export function integer(text: Bytes): number | undefined {
  if (!/^(0|-?[1-9][0-9]*)$/.test(text) || text.length > 20) return undefined;
  const value = BigInt(text);
  return value > LARGEST || value < -LARGEST ? undefined : Number(value);
}

type Of<T extends Content['type']> = Extract<Content, { type: T }>;

/** A keyspace that is worked on, at one instant, as one executor would. */
export class Ground {
  readonly keys: Keys;
  /** Counters of outcomes as this call has left them. */
  readonly counted = new Map<Bytes, number>();
  readonly #set = new Map<Bytes, Set<Bytes>>();
  readonly #strings = new Set<Bytes>();

  constructor(
    keys: Keys,
    /** The server's clock, Unix ms. */
    readonly now: number,
    readonly executor: ExecutorName,
    readonly runId: string,
  ) {
    this.keys = cloneKeys(keys);
  }

  /** The content of a key if it is there. @throws Refused `WRONGTYPE` if it is of another type. */
  look<T extends Content['type']>(key: Bytes, type: T): Of<T> | undefined {
    const entry = this.keys.get(key);
    if (entry !== undefined && entry.type !== type) throw new Refused('WRONGTYPE');
    return entry as Of<T> | undefined;
  }

  exists(key: Bytes): boolean {
    return this.keys.has(key);
  }

  del(key: Bytes): void {
    this.keys.delete(key);
  }

  get(key: Bytes): Bytes | undefined {
    return this.look(key, 'string')?.value;
  }

  /** As SET: what was there, of whatever type, is gone. `lapses`: Unix ms. */
  set(key: Bytes, value: Bytes, lapses: number | false = false): void {
    this.#strings.add(key);
    this.keys.set(key, { type: 'string', value, lapses });
  }

  /** When the key lapses, Unix ms; false for one that does not, or is not there. */
  lapses(key: Bytes): number | false {
    return this.keys.get(key)?.lapses ?? false;
  }

  /** As PEXPIREAT, for a key that is there. */
  expireAt(key: Bytes, lapses: number): void {
    const entry = this.keys.get(key);
    if (entry !== undefined) entry.lapses = lapses;
  }

  /** As RENAME: what had the new name is gone; nothing for a key that is not there. */
  rename(key: Bytes, to: Bytes): void {
    const entry = this.keys.get(key);
    if (entry === undefined) return;
    this.keys.delete(key);
    this.keys.set(to, entry);
  }

  /** The fields of a hash, none for a key that is not there. */
  fields(key: Bytes): ReadonlyMap<Bytes, Bytes> {
    return this.look(key, 'hash')?.fields ?? new Map<Bytes, Bytes>();
  }

  hget(key: Bytes, field: Bytes): Bytes | undefined {
    return this.look(key, 'hash')?.fields.get(field);
  }

  hset(key: Bytes, fields: Readonly<Record<Bytes, Bytes>>): void {
    const hash = this.#make(key, { type: 'hash', fields: new Map<Bytes, Bytes>() });
    const set = this.#set.get(key) ?? new Set();
    this.#set.set(key, set);
    for (const [field, value] of Object.entries(fields)) {
      hash.fields.set(field, value);
      set.add(field);
    }
  }

  /** Whether this call itself has set the field: a counter is judged as it was found, not as the call has made it. */
  hasSet(key: Bytes, field: Bytes): boolean {
    return this.#set.get(key)?.has(field) ?? false;
  }

  /** Whether this call itself has set the string. */
  hasPut(key: Bytes): boolean {
    return this.#strings.has(key);
  }

  hdel(key: Bytes, ...fields: Bytes[]): void {
    const hash = this.look(key, 'hash');
    for (const field of fields) hash?.fields.delete(field);
    if (hash?.fields.size === 0) this.del(key);
  }

  zscore(key: Bytes, member: Bytes): number | undefined {
    return this.look(key, 'zset')?.scores.get(member);
  }

  /** Members by score, then by bytes. */
  zrange(key: Bytes): [Bytes, number][] {
    const scores = this.look(key, 'zset')?.scores ?? new Map<Bytes, number>();
    return [...scores].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1));
  }

  zadd(key: Bytes, score: number, member: Bytes): void {
    this.#make(key, { type: 'zset', scores: new Map<Bytes, number>() }).scores.set(member, score);
  }

  zrem(key: Bytes, member: Bytes): void {
    const zset = this.look(key, 'zset');
    zset?.scores.delete(member);
    if (zset?.scores.size === 0) this.del(key);
  }

  items(key: Bytes): readonly Bytes[] {
    return this.look(key, 'list')?.items ?? [];
  }

  push(end: 'head' | 'tail', key: Bytes, item: Bytes): void {
    const { items } = this.#make(key, { type: 'list', items: [] as Bytes[] });
    if (end === 'head') items.unshift(item);
    else items.push(item);
  }

  /** Keeps of a list only the items that pass. */
  keep(key: Bytes, pass: (item: Bytes, at: number) => boolean): void {
    const list = this.look(key, 'list');
    if (list === undefined) return;
    const left = list.items.filter(pass);
    list.items.splice(0, list.items.length, ...left);
    if (left.length === 0) this.del(key);
  }

  sadd(key: Bytes, member: Bytes): void {
    this.#make(key, { type: 'set', members: new Set<Bytes>() }).members.add(member);
  }

  srem(key: Bytes, member: Bytes): void {
    const set = this.look(key, 'set');
    set?.members.delete(member);
    if (set?.members.size === 0) this.del(key);
  }

  isMember(key: Bytes, member: Bytes): boolean {
    return this.look(key, 'set')?.members.has(member) ?? false;
  }

  #make<C extends Content>(key: Bytes, empty: C): C {
    const found = this.look(key, empty.type);
    if (found !== undefined) return found as unknown as C;
    this.keys.set(key, { ...empty, lapses: false });
    return this.keys.get(key) as unknown as C;
  }
}

/** A copy that shares nothing. */
function cloneKeys(keys: Keys): Keys {
  return structuredClone(keys);
}
