/**
 * The shared procedures between a flow child and its parent (wire contract, section 4), each under its name there.
 *
 * Invariants: as procedures.ts, one after the other in the order of the contract's text. Does not: know the layout of
 * any call, or publish what DIE does.
 */
import type { Bytes } from '../keyspace-dump.js';
import type { Ground } from './ground.js';
import * as p from './procedures.js';
import { ready } from './turns.js';

/** What became of the parent. */
export type Outcome = 'gone' | 'known' | 'counted' | 'released' | 'failed';

/** How many parents one step can fail; the next hears of it by a letter. */
const CLIMB = 8;

const rowOf = (b: Bytes, id: Bytes): Bytes => `${b}job:${id}`;

/** The queue that a base belongs to. */
export const queueOf = (b: Bytes): Bytes => b.slice('emq:{'.length, -'}:'.length);

/** The count of open children. */
export const dependencies = (g: Ground, row: Bytes): number => p.counter(g.get(`${row}:dependencies`));

/** How many of the children are not in `:children` yet. */
export function unlisted(g: Ground, row: Bytes): number {
  return Math.max(0, dependencies(g, row) - g.fields(`${row}:children`).size);
}

export const waits = (g: Ground, row: Bytes): boolean => g.hget(row, 'state') === 'awaiting_children';

/** One of four policies; anything else is the first. */
export const policyOf = (text: Bytes | undefined): Bytes =>
  text !== undefined && ['id', 'rd', 'cp'].includes(text) ? text : 'fp';

/** Whether the parent is there. All that it keeps of its children is of the right type then, or the call is refused. */
function readable(g: Ground, parent: Bytes): boolean {
  if (g.look(parent, 'hash') === undefined) return false;
  dependencies(g, parent);
  p.counter(g.hget(parent, 'landing'));
  for (const end of [':children', ':processed', ':unsuccessful', ':failed']) g.look(parent + end, 'hash');
  return true;
}

/** OPEN(c, P). */
function open(g: Ground, parent: Bytes, c: Bytes): boolean {
  const listed = g.look(`${parent}:children`, 'hash');
  if (listed !== undefined) return listed.fields.has(c);
  const told = [':processed', ':unsuccessful'].some((end) => g.hget(parent + end, c) !== undefined);
  const foreign = g.hget(parent, 'landing') === undefined;
  return foreign && dependencies(g, parent) >= 1 && !told;
}

/** The `+` goes from those of the children that have one, and the parent counts them as landed. */
export function land(g: Ground, parent: Bytes, children: readonly Bytes[]): void {
  const key = `${parent}:children`;
  for (const c of children) {
    const where = g.hget(key, c);
    if (where === undefined || !where.startsWith('+')) continue;
    g.hset(key, { [c]: where.slice(1) });
    landedOne(g, parent);
  }
}

function landedOne(g: Ground, parent: Bytes): void {
  const landing = g.hget(parent, 'landing');
  if (landing === undefined) return;
  const left = p.counter(landing) - 1;
  if (left > 0) g.hset(parent, { landing: p.digits(left) });
  else g.hdel(parent, 'landing');
}

/** CLOSE(c, P). */
function close(g: Ground, parent: Bytes, c: Bytes): void {
  const left = dependencies(g, parent) - 1;
  if (g.hget(`${parent}:children`, c)?.startsWith('+')) landedOne(g, parent);
  g.hdel(`${parent}:children`, c);
  g.hdel(`${parent}:failed`, c);
  g.set(`${parent}:dependencies`, p.digits(left));
}

/** FREE(P); says whether it is free now. */
function free(g: Ground, b: Bytes, id: Bytes): boolean {
  const row = rowOf(b, id);
  if (!waits(g, row) || dependencies(g, row) > 0) return false;
  g.zrem(`${b}flow:held`, id);
  g.hset(row, { state: 'pending' });
  ready(g, b, id);
  return true;
}

/** JOIN(c, P, result). */
export function join(g: Ground, b: Bytes, c: Bytes, parent: Bytes, result: Bytes): Outcome {
  const row = rowOf(b, parent);
  if (!readable(g, row)) return 'gone';
  if (open(g, row, c)) {
    close(g, row, c);
    g.hset(`${row}:processed`, { [c]: result });
    return free(g, b, parent) ? 'released' : 'counted';
  }
  if (g.hget(`${row}:unsuccessful`, c) === undefined) return 'known';
  g.hdel(`${row}:unsuccessful`, c);
  g.hset(`${row}:processed`, { [c]: result });
  return 'counted';
}

interface Death {
  readonly child: Bytes;
  readonly parent: Bytes;
  readonly policy: Bytes;
  readonly error: Bytes;
}

/** BURY(c, P, policy, error). */
export function bury(g: Ground, b: Bytes, death: Death): Outcome {
  return end(g, b, death, false, []);
}

/** LOSE(c, P, policy, error). */
export function lose(g: Ground, b: Bytes, death: Death): Outcome {
  return end(g, b, death, true, []);
}

/** `told`: the parents that this step has told of a death before. */
function end(g: Ground, b: Bytes, death: Death, lost: boolean, told: readonly Bytes[]): Outcome {
  const { child, parent, error } = death;
  const row = rowOf(b, parent);
  const policy = policyOf(death.policy);
  if (!readable(g, row)) return 'gone';
  if (told.includes(parent) || !open(g, row, child)) return 'known';
  if (policy !== 'fp' || lost) close(g, row, child);
  if (policy === 'fp') {
    g.hset(`${row}:failed`, { [child]: error });
    if (!waits(g, row)) return 'counted';
    die(g, b, parent, child, error, [...told, parent]);
    return 'failed';
  }
  if (policy !== 'rd') g.hset(`${row}:unsuccessful`, { [child]: error });
  if (policy === 'cp' && waits(g, row)) {
    g.set(`${row}:dependencies`, '0');
    g.hdel(row, 'landing');
    order(g, b, parent, `child ${child} failed`);
  }
  return free(g, b, parent) ? 'released' : 'counted';
}

/** The open children of a parent are to be cancelled. */
export function order(g: Ground, b: Bytes, parent: Bytes, reason: Bytes): void {
  const children = `${rowOf(b, parent)}:children`;
  if (g.look(children, 'hash') === undefined) return;
  g.rename(children, `${b}flow:cancel:${parent}`);
  g.push('tail', `${b}flow:outbox`, ['', 'cancel', parent, reason].join('\0'));
}

/** DIE(P, c, error). */
function die(g: Ground, b: Bytes, id: Bytes, child: Bytes, error: Bytes, told: readonly Bytes[]): void {
  const row = rowOf(b, id);
  g.zrem(`${b}flow:held`, id);
  g.hset(row, { state: 'dead', last_error: `child ${child} failed: ${error}` });
  g.zadd(`${b}dead`, g.now, id);
  p.count(g, b, 'failed');
  p.unpark(g, b, id);
  const parent = g.hget(row, 'parent');
  if (parent === undefined) return;
  const queue = g.hget(row, 'parent_queue');
  const here = queue === undefined || queue === queueOf(b);
  if (!here || told.length >= CLIMB) return tell(g, b, 'fail', id, error);
  end(g, b, { child: id, parent, policy: policyOf(g.hget(row, 'parent_policy')), error }, false, told);
}

/** A death entry or a loss entry of a flow child on the outbox; `policy` where it is not the row's. */
export function tell(
  g: Ground,
  b: Bytes,
  what: 'fail' | 'gone',
  id: Bytes,
  error: Bytes,
  policy = g.hget(rowOf(b, id), 'parent_policy'),
): void {
  const row = rowOf(b, id);
  const parent = g.hget(row, 'parent');
  if (parent === undefined) return;
  const queue = g.hget(row, 'parent_queue') ?? queueOf(b);
  g.push('tail', `${b}flow:outbox`, ['', what, queue, parent, id, policyOf(policy), error].join('\0'));
}
