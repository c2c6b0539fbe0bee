/**
 * What the trace sees of a queue after each step: the four sets, the row, the rest, and the server's clock.
 *
 * Invariants: one view is one moment (MULTI/EXEC); nothing is written. Does not: judge (agree.ts) or draw (draw.ts).
 */
import type { Reply } from '../../wire/call.js';
import { EmqError } from '../../wire/errors.js';
import type { Keyspace } from '../../wire/keyspace.js';
import type { PlainNode } from '../node.js';
import type { Place } from './story.js';

export const SETS = ['pending', 'active', 'schedule', 'dead'] as const;
export type SetName = (typeof SETS)[number];

export interface View {
  /** The server's clock, Unix ms. */
  readonly now: number;
  /** id -> score, of each set. */
  readonly sets: Readonly<Record<SetName, ReadonlyMap<string, number>>>;
  /** The job's row; empty when there is none. */
  readonly row: ReadonlyMap<string, Buffer>;
  /** Waiting wake tokens. */
  readonly wake: number;
  readonly completed: number;
  readonly failed: number;
}

/** Looks at the queue, and at the row of one job. */
export async function look(node: PlainNode, keys: Keyspace, id: string): Promise<View> {
  const commands: [string, ...string[]][] = [
    ['TIME'],
    ...SETS.map((set): [string, ...string[]] => ['ZRANGE', keys[set], '0', '-1', 'WITHSCORES']),
    ['HGETALL', keys.job(id)],
    ['LLEN', keys.wake],
    ['HGET', keys.metrics('completed'), 'count'],
    ['HGET', keys.metrics('failed'), 'count'],
  ];
  const answers = await Promise.all([
    node.ask('MULTI'),
    ...commands.map((command) => node.ask(...command)),
    node.ask('EXEC'),
  ]);
  const replies = list(answers.at(-1));
  const [seconds, micros] = list(replies[0]);
  const members = SETS.map((set, i) => [set, scores(replies[i + 1])] as const);
  const [row, wake, completed, failed] = replies.slice(SETS.length + 1);
  return {
    now: Number(String(seconds)) * 1000 + Math.floor(Number(String(micros)) / 1000),
    sets: Object.fromEntries(members) as unknown as View['sets'],
    row: new Map(pairs(row).map(([field, value]) => [String(field), Buffer.isBuffer(value) ? value : Buffer.alloc(0)])),
    wake: Number(wake),
    completed: Number(String(completed ?? 0)),
    failed: Number(String(failed ?? 0)),
  };
}

/** Where the job is, by the sets that hold it. */
export function placesOf(view: View, id: string): Place[] {
  const holders = SETS.filter((set) => view.sets[set].has(id));
  return holders.length === 0 && view.row.size === 0 ? ['gone'] : holders;
}

function list(reply: Reply | undefined): Reply[] {
  if (Array.isArray(reply)) return reply;
  throw new EmqError('ERR', 'ERR the keyspace cannot be read: EXEC gave no replies');
}

function pairs(reply: Reply | undefined): [Reply, Reply][] {
  const flat = list(reply);
  const found: [Reply, Reply][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) found.push([flat[i] ?? null, flat[i + 1] ?? null]);
  return found;
}

function scores(reply: Reply | undefined): Map<string, number> {
  return new Map(pairs(reply).map(([id, score]) => [String(id), Number(String(score))]));
}
