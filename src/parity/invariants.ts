/**
 * What holds between any two transitions of a queue that only transitions have touched.
 *
 * Does not: look at what a parent and its children know of each other (flow-invariants.ts), or hold for a queue in which somebody planted ghosts or broken counters.
 */
import type { Bytes, Keys } from './keyspace-dump.js';

const STATES: Readonly<Record<string, string>> = {
  pending: 'pending',
  active: 'active',
  schedule: 'scheduled',
  dead: 'dead',
  'flow:held': 'awaiting_children',
};

/** The invariants of a queue that do not hold, a line each. */
export function violations(keys: Keys, base: Bytes): string[] {
  const wrong: string[] = [];
  const hash = (name: Bytes): Map<Bytes, Bytes> => {
    const entry = keys.get(base + name);
    return entry?.type === 'hash' ? entry.fields : new Map<Bytes, Bytes>();
  };
  const members = (name: Bytes): Bytes[] => {
    const entry = keys.get(base + name);
    return entry?.type === 'zset' ? [...entry.scores.keys()] : [];
  };
  const items = (name: Bytes): readonly Bytes[] => {
    const entry = keys.get(base + name);
    return entry?.type === 'list' ? entry.items : [];
  };

  const lanes = new Map<Bytes, Bytes[]>();
  for (const key of keys.keys()) {
    const isLane = key.startsWith(`${base}g:`) && key.endsWith(':pending');
    const group = isLane ? key.slice(base.length + 2, -':pending'.length) : undefined;
    if (group !== undefined) lanes.set(group, members(`g:${group}:pending`));
  }

  // each job is in one place, and its row says which
  const places = new Map<Bytes, string[]>();
  const place = (id: Bytes, state: string): void => void places.set(id, [...(places.get(id) ?? []), state]);
  for (const [name, state] of Object.entries(STATES)) for (const id of members(name)) place(id, state);
  for (const [group, ids] of lanes) {
    for (const id of ids) {
      place(id, 'pending');
      if (hash(`job:${id}`).get('group') !== group)
        wrong.push(`${id} waits in the lane of ${group}, which is not its row's`);
    }
  }
  for (const key of keys.keys()) {
    const id = key.startsWith(`${base}job:`) ? key.slice(base.length + 4) : undefined;
    if (id === undefined || id.includes(':')) continue;
    const state = hash(`job:${id}`).get('state');
    const found = places.get(id) ?? [];
    if (found.length !== 1 || found[0] !== state) wrong.push(`${id} says ${state} and is in [${found.join(', ')}]`);
    places.delete(id);
  }
  for (const [id, found] of places) wrong.push(`${id} is in [${found.join(', ')}] without a row`);

  // counts of jobs in flight
  const inFlight = new Map<Bytes, number>();
  for (const id of members('active')) {
    const group = hash(`job:${id}`).get('group');
    if (group !== undefined) inFlight.set(group, (inFlight.get(group) ?? 0) + 1);
  }
  const counted = hash('gactive');
  for (const group of new Set([...inFlight.keys(), ...counted.keys()])) {
    const real = inFlight.get(group) ?? 0;
    if ((counted.get(group) ?? '0') !== String(real))
      wrong.push(`gactive of ${group} is ${counted.get(group)}, in flight ${real}`);
    if (counted.has(group) && real === 0) wrong.push(`gactive keeps a field for ${group}`);
  }

  // the ring holds the lanes that can be served, each once; none of them waits for its rate
  const ring = items('ring');
  if (new Set(ring).size !== ring.length) wrong.push(`the ring holds a lane twice: ${ring.join(' ')}`);
  const waiting = members('gwait');
  const parked = keys.get(`${base}paused`);
  for (const group of new Set([...lanes.keys(), ...ring])) {
    const limit = hash('glimit').get(group) ?? hash('glimit').get('*');
    const servable =
      (lanes.get(group)?.length ?? 0) > 0 &&
      !(parked?.type === 'set' && parked.members.has(group)) &&
      !waiting.includes(group) &&
      (limit === undefined || (inFlight.get(group) ?? 0) < Number(limit));
    if (servable !== ring.includes(group))
      wrong.push(`lane ${group} can be served: ${servable}, on the ring: ${!servable}`);
  }

  // a dedup key names the job that holds it, or outlives its job for a time
  for (const [key, entry] of keys) {
    if (!key.startsWith(`${base}de:`) || entry.type !== 'string') continue;
    const held = hash(`job:${entry.value}`).get('dedup');
    if (held !== key.slice(base.length + 3) && entry.lapses === false)
      wrong.push(`${key.slice(base.length)} names ${entry.value}, which does not hold it`);
  }

  // a repeat has its place, by its next slot
  for (const name of members('repeat')) {
    const record = hash(`repeat:${name}`);
    const next = record.get('next');
    const runs = next !== undefined && !record.has('paused');
    const entry = keys.get(`${base}repeat`);
    const score = entry?.type === 'zset' ? entry.scores.get(name) : undefined;
    if (record.size === 0 || score !== (runs ? Number(next) : Infinity))
      wrong.push(`repeat ${name} is to fire at ${next}, paused: ${record.has('paused')}, and its place is ${score}`);
  }

  const wake = items('wake');
  if (wake.length > 64 || wake.some((one) => one !== '1'))
    wrong.push(`wake holds ${wake.length}, or something else than 1`);
  return wrong;
}

/** What a claim must not do: it exceeds no ceiling. `before` and after it, a line each. */
export function claimViolations(before: Keys, after: Keys, base: Bytes): string[] {
  const size = (keys: Keys): number => {
    const active = keys.get(`${base}active`);
    return active?.type === 'zset' ? active.scores.size : 0;
  };
  const meta = before.get(`${base}meta`);
  const ceiling = Number((meta?.type === 'hash' && meta.fields.get('concurrency')) || 0);
  if (size(after) <= size(before) || ceiling < 1 || size(after) <= ceiling) return [];
  return [`${size(after)} jobs are active, the ceiling is ${ceiling}`];
}
