/**
 * The reference model of repeats (wire contract, section 6, "Repeats").
 *
 * Does not: know what slots a spec means.
 */
import type { Bytes } from '../keyspace-dump.js';
import { integer, Refused, type Ground, type ModelReply } from './ground.js';
import * as p from './procedures.js';
import { flat, scoreText, type Rule } from './rule.js';
import { admit } from './transitions.js';
import * as t from './turns.js';

const recordOf = (b: Bytes, name: Bytes): Bytes => `${b}repeat:${name}`;

/** An integer, or undefined for an empty text. */
const maybe = (what: string, text: Bytes): number | undefined => (text === '' ? undefined : p.anyInteger(what, text));

/** The record's next slot, and its place by it; says whether it is the first there now. */
function place(g: Ground, b: Bytes, name: Bytes, next: number | undefined): boolean {
  const record = recordOf(b, name);
  if (next === undefined) g.hdel(record, 'next');
  else g.hset(record, { next: p.digits(next) });
  const paused = g.hget(record, 'paused') !== undefined;
  g.zadd(`${b}repeat`, paused || next === undefined ? Infinity : next, name);
  return !paused && next !== undefined && g.zrange(`${b}repeat`)[0]?.[0] === name;
}

/** Fields that are set, or go where they are empty. */
function template(g: Ground, record: Bytes, fields: Readonly<Record<Bytes, Bytes>>): void {
  for (const [field, value] of Object.entries(fields)) {
    if (value === '' && field !== 'payload') g.hdel(record, field);
    else g.hset(record, { [field]: value });
  }
}

const repeatPut: Rule = (g, [b = ''], args) => {
  const [name = '', spec = '', first = '', limit = '', end = '', payload = '', ...more] = args;
  const [priority = '', opts = '', group = ''] = more;
  if (args.length !== 9) throw new Refused('ERR a repeat is nine arguments');
  const slot = p.anyInteger('first', first);
  if (limit !== '') p.positive('limit', limit);
  const last = maybe('end', end);
  const record = recordOf(b, name);
  g.look(`${b}repeat`, 'zset');
  g.items(`${b}wake`);
  const old = g.look(record, 'hash');
  const fields = { payload, priority, opts, group };
  if (old !== undefined && old.fields.get('spec') === spec) {
    const stands = integer(old.fields.get('next') ?? '');
    template(g, record, fields);
    g.hset(record, { name });
    place(g, b, name, stands);
    return ['kept', stands === undefined ? null : p.digits(stands)];
  }
  const paused = old?.fields.get('paused');
  g.del(record);
  g.hset(record, { name, spec, count: '0', ...(paused === undefined ? {} : { paused: '1' }) });
  template(g, record, { ...fields, limit, end });
  const next = last !== undefined && slot > last ? undefined : slot;
  if (place(g, b, name, next)) p.wake(g, b);
  return [old === undefined ? 'created' : 'changed', next === undefined ? null : p.digits(next)];
};

const repeatFire: Rule = (g, [b = ''], args) => {
  const [name = '', slot = '', id = '', opts = '', following = ''] = args;
  p.kind(id);
  if (args.length !== 5) throw new Refused('ERR a fire is five arguments');
  const time = p.anyInteger('slot', slot);
  const next = maybe('next', following);
  if (next !== undefined && next <= time) throw new Refused('ERR next must be later than slot');
  const record = recordOf(b, name);
  const row = `${b}job:${id}`;
  const score = g.zscore(`${b}repeat`, name);
  if (g.look(record, 'hash') === undefined) {
    g.zrem(`${b}repeat`, name);
    return 'gone';
  }
  if (score !== time) return 'moved';
  if (time > g.now) return 'early';
  if (g.look(row, 'hash') !== undefined) return 'duplicate';
  const count = p.counter(g.hget(record, 'count')) + 1;
  const limit = integer(g.hget(record, 'limit') ?? '');
  const end = integer(g.hget(record, 'end') ?? '');
  const over = next === undefined || (end !== undefined && next > end) || (limit !== undefined && count >= limit);
  const group = g.hget(record, 'group');
  admit(g, row, 'pending', g.hget(record, 'payload') ?? '', g.hget(record, 'priority') ?? '', opts);
  if (group !== undefined) g.hset(row, { group });
  t.ready(g, b, id);
  g.hset(record, { count: p.digits(count), last: slot });
  place(g, b, name, over ? undefined : next);
  return 'fired';
};

const repeatPause: Rule = (g, [b = ''], [name = '']) => {
  const record = recordOf(b, name);
  g.look(`${b}repeat`, 'zset');
  if (g.look(record, 'hash') === undefined) return -1;
  const was = g.hget(record, 'paused') !== undefined;
  g.hset(record, { paused: '1' });
  g.zadd(`${b}repeat`, Infinity, name);
  return was ? 0 : 1;
};

const repeatResume: Rule = (g, [b = ''], [name = '', next = '']) => {
  const slot = maybe('next', next);
  const record = recordOf(b, name);
  g.look(`${b}repeat`, 'zset');
  if (g.look(record, 'hash') === undefined) return -1;
  if (g.hget(record, 'paused') === undefined) return 0;
  g.items(`${b}wake`);
  g.hdel(record, 'paused');
  if (place(g, b, name, slot)) p.wake(g, b);
  return 1;
};

const repeatRemove: Rule = (g, [b = ''], [name = '']) => {
  const record = recordOf(b, name);
  g.look(`${b}repeat`, 'zset');
  const there = g.look(record, 'hash') !== undefined;
  g.del(record);
  g.zrem(`${b}repeat`, name);
  return there ? 1 : 0;
};

const repeats: Rule = (g, [b = ''], [which = '', offset = '', limit = '']) => {
  if (which !== 'due' && which !== 'all') throw new Refused('ERR which must be due or all');
  const from = p.notNegative('offset', offset);
  const most = p.positive('limit', limit);
  const found = g.zrange(`${b}repeat`).filter(([, score]) => which === 'all' || score <= g.now);
  const shown = found.slice(from, from + most).map(([name, score]): ModelReply => {
    return [name, scoreText(score), flat(g.fields(recordOf(b, name)))];
  });
  return [g.now, ...shown];
};

const repeatGet: Rule = (g, [b = ''], [name = '']) => {
  const score = g.zscore(`${b}repeat`, name);
  return [g.now, score === undefined ? null : scoreText(score), flat(g.fields(recordOf(b, name)))];
};

export const repeatRules: Readonly<Record<string, Rule>> = {
  repeat_put: repeatPut,
  repeat_fire: repeatFire,
  repeat_pause: repeatPause,
  repeat_resume: repeatResume,
  repeat_remove: repeatRemove,
  repeats,
  repeat_get: repeatGet,
};
