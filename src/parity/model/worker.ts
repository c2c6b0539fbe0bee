/**
 * The reference model of what a consumer calls besides the settles (wire contract, section 6).
 *
 * Does not: publish; whether a message was published is no part of a keyspace.
 */
import type { Bytes } from '../keyspace-dump.js';
import { Ground, integer, Refused, type ModelReply } from './ground.js';
import { tell } from './kin.js';
import * as p from './procedures.js';
import { at, declared, type Rule } from './transitions.js';

/** Whether a sorted set has [id, score] before the other. */
function before([id, score]: [Bytes, number], [other, its]: [Bytes, number]): boolean {
  return score < its || (score === its && id < other);
}

const take: Rule = (g, [pending = '', ring = '', active = '', b = ''], [lease = '', count = '', source = '']) => {
  const deadline = g.now + p.positive('lease', lease);
  const most = p.positive('count', count);
  if (!['flat', 'lanes', 'both'].includes(source)) throw new Refused('ERR source must be flat, lanes or both');
  declared(g, [pending, active], [], [ring]);
  if (g.hget(`${b}meta`, 'paused') !== undefined) return [];
  const jobs = new Map<Bytes, ModelReply>();
  const flatHead = (): [Bytes, number] | undefined => (source === 'lanes' ? undefined : g.zrange(pending)[0]);
  const turn = (): Bytes | undefined => (source === 'flat' ? undefined : p.turn(g, b));
  while (jobs.size < most) {
    const flat = flatHead();
    const group = turn();
    const first = group === undefined ? undefined : g.zrange(p.laneOf(b, group))[0];
    const fromLane = first !== undefined && !(flat !== undefined && before(flat, first));
    const head = fromLane ? first : flat;
    if (head === undefined) break;
    const [id] = head;
    g.zrem(fromLane && group !== undefined ? p.laneOf(b, group) : pending, id);
    const row = `${b}job:${id}`;
    if (jobs.has(id) || g.look(row, 'hash') === undefined) continue;
    jobs.set(id, claim(g, b, id, deadline));
    if (fromLane && group !== undefined) p.served(g, b, group);
  }
  const more = jobs.size === most && (flatHead() !== undefined || turn() !== undefined);
  if (more && g.items(`${b}wake`).length === 0) p.wake(g, b);
  return [...jobs.values()];
};

/** The claim of one job that a take found. */
function claim(g: Ground, b: Bytes, id: Bytes, deadline: number): ModelReply {
  const row = `${b}job:${id}`;
  const attempts = p.counter(g.hget(row, 'attempts')) + 1;
  const credit = p.counter(g.hget(row, 'credit'));
  const group = g.hget(row, 'group');
  if (group !== undefined) p.enter(g, b, group);
  g.hset(row, { attempts: p.digits(attempts), state: 'active' });
  if (g.executor === 'native') g.hset(row, { lease_epoch: g.runId });
  else g.hdel(row, 'lease_epoch');
  g.zadd(`${b}active`, deadline, id);
  return [id, g.hget(row, 'payload') ?? null, attempts, group ?? null, g.hget(row, 'opts') ?? null, credit];
}

const release: Rule = (g, [active = '', pending = '', row = ''], [id = '', given = '', b = '']) => {
  declared(g, [active, pending], [row]);
  if (!g.exists(row)) throw new Refused('EMQSTALE job gone');
  p.token(g, 'release', row, given);
  if (g.zscore(active, id) === undefined) throw new Refused('EMQSTATE release not active');
  const credit = p.counter(g.hget(row, 'credit'));
  g.zrem(active, id);
  const group = g.hget(row, 'group');
  if (group !== undefined) p.leave(g, b, group);
  p.ready(g, b, id);
  g.hset(row, { state: 'pending', credit: p.digits(credit + 1) });
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
  readonly lanes = new Map<Bytes, Bytes | undefined>();
  readonly #g: Ground;
  readonly #b: Bytes;

  constructor(g: Ground, b: Bytes) {
    this.#g = g;
    this.#b = b;
  }

  judge(group: Bytes): void {
    if (!this.lanes.has(group)) this.lanes.set(group, p.brokenLane(this.#g, this.#b, group));
  }

  /** Looks at a job that the set `key` holds. */
  look(id: Bytes, key: Bytes): 'ghost' | 'sick' | 'well' {
    const row = `${this.#b}job:${id}`;
    const entry = this.#g.keys.get(row);
    const group = entry?.type === 'hash' ? entry.fields.get('group') : undefined;
    if (group !== undefined) this.judge(group);
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
    for (let looked = 0; looked < limit;) {
      const [group] = thought.items(`${b}ring`);
      if (group === undefined) return;
      if (p.brokenLane(thought, b, group) !== undefined) {
        this.judge(group);
        p.passTurn(thought, b);
        continue;
      }
      if (!p.servable(thought, b, group)) {
        p.passTurn(thought, b);
        continue;
      }
      const key = p.laneOf(b, group);
      const id = thought.zrange(key)[0]?.[0] ?? '';
      thought.zrem(key, id);
      const state = this.look(id, key);
      if (state !== 'ghost') looked += 1;
      if (state !== 'well') continue;
      if (thought.hget(`${b}job:${id}`, 'group') === group) p.enter(thought, b, group);
      p.served(thought, b, group);
    }
  }
}

const quarantine: Rule = (g, keys, [limit = '']) => {
  const most = p.positive('limit', limit);
  const [pending = '', ring = '', active = '', schedule = '', dead = '', b = ''] = keys;
  declared(g, [pending, active, schedule, dead], [], [ring]);
  const found = new Findings(g, b);
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
    if (!from.includes(active) || group === undefined || found.lanes.get(group) !== undefined) continue;
    p.leave(g, b, group);
    p.ring(g, b, group);
    left.add(group);
  }
  for (const group of left) p.unring(g, b, group);
  for (const [id, { why }] of found.jobs) {
    g.zadd(dead, g.now, id);
    if (why === 'row is not a hash') continue;
    tell(g, b, 'fail', id, `unreadable: ${why}`);
    g.hset(`${b}job:${id}`, { state: 'dead', last_error: `unreadable: ${why}` });
  }
  p.count(g, b, 'failed', found.jobs.size);
  const lanes = [...found.lanes].flatMap(([group, name]) =>
    name === undefined ? [] : [[group, `${name} is not an integer`]],
  );
  return [...[...found.jobs].map(([id, { why }]) => [id, why]), ...lanes];
};

const agenda: Rule = (g, [schedule = '', b = '']) => {
  const first = g.zrange(schedule)[0];
  const largest = 2 ** 52;
  const wait = first === undefined ? null : Math.max(-largest, Math.min(largest, Math.ceil(first[1] - g.now)));
  const outbox = g.keys.get(`${b}flow:outbox`);
  const letters = outbox === undefined ? 0 : outbox.type === 'list' ? outbox.items.length : null;
  return [wait, g.hget(`${b}meta`, 'recovery') ?? null, letters];
};

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
  release,
  quarantine,
  agenda,
  recovery,
  wake,
  publish,
};
