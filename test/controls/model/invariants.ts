/**
 * What must hold of lanes and limits whatever the model says, judged from the keyspace and the answers alone.
 *
 * Invariants: reads dumps only. Does not: know what the model thinks.
 */
import type { Keyspace } from '../../../src/index.js';
import { fields, items, type Dump } from '../../flows/model/dump.js';

/** What a call came to, as far as it matters here. */
export interface Happened {
  readonly name: string;
  readonly args: readonly string[];
  /** The jobs that it gave: id, attempts and group, in order. */
  readonly given: readonly { readonly id: string; readonly attempts: number; readonly group: string | null }[];
}

/** The names of claims. */
export const CLAIMS: readonly string[] = ['claim', 'claim_batch', 'take', 'take_batch'];
const STATE_OF = { pending: 'pending', active: 'active', schedule: 'scheduled', dead: 'dead' } as const;

/** A queue as its keys tell. */
class Look {
  readonly k: Keyspace;
  readonly keys: Dump;
  readonly ring: readonly string[];
  readonly meta: ReadonlyMap<string, string>;

  constructor(k: Keyspace, keys: Dump) {
    this.k = k;
    this.keys = keys;
    this.ring = items(keys, k.ring);
    this.meta = fields(keys, k.meta);
  }

  hash(name: string): ReadonlyMap<string, string> {
    return fields(this.keys, this.k.base + name);
  }

  own(name: string, group: string): number | undefined {
    const text = this.hash(name).get(group) ?? this.hash(name).get('*');
    return text === undefined ? undefined : Number(text);
  }

  groupOf(id: string): string | undefined {
    return fields(this.keys, this.k.job(id)).get('group');
  }

  /** The lane's ids, the first to be served first; scores and bytes of ids as the server has them. */
  lane(key: string): string[] {
    return [...fields(this.keys, key)]
      .sort(([a, x], [b, y]) => Number(x) - Number(y) || (a < b ? -1 : 1))
      .map(([id]) => id);
  }

  active(): string[] {
    return [...fields(this.keys, this.k.active).keys()];
  }

  groups(): Set<string> {
    const lanes = [...this.keys.keys()].flatMap((key) => /:g:(.*):pending$/.exec(key)?.[1] ?? []);
    return new Set([...lanes, ...this.ring]);
  }

  inFlight(group: string): number {
    return this.active().filter((id) => this.groupOf(id) === group).length;
  }

  servable(group: string): boolean {
    const limit = this.own('glimit', group);
    return (
      this.lane(this.k.lane(group)).length > 0 &&
      !items(this.keys, this.k.paused).includes(group) &&
      !this.hash('gwait').has(group) &&
      !(limit !== undefined && this.inFlight(group) >= limit)
    );
  }

  /** How many jobs of others come before each lane of the ring gives one, at the most. */
  distances(): Map<string, number> {
    const found = new Map<string, number>();
    let ahead = 0;
    for (const [i, group] of this.ring.entries()) {
      found.set(group, ahead);
      const given = i === 0 && this.meta.get('turn') === group ? Number(this.meta.get('given')) : 0;
      ahead += Math.max(1, (this.own('gweight', group) ?? 1) - given);
    }
    return found;
  }
}

/** What does not hold now, a line each. `mending`: what holds for all lanes has changed, and not all have been mended. */
export function violations(k: Keyspace, keys: Dump, mending: boolean): string[] {
  const look = new Look(k, keys);
  return [...places(look), ...counts(look), ...(mending ? [] : ring(look)), ...wake(look)];
}

function places(look: Look): string[] {
  const found = new Map<string, string[]>();
  const note = (id: string, place: string): void => void found.set(id, [...(found.get(id) ?? []), place]);
  for (const set of Object.keys(STATE_OF)) for (const id of fields(look.keys, look.k.base + set).keys()) note(id, set);
  for (const group of look.groups()) {
    for (const id of look.lane(look.k.lane(group))) note(id, look.groupOf(id) === group ? 'pending' : `lane ${group}`);
  }
  const wrong: string[] = [];
  for (const key of look.keys.keys()) {
    const [, id] = /:job:([^:]+)$/.exec(key) ?? [];
    if (id === undefined) continue;
    const state = fields(look.keys, key).get('state');
    const [set, ...more] = found.get(id) ?? [];
    if (more.length > 0 || STATE_OF[set as keyof typeof STATE_OF] !== state) {
      wrong.push(`${id} is ${state} and in [${[set, ...more].join(' ')}]`);
    }
    found.delete(id);
  }
  for (const [id, sets] of found) wrong.push(`${id} is in [${sets.join(' ')}] and has no row`);
  return wrong;
}

function counts(look: Look): string[] {
  const counted = look.hash('gactive');
  const groups = new Set([...counted.keys(), ...look.active().flatMap((id) => look.groupOf(id) ?? [])]);
  return [...groups].flatMap((group) => {
    const real = look.inFlight(group);
    return counted.get(group) === String(real) && real > 0
      ? []
      : [`gactive of ${group} is ${counted.get(group)}, ${real} are in flight`];
  });
}

function ring(look: Look): string[] {
  const wrong = new Set(look.ring).size < look.ring.length ? [`the ring has a lane twice: ${look.ring.join(' ')}`] : [];
  for (const group of look.groups()) {
    if (look.servable(group) !== look.ring.includes(group)) {
      wrong.push(`${group} can ${look.servable(group) ? '' : 'not '}be served, on the ring: ${look.ring.join(' ')}`);
    }
  }
  return wrong;
}

function wake(look: Look): string[] {
  const tokens = items(look.keys, look.k.wake);
  return tokens.length > 64 || tokens.some((one) => one !== '1') ? [`wake is ${tokens.join(' ')}`] : [];
}

/** What happened from one step to the next. */
export class Watch {
  readonly #k: Keyspace;
  #before: Dump = new Map();
  /** How often each job was given. */
  readonly given = new Map<string, number>();

  constructor(k: Keyspace) {
    this.#k = k;
  }

  /** @returns what should not have happened, a line each */
  step(keys: Dump, happened: Happened): string[] {
    const [was, is] = [new Look(this.#k, this.#before), new Look(this.#k, keys)];
    this.#before = keys;
    return [...this.#claims(was, is, happened), ...this.#fair(was, is, happened)];
  }

  /** What was done to the queue between two steps. */
  see(keys: Dump): void {
    this.#before = keys;
  }

  /** A claim gives the first of what it serves, no more than may be, and each job that it gives is in flight then. */
  #claims(was: Look, is: Look, { name, given }: Happened): string[] {
    const wrong: string[] = [];
    const entered = is.active().filter((id) => !was.active().includes(id));
    if (entered.length !== given.length || given.some(({ id }) => !entered.includes(id))) {
      wrong.push(`${name} gave ${given.map(({ id }) => id).join(' ')}, and ${entered.join(' ')} are in flight now`);
    }
    const ceiling = Number(is.meta.get('concurrency') ?? 0);
    if (given.length > 0 && ceiling > 0 && is.active().length > ceiling) {
      wrong.push(`${is.active().length} jobs are in flight at a ceiling of ${ceiling}`);
    }
    if (given.length > 0 && is.meta.has('paused')) wrong.push('the queue is paused');
    const left = new Map<string, string[]>();
    for (const { id, attempts, group } of given) {
      const times = (this.given.get(id) ?? 0) + 1;
      this.given.set(id, times);
      if (attempts !== times) wrong.push(`${id} was given ${times} times and says ${attempts}`);
      const key = group === null ? this.#k.pending : this.#k.lane(group);
      const lane = left.get(key) ?? was.lane(key);
      left.set(key, lane.slice(1));
      if (lane[0] !== id) wrong.push(`${id} was given before ${lane[0]}`);
    }
    for (const group of new Set(given.flatMap((one) => one.group ?? []))) {
      const [limit, now] = [is.own('glimit', group), is.inFlight(group)];
      if (limit !== undefined && now > limit)
        wrong.push(`${now} jobs of ${group} are in flight at a ceiling of ${limit}`);
      if (items(is.keys, this.#k.paused).includes(group)) wrong.push(`${group} is paused`);
    }
    return wrong;
  }

  /** Each job of a lane that is given brings those that wait on the ring nearer, and nothing else puts them back. */
  #fair(was: Look, is: Look, { name, given }: Happened): string[] {
    if (name === 'take_batch' || name === 'lane_set') return [];
    const served = given.flatMap(({ group }) => group ?? []);
    const [before, after] = [was.distances(), is.distances()];
    return [...before].flatMap(([group, far]) => {
      const now = after.get(group);
      if (now === undefined || served.includes(group) || now <= Math.max(0, far - served.length)) return [];
      return [`${group} was ${far} jobs from its turn and is ${now} after ${name} gave ${served.length} of lanes`];
    });
  }
}
