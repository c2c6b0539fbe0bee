/**
 * The reference model of the operator's steps (wire contract, section 6, "The operator's steps").
 *
 * Does not: repeat a step until all is done; whoever calls does.
 */
import type { Bytes } from '../keyspace-dump.js';
import { Refused, type Ground } from './ground.js';
import { order, policyOf, queueOf, tell } from './kin.js';
import * as p from './procedures.js';
import { declared, runAt, type Rule } from './rule.js';
import * as t from './turns.js';

/** Whether a worker holds the job against removal; a row that is no hash has only its key for that. */
function isHeld(g: Ground, b: Bytes, id: Bytes): boolean {
  const row = `${b}job:${id}`;
  const entry = g.keys.get(row);
  if (entry === undefined) return false;
  return (entry.type === 'hash' && entry.fields.has('lock')) || g.exists(`${row}:lock`);
}

interface End {
  readonly reason: Bytes;
  readonly wasDead: boolean;
  /** Whether a parent in this queue hears of it. */
  readonly own: boolean;
}

/** The row of a job that is in no place any more goes with all that hangs on it, and its letters; a ghost has none. */
function forget(g: Ground, b: Bytes, id: Bytes, { reason, wasDead, own }: End): void {
  const row = `${b}job:${id}`;
  const isRow = g.keys.get(row)?.type === 'hash';
  const queue = isRow ? (g.hget(row, 'parent_queue') ?? queueOf(b)) : queueOf(b);
  if (isRow && (own || queue !== queueOf(b))) {
    if (!wasDead) tell(g, b, 'fail', id, reason);
    if (policyOf(g.hget(row, 'parent_policy')) === 'fp') tell(g, b, 'gone', id, reason);
  }
  order(g, b, id, reason);
  p.retire(g, b, id, !isRow);
}

const purge: Rule = (g, [key = '', b = ''], args) => {
  const [reason = '', offset = '', limit = '', age = '', keep = ''] = args;
  if (args.length !== 5) throw new Refused('ERR a purge is five arguments');
  const from = p.notNegative('offset', offset);
  const most = p.positive('limit', limit);
  const oldest = age === '' ? undefined : g.now - p.notNegative('age', age);
  const kept = keep === '' ? undefined : p.notNegative('keep', keep);
  const name = key.startsWith(b) ? key.slice(b.length) : '';
  const group = /^g:([^]*):pending$/.exec(name)?.[1];
  if (!['pending', 'schedule', 'dead'].includes(name) && group === undefined) throw new Refused('ERR unknown set');
  const all = g.zrange(key);
  if (group !== undefined) t.servable(g, b, group);
  let [went, stayed] = [0, 0];
  for (const [place, [id, score]] of all.entries()) {
    if (place < from || place >= from + most) continue;
    const old = oldest !== undefined && score <= oldest;
    const surplus = kept !== undefined && all.length - place > kept;
    if (!old && !surplus && (oldest !== undefined || kept !== undefined)) continue;
    if (isHeld(g, b, id)) {
      stayed += 1;
      continue;
    }
    went += 1;
    g.zrem(key, id);
    // what hangs on a ghost stays
    if (g.exists(`${b}job:${id}`)) forget(g, b, id, { reason, wasDead: name === 'dead', own: true });
  }
  if (group !== undefined) t.unring(g, b, group);
  return [went, stayed];
};

const promoteNow: Rule = (g, [row = '', schedule = '', pending = '', b = ''], [id = '']) => {
  declared(g, [schedule, pending], [row]);
  if (!g.exists(row)) return -1;
  if (g.zscore(schedule, id) === undefined) throw new Refused('EMQSTATE not scheduled');
  g.zrem(schedule, id);
  g.hset(row, { state: 'pending' });
  t.ready(g, b, id);
  return 1;
};

const reschedule: Rule = (g, [row = '', schedule = '', wake = ''], [id = '', mode = '', ms = '']) => {
  const time = runAt(g, mode, ms);
  declared(g, [schedule], [row], [wake]);
  if (!g.exists(row)) return -1;
  if (g.zscore(schedule, id) === undefined) throw new Refused('EMQSTATE not scheduled');
  p.put(g, schedule.slice(0, -'schedule'.length), id, time);
  return 1;
};

const MINUTE = 60_000;
const HISTORY = 1440;

const metricsRoll: Rule = (g, [b = '']) => {
  const minute = Math.floor(g.now / MINUTE);
  const rolled = `${b}metrics:rolled`;
  const outcomes = ['completed', 'failed'] as const;
  const counts = outcomes.map((name) => p.counter(g.hget(`${b}metrics:${name}`, 'count')));
  const since = g.hget(rolled, 'minute');
  const passed = since === undefined ? 0 : minute - p.counter(since);
  const before = outcomes.map((name) => p.counter(g.hget(rolled, name)));
  for (const name of outcomes) g.items(`${b}metrics:${name}:data`);
  if (since !== undefined && passed < 1) return 0;
  for (const [i, name] of outcomes.entries()) {
    const data = `${b}metrics:${name}:data`;
    const counted = Math.max(0, (counts[i] ?? 0) - (before[i] ?? 0));
    for (let n = 1; n <= Math.min(passed, HISTORY); n += 1) {
      g.push('head', data, n === Math.min(passed, HISTORY) ? p.digits(counted) : '0');
    }
    g.keep(data, (_item, at) => at < HISTORY);
  }
  const [completed = 0, failed = 0] = counts;
  g.hset(rolled, { minute: p.digits(minute), completed: p.digits(completed), failed: p.digits(failed) });
  return passed;
};

const history: Rule = (g, [data = '', b = ''], [first = '', count = '']) => {
  const from = p.notNegative('first', first);
  const most = p.positive('count', count);
  const items = g.items(data).slice(from, from + most);
  return [g.hget(`${b}metrics:rolled`, 'minute') ?? null, items];
};

const SETS = ['active', 'pending', 'schedule', 'dead', 'flow:held'];
/** Where lanes that hold a job are found. */
const PLACES = ['ring', 'paused', 'gactive', 'gwait', 'glimit', 'gmax'];

/** The other keys of a queue that have a name of their own. */
const NAMED = [
  ...[...PLACES, 'wake', 'gweight', 'gduration', 'limiter', 'flow:outbox'],
  ...['metrics:completed', 'metrics:failed', 'metrics:completed:data', 'metrics:failed:data', 'metrics:rolled'],
  'meta',
];

/** The groups of a place. */
function groupsIn(g: Ground, key: Bytes): Bytes[] {
  const entry = g.keys.get(key);
  if (entry?.type === 'list') return [...entry.items];
  if (entry?.type === 'zset') return g.zrange(key).map(([group]) => group);
  if (entry?.type === 'set') return [...entry.members];
  return entry?.type === 'hash' ? [...entry.fields.keys()] : [];
}

const obliterate: Rule = (g, [meta = '', b = ''], [force = '', limit = '']) => {
  const most = p.positive('limit', limit);
  if (g.hget(meta, 'paused') === undefined) throw new Refused('EMQSTATE not paused');
  if (g.zrange(`${b}active`).length > 0 && force !== 'force') throw new Refused('EMQSTATE active jobs present');
  let left = most;
  const wipe = (key: Bytes, wasDead = false): void => {
    for (const [id] of g.zrange(key).slice(0, left)) {
      left -= 1;
      g.zrem(key, id);
      forget(g, b, id, { reason: 'obliterated', wasDead, own: false });
    }
  };
  for (const name of SETS) wipe(b + name, name === 'dead');
  for (const place of PLACES) {
    for (const group of groupsIn(g, b + place)) {
      if (left < 1) break;
      left -= 1;
      wipe(t.laneOf(b, group));
      if (g.zrange(t.laneOf(b, group)).length > 0) break;
      dropGroup(g, b + place, group);
      g.del(t.limiterOf(b, group));
    }
  }
  if (left < most) return 1;
  const repeats = g.zrange(`${b}repeat`).slice(0, most);
  for (const [name] of repeats) {
    g.zrem(`${b}repeat`, name);
    g.del(`${b}repeat:${name}`);
  }
  if (repeats.length > 0) return 1;
  const waiting = g.items(`${b}flow:outbox`).length > 0;
  if (waiting && force !== 'force') return 2;
  const landed = g.zrange(`${b}flow:landed`).slice(0, most);
  const poison = g.items(`${b}flow:poison`).length > 0;
  for (const [id] of landed) g.zrem(`${b}flow:landed`, id);
  for (const name of ['flow:outbox', 'flow:poison']) dropLetters(g, b, name, most);
  if (waiting || poison || landed.length > 0) return 1;
  for (const name of NAMED) g.del(b + name);
  return 0;
};

/** A group leaves a place, once. */
function dropGroup(g: Ground, key: Bytes, group: Bytes): void {
  const entry = g.keys.get(key);
  if (entry?.type === 'list') g.keep(key, (_group, at) => at > 0);
  else if (entry?.type === 'zset') g.zrem(key, group);
  else if (entry?.type === 'set') g.srem(key, group);
  else g.hdel(key, group);
}

/** Letters go unheard, with the children that they order to cancel. */
function dropLetters(g: Ground, b: Bytes, name: Bytes, most: number): void {
  for (const letter of g.items(b + name).slice(0, most)) {
    const [first, kind, parent] = letter.split('\0');
    if (first === '' && kind === 'cancel' && parent !== undefined) g.del(`${b}flow:cancel:${parent}`);
  }
  g.keep(b + name, (_letter, at) => at >= most);
}

const register: Rule = (g, [key = ''], [name = '', mode = '']) => {
  if (mode !== 'add' && mode !== 'remove') throw new Refused('ERR mode must be add or remove');
  const there = g.zscore(key, name) !== undefined;
  if (mode === 'remove') g.zrem(key, name);
  else if (!there) g.zadd(key, g.now, name);
  return there === (mode === 'remove') ? 1 : 0;
};

export const controlRules: Readonly<Record<string, Rule>> = {
  purge,
  obliterate,
  promote_now: promoteNow,
  reschedule,
  metrics_roll: metricsRoll,
  history,
  register,
};
