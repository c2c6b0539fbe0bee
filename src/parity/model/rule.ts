/**
 * What every rule of the reference model is: a call on the ground. And the looks that all of them begin with.
 *
 * Does not: know any transition.
 */
import type { Bytes } from '../keyspace-dump.js';
import { Refused, type Ground, type ModelReply } from './ground.js';
import { anyInteger } from './procedures.js';

/** One call: the ground at NOW, keys and arguments in the order of the wire. */
export type Rule = (g: Ground, keys: readonly Bytes[], args: readonly Bytes[]) => ModelReply;

/** The n-th key or argument of a call. */
export function at(values: readonly Bytes[], n: number): Bytes {
  const value = values[n];
  if (value === undefined) throw new RangeError(`the model needs a value at ${n}`);
  return value;
}

/** A declared key of the wrong type is a refusal whatever else the call finds. */
export function declared(
  g: Ground,
  zsets: readonly Bytes[],
  rows: readonly Bytes[] = [],
  lists: readonly Bytes[] = [],
  strings: readonly Bytes[] = [],
): void {
  for (const key of zsets) g.look(key, 'zset');
  for (const key of rows) g.look(key, 'hash');
  for (const key of lists) g.look(key, 'list');
  for (const key of strings) g.look(key, 'string');
}

/** A time that is `in` so many ms, or `at` a time. */
export function runAt(g: Ground, mode: Bytes, ms: Bytes): number {
  if (mode !== 'in' && mode !== 'at') throw new Refused('ERR mode must be in or at');
  const n = anyInteger('ms', ms);
  return mode === 'in' ? g.now + n : n;
}

/** The base that a key starts with. */
export function baseOf(key: Bytes, name: string): Bytes {
  return key.slice(0, key.length - name.length);
}

/** The fields of a hash one after the other, sorted by name: in which order a server keeps them is nobody's business. */
export const flat = (fields: ReadonlyMap<Bytes, Bytes>): Bytes[] =>
  [...fields].sort(([a], [b]) => (a < b ? -1 : 1)).flat();

/** A score as the server tells it. */
export const scoreText = (score: number): Bytes => (score === Infinity ? 'inf' : String(score));
