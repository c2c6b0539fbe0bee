/**
 * The operator's transitions that work in bounded steps, and the history of the counters (docs/wire.md, section 6, The
 * operator's steps), in the style of the transition table, of which they are a part.
 *
 * Invariants: layouts are those of docs/wire.md, key for key; no step touches more jobs than its limit.
 * Does not: decide how often a step is made (src/queue does).
 */
import { integer, list, maybe, oneOf, unexpected } from './fields.js';
import type { Transition } from './call.js';
import { REGISTRY_KEY, type Keyspace } from './keyspace.js';
import { scripts } from './scripts.generated.js';
import { optionalText, runAtArgs, text, type When } from './texts.js';

/** What a purge takes out: a set, or the waiting jobs of a lane. */
export type PurgePlace = 'pending' | 'scheduled' | 'dead' | { readonly lane: string };

const write = { readOnly: false, repeatable: false } as const;
const repeatableWrite = { readOnly: false, repeatable: true } as const;
const read = { readOnly: true, repeatable: true } as const;

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;

const setOf = (k: Keyspace, place: PurgePlace): string => {
  // a queue may hold groups of any name: whoever drains them passes them on
  if (typeof place === 'object') return k.lane(place.lane);
  return place === 'scheduled' ? k.schedule : k[place];
};

export const controlTransitions = {
  purge: define<
    {
      readonly place: PurgePlace;
      readonly reason: string;
      readonly offset: number;
      readonly limit: number;
      readonly ageMs?: number | undefined;
      readonly keep?: number | undefined;
    },
    { readonly removed: number; readonly kept: number }
  >({
    name: 'purge',
    script: scripts.purge,
    ...repeatableWrite,
    keyNames: ['set', 'b'],
    argNames: ['reason', 'offset', 'limit', 'age', 'keep'],
    layout: (k, { place, reason, offset, limit, ageMs, keep }) => ({
      keys: [setOf(k, place), k.base],
      args: [reason, text(offset), text(limit), optionalText(ageMs), optionalText(keep)],
    }),
    read: (reply) => {
      const [removed, kept] = list('purge', reply);
      return { removed: integer('purge', removed ?? null), kept: integer('purge', kept ?? null) };
    },
  }),
  obliterate: define<{ readonly force: boolean; readonly limit: number }, 'more' | 'letters' | 'done'>({
    name: 'obliterate',
    script: scripts.obliterate,
    ...repeatableWrite,
    keyNames: ['meta', 'b'],
    argNames: ['force', 'limit'],
    layout: (k, { force, limit }) => ({ keys: [k.meta, k.base], args: [force ? 'force' : '', text(limit)] }),
    read: (reply) => {
      const n = integer('obliterate', reply);
      if (n === 0) return 'done';
      return n === 2 ? 'letters' : n === 1 ? 'more' : unexpected('obliterate', reply);
    },
  }),
  promoteNow: define<{ readonly id: string }, 'pending' | 'gone'>({
    name: 'promote_now',
    script: scripts.promote_now,
    ...write,
    keyNames: ['row', 'schedule', 'pending', 'b'],
    argNames: ['id'],
    layout: (k, { id }) => ({ keys: [k.job(id), k.schedule, k.pending, k.base], args: [id] }),
    read: oneOf('promote_now', 'pending', -1, 'gone'),
  }),
  reschedule: define<{ readonly id: string; readonly when: When }, 'scheduled' | 'gone'>({
    name: 'reschedule',
    script: scripts.reschedule,
    ...write,
    keyNames: ['row', 'schedule', 'wake'],
    argNames: ['id', 'mode', 'ms'],
    layout: (k, { id, when }) => ({ keys: [k.job(id), k.schedule, k.wake], args: [id, ...runAtArgs(when)] }),
    read: oneOf('reschedule', 'scheduled', -1, 'gone'),
  }),
  metricsRoll: define<void, number>({
    name: 'metrics_roll',
    script: scripts.metrics_roll,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: [],
    layout: (k) => ({ keys: [k.base], args: [] }),
    read: (reply) => integer('metrics_roll', reply),
  }),
  history: define<
    { readonly outcome: 'completed' | 'failed'; readonly first: number; readonly count: number },
    { readonly minute: number | null; readonly counts: number[] }
  >({
    name: 'history',
    script: scripts.history,
    ...read,
    keyNames: ['data', 'b'],
    argNames: ['first', 'count'],
    layout: (k, { outcome, first, count }) => ({
      keys: [`${k.metrics(outcome)}:data`, k.base],
      args: [text(first), text(count)],
    }),
    read: (reply) => {
      const [minute, counts] = list('history', reply);
      const at = maybe('history', minute);
      return {
        minute: at === null ? null : Number(at),
        counts: list('history', counts ?? null).map((n) => Number(maybe('history', n) ?? 0)),
      };
    },
  }),
  register: define<{ readonly mode: 'add' | 'remove' }, 'changed' | 'as it was'>({
    name: 'register',
    script: scripts.register,
    ...repeatableWrite,
    slot: 'registry',
    keyNames: ['{emq}:queues'],
    argNames: ['name', 'mode'],
    // in a cluster the key is in a slot of its own: the server redirects the call
    layout: (k, { mode }) => ({ keys: [REGISTRY_KEY], args: [k.queue, mode] }),
    read: oneOf('register', 'changed', 0, 'as it was'),
  }),
} as const;
