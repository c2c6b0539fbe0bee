/**
 * The reference model of the operator's verbs and the reads.
 *
 * Does not: publish events; whether one was published is no part of a keyspace.
 */
import type { Bytes } from '../keyspace-dump.js';
import type { Ground } from './ground.js';
import { integer, Refused } from './ground.js';
import { dependencies, order, policyOf, tell } from './kin.js';
import { room } from './limits.js';
import * as p from './procedures.js';
import { at, baseOf, declared, flat, scoreText, type Rule } from './rule.js';
import * as t from './turns.js';

const pause: Rule = (g, [meta = '']) => {
  g.hset(meta, { paused: '1' });
  return 1;
};

const resume: Rule = (g, [meta = '', wake = '']) => {
  declared(g, [], [meta], [wake]);
  if (g.hget(meta, 'paused') === undefined) return 0;
  g.hdel(meta, 'paused');
  p.wake(g, baseOf(wake, 'wake'));
  return 1;
};

const updateData: Rule = (g, [row = ''], [payload = '']) => {
  if (g.look(row, 'hash') === undefined) return -1;
  g.hset(row, { payload });
  return 1;
};

const updateProgress: Rule = (g, [row = ''], [progress = '']) => {
  if (g.look(row, 'hash') === undefined) return -1;
  g.hset(row, { progress });
  return 1;
};

const addLog: Rule = (g, [row = '', logs = ''], [line = '', keep = '']) => {
  const most = p.anyInteger('keep', keep);
  declared(g, [], [row], [logs]);
  if (!g.exists(row)) return -1;
  g.push('tail', logs, line);
  const surplus = most > 0 ? g.items(logs).length - most : 0;
  if (surplus > 0) g.keep(logs, (_line, place) => place >= surplus);
  return g.items(logs).length;
};

const logs: Rule = (g, [row = '', key = ''], [first = '', last = '']) => {
  const from = p.anyInteger('first', first);
  const to = p.anyInteger('last', last);
  declared(g, [], [row], [key]);
  if (!g.exists(row)) return -1;
  const lines = g.items(key);
  const place = (n: number): number => (n < 0 ? lines.length + n : n);
  return lines.filter((_line, i) => i >= place(from) && i <= place(to));
};

/** Whether a worker holds the job against removal. */
export function locked(g: Ground, b: Bytes, id: Bytes): boolean {
  const row = `${b}job:${id}`;
  return g.hget(row, 'lock') !== undefined || g.exists(`${row}:lock`);
}

/** Takes a job out of wherever it is; for a cancel its open children are to be cancelled too, for this reason. */
export function expel(g: Ground, b: Bytes, id: Bytes, error: Bytes, reason?: Bytes): void {
  const row = `${b}job:${id}`;
  const [active, dead] = [`${b}active`, `${b}dead`];
  if (locked(g, b, id)) throw new Refused('EMQLOCK job is locked');
  const wake = room(g, b);
  const wasDead = g.zscore(dead, id) !== undefined;
  const wasActive = g.zscore(active, id) !== undefined;
  const group = g.hget(row, 'group');
  for (const key of [`${b}pending`, active, `${b}schedule`, dead, `${b}flow:held`]) g.zrem(key, id);
  if (group !== undefined) {
    g.zrem(t.laneOf(b, group), id);
    if (wasActive) t.leave(g, b, group);
    t.ring(g, b, group);
    t.unring(g, b, group);
  }
  if (!wasDead) tell(g, b, 'fail', id, error);
  if (policyOf(g.hget(row, 'parent_policy')) === 'fp') tell(g, b, 'gone', id, error);
  if (reason !== undefined) order(g, b, id, reason);
  p.retire(g, b, id);
  wake();
}

const remove: Rule = (g, [row = '', pending = '', active = '', schedule = '', dead = '', dedup], [id = '', b = '']) => {
  declared(g, [pending, active, schedule, dead], [row]);
  const owner = dedup === undefined ? undefined : g.get(dedup);
  if (!g.exists(row)) return -1;
  expel(g, b, id, 'removed');
  if (dedup !== undefined && owner === id) g.del(dedup);
  return 1;
};

const cancel: Rule = (g, [row = '', pending = '', active = '', schedule = '', dead = ''], args) => {
  const [id = '', reason = '', b = ''] = args;
  declared(g, [pending, active, schedule, dead], [row]);
  if (!g.exists(row)) return 'gone';
  if (g.zscore(active, id) !== undefined) return 'signalled';
  if (g.zscore(dead, id) !== undefined) return 'dead';
  expel(g, b, id, `cancelled: ${reason}`, reason);
  return 'removed';
};

const reprocess: Rule = (g, [row = '', dead = '', pending = ''], [id = '', b = '']) => {
  declared(g, [dead, pending], [row]);
  if (!g.exists(row)) return -1;
  if (g.zscore(dead, id) === undefined) throw new Refused('EMQSTATE not dead');
  const credit = p.digits(p.counter(g.hget(row, 'attempts')));
  const dedup = g.hget(row, 'dedup');
  if (dedup !== undefined) {
    const owner = g.get(`${b}de:${dedup}`);
    if (owner !== undefined && owner !== id) throw new Refused('EMQSTATE dedup id taken');
    const ttl = integer(g.hget(row, 'dedup_ttl') ?? '') ?? 0;
    g.set(`${b}de:${dedup}`, id, ttl > 0 && g.now + ttl);
  }
  g.zrem(dead, id);
  g.hdel(row, 'last_error', 'stalled');
  if (dependencies(g, row) >= 1) {
    g.hset(row, { state: 'awaiting_children', credit });
    g.zadd(`${b}flow:held`, g.now, id);
    return 2;
  }
  g.hset(row, { state: 'pending', credit });
  t.ready(g, b, id);
  return 1;
};

const get: Rule = (g, [row = '']) => {
  return flat(g.fields(row));
};

const state: Rule = (g, [pending = '', active = '', schedule = '', dead = '', row = ''], [id = '', b = '']) => {
  const places = { pending, active, scheduled: schedule, dead };
  declared(g, Object.values(places), [row]);
  for (const [name, key] of Object.entries(places)) if (g.zscore(key, id) !== undefined) return name;
  if (!g.exists(row)) return 'absent';
  const group = g.hget(row, 'group');
  if (group !== undefined && g.zscore(t.laneOf(b, group), id) !== undefined) return 'pending';
  return g.hget(row, 'state') === 'awaiting_children' ? 'awaiting_children' : 'unknown';
};

const browse: Rule = (g, [set = ''], [offset = '', limit = '', order = 'desc', word]) => {
  const from = p.notNegative('offset', offset);
  const most = p.positive('limit', limit);
  if (order !== 'asc' && order !== 'desc') throw new Refused('ERR order must be asc or desc');
  if (word !== undefined && word !== 'scores') throw new Refused('ERR the fourth word must be scores');
  const all = order === 'asc' ? g.zrange(set) : g.zrange(set).reverse();
  const found = all.slice(from, from + most);
  return found.flatMap(([id, score]) => (word === undefined ? [id] : [id, scoreText(score)]));
};

const counts: Rule = (g, [b = ''], names) =>
  names
    .map((name): (() => number) => {
      if (['pending', 'active', 'schedule', 'dead'].includes(name)) return () => g.zrange(b + name).length;
      if (name === 'awaiting_children') return () => g.zrange(`${b}flow:held`).length;
      if (name === 'completed' || name === 'failed') return () => p.counter(g.hget(`${b}metrics:${name}`, 'count'));
      throw new Refused('ERR unknown state');
    })
    .map((read) => read());

const metrics: Rule = (g, keys) => p.counter(g.hget(at(keys, 0), 'count'));

export const operatorRules: Readonly<Record<string, Rule>> = {
  pause,
  resume,
  update_data: updateData,
  update_progress: updateProgress,
  add_log: addLog,
  logs,
  remove,
  cancel,
  reprocess,
  get,
  state,
  browse,
  counts,
  metrics,
};
