/**
 * The reference model of what sets, moves and reads lanes (wire contract, section 6, "Lanes, limits and dedup").
 *
 * Does not: claim from lanes (worker.ts), or page: a small hash comes whole.
 */
import type { Bytes } from '../keyspace-dump.js';
import { integer, Refused, type Ground } from './ground.js';
import { changeRate, own, room, setting, settings, tokenWait } from './limits.js';
import * as p from './procedures.js';
import { declared, type Rule } from './rule.js';
import { bringBack } from './transitions.js';
import * as t from './turns.js';

const FIELDS: Readonly<Record<Bytes, Bytes>> = {
  limit: 'glimit',
  weight: 'gweight',
  max: 'gmax',
  duration: 'gduration',
};

const laneSet: Rule = (g, [b = ''], [group = '', ...words]) => {
  const chosen = settings(words, Object.keys(FIELDS));
  const change = (): void => {
    for (const [name, value] of chosen) setting(g, b + (FIELDS[name] ?? ''), group, value);
  };
  if (group === '*') change();
  else {
    const key = t.limiterOf(b, group);
    const spent = g.get(key) !== undefined;
    const had = t.readableRate(g, b, group) !== undefined;
    const until = changeRate(g, key, () => t.readableRate(g, b, group), change);
    // without a rate nobody reads a lane's bucket: what waits then waits in gwait
    if (!had && until !== undefined) g.del(key);
    if (t.readableRate(g, b, group) === undefined && until !== undefined) g.del(key);
    t.mend(g, b, group, spent, had ? until : undefined);
  }
  return 1;
};

const laneMend: Rule = (g, [b = ''], groups) => {
  if (groups.length === 0) throw new Refused('ERR groups must be given');
  for (const group of new Set(groups)) {
    if (t.brokenLane(g, b, group) !== undefined) continue;
    t.mend(g, b, group, g.get(t.limiterOf(b, group)) !== undefined);
  }
  return 1;
};

/** The group that a call names. */
function named(group: Bytes | undefined): Bytes {
  if (group === undefined) throw new Refused('ERR group must be given');
  return group;
}

const lanePause: Rule = (g, [paused = '', ring = ''], [given]) => {
  const group = named(given);
  const was = g.isMember(paused, group);
  g.look(ring, 'list');
  g.sadd(paused, group);
  g.keep(ring, (item) => item !== group);
  return was ? 0 : 1;
};

const laneResume: Rule = (g, [b = ''], [given]) => {
  const group = named(given);
  const was = g.isMember(`${b}paused`, group);
  g.srem(`${b}paused`, group);
  t.ring(g, b, group);
  return was ? 1 : 0;
};

const reassign: Rule = (g, [row = '', b = ''], [id = '', given]) => {
  const group = named(given === '' ? undefined : given);
  const old = g.hget(row, 'group');
  if (old === undefined) return -1;
  if (old === group) return 0;
  const score = g.zscore(t.laneOf(b, old), id);
  if (score === undefined) return -2;
  t.servable(g, b, old);
  g.zrem(t.laneOf(b, old), id);
  t.unring(g, b, old);
  g.zadd(t.laneOf(b, group), score, id);
  g.hset(row, { group });
  t.ring(g, b, group);
  return 1;
};

const reapGroup: Rule = (g, [active = '', b = ''], [group = '', limit = '', offset = '']) => {
  const most = p.positive('limit', limit);
  const from = p.notNegative('offset', offset);
  declared(g, [active]);
  const wake = room(g, b);
  const looked = p.due(g, active, Infinity).slice(from, from + most);
  const mine = looked.filter((id) => g.hget(`${b}job:${id}`, 'group') === group);
  for (const id of mine) bringBack(g, active, b, id, true);
  wake();
  return [mine.length, looked.length < most ? -1 : from + looked.length - mine.length];
};

const PLACES = ['ring', 'paused', 'gactive', 'gwait', 'glimit', 'gweight', 'gmax'];

/** The groups that a key names, in the order of the bytes but for a list and a sorted set. */
function groupsOf(g: Ground, b: Bytes, place: Bytes): Bytes[] {
  if (place === 'ring') return [...g.items(b + place)];
  if (place === 'gwait') return g.zrange(b + place).map(([group]) => group);
  const members = place === 'paused' ? g.look(b + place, 'set')?.members : g.look(b + place, 'hash')?.fields.keys();
  return [...(members ?? [])].sort();
}

const lanes: Rule = (g, [b = ''], [place = '', , count = '']) => {
  p.positive('count', count);
  if (!PLACES.includes(place)) throw new Refused('ERR unknown place');
  const groups = groupsOf(g, b, place);
  return ['0', place.startsWith('g') && place !== 'gwait' ? groups.filter((group) => group !== '*') : groups];
};

/** What cannot be read counts as not set here. */
const laneInfo: Rule = (g, [b = ''], groups) =>
  groups.map((group) => {
    const number = (text: Bytes | undefined): number => Math.max(0, integer(text ?? '') ?? 0);
    const rate = t.readableRate(g, b, group);
    const key = t.limiterOf(b, group);
    const full = rate === undefined ? 0 : number(g.get(key));
    return [
      g.zrange(t.laneOf(b, group)).length,
      number(g.hget(`${b}gactive`, group)),
      number(own(g, `${b}glimit`, group)),
      Math.max(1, number(own(g, `${b}gweight`, group))),
      rate?.max ?? 0,
      rate?.window ?? 0,
      g.isMember(`${b}paused`, group) ? 1 : 0,
      g.zscore(`${b}gwait`, group) ?? 0,
      full > 0 ? tokenWait(g, key, rate) : 0,
    ];
  });

export const laneRules: Readonly<Record<string, Rule>> = {
  lane_set: laneSet,
  lane_mend: laneMend,
  lane_pause: lanePause,
  lane_resume: laneResume,
  reassign,
  reap_group: reapGroup,
  lanes,
  lane_info: laneInfo,
};
