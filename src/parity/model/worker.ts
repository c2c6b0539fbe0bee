/**
 * The reference model of what a consumer calls besides the settles (wire contract, section 6).
 *
 * Does not: publish; whether a message was published is no part of a keyspace.
 */
import type { Bytes } from '../keyspace-dump.js';
import { Ground, integer, Refused, type ModelReply } from './ground.js';
import { tell } from './kin.js';
import { allowance, fill, limiter, nextToken, own, pay, queueRate, rateOf, room, tokens } from './limits.js';
import * as p from './procedures.js';
import { at, declared, type Rule } from './rule.js';
import * as t from './turns.js';

/** Whether a sorted set has [id, score] before the other. */
function before([id, score]: [Bytes, number], [other, its]: [Bytes, number]): boolean {
  return score < its || (score === its && id < other);
}

const take: Rule = (g, [pending = '', ring = '', active = '', b = ''], [lease = '', count = '', source = '']) => {
  const deadline = g.now + p.positive('lease', lease);
  const most = p.positive('count', count);
  if (!['flat', 'lanes', 'both'].includes(source)) throw new Refused('ERR source must be flat, lanes or both');
  declared(g, [pending, active], [], [ring]);
  const left = allowance(g, b);
  if (left < 1) return [];
  const jobs = new Map<Bytes, ModelReply>();
  const turns = source === 'flat' ? undefined : new t.Turns(g, b);
  const flatHead = (): [Bytes, number] | undefined => (source === 'lanes' ? undefined : g.zrange(pending)[0]);
  const turn = (): Bytes | undefined => turns?.next();
  while (jobs.size < Math.min(most, left)) {
    const flat = flatHead();
    const group = turn();
    const first = group === undefined ? undefined : g.zrange(t.laneOf(b, group))[0];
    const fromLane = first !== undefined && !(flat !== undefined && before(flat, first));
    const head = fromLane ? first : flat;
    if (head === undefined) break;
    const [id] = head;
    g.zrem(fromLane && group !== undefined ? t.laneOf(b, group) : pending, id);
    const row = `${b}job:${id}`;
    if (jobs.has(id) || g.look(row, 'hash') === undefined) continue;
    jobs.set(id, claim(g, b, id, deadline));
    if (!fromLane || group === undefined) continue;
    turns?.pay(group);
    turns?.served(group);
  }
  const full = jobs.size === most && most < left;
  const more =
    (full && (flatHead() !== undefined || turn() !== undefined)) || (jobs.size < left && turns?.tired === true);
  turns?.end();
  pay(g, b, jobs.size);
  if (more && g.items(`${b}wake`).length === 0) p.wake(g, b);
  return [...jobs.values()];
};

/** How many lanes a batch passes over at most. */
const PASSED_OVER = 64;

const takeBatch: Rule = (g, [pending = '', ring = '', active = '', b = ''], args) => {
  const [lease = '', size = '', min = '', source = ''] = args;
  const deadline = g.now + p.positive('lease', lease);
  const most = p.positive('size', size);
  const least = p.positive('min', min);
  if (source !== 'flat' && source !== 'lanes') throw new Refused('ERR source must be flat or lanes');
  declared(g, [pending, active], [], [ring]);
  const left = allowance(g, b);
  if (left < least) return [];
  const jobs: ModelReply[] = [];
  let more = false;
  let tired = false;
  /** Claims from the head of a set while that is open. */
  const drain = (key: Bytes, open: () => boolean, given: () => void): void => {
    for (const [id] of g.zrange(key)) {
      if (jobs.length >= Math.min(most, left) || !open()) return;
      g.zrem(key, id);
      if (g.look(`${b}job:${id}`, 'hash') === undefined) continue;
      jobs.push(claim(g, b, id, deadline));
      given();
    }
  };
  if (source === 'flat') {
    if (g.zrange(pending).length < least) return [];
    drain(
      pending,
      () => true,
      () => {},
    );
    more = g.zrange(pending).length > 0;
  } else {
    const turns = new t.Turns(g, b);
    let group = turns.next();
    for (let over = 1; group !== undefined && turns.gives(group) < least; over += 1) {
      turns.passOver(group);
      group = over < PASSED_OVER && !turns.around ? turns.next() : undefined;
    }
    if (group !== undefined) {
      const one = group;
      drain(
        t.laneOf(b, one),
        () => t.servable(g, b, one),
        () => turns.pay(one),
      );
      turns.served(one, true);
    }
    more = jobs.length === most && most < left && turns.next() !== undefined;
    tired = turns.tired;
    turns.end();
  }
  pay(g, b, jobs.length);
  const wakes = (more && jobs.length === most && most < left) || (tired && jobs.length < left);
  if (wakes && g.items(`${b}wake`).length === 0) p.wake(g, b);
  return jobs;
};

/** The claim of one job that a take found. */
function claim(g: Ground, b: Bytes, id: Bytes, deadline: number): ModelReply {
  const row = `${b}job:${id}`;
  const attempts = p.counter(g.hget(row, 'attempts')) + 1;
  const credit = p.counter(g.hget(row, 'credit'));
  const group = g.hget(row, 'group');
  if (group !== undefined) t.enter(g, b, group);
  g.hset(row, { attempts: p.digits(attempts), state: 'active' });
  if (g.executor === 'native') g.hset(row, { lease_epoch: g.runId });
  else g.hdel(row, 'lease_epoch');
  g.zadd(`${b}active`, deadline, id);
  return [id, g.hget(row, 'payload') ?? null, attempts, group ?? null, g.hget(row, 'opts') ?? null, credit];
}

/** What release and back_off share: the job is out of `active`, its lane has a job in flight less. */
function handBack(
  g: Ground,
  active: Bytes,
  row: Bytes,
  verb: Bytes,
  [id = '', given = '', b = '']: readonly Bytes[],
): void {
  if (!g.exists(row)) throw new Refused('EMQSTALE job gone');
  p.token(g, verb, row, given);
  if (g.zscore(active, id) === undefined) throw new Refused(`EMQSTATE ${verb} not active`);
  const credit = p.counter(g.hget(row, 'credit'));
  g.zrem(active, id);
  const group = g.hget(row, 'group');
  if (group !== undefined) t.leave(g, b, group);
  g.hset(row, { state: 'pending', credit: p.digits(credit + 1) });
}

const release: Rule = (g, [active = '', pending = '', row = ''], args) => {
  const [id = '', , b = ''] = args;
  declared(g, [active, pending], [row]);
  const wake = room(g, b);
  handBack(g, active, row, 'release', args);
  t.ready(g, b, id);
  wake();
  return 1;
};

const backOff: Rule = (g, [active = '', pending = '', row = ''], args) => {
  const [id = '', given = '', ms = '', scope = '', b = ''] = args;
  const wait = integer(ms) ?? 0;
  if (wait < 1 || wait > 2_147_483_647) throw new Refused('ERR ms must be an integer from 1 to 2147483647');
  const until = g.now + wait;
  if (scope !== 'own' && scope !== 'queue') throw new Refused('ERR scope must be own or queue');
  declared(g, [active, pending], [row]);
  const wake = room(g, b);
  handBack(g, active, row, 'back_off', [id, given, b]);
  const group = g.hget(row, 'group');
  const score = p.rank(g.hget(row, 'priority'));
  g.zadd(group === undefined ? pending : t.laneOf(b, group), score, id);
  if (group !== undefined && scope === 'own') {
    const gwait = `${b}gwait`;
    t.servable(g, b, group);
    t.offRing(g, b, group);
    let waits = Math.max(until, g.zscore(gwait, group) ?? 0);
    const pace = rateOf(own(g, `${b}gmax`, group), own(g, `${b}gduration`, group));
    if (pace !== undefined) {
      const bucket = t.limiterOf(b, group);
      fill(g, bucket, Math.max(limiter(g, bucket), 1000 * g.now, 1000 * waits + pace.step * (pace.max - 1)));
      waits = Math.max(waits, nextToken(g, bucket, pace));
    }
    g.zadd(gwait, waits, group);
    wake();
    return 1;
  }
  const rate = queueRate(g, b);
  const full = 1000 * until + (rate === undefined ? 0 : rate.step * (rate.max - 1));
  const key = `${b}limiter`;
  fill(g, key, Math.max(limiter(g, key), full));
  if (group !== undefined) t.ring(g, b, group);
  return 1;
};

/** Why a row cannot be read; undefined for one that can, and for a ghost. */
function unreadable(g: Ground, row: Bytes): Bytes | undefined {
  const entry = g.keys.get(row);
  if (entry !== undefined && entry.type !== 'hash') return 'row is not a hash';
  const broken = ['attempts', 'credit', 'stalled'].find((name) => {
    const text = entry?.fields.get(name);
    return text !== undefined && integer(text) === undefined;
  });
  return broken === undefined ? undefined : `${broken} is not an integer`;
}

/** What a quarantine has found: jobs with the sets they are to leave, and lanes. */
class Findings {
  readonly jobs = new Map<Bytes, { readonly why: Bytes; readonly from: Bytes[] }>();
  /** Lanes that cannot be read: what of them, in the order in which they were found. */
  readonly lanes = new Map<Bytes, Bytes>();
  readonly #g: Ground;
  readonly #b: Bytes;

  constructor(g: Ground, b: Bytes) {
    this.#g = g;
    this.#b = b;
  }

  judge(group: Bytes, broken: Bytes | undefined): void {
    if (broken !== undefined && !this.lanes.has(group)) this.lanes.set(group, broken);
  }

  /** Looks at a job that the set `key` holds. */
  look(id: Bytes, key: Bytes): 'ghost' | 'sick' | 'well' {
    const row = `${this.#b}job:${id}`;
    const entry = this.#g.keys.get(row);
    const group = entry?.type === 'hash' ? entry.fields.get('group') : undefined;
    if (group !== undefined) this.judge(group, t.brokenCount(this.#g, this.#b, group));
    const why = unreadable(this.#g, row);
    if (why === undefined) return entry === undefined ? 'ghost' : 'well';
    const found = this.jobs.get(id) ?? { why, from: [] };
    found.from.push(key);
    this.jobs.set(id, found);
    return 'sick';
  }

  /** Along the lanes as a take of `limit` jobs goes, in thought. */
  walk(limit: number): void {
    const b = this.#b;
    const thought = new Ground(this.#g.keys, this.#g.now, this.#g.executor, this.#g.runId);
    const turns = new t.Turns(thought, b);
    for (let looked = 0; looked < limit;) {
      const [head] = thought.items(`${b}ring`);
      if (head === undefined) return;
      const broken = t.brokenLane(thought, b, head);
      if (broken !== undefined) {
        this.judge(head, broken);
        turns.pass();
        continue;
      }
      const group = turns.next(1);
      if (turns.tired) return;
      if (group === undefined) continue;
      const key = t.laneOf(b, group);
      const id = thought.zrange(key)[0]?.[0] ?? '';
      thought.zrem(key, id);
      const state = this.look(id, key);
      if (state !== 'ghost') looked += 1;
      if (state !== 'well') continue;
      if (thought.hget(`${b}job:${id}`, 'group') === group) t.enter(thought, b, group);
      turns.pay(group);
      turns.served(group);
    }
  }
}

const quarantine: Rule = (g, keys, [limit = '']) => {
  const most = p.positive('limit', limit);
  const [pending = '', ring = '', active = '', schedule = '', dead = '', b = ''] = keys;
  declared(g, [pending, active, schedule, dead], [], [ring]);
  const found = new Findings(g, b);
  const wake = room(g, b);
  let looked = 0;
  for (const [id] of g.zrange(pending)) if (looked < most && found.look(id, pending) !== 'ghost') looked += 1;
  found.walk(most);
  for (const key of [active, schedule]) for (const id of p.due(g, key, most)) found.look(id, key);

  const left = new Set<Bytes>();
  const groupOf = new Map(
    [...found.jobs].map(([id]) => {
      const entry = g.keys.get(`${b}job:${id}`);
      return [id, entry?.type === 'hash' ? entry.fields.get('group') : undefined] as const;
    }),
  );
  for (const [id, { from }] of found.jobs) {
    for (const key of from) {
      g.zrem(key, id);
      if (key.startsWith(`${b}g:`)) left.add(key.slice(b.length + 2, -':pending'.length));
    }
  }
  for (const [id, { from }] of found.jobs) {
    const group = groupOf.get(id);
    if (!from.includes(active) || group === undefined || t.brokenCount(g, b, group) !== undefined) continue;
    t.leave(g, b, group);
    t.ring(g, b, group);
    left.add(group);
  }
  for (const group of left) t.unring(g, b, group);
  for (const [id, { why }] of found.jobs) {
    g.zadd(dead, g.now, id);
    if (why === 'row is not a hash') continue;
    tell(g, b, 'fail', id, `unreadable: ${why}`);
    p.unpark(g, b, id);
    g.hset(`${b}job:${id}`, { state: 'dead', last_error: `unreadable: ${why}` });
  }
  p.count(g, b, 'failed', found.jobs.size);
  wake();
  const lanes = [...found.lanes].map(([group, name]) => [group, `${name} is not an integer`]);
  return [...[...found.jobs].map(([id, { why }]) => [id, why]), ...lanes];
};

/** What is broken keeps nobody from the rest: a key of another type, or a number that is none, counts as not there. */
const agenda: Rule = (g, [schedule = '', b = '']) => {
  const largest = 2 ** 52;
  const wait = (times: readonly number[]): number | null =>
    times.length === 0 ? null : Math.max(-largest, Math.min(largest, Math.ceil(Math.min(...times) - g.now)));
  const firstOf = (key: Bytes): number[] =>
    g.keys.get(key)?.type === 'zset'
      ? g
          .zrange(key)
          .slice(0, 1)
          .map(([, score]) => score)
      : [];
  declared(g, [schedule], [`${b}meta`]);
  const outbox = g.keys.get(`${b}flow:outbox`);
  const letters = outbox === undefined ? 0 : outbox.type === 'list' ? outbox.items.length : null;
  const limited = (integer(g.hget(`${b}meta`, 'max') ?? '') ?? 0) >= 1 || g.keys.get(`${b}gmax`)?.type === 'hash';
  const due = [...firstOf(schedule), ...firstOf(`${b}gwait`), ...nextOf(g, b)];
  const repeat = firstOf(`${b}repeat`).filter((score) => score !== Infinity);
  return [wait(due), g.hget(`${b}meta`, 'recovery') ?? null, letters, limited ? 1 : 0, wait(repeat)];
};

/** The next token of the queue, where something waits for it. */
function nextOf(g: Ground, b: Bytes): number[] {
  const waits = g.keys.get(`${b}pending`)?.type === 'zset' || g.keys.get(`${b}ring`)?.type === 'list';
  const key = `${b}limiter`;
  const entry = g.keys.get(key);
  const held = entry?.type === 'string' ? (integer(entry.value) ?? 0) : 0;
  if (!waits || held <= 1000 * g.now || g.hget(`${b}meta`, 'paused') !== undefined) return [];
  const rate = integer(g.hget(`${b}meta`, 'max') ?? '') === undefined ? undefined : queueRate(g, b);
  if (rate === undefined) return [Math.ceil(held / 1000)];
  return tokens(g, key, rate) < 1 ? [nextToken(g, key, rate)] : [];
}

const recovery: Rule = (g, [meta = ''], [leg = '', mode = '']) => {
  if (leg !== 'reap' && leg !== 'stalled') throw new Refused('ERR leg must be reap or stalled');
  if (mode !== 'keep' && mode !== 'set') throw new Refused('ERR mode must be keep or set');
  const stands = g.hget(meta, 'recovery');
  if (mode === 'keep' && stands !== undefined) return stands;
  g.hset(meta, { recovery: leg });
  return leg;
};

const wake: Rule = (g, keys) => {
  const key = at(keys, 0);
  const room = g.items(key).length < 64;
  if (room) g.push('head', key, '1');
  return room ? 1 : 0;
};

const publish: Rule = (_g, _keys, messages) => {
  if (messages.length === 0) throw new Refused('ERR publish needs a message');
  return messages.length;
};

export const workerRules: Readonly<Record<string, Rule>> = {
  take,
  take_batch: takeBatch,
  release,
  back_off: backOff,
  quarantine,
  agenda,
  recovery,
  wake,
  publish,
};
