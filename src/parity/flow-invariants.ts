/**
 * What holds of flows between any two transitions of queues that only transitions have touched, over all queues of a
 * bout.
 *
 * Does not: look at the places of jobs (invariants.ts); hold where somebody planted broken counters or wrote letters.
 */
import type { Bytes, Content, Keys } from './keyspace-dump.js';
import { parseLetter } from './letters.js';

const SUBKEYS = ['dependencies', 'children', 'processed', 'unsuccessful', 'failed'] as const;
const POISON_CAP = 1000;

/** The invariants of flows that do not hold, a line each. */
export function flowViolations(keys: Keys, bases: readonly Bytes[]): string[] {
  return bases.flatMap((base) => [...parents(keys, base), ...queue(keys, base)]);
}

function fields(keys: Keys, key: Bytes): ReadonlyMap<Bytes, Bytes> {
  const entry = keys.get(key);
  return entry?.type === 'hash' ? entry.fields : new Map<Bytes, Bytes>();
}

function items(keys: Keys, key: Bytes): readonly Bytes[] {
  const entry: Content | undefined = keys.get(key);
  return entry?.type === 'list' ? entry.items : [];
}

/** What a parent counts is what it lists, and each of its open children will tell it of an end. */
function parents(keys: Keys, base: Bytes): string[] {
  const wrong: string[] = [];
  const ids = new Set(
    [...keys.keys()].flatMap((key) => {
      const [id, end] = key.startsWith(`${base}job:`) ? key.slice(`${base}job:`.length).split(':') : [];
      return id !== undefined && SUBKEYS.some((name) => name === end) ? [id] : [];
    }),
  );
  for (const key of keys.keys()) {
    if (!key.startsWith(`${base}job:`)) continue;
    if (fields(keys, key).get('state') === 'awaiting_children') ids.add(key.slice(`${base}job:`.length));
  }
  for (const id of ids) {
    const row = `${base}job:${id}`;
    const own = fields(keys, row);
    const say = (what: string): void => void wrong.push(`parent ${id} ${what}`);
    if (own.size === 0) {
      say('has no row, but keys of a parent');
      continue;
    }
    const entry = keys.get(`${row}:dependencies`);
    const count = Number(entry?.type === 'string' ? entry.value : 0);
    const children = fields(keys, `${row}:children`);
    const unlisted = count - children.size;
    const plus = [...children.values()].filter((where) => where.startsWith('+')).length;
    const landing = Number(own.get('landing') ?? 0);
    if (count < 0 || unlisted < 0) say(`counts ${count} open children and lists ${children.size}`);
    if (landing !== plus + unlisted) say(`lands ${landing}, has ${plus} not landed and ${unlisted} not listed`);
    if (own.get('state') === 'awaiting_children' && count < 1) say('waits for nobody');
    const told = [':processed', ':unsuccessful'].flatMap((end) => [...fields(keys, row + end).keys()]);
    const twice = [...told, ...children.keys()].filter((c, i, all) => all.indexOf(c) !== i);
    if (twice.length > 0) say(`knows ${twice.join(' ')} twice`);
    for (const [child, where] of children) {
      if (where.startsWith('+') || hears(keys, base, id, child, where)) continue;
      say(`waits for ${child}, which will not tell it`);
    }
  }
  return wrong;
}

/** Whether a child that has landed is there and knows its parent, or has left a letter. */
function hears(keys: Keys, base: Bytes, parent: Bytes, child: Bytes, where: Bytes): boolean {
  const there = where === '' ? base : `emq:{${where}}:`;
  const row = fields(keys, `${there}job:${child}`);
  if (row.get('parent') === parent && `emq:{${row.get('parent_queue') ?? own(there)}}:` === base) return true;
  return items(keys, `${there}flow:outbox`).some((letter) => {
    const parts = parseLetter(letter);
    if (parts === undefined || parts.kind === 'cancel') return false;
    return parts.parent === parent && parts.child === child && `emq:{${parts.queue}}:` === base;
  });
}

const own = (base: Bytes): Bytes => base.slice('emq:{'.length, -'}:'.length);

function queue(keys: Keys, base: Bytes): string[] {
  const wrong: string[] = [];
  const letters = items(keys, `${base}flow:outbox`).map(parseLetter);
  for (const key of keys.keys()) {
    if (!key.startsWith(`${base}flow:cancel:`)) continue;
    const id = key.slice(`${base}flow:cancel:`.length);
    if (!letters.some((parts) => parts?.kind === 'cancel' && parts.parent === id))
      wrong.push(`children of ${id} are to be cancelled, and no letter orders it`);
  }
  if (letters.some((parts) => parts === undefined)) wrong.push('a letter cannot be read');
  if (items(keys, `${base}flow:poison`).length > POISON_CAP) wrong.push('too many letters are kept as poison');
  return wrong;
}
