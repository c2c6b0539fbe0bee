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

export const laneOf = (b: Bytes, group: Bytes): Bytes => `${b}g:${group}:pending`;

/** What is counted of a lane. A lane whose numbers cannot be read is an ERR for whoever touches it. */
function lane(g: Ground, b: Bytes, group: Bytes): { active: number; limit: number | undefined } {
  const counted = g.hget(`${b}gactive`, group);
  const own = counted !== undefined && g.hasSet(`${b}gactive`, group);
  const active = own ? Number(counted) : counter(counted);
  const limit = g.hget(`${b}glimit`, group);
  return { active, limit: limit === undefined ? undefined : counter(limit) };
}

/** What of a lane's counts cannot be read, if any. */
export function brokenLane(g: Ground, b: Bytes, group: Bytes): Bytes | undefined {
  return ['gactive', 'glimit'].find((name) => {
    const text = g.hget(b + name, group);
    return text !== undefined && integer(text) === undefined && !g.hasSet(b + name, group);
  });
}

/** A job of the group is in flight. */
export function enter(g: Ground, b: Bytes, group: Bytes): void {
  g.hset(`${b}gactive`, { [group]: digits(lane(g, b, group).active + 1) });
}

/** Whether a job of the lane could be claimed now. */
export function servable(g: Ground, b: Bytes, group: Bytes): boolean {
  const { active, limit } = lane(g, b, group);
  if (g.isMember(`${b}paused`, group)) return false;
  return g.zrange(laneOf(b, group)).length > 0 && (limit === undefined || active < limit);
}

/** The group whose turn it is; lanes before it that cannot be served leave the ring. */
export function turn(g: Ground, b: Bytes): Bytes | undefined {
  for (;;) {
    const [group] = g.items(`${b}ring`);
    if (group === undefined || servable(g, b, group)) return group;
    passTurn(g, b);
  }
}

/** The head leaves the ring. */
export function passTurn(g: Ground, b: Bytes): void {
  g.keep(`${b}ring`, (_group, at) => at > 0);
}

/** The lane at the head was served: it goes to the end while it can be served further. */
export function served(g: Ground, b: Bytes, group: Bytes): void {
  passTurn(g, b);
  if (servable(g, b, group)) g.push('tail', `${b}ring`, group);
}

/** HELD(verb): the key of the set that holds the id. The set `active` goes before the others. */
export function held(g: Ground, verb: string, b: Bytes, id: Bytes, group: Bytes | undefined): Bytes {
  const places = [`${b}active`, ...(group === undefined ? [] : [laneOf(b, group)]), `${b}pending`];
  const place = places.find((key) => g.zscore(key, id) !== undefined);
  if (place === undefined) throw new Refused(`EMQSTATE ${verb} not active`);
  return place;
}

/** LEAVE(g). */
export function leave(g: Ground, b: Bytes, group: Bytes): void {
  const left = lane(g, b, group).active - 1;
  if (left > 0) g.hset(`${b}gactive`, { [group]: digits(left) });
  else g.hdel(`${b}gactive`, group);
}

/** RING(g). */
export function ring(g: Ground, b: Bytes, group: Bytes): void {
  if (!servable(g, b, group)) return;
  if (g.items(`${b}ring`).includes(group)) return;
  g.push('tail', `${b}ring`, group);
  wake(g, b);
}

/** A lane that was left empty leaves the ring. */
export function unring(g: Ground, b: Bytes, group: Bytes): void {
  if (g.zrange(laneOf(b, group)).length === 0) g.keep(`${b}ring`, (item) => item !== group);
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

/** READY(id). */
export function ready(g: Ground, b: Bytes, id: Bytes): void {
  const row = `${b}job:${id}`;
  const group = g.hget(row, 'group');
  const score = rank(g.hget(row, 'priority'));
  if (group === undefined) {
    g.zadd(`${b}pending`, score, id);
    wake(g, b);
  } else {
    g.zadd(laneOf(b, group), score, id);
    ring(g, b, group);
  }
}

/** RETIRE(row). */
export function retire(g: Ground, row: Bytes): void {
  const subkeys = [':logs', ':lock', ':dependencies', ':children', ':processed', ':unsuccessful', ':failed'];
  for (const suffix of ['', ...subkeys]) g.del(row + suffix);
}

/** So many more of a counted outcome. */
export function count(g: Ground, b: Bytes, outcome: 'completed' | 'failed', more = 1): void {
  const key = `${b}metrics:${outcome}`;
  if (more > 0) g.hset(key, { count: digits(counter(g.hget(key, 'count')) + more) });
}

/** Takes a settled job out of where it is: LEAVE if it was active, RING, and off the ring with a lane that is empty. */
export function depart(g: Ground, b: Bytes, id: Bytes, place: Bytes, group: Bytes | undefined): void {
  g.zrem(place, id);
  if (group === undefined) return;
  if (place === `${b}active`) leave(g, b, group);
  ring(g, b, group);
  unring(g, b, group);
}

/** Up to `limit` members with a score of at most NOW, earliest first. */
export function due(g: Ground, key: Bytes, limit: number): Bytes[] {
  return g
    .zrange(key)
    .filter(([, score]) => score <= g.now)
    .slice(0, limit)
    .map(([id]) => id);
}
