/**
 * Limits in the reference model: the shared procedures OWN, BUCKET, ALLOWANCE and ROOM (wire contract, section 4), and the
 * transitions that read and set the limits of a queue.
 *
 * Does not: know of lanes, but for what they share with a queue.
 */
import type { Bytes } from '../keyspace-dump.js';
import { integer, Refused, type Ground } from './ground.js';
import * as p from './procedures.js';
import { declared, type Rule } from './rule.js';

/** OWN(key, g). */
export function own(g: Ground, key: Bytes, group: Bytes): Bytes | undefined {
  return g.hget(key, group) ?? g.hget(key, '*');
}

/** The longest window of a rate, ms. */
const LONGEST = 2_147_483_647;

/** A rate: so many tokens, each of which takes so many microseconds. */
export interface Rate {
  readonly max: number;
  /** Ms. */
  readonly window: number;
  readonly step: number;
}

/** The rate that these texts give, if any. */
export function rateOf(max: Bytes | undefined, duration: Bytes | undefined): Rate | undefined {
  const most = p.counter(max);
  if (most < 1) return undefined;
  const given = duration === undefined ? undefined : integer(duration);
  const window = given !== undefined && given >= 1 && given <= LONGEST ? given : 1000;
  return { max: most, window, step: Math.max(1, Math.floor((1000 * window) / most)) };
}

export function queueRate(g: Ground, b: Bytes): Rate | undefined {
  return rateOf(g.hget(`${b}meta`, 'max'), g.hget(`${b}meta`, 'duration'));
}

/** What a limiter holds. */
export function limiter(g: Ground, key: Bytes): number {
  const held = g.get(key);
  return held !== undefined && g.hasPut(key) ? Number(held) : p.counter(held);
}

/** When the bucket is full again, Unix microseconds, as of NOW. */
const fullAt = (g: Ground, key: Bytes): number => Math.max(limiter(g, key), 1000 * g.now);

/** The tokens of a bucket. */
export function tokens(g: Ground, key: Bytes, { max, step }: Rate): number {
  const left = Math.floor((1000 * g.now + step * max - fullAt(g, key)) / step);
  return Math.max(0, Math.min(max, left));
}

/** When the next token comes, Unix ms. */
export function nextToken(g: Ground, key: Bytes, { max, step }: Rate): number {
  return Math.ceil((fullAt(g, key) - step * max + step) / 1000);
}

/** The wait for a token, ms; 0 when there is one. */
export function tokenWait(g: Ground, key: Bytes, rate: Rate | undefined): number {
  if (rate === undefined || tokens(g, key, rate) > 0) return 0;
  return Math.max(0, nextToken(g, key, rate) - g.now);
}

/** The bucket is full again at that time, Unix microseconds. */
export function fill(g: Ground, key: Bytes, full: number): void {
  g.set(key, p.digits(full), Math.ceil(full / 1000));
}

export function spend(g: Ground, key: Bytes, rate: Rate | undefined, count: number): void {
  if (rate !== undefined && count > 0) fill(g, key, fullAt(g, key) + count * rate.step);
}

/** ALLOWANCE: how many more jobs the queue may claim now. */
export function allowance(g: Ground, b: Bytes): number {
  const meta = `${b}meta`;
  if (g.hget(meta, 'paused') !== undefined) return 0;
  const ceiling = p.counter(g.hget(meta, 'concurrency'));
  const rate = queueRate(g, b);
  const held = limiter(g, `${b}limiter`);
  const free = ceiling >= 1 ? ceiling - g.zrange(`${b}active`).length : Infinity;
  const left = rate === undefined ? (held > 1000 * g.now ? 0 : Infinity) : tokens(g, `${b}limiter`, rate);
  return Math.max(0, Math.min(free, left));
}

/** The queue spends a token for each claim. */
export function pay(g: Ground, b: Bytes, claims: number): void {
  if (claims > 0) spend(g, `${b}limiter`, queueRate(g, b), claims);
}

/** ROOM: called before the step; what it answers is called after it, and wakes. */
export function room(g: Ground, b: Bytes): () => void {
  const text = g.hget(`${b}meta`, 'concurrency');
  const ceiling = text === undefined ? undefined : integer(text);
  if (ceiling === undefined || ceiling < 1) return () => {};
  const size = (): number => g.zrange(`${b}active`).length;
  const full = size() >= ceiling;
  const waits = full && (g.zrange(`${b}pending`).length > 0 || g.items(`${b}ring`).length > 0);
  return () => {
    if (waits && size() < ceiling) p.wake(g, b);
  };
}

/** Names and values of a setting: empty, or a positive integer. */
export function settings(words: readonly Bytes[], names: readonly Bytes[]): ReadonlyMap<Bytes, Bytes> {
  if (words.length === 0 || words.length % 2 !== 0) throw new Refused('ERR limits must be names and values');
  const found = new Map<Bytes, Bytes>();
  for (let i = 0; i < words.length; i += 2) {
    const [name = '', value = ''] = words.slice(i, i + 2);
    if (!names.includes(name)) throw new Refused('ERR unknown limit');
    if (value !== '' && p.positive(name, value) > LONGEST && name === 'duration')
      throw new Refused('ERR duration must be an integer from 1 to 2147483647');
    found.set(name, value);
  }
  return found;
}

/** A field is set, or goes where the value is empty. */
export function setting(g: Ground, key: Bytes, field: Bytes, value: Bytes | undefined): void {
  if (value === '') g.hdel(key, field);
  else if (value !== undefined) g.hset(key, { [field]: value });
}

/**
 * What was spent by one rate stays spent by another, and a back-off goes on: a bucket whose first token is more than one step
 * away, or without a rate a limiter that is later than NOW. Called with the old rate, before it changes; the second call
 * answers until when a back-off goes on, Unix ms.
 */
export function carry(g: Ground, key: Bytes, old: Rate | undefined): (rate: Rate | undefined) => number | undefined {
  const now = 1000 * g.now;
  const held = integer(g.get(key) ?? '') ?? 0;
  const full = Math.max(now, held);
  const missing = old === undefined ? 0 : Math.ceil((full - now) / old.step);
  const first = old === undefined ? held : full - old.step * (old.max - 1);
  const backsOff = first > now + (old?.step ?? 0);
  return (rate) => {
    if (backsOff) {
      fill(g, key, first + (rate === undefined ? 0 : rate.step * (rate.max - 1)));
      return Math.ceil(first / 1000);
    }
    if (rate === undefined || missing < 1) g.del(key);
    else fill(g, key, now + Math.min(missing, rate.max) * rate.step);
    return undefined;
  };
}

const sameRate = (a: Rate | undefined, c: Rate | undefined): boolean => a?.max === c?.max && a?.window === c?.window;

/** Changes the rate of a bucket by `change`; answers until when a back-off goes on, Unix ms. */
export function changeRate(
  g: Ground,
  key: Bytes,
  read: () => Rate | undefined,
  change: () => void,
): number | undefined {
  const old = read();
  const carried = carry(g, key, old);
  change();
  const rate = read();
  return sameRate(old, rate) ? undefined : carried(rate);
}

const consult: Rule = (g, [meta = '', active = '', key = '']) => {
  declared(g, [active], [meta], [], [key]);
  const b = meta.slice(0, -'meta'.length);
  const ceiling = p.counter(g.hget(meta, 'concurrency'));
  const rate = queueRate(g, b);
  const held = limiter(g, key);
  if (ceiling >= 1 && g.zrange(active).length >= ceiling) throw new Refused('EMQRATE at concurrency ceiling');
  const none = rate === undefined ? held > 1000 * g.now : tokens(g, key, rate) < 1;
  if (none) throw new Refused('EMQRATE at rate ceiling');
  return 1;
};

const limits: Rule = (g, [b = '']) => {
  const meta = `${b}meta`;
  const key = `${b}limiter`;
  const number = (field: Bytes): number => Math.max(0, p.counter(g.hget(meta, field)));
  const rate = queueRate(g, b);
  const held = limiter(g, key);
  const wait = rate === undefined ? Math.max(0, Math.ceil(held / 1000) - g.now) : tokenWait(g, key, rate);
  const paused = g.hget(meta, 'paused') === undefined ? 0 : 1;
  return [number('concurrency'), number('max'), rate?.window ?? 0, wait, paused];
};

const setLimits: Rule = (g, [b = ''], words) => {
  const chosen = settings(words, ['concurrency', 'max', 'duration']);
  const meta = `${b}meta`;
  const waiting = g.zrange(`${b}pending`).length > 0 || g.items(`${b}ring`).length > 0;
  g.look(meta, 'hash');
  g.items(`${b}wake`);
  changeRate(
    g,
    `${b}limiter`,
    () => (integer(g.hget(meta, 'max') ?? '') === undefined ? undefined : queueRate(g, b)),
    () => {
      for (const [name, value] of chosen) setting(g, meta, name, value);
    },
  );
  if (waiting) p.wake(g, b);
  return 1;
};

export const limitRules: Readonly<Record<string, Rule>> = { consult, limits, set_limits: setLimits };
