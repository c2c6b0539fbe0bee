/**
 * Lanes in the reference model: the shared procedures about them (wire contract, section 4), each under its name there.
 *
 * Invariants: as procedures.ts, one after the other in the order of the contract's text. Does not: know the layout of any
 * call.
 */
import type { Bytes } from '../keyspace-dump.js';
import { integer, Refused, type Ground } from './ground.js';
import { limiter, nextToken, own, rateOf, spend, tokens, type Rate } from './limits.js';
import * as p from './procedures.js';

export const laneOf = (b: Bytes, group: Bytes): Bytes => `${b}g:${group}:pending`;
export const limiterOf = (b: Bytes, group: Bytes): Bytes => `${b}g:${group}:limiter`;

/** What is counted of a lane. A lane whose numbers cannot be read is an ERR for whoever touches it. */
function lane(g: Ground, b: Bytes, group: Bytes): { active: number; limit: number | undefined } {
  const counted = g.hget(`${b}gactive`, group);
  const mine = counted !== undefined && g.hasSet(`${b}gactive`, group);
  const active = mine ? Number(counted) : p.counter(counted);
  const limit = own(g, `${b}glimit`, group);
  return { active, limit: limit === undefined ? undefined : p.counter(limit) };
}

/** The rate of a lane, if it has one. */
export function laneRate(g: Ground, b: Bytes, group: Bytes): Rate | undefined {
  return rateOf(own(g, `${b}gmax`, group), own(g, `${b}gduration`, group));
}

/** The same, and none where a number cannot be read. */
export function readableRate(g: Ground, b: Bytes, group: Bytes): Rate | undefined {
  const max = integer(own(g, `${b}gmax`, group) ?? '');
  return max === undefined ? undefined : laneRate(g, b, group);
}

/** What of a lane's counts cannot be read, if any: whoever works on its jobs is refused. */
export function brokenCount(g: Ground, b: Bytes, group: Bytes): Bytes | undefined {
  const counted = g.hget(`${b}gactive`, group);
  if (counted !== undefined && integer(counted) === undefined && !g.hasSet(`${b}gactive`, group)) return 'gactive';
  const limit = own(g, `${b}glimit`, group);
  return limit !== undefined && integer(limit) === undefined ? 'glimit' : undefined;
}

/** What of a lane's counts and of its rate cannot be read, if any: whoever takes from lanes is refused. */
export function brokenLane(g: Ground, b: Bytes, group: Bytes): Bytes | undefined {
  const broken = brokenCount(g, b, group);
  if (broken !== undefined) return broken;
  const max = own(g, `${b}gmax`, group);
  if (max !== undefined && integer(max) === undefined) return 'gmax';
  const key = limiterOf(b, group);
  const held = Number(max) >= 1 ? g.get(key) : undefined;
  return held !== undefined && integer(held) === undefined && !g.hasPut(key) ? 'limiter' : undefined;
}

/** ENTER(g): a job of the group is in flight. */
export function enter(g: Ground, b: Bytes, group: Bytes): void {
  g.hset(`${b}gactive`, { [group]: p.digits(lane(g, b, group).active + 1) });
}

/** LEAVE(g). */
export function leave(g: Ground, b: Bytes, group: Bytes): void {
  const left = lane(g, b, group).active - 1;
  if (left > 0) g.hset(`${b}gactive`, { [group]: p.digits(left) });
  else g.hdel(`${b}gactive`, group);
}

/** Whether a job of the lane could be claimed now. */
export function servable(g: Ground, b: Bytes, group: Bytes): boolean {
  const { active, limit } = lane(g, b, group);
  const paused = g.isMember(`${b}paused`, group);
  const waits = g.zscore(`${b}gwait`, group) !== undefined;
  const empty = g.zrange(laneOf(b, group)).length === 0;
  return !paused && !waits && !empty && (limit === undefined || active < limit);
}

/** How many heads leave the ring unserved in one call. */
const MOST_DROPPED = 256;

/** TURN, for one call: who is served next, and whose turn is under way. */
export class Turns {
  readonly #g: Ground;
  readonly #b: Bytes;
  readonly #size: number;
  #passed = 0;
  #dropped = 0;
  #tired = false;
  #group: Bytes | undefined;
  #given: number;

  constructor(g: Ground, b: Bytes) {
    this.#g = g;
    this.#b = b;
    this.#size = g.items(`${b}ring`).length;
    this.#group = this.#size > 0 ? g.hget(`${b}meta`, 'turn') : undefined;
    this.#given = integer(g.hget(`${b}meta`, 'given') ?? '') ?? 0;
  }

  /** The group whose turn it is; lanes before it that cannot be served leave the ring, of which `most` are looked at. */
  next(most = Infinity): Bytes | undefined {
    for (let looked = 0; looked < most; looked += 1) {
      const [group] = this.#g.items(`${this.#b}ring`);
      if (group === undefined) return undefined;
      const rate = laneRate(this.#g, this.#b, group);
      if (rate !== undefined) limiter(this.#g, limiterOf(this.#b, group));
      const open = servable(this.#g, this.#b, group);
      if (open && (rate === undefined || tokens(this.#g, limiterOf(this.#b, group), rate) > 0)) return group;
      if (this.#dropped === MOST_DROPPED) {
        this.#tired = true;
        return undefined;
      }
      this.#dropped += 1;
      this.#drained(group, rate);
      this.pass();
    }
    return undefined;
  }

  /** Whether the walk has passed all that was on the ring when it began. */
  get around(): boolean {
    return this.#passed >= this.#size;
  }

  /** Whether the walk has met so many lanes that cannot be served that the rest is left to the next. */
  get tired(): boolean {
    return this.#tired;
  }

  /** The head leaves the ring. */
  pass(): void {
    this.#passed += 1;
    this.#g.keep(`${this.#b}ring`, (_group, at) => at > 0);
  }

  /** How many jobs of the lane could be claimed now. */
  gives(group: Bytes): number {
    const { active, limit } = lane(this.#g, this.#b, group);
    const rate = laneRate(this.#g, this.#b, group);
    const paid = rate === undefined ? Infinity : tokens(this.#g, limiterOf(this.#b, group), rate);
    return Math.min(this.#g.zrange(laneOf(this.#b, group)).length, (limit ?? Infinity) - active, paid);
  }

  /** The head goes to the end unserved. */
  passOver(group: Bytes): void {
    if (this.#group === group) this.#group = undefined;
    this.pass();
    this.#g.push('tail', `${this.#b}ring`, group);
  }

  /** The lane at the head spends a token for a job. */
  pay(group: Bytes): void {
    const rate = laneRate(this.#g, this.#b, group);
    spend(this.#g, limiterOf(this.#b, group), rate, 1);
    this.#drained(group, rate);
  }

  /** The lane at the head has given a job; `over`: its turn ends with it. */
  served(group: Bytes, over = false): void {
    if (this.#group !== group) this.#given = 0;
    this.#group = group;
    this.#given += 1;
    const open = servable(this.#g, this.#b, group);
    const weight = integer(own(this.#g, `${this.#b}gweight`, group) ?? '') ?? 1;
    if (open && !over && this.#given < Math.max(1, weight)) return;
    this.#group = undefined;
    this.pass();
    if (open) this.#g.push('tail', `${this.#b}ring`, group);
  }

  /** What is kept of the turn that is under way. */
  end(): void {
    if (this.#size === 0) return;
    const meta = `${this.#b}meta`;
    const [head] = this.#g.items(`${this.#b}ring`);
    if (this.#group !== undefined && this.#group === head && this.#given > 0)
      this.#g.hset(meta, { turn: this.#group, given: p.digits(this.#given) });
    else this.#g.hdel(meta, 'turn', 'given');
  }

  /** A lane that has a rate and no token waits for its next one. */
  #drained(group: Bytes, rate: Rate | undefined): void {
    const key = limiterOf(this.#b, group);
    if (rate === undefined || tokens(this.#g, key, rate) > 0) return;
    const gwait = `${this.#b}gwait`;
    if (this.#g.zscore(gwait, group) === undefined) this.#g.zadd(gwait, nextToken(this.#g, key, rate), group);
  }
}

/** HELD(verb): the key of the set that holds the id. The set `active` goes before the others. */
export function held(g: Ground, verb: string, b: Bytes, id: Bytes, group: Bytes | undefined): Bytes {
  const places = [`${b}active`, ...(group === undefined ? [] : [laneOf(b, group)]), `${b}pending`];
  const place = places.find((key) => g.zscore(key, id) !== undefined);
  if (place === undefined) throw new Refused(`EMQSTATE ${verb} not active`);
  return place;
}

/** RING(g). */
export function ring(g: Ground, b: Bytes, group: Bytes): void {
  if (!servable(g, b, group)) return;
  if (g.items(`${b}ring`).includes(group)) return;
  g.push('tail', `${b}ring`, group);
  p.wake(g, b);
}

/** The lane leaves the ring. */
export function offRing(g: Ground, b: Bytes, group: Bytes): void {
  g.keep(`${b}ring`, (item) => item !== group);
}

/** A lane that was left empty leaves the ring. */
export function unring(g: Ground, b: Bytes, group: Bytes): void {
  if (g.zrange(laneOf(b, group)).length === 0) offRing(g, b, group);
}

/** READY(id). */
export function ready(g: Ground, b: Bytes, id: Bytes): void {
  const row = `${b}job:${id}`;
  const group = g.hget(row, 'group');
  const score = p.rank(g.hget(row, 'priority'));
  if (group === undefined) {
    g.zadd(`${b}pending`, score, id);
    p.wake(g, b);
  } else {
    g.zadd(laneOf(b, group), score, id);
    ring(g, b, group);
  }
}

/** Takes a settled job out of where it is: LEAVE if it was active, RING, and off the ring with a lane that is empty. */
export function depart(g: Ground, b: Bytes, id: Bytes, place: Bytes, group: Bytes | undefined): void {
  g.zrem(place, id);
  if (group === undefined) return;
  if (place === `${b}active`) leave(g, b, group);
  ring(g, b, group);
  unring(g, b, group);
}

/** MEND(g); `spent`: the limiter was there before the step; `backsOff`: until when a lane waits whose rate has gone. */
export function mend(g: Ground, b: Bytes, group: Bytes, spent: boolean, backsOff?: number): void {
  const gwait = `${b}gwait`;
  const rate = readableRate(g, b, group);
  const key = limiterOf(b, group);
  if (spent && g.zscore(gwait, group) !== undefined) {
    if (rate === undefined && backsOff !== undefined) g.zadd(gwait, backsOff, group);
    else if (rate === undefined || tokens(g, key, rate) > 0) g.zrem(gwait, group);
    else g.zadd(gwait, nextToken(g, key, rate), group);
  }
  if (!servable(g, b, group)) offRing(g, b, group);
  ring(g, b, group);
}
