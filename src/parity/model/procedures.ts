/**
 * The shared procedures of the wire contract (section 4), each under its name there.
 *
 * Invariants: they are applied one after the other, in the order of the contract's text; nothing is planned or batched,
 * which is how the scripts and the module do it. Does not: know the layout of any call.
 */
import type { Bytes } from '../keyspace-dump.js';
import type { Ground } from './ground.js';
import { integer, Refused } from './ground.js';

/** An argument that is a number. */
export function anyInteger(what: string, text: Bytes): number {
  const n = integer(text);
  if (n === undefined) throw new Refused(`ERR ${what} must be an integer`);
  return n;
}

/** An argument that is at least 0. */
export function notNegative(what: string, text: Bytes): number {
  const n = anyInteger(what, text);
  if (n < 0) throw new Refused(`ERR ${what} must not be negative`);
  return n;
}

/** An argument that is at least 1. */
export function positive(what: string, text: Bytes): number {
  const n = integer(text);
  if (n === undefined || n < 1) throw new Refused(`ERR ${what} must be a positive integer`);
  return n;
}

/** A stored counter: 0 when it is not there, an ERR when it is no integer. */
export function counter(text: Bytes | undefined): number {
  if (text === undefined) return 0;
  const n = integer(text);
  if (n === undefined) throw new Refused('ERR');
  return n;
}

/** A number in the form in which it is stored. */
export const digits = (n: number): Bytes => BigInt(n).toString();

export function kind(id: Bytes): void {
  if (!id.startsWith('JOB')) throw new Refused('EMQKIND job id must be JOB-namespaced');
}

/** TOKEN(verb). Resolves to the claim count. */
export function token(g: Ground, verb: string, row: Bytes, given: Bytes): number {
  const attempts = g.hget(row, 'attempts');
  if (attempts === undefined || attempts === '0' || attempts !== given) {
    throw new Refused(`EMQSTALE ${verb} token mismatch`);
  }
  return counter(attempts);
}

/** WAKE. */
export function wake(g: Ground, b: Bytes): void {
  if (g.items(`${b}wake`).length < 64) g.push('head', `${b}wake`, '1');
}

/** PUT(id). */
export function put(g: Ground, b: Bytes, id: Bytes, at: number): void {
  const schedule = `${b}schedule`;
  g.zadd(schedule, at, id);
  if (g.zrange(schedule)[0]?.[0] === id) wake(g, b);
}

/** The score of a waiting job. */
export function rank(priority: Bytes | undefined): number {
  const n = priority === undefined ? undefined : integer(priority);
  return n !== undefined && n >= 0 && n <= 2_097_152 ? n : 0;
}

/** UNPARK(id). */
export function unpark(g: Ground, b: Bytes, id: Bytes): void {
  const dedup = g.hget(`${b}job:${id}`, 'dedup');
  if (dedup !== undefined && g.get(`${b}de:${dedup}`) === id) g.del(`${b}de:${dedup}`);
}

/** RETIRE(id); `parks` when its dedup id outlives the job. */
export function retire(g: Ground, b: Bytes, id: Bytes, parks = false): void {
  if (!parks) unpark(g, b, id);
  const row = `${b}job:${id}`;
  const subkeys = [':logs', ':lock', ':dependencies', ':children', ':processed', ':unsuccessful', ':failed'];
  for (const suffix of ['', ...subkeys]) g.del(row + suffix);
}

/** So many more of a counted outcome. */
export function count(g: Ground, b: Bytes, outcome: 'completed' | 'failed', more = 1): void {
  const key = `${b}metrics:${outcome}`;
  if (more <= 0) return;
  // It is read once a call: what this call has added may carry it past the largest number that can be read.
  const sum = (g.counted.get(key) ?? counter(g.hget(key, 'count'))) + more;
  g.counted.set(key, sum);
  g.hset(key, { count: digits(sum) });
}

/** Up to `limit` members with a score of at most NOW, earliest first. */
export function due(g: Ground, key: Bytes, limit: number): Bytes[] {
  return g
    .zrange(key)
    .filter(([, score]) => score <= g.now)
    .slice(0, limit)
    .map(([id]) => id);
}
