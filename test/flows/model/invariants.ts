/**
 * What must hold of flows whatever the model says, judged from the keyspace alone: at every step, from one step to the next,
 * and when all letters are delivered.
 *
 * Invariants: reads dumps only. Does not: know which call was made, but for its name and its job.
 */
import { fields, items, type Dump } from './dump.js';

const ROW = /^emq:\{([^}]+)\}:job:([^:]+)$/;
const SETS = {
  pending: 'pending',
  active: 'active',
  schedule: 'scheduled',
  dead: 'dead',
  'flow:held': 'awaiting_children',
};
const BOOKS = ['children', 'processed', 'unsuccessful', 'failed'] as const;

interface Row {
  readonly key: string;
  readonly queue: string;
  readonly id: string;
  readonly state: string;
  readonly fields: ReadonlyMap<string, string>;
}

function rows(keys: Dump): Row[] {
  return [...keys.keys()].flatMap((key) => {
    const [, queue, id] = ROW.exec(key) ?? [];
    if (queue === undefined || id === undefined) return [];
    const own = fields(keys, key);
    return [{ key, queue, id, state: own.get('state') ?? '', fields: own }];
  });
}

const book = (keys: Dump, key: string, name: (typeof BOOKS)[number]): ReadonlyMap<string, string> =>
  fields(keys, `${key}:${name}`);

function openOf(keys: Dump, key: string): number | undefined {
  const found = keys.get(`${key}:dependencies`);
  return found?.type === 'string' ? Number(found.text) : undefined;
}

/** What does not hold now, a line each. */
export function violations(keys: Dump): string[] {
  return [...places(keys), ...rows(keys).flatMap((row) => parent(keys, row)), ...orphans(keys), ...orders(keys)];
}

/** A job is in exactly one place, the one that its state says; an id in a place has a row. */
function places(keys: Dump): string[] {
  const found = new Map<string, string[]>();
  for (const key of keys.keys()) {
    const [, queue, set] = /^emq:\{([^}]+)\}:(pending|active|schedule|dead|flow:held)$/.exec(key) ?? [];
    if (queue === undefined || set === undefined) continue;
    for (const id of fields(keys, key).keys()) {
      const row = `emq:{${queue}}:job:${id}`;
      found.set(row, [...(found.get(row) ?? []), set]);
    }
  }
  const wrong: string[] = [];
  for (const { key, state } of rows(keys)) {
    const sets = found.get(key) ?? [];
    found.delete(key);
    const [set = ''] = sets;
    if (sets.length !== 1 || SETS[set as keyof typeof SETS] !== state) {
      wrong.push(`${key} is ${state} and in [${sets.join(' ')}]`);
    }
  }
  for (const [row, sets] of found) wrong.push(`${row} is in [${sets.join(' ')}] and has no row`);
  return wrong;
}

/** The counters of a parent are those of its books. */
function parent(keys: Dump, { key, queue, state, fields: own }: Row): string[] {
  const open = openOf(keys, key);
  const children = book(keys, key, 'children');
  const landing = own.get('landing');
  const say = (what: string): string[] => [`${key} ${what}`];
  if (open === undefined) {
    if (state === 'awaiting_children') return say('waits for children and counts none');
    if (children.size > 0 || landing !== undefined) return say('lists children and counts none');
    return [];
  }
  const marks = [...children.values()].filter((value) => value.startsWith('+')).length;
  const unlisted = open - children.size;
  if (open < 0) return say(`counts ${open} open children`);
  if (unlisted < 0) return say(`counts ${open} open children and lists ${children.size}`);
  // only while its children are being listed
  if (unlisted > 0 && landing === undefined)
    return say(`counts ${open} open children, lists ${children.size}, and has landed`);
  if (Number(landing ?? 0) !== marks + unlisted) {
    return say(`lands ${landing ?? 'no'} children, ${marks} are marked and ${unlisted} not listed`);
  }
  if (landing === '0') return say('keeps landing at 0');
  if (state === 'awaiting_children' && open === 0) return say('waits for nobody');
  if (state !== 'awaiting_children' && state !== 'dead' && open > 0)
    return say(`is ${state} with ${open} open children`);
  for (const [child, where] of children) {
    const below = fields(keys, `emq:{${where || queue}}:job:${child}`);
    if (!where.startsWith('+') && below.has('landing')) return say(`has ${child} as landed, and not all below it has`);
  }
  const known = BOOKS.filter((name) => name !== 'failed').flatMap((name) => [...book(keys, key, name).keys()]);
  const twice = known.find((child, i) => known.indexOf(child) !== i);
  return twice === undefined ? [] : say(`has ${twice} in two of its books`);
}

/** What hangs on a row is gone with it. */
function orphans(keys: Dump): string[] {
  return [...keys.keys()].flatMap((key) => {
    const [, row] = /^(emq:\{[^}]+\}:job:[^:]+):/.exec(key) ?? [];
    return row === undefined || keys.has(row) ? [] : [`${key} is there and its row is not`];
  });
}

/** Children that are to be cancelled are named by a letter. */
function orders(keys: Dump): string[] {
  return [...keys.keys()].flatMap((key) => {
    const [, base, id] = /^(emq:\{[^}]+\}:)flow:cancel:(.+)$/.exec(key) ?? [];
    if (base === undefined) return [];
    const letters = items(keys, `${base}flow:outbox`);
    return letters.some((one) => one.startsWith(`\0cancel\0${id}\0`)) ? [] : [`no letter orders ${key}`];
  });
}

/** What does not hold though every letter was delivered and every order carried out. */
export function restless(keys: Dump): string[] {
  const wrong = [...keys.keys()]
    .filter((key) => /:flow:(outbox|poison|cancel:.*)$/.test(key))
    .map((key) => `${key} is still there`);
  for (const { key, queue, id, state } of rows(keys)) {
    for (const [child, value] of book(keys, key, 'children')) {
      if (value.startsWith('+')) continue;
      const there = `emq:{${value || queue}}:job:${child}`;
      const row = fields(keys, there);
      if (row.get('parent') !== id) wrong.push(`${key} (${state}) waits for ${child}, which is not there to tell it`);
      // one that fails its parent may be brought back, and stays open
      else if (row.get('state') === 'dead' && row.get('parent_policy') !== 'fp') {
        wrong.push(`${key} (${state}) waits for ${child}, which is dead`);
      } else if (row.get('state') === 'dead' && !book(keys, key, 'failed').has(child)) {
        wrong.push(`${key} (${state}) has not heard that ${child} is dead`);
      }
    }
  }
  return wrong;
}

/** What happened to the rows from one step to the next. */
export class Watch {
  #before: Dump = new Map();
  /** How often a job has landed, and how often it has been released since. */
  readonly #lives = new Map<string, number>();
  readonly #released = new Map<string, number>();
  /** The life of the parent in which a child landed. */
  readonly #landedIn = new Map<string, number>();

  /**
   * @param name the transition that was called, @param id the job that it was about, if one
   * @returns what should not have happened, a line each
   */
  step(keys: Dump, name: string, id: string | undefined): string[] {
    const before = new Map(rows(this.#before).map((row) => [row.key, row]));
    const wrong: string[] = [];
    const now = rows(keys);
    // of parents before their children: one step may land both
    for (const { key } of now) if (!before.has(key)) this.#lives.set(key, (this.#lives.get(key) ?? 0) + 1);
    for (const row of now) {
      const was = before.get(row.key);
      before.delete(row.key);
      if (was === undefined) wrong.push(...this.#landed(keys, row));
      else if (was.state !== row.state) wrong.push(...this.#moved(row, was.state, name, id));
    }
    const mayGo = ['complete', 'complete_child', 'remove', 'cancel'].includes(name);
    for (const row of before.values()) {
      if (!mayGo || row.id !== id) wrong.push(`${row.key} is gone by ${name} ${id ?? ''}`);
    }
    this.#before = keys;
    return wrong;
  }

  #landed(keys: Dump, { key, queue, fields: own }: Row): string[] {
    this.#released.set(key, 0);
    const parentId = own.get('parent');
    if (parentId === undefined) return [];
    const above = `emq:{${own.get('parent_queue') ?? queue}}:job:${parentId}`;
    const life = this.#lives.get(above) ?? 0;
    const before = this.#landedIn.get(key);
    this.#landedIn.set(key, life);
    return before === life && keys.has(above) ? [`${key} has landed twice for one parent`] : [];
  }

  #moved({ key, id: own, state }: Row, was: string, name: string, id: string | undefined): string[] {
    if (was === 'dead' && (name !== 'reprocess' || id !== own)) return [`${key} was dead and is ${state} by ${name}`];
    if (was !== 'awaiting_children') {
      return state === 'awaiting_children' && was !== 'dead' ? [`${key} was ${was} and waits for children`] : [];
    }
    if (state === 'dead') return [];
    const released = (this.#released.get(key) ?? 0) + 1;
    this.#released.set(key, released);
    if (state !== 'pending') return [`${key} waited for children and is ${state}`];
    return released > 1 ? [`${key} was released twice`] : [];
  }
}
