/**
 * The reference model of the transitions that move jobs (wire contract, section 6), from admission to the sweeps.
 *
 * Each takes the keys and arguments of a call as they are on the wire, changes the ground and answers; a refusal is
 * thrown, and whoever applies a call then drops the ground. Does not: know the operator's verbs (operator.ts).
 */
import type { Bytes } from '../keyspace-dump.js';
import type { Ground } from './ground.js';
import { Refused, type ModelReply } from './ground.js';
import { bury, join, tell } from './kin.js';
import { allowance, pay, room } from './limits.js';
import * as p from './procedures.js';
import { at, baseOf, declared, runAt, type Rule } from './rule.js';
import * as t from './turns.js';

export function admit(g: Ground, row: Bytes, state: Bytes, payload: Bytes, priority: Bytes, opts: Bytes): void {
  g.hset(row, {
    state,
    attempts: '0',
    payload,
    ...(priority === '' ? {} : { priority }),
    ...(opts === '' ? {} : { opts }),
  });
}

const enqueue: Rule = (g, [row = '', pending = '', wake = ''], [id = '', payload = '', priority = '', opts = '']) => {
  p.kind(id);
  declared(g, [pending], [row], [wake]);
  if (g.exists(row)) return 0;
  admit(g, row, 'pending', payload, priority, opts);
  g.zadd(pending, p.rank(priority), id);
  p.wake(g, baseOf(pending, 'pending'));
  return 1;
};

const schedule: Rule = (g, [row = '', set = '', wake = ''], args) => {
  const [id = '', payload = '', mode = '', ms = '', priority = '', opts = ''] = args;
  p.kind(id);
  const time = runAt(g, mode, ms);
  declared(g, [set], [row], [wake]);
  if (g.exists(row)) return 0;
  admit(g, row, 'scheduled', payload, priority, opts);
  p.put(g, baseOf(set, 'schedule'), id, time);
  return 1;
};

/** Takes an id from the waiting ones, to be active; undefined for a ghost, which is gone then. */
function take(g: Ground, pending: Bytes, b: Bytes, id: Bytes): ModelReply[] | undefined {
  g.zrem(pending, id);
  const row = `${b}job:${id}`;
  if (g.look(row, 'hash') === undefined) return undefined;
  const attempts = p.counter(g.hget(row, 'attempts')) + 1;
  g.hset(row, { attempts: p.digits(attempts), state: 'active' });
  return [id, g.hget(row, 'payload') ?? null, attempts];
}

const claim: Rule = (g, [pending = '', active = '', b = ''], [lease = '']) => {
  const deadline = g.now + p.positive('lease', lease);
  declared(g, [pending, active]);
  if (allowance(g, b) < 1) return [];
  const head = g.zrange(pending)[0];
  if (head === undefined) return [];
  const job = take(g, pending, b, head[0]);
  if (job === undefined) return [];
  pay(g, b, 1);
  const row = `${b}job:${head[0]}`;
  if (g.executor === 'native') g.hset(row, { lease_epoch: g.runId });
  else g.hdel(row, 'lease_epoch');
  g.zadd(active, deadline, head[0]);
  return job;
};

const claimBatch: Rule = (g, [pending = '', active = '', b = ''], [lease = '', size = '']) => {
  const deadline = g.now + p.positive('lease', lease);
  const most = p.positive('size', size);
  declared(g, [pending, active]);
  const left = allowance(g, b);
  const jobs: ModelReply[] = [];
  for (const [id] of g.zrange(pending)) {
    if (jobs.length >= Math.min(most, left)) break;
    const job = take(g, pending, b, id);
    if (job === undefined) continue;
    if (g.executor === 'native') g.hset(`${b}job:${id}`, { lease_epoch: g.runId });
    else g.hdel(`${b}job:${id}`, 'lease_epoch');
    g.zadd(active, deadline, id);
    jobs.push(job);
  }
  pay(g, b, jobs.length);
  return jobs;
};

/** The keys of a settle that belong to the parent, and how its layout finds the parent. */
interface Kin {
  readonly parent: Bytes;
  /** Undefined for a parent in this queue. */
  readonly queue: Bytes | undefined;
  /** The parent's keys as they have to be. */
  readonly keys: readonly Bytes[];
}

/** The layout is that of this row's own parent, or the call is refused. */
function checkKin(g: Ground, row: Bytes, keys: readonly Bytes[], verb: string, kin: Kin): void {
  const named = g.hget(row, 'parent') === kin.parent && g.hget(row, 'parent_queue') === kin.queue;
  const inPlace = keys.length === kin.keys.length && keys.every((key, i) => key === kin.keys[i]);
  if (!named || !inPlace) throw new Refused(`EMQSTATE ${verb} flow keys`);
}

const completeAs =
  (child: boolean): Rule =>
  (g, keys, args) => {
    const [active = '', row = '', ...own] = keys;
    const [id = '', given = '', b = '', parent = '', result = '', marker, queue] = args;
    const elsewhere = marker === 'xq';
    const [dependencies = '', processed = '', parentRow = ''] = own;
    if (!child) declared(g, [active], [row]);
    else if (elsewhere) declared(g, [active], [row], [at(own, 0)]);
    else declared(g, [active], [row, processed, parentRow], [], [dependencies]);
    if (!g.exists(row)) return 0;
    p.token(g, 'complete', row, given);
    if (!child) refuseFlow(g, row, 'complete', 'complete');
    else {
      const of = `${b}job:${parent}`;
      const kins = elsewhere ? [`${b}flow:outbox`] : [`${of}:dependencies`, `${of}:processed`, of];
      checkKin(g, row, own, 'complete', {
        parent,
        queue: elsewhere ? queue : undefined,
        keys: kins,
      });
    }
    const group = g.hget(row, 'group');
    const place = t.held(g, 'complete', b, id, group);
    const wake = room(g, b);
    t.depart(g, b, id, place, group);
    if (child && elsewhere) g.push('tail', `${b}flow:outbox`, [queue, parent, id, result].join('\0'));
    else if (child) join(g, b, id, parent, result);
    p.retire(g, b, id, g.hget(row, 'dedup_keep') !== undefined);
    p.count(g, b, 'completed');
    wake();
    return 1;
  };

const failAs =
  (child: boolean): Rule =>
  (g, keys, args) => {
    const [active = '', set = '', dead = '', row = '', ...own] = keys;
    const [id = '', given = '', delay = '', max = '', error = '', b = '', marker = '', ...kin] = args;
    const later = g.now + p.anyInteger('delay', delay);
    const cap = p.positive('max', max);
    const elsewhere = marker.startsWith('xq:');
    const policy = marker.slice('xq:'.length);
    const [queue, parent = ''] = elsewhere ? kin : [undefined, ...kin];
    const [failed = '', unsuccessful = '', dependencies = '', parentRow = ''] = own;
    if (!child) declared(g, [active, set, dead], [row]);
    else if (elsewhere) declared(g, [active, set, dead], [row], [at(own, 0)]);
    else declared(g, [active, set, dead], [row, failed, unsuccessful, parentRow], [], [dependencies]);
    if (!g.exists(row)) throw new Refused('EMQSTALE job gone');
    const attempts = p.token(g, 'retry', row, given);
    if (!child) refuseFlow(g, row, 'retry', 'fail');
    else {
      const of = `${b}job:${parent}`;
      const kins = elsewhere ? [`${b}flow:outbox`] : [`${of}:failed`, `${of}:unsuccessful`, `${of}:dependencies`, of];
      checkKin(g, row, own, 'retry', { parent, queue, keys: kins });
    }
    const group = g.hget(row, 'group');
    const place = t.held(g, 'retry', b, id, group);
    const wake = room(g, b);
    t.depart(g, b, id, place, group);
    wake();
    g.hset(row, { last_error: error });
    if (attempts < cap) {
      g.hset(row, { state: 'scheduled' });
      p.put(g, b, id, later);
      return 'scheduled';
    }
    g.hset(row, { state: 'dead' });
    g.zadd(dead, g.now, id);
    p.count(g, b, 'failed');
    p.unpark(g, b, id);
    if (child && elsewhere) tell(g, b, 'fail', id, error, policy);
    else if (child) bury(g, b, { child: id, parent, policy, error });
    return 'dead';
  };

/** A row with `parent` and no flow keys: each executor says so in its own words. */
function refuseFlow(g: Ground, row: Bytes, scripts: string, natives: string): void {
  if (g.hget(row, 'parent') === undefined) return;
  const text = g.executor === 'native' ? `EMQSTATE ${natives} flow not native` : `EMQSTATE ${scripts} flow keys`;
  throw new Refused(text);
}

const delay: Rule = (g, [row = '', active = '', set = ''], [id = '', given = '', mode = '', ms = '', b = '']) => {
  const time = runAt(g, mode, ms);
  declared(g, [active, set], [row]);
  if (!g.exists(row)) throw new Refused('EMQSTALE job gone');
  p.token(g, 'delay', row, given);
  if (g.zscore(active, id) === undefined) throw new Refused('EMQSTATE delay not active');
  const credit = p.counter(g.hget(row, 'credit'));
  const wake = room(g, b);
  t.depart(g, b, id, active, g.hget(row, 'group'));
  wake();
  g.hset(row, { state: 'scheduled', credit: p.digits(credit + 1) });
  p.put(g, b, id, time);
  return 1;
};

const extend: Rule = (g, [active = '', row = ''], [id = '', given = '', lease = '']) => {
  const deadline = g.now + p.positive('lease', lease);
  declared(g, [active], [row]);
  if (!g.exists(row)) return -1;
  p.token(g, 'extend', row, given);
  if (g.zscore(active, id) === undefined) throw new Refused('EMQSTATE extend not active');
  g.zadd(active, deadline, id);
  return 1;
};

const extendMany: Rule = (g, [active = '', b = ''], [lease = '', ...pairs]) => {
  const deadline = g.now + p.positive('lease', lease);
  if (pairs.length % 2 !== 0) throw new Refused('ERR ids and tokens must come in pairs');
  declared(g, [active]);
  const failed: Bytes[] = [];
  const renewed: Bytes[] = [];
  for (let i = 0; i < pairs.length; i += 2) {
    const id = at(pairs, i);
    try {
      p.token(g, 'extend', `${b}job:${id}`, at(pairs, i + 1));
      (g.zscore(active, id) === undefined ? failed : renewed).push(id);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      failed.push(id);
    }
  }
  for (const id of renewed) g.zadd(active, deadline, id);
  return failed;
};

/** An id that was due waits again; false for a ghost, which is dropped. `leaves`: it was in flight. */
export function bringBack(g: Ground, from: Bytes, b: Bytes, id: Bytes, leaves: boolean): boolean {
  const row = `${b}job:${id}`;
  g.zrem(from, id);
  if (g.look(row, 'hash') === undefined) return false;
  const group = g.hget(row, 'group');
  if (leaves && group !== undefined) t.leave(g, b, group);
  t.ready(g, b, id);
  g.hset(row, { state: 'pending' });
  return true;
}

const promote: Rule = (g, [set = '', pending = '', b = ''], [limit = '']) => {
  const most = p.positive('limit', limit);
  declared(g, [set, pending]);
  const count = p.due(g, set, most).filter((id) => bringBack(g, set, b, id, false)).length;
  const gwait = `${b}gwait`;
  for (const group of p.due(g, gwait, most)) {
    g.zrem(gwait, group);
    // one whose counts cannot be read is served by nobody, and does not keep the others
    if (t.brokenCount(g, b, group) === undefined) t.ring(g, b, group);
  }
  return count;
};

const reap: Rule = (g, [active = '', pending = '', b = ''], [limit = '']) => {
  const most = p.positive('limit', limit);
  declared(g, [active, pending]);
  const wake = room(g, b);
  const count = p.due(g, active, most).filter((id) => bringBack(g, active, b, id, true)).length;
  wake();
  return count;
};

const stalledCheck: Rule = (g, [active = '', pending = '', dead = ''], [b = '', max = '', limit = '']) => {
  const cap = p.positive('max', max);
  const most = p.positive('limit', limit);
  declared(g, [active, pending, dead]);
  const recovered: Bytes[] = [];
  const died: Bytes[] = [];
  const wake = room(g, b);
  for (const id of p.due(g, active, most)) {
    const row = `${b}job:${id}`;
    g.zrem(active, id);
    if (g.look(row, 'hash') === undefined) continue;
    const group = g.hget(row, 'group');
    if (group !== undefined) t.leave(g, b, group);
    const epoch = g.hget(row, 'lease_epoch');
    if (g.executor === 'native' && epoch !== undefined && epoch !== g.runId) {
      g.hdel(row, 'lease_epoch');
      g.hset(row, { credit: p.digits(p.counter(g.hget(row, 'credit')) + 1), state: 'pending' });
      t.ready(g, b, id);
      recovered.push(id);
      continue;
    }
    const stalled = p.counter(g.hget(row, 'stalled')) + 1;
    g.hset(row, { stalled: p.digits(stalled) });
    if (stalled >= cap) {
      g.hset(row, { state: 'dead', last_error: 'stalled' });
      g.zadd(dead, g.now, id);
      if (group !== undefined) t.ring(g, b, group);
      tell(g, b, 'fail', id, 'stalled');
      p.unpark(g, b, id);
      died.push(id);
    } else {
      t.ready(g, b, id);
      g.hset(row, { state: 'pending' });
      recovered.push(id);
    }
  }
  p.count(g, b, 'failed', died.length);
  wake();
  return [recovered, died];
};

export const jobRules: Readonly<Record<string, Rule>> = {
  enqueue,
  schedule,
  claim,
  claim_batch: claimBatch,
  complete: completeAs(false),
  complete_child: completeAs(true),
  fail: failAs(false),
  fail_child: failAs(true),
  delay,
  extend,
  extend_many: extendMany,
  promote,
  reap,
  stalled_check: stalledCheck,
};
