/**
 * The reference model of the audit of one job (wire contract, section 6, "The audit", jobs).
 *
 * Does not: anything with lanes that no job is in (audit.ts).
 */
import type { Bytes } from '../keyspace-dump.js';
import type { Verdict, Wrong } from './audit.js';
import { integer, type Ground } from './ground.js';
import { tell } from './kin.js';
import { room } from './limits.js';
import * as p from './procedures.js';
import * as t from './turns.js';

type Home = 'active' | 'waiting' | 'schedule' | 'dead' | 'held';
interface Place {
  readonly key: Bytes;
  readonly word: Bytes;
  readonly home: Home;
}

const STATE: Readonly<Record<Home, Bytes>> = {
  active: 'active',
  waiting: 'pending',
  schedule: 'scheduled',
  dead: 'dead',
  held: 'awaiting_children',
};
/** The first goes before the others where nothing else decides. */
const HOMES = Object.keys(STATE) as Home[];
const homeOfState = (state: Bytes | undefined): Home | undefined => HOMES.find((home) => STATE[home] === state);
const SET: Readonly<Record<Home, Bytes>> = {
  active: 'active',
  waiting: 'pending',
  schedule: 'schedule',
  dead: 'dead',
  held: 'flow:held',
};

/** The counts of a parent as they should be. */
interface Books {
  readonly open: number;
  readonly landing?: number;
  readonly state: 'right' | 'wrong' | 'nobody can tell';
}

function booksOf(g: Ground, row: Bytes): Books {
  const text = g.get(`${row}:dependencies`);
  const open = integer(text ?? '0');
  const children = g.fields(`${row}:children`);
  const landing = g.hget(row, 'landing');
  if (children.size === 0 && landing === undefined) {
    if (open === undefined) return { open: 1, state: 'nobody can tell' };
    return { open: Math.max(0, open), state: open < 0 ? 'wrong' : 'right' };
  }
  const want = landing !== undefined && open !== undefined ? Math.max(open, children.size) : children.size;
  const plus = [...children.values()].filter((where) => where.startsWith('+')).length;
  const lands = plus + want - children.size;
  const isRight = open === want && (landing === undefined ? lands === 0 : lands > 0 && integer(landing) === lands);
  return { open: want, landing: lands, state: isRight ? 'right' : 'wrong' };
}

/** @param stray the group in whose lane it was come upon. */
export function auditedJob(g: Ground, b: Bytes, id: Bytes, stray?: Bytes): Verdict & { readonly home?: Home } {
  const row = `${b}job:${id}`;
  const type = g.keys.get(row)?.type;
  const group = type === 'hash' ? g.hget(row, 'group') : undefined;
  const foreign = stray === group ? undefined : stray;
  const places: Place[] = [
    ...HOMES.map((home): Place => ({ key: b + SET[home], word: SET[home], home })),
    ...(group === undefined ? [] : [{ key: t.laneOf(b, group), word: 'its lane', home: 'waiting' as const }]),
    ...(foreign === undefined ? [] : [{ key: t.laneOf(b, foreign), word: 'another lane', home: 'waiting' as const }]),
  ].filter(({ key }) => g.zscore(key, id) !== undefined);
  const where = places.map(({ word }) => word).join(', ');
  const scene: Scene = { g, b, id, row, group, foreign, places };
  if (type === undefined) return ghost(scene, where);
  if (type !== 'hash') {
    const left = places.length === 0 || (places.length === 1 && places[0]?.home === 'dead');
    const wrong: Wrong[] = [['row', id, where, left ? 0 : 1]];
    return { wrong, mend: () => (left ? undefined : move(scene, 'dead', `${b}dead`, 'row is not a hash')) };
  }
  return readable(scene, where);
}

interface Scene {
  readonly g: Ground;
  readonly b: Bytes;
  readonly id: Bytes;
  readonly row: Bytes;
  readonly group: Bytes | undefined;
  readonly foreign: Bytes | undefined;
  readonly places: readonly Place[];
}

function ghost(scene: Scene, where: Bytes): Verdict {
  const { g, id, row, places } = scene;
  const left = [':logs', ':lock', ':dependencies', ':children', ':processed', ':unsuccessful', ':failed'].filter(
    (end) => g.exists(row + end) && (end !== ':lock' || g.lapses(row + end) === false),
  );
  const wrong: Wrong[] = [];
  if (places.length > 0) wrong.push(['ghost', id, where, 1]);
  if (left.length > 0) wrong.push(['leftovers', id, left.join(', '), 1]);
  return {
    wrong,
    mend: () => {
      move(scene, undefined, undefined);
      for (const end of left) g.del(row + end);
    },
  };
}

function readable(scene: Scene, where: Bytes): Verdict & { readonly home: Home } {
  const { g, b, id, row, group, places } = scene;
  const wrong: Wrong[] = [];
  const field = (name: Bytes): Bytes | undefined => g.hget(row, name);
  const state = field('state');
  const books = booksOf(g, row);
  const only = places.length === 1 ? places[0] : undefined;
  const buried = only?.home === 'dead' && state === 'dead' && (field('last_error') ?? '').startsWith('unreadable: ');
  const broken = (name: Bytes): boolean => integer(field(name) ?? '0') === undefined && !buried;

  const drop = ['credit', 'stalled'].filter(broken);
  const rank = field('priority');
  if (rank !== undefined && p.digits(p.rank(rank)) !== rank) drop.push('priority');
  let why: Bytes | undefined;
  const unclaimed = field('attempts') === undefined;
  if (unclaimed) wrong.push(['field', id, 'attempts', 1]);
  else if (broken('attempts')) {
    why = 'attempts is not an integer';
    wrong.push(['unreadable', id, why, 1]);
  }
  for (const name of drop) wrong.push(['field', id, name, 1]);

  const isUnreadable = why !== undefined;
  let home = homeOf(state, places, books);
  if (home === undefined) why ??= 'state is not known';
  if (why !== undefined) home = 'dead';
  const to: Home = home ?? 'dead';
  const toLane = to === 'waiting' && group !== undefined;
  const final = toLane ? t.laneOf(b, group) : b + SET[to];
  const goes = ` -> ${toLane ? 'its lane' : SET[to]}`;

  const waits = state === 'awaiting_children' || places.some((place) => place.home === 'held');
  const lost = books.state === 'nobody can tell';
  if (lost && waits) wrong.push(['flow', id, 'unreadable', 0]);
  else if (books.state !== 'right') wrong.push(['flow', id, 'counts', 1]);

  const placed = only?.key === final;
  if (places.length === 0) wrong.push(['orphan', id, (state ?? '') + goes, 1]);
  else if (!placed && only?.home === 'held' && to === 'waiting') wrong.push(['flow', id, `nobody${goes}`, 1]);
  else if (!placed && !isUnreadable) wrong.push(['places', id, where + goes, 1]);
  else if (placed && state !== STATE[to]) wrong.push(['state', id, `${state ?? ''} -> ${STATE[to]}`, 1]);

  const mend = (): void => {
    if (why !== undefined) p.unpark(g, b, id);
    move(scene, to, final, why);
    g.hdel(row, ...drop);
    g.hset(row, { state: STATE[to], ...(unclaimed ? { attempts: '0' } : {}) });
    if (why !== undefined) g.hset(row, { last_error: `unreadable: ${why}` });
    if (books.state === 'right' || (lost && waits)) return;
    g.set(`${row}:dependencies`, p.digits(lost ? 0 : books.open));
    if (books.landing === undefined) return;
    if (books.landing > 0) g.hset(row, { landing: p.digits(books.landing) });
    else g.hdel(row, 'landing');
  };
  return { wrong, mend, home: to };
}

/** Where the job belongs; undefined when nobody knows. */
function homeOf(state: Bytes | undefined, places: readonly Place[], books: Books): Home | undefined {
  const homes = new Set(places.map(({ home }) => home));
  const said = homeOfState(state);
  let to: Home | undefined;
  if (places.length === 0) to = said === 'active' ? 'waiting' : said;
  else if (said !== undefined && homes.has(said)) to = said;
  else if (said === 'held' && books.open > 0 && homes.has('waiting') && !homes.has('active')) to = said;
  else to = HOMES.find((home) => homes.has(home));
  return to === 'held' && books.open < 1 ? 'waiting' : to;
}

/** The id is in its place then, or in none, and nowhere else; the lanes that it was in or comes to are on the ring, or not. */
function move(scene: Scene, home: Home | undefined, final: Bytes | undefined, why?: Bytes): void {
  const { g, b, id, row, group, foreign, places } = scene;
  const wake = room(g, b);
  const others = places.filter(({ key }) => key !== final);
  const placed = final === undefined || places.some(({ key }) => key === final);
  const isRow = g.keys.get(row)?.type === 'hash';
  if (why !== undefined && isRow && !places.some((place) => place.home === 'dead'))
    tell(g, b, 'fail', id, `unreadable: ${why}`);
  const lanes = [
    ...(group !== undefined && (others.length > 0 || !placed) ? [group] : []),
    ...(foreign !== undefined && places.some(({ key }) => key === t.laneOf(b, foreign)) ? [foreign] : []),
  ].filter((one) => t.brokenCount(g, b, one) === undefined);
  for (const { key } of others) g.zrem(key, id);
  const left = home !== 'active' && places.some((place) => place.home === 'active');
  if (left && group !== undefined && lanes.includes(group)) t.leave(g, b, group);
  if (!placed) {
    const score = home === 'waiting' ? p.rank(isRow ? g.hget(row, 'priority') : undefined) : g.now;
    g.zadd(final, score, id);
    if (final === `${b}pending` || home === 'schedule') p.wake(g, b);
  }
  for (const one of lanes) {
    t.ring(g, b, one);
    if (!t.servable(g, b, one)) t.offRing(g, b, one);
  }
  if (why !== undefined) p.count(g, b, 'failed');
  wake();
}
