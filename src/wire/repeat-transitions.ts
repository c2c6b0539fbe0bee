/**
 * The transitions and reads of repeats (docs/wire.md, section 6, Repeats), in the style of the transition table, of which
 * they are a part.
 *
 * Invariants: layouts are those of docs/wire.md, key for key; the server's clock judges every slot.
 * Does not: compute slots (src/queue does).
 */
import { integer, list, maybe, oneOf, string, unexpected } from './fields.js';
import type { Arg, Reply, Transition } from './call.js';
import { checkGroup, checkRepeatName } from './keyspace.js';
import { scripts } from './scripts.generated.js';
import { optionalText, text } from './texts.js';

/** What each job of a repeat gets. */
export interface RepeatTemplate {
  readonly payload: Arg;
  readonly priority?: number | undefined;
  readonly opts?: string | undefined;
  readonly group?: string | undefined;
}

export interface RepeatPut extends RepeatTemplate {
  readonly name: string;
  /** JSON: what the slots are. The same spec again keeps the next slot. */
  readonly spec: string;
  /** Unix ms. */
  readonly first: number;
  readonly limit?: number | undefined;
  /** Unix ms. */
  readonly end?: number | undefined;
}

/** A record as it is kept; `score` is the next slot, infinite for one that is paused or over. */
export interface RepeatRecord {
  readonly name: string;
  readonly score: number;
  readonly fields: ReadonlyMap<string, Buffer>;
}

const repeatableWrite = { readOnly: false, repeatable: true } as const;
const read = { readOnly: true, repeatable: true } as const;

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;

const FIRED = ['fired', 'gone', 'moved', 'early', 'duplicate'] as const;

function fieldsOf(what: string, reply: Reply): Map<string, Buffer> {
  const flat = list(what, reply);
  const fields = new Map<string, Buffer>();
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const value = flat[i + 1];
    if (Buffer.isBuffer(value)) fields.set(string(what, flat[i] ?? null), value);
  }
  return fields;
}

export const repeatTransitions = {
  repeatPut: define<RepeatPut, { readonly now: 'created' | 'changed' | 'kept'; readonly next: number | null }>({
    name: 'repeat_put',
    script: scripts.repeat_put,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['name', 'spec', 'first', 'limit', 'end', 'payload', 'priority', 'opts', 'group'],
    layout: (k, { name, spec, first, limit, end, payload, priority, opts, group }) => ({
      keys: [k.base],
      args: [
        ...[checkRepeatName(name), spec, text(first), optionalText(limit), optionalText(end)],
        ...[payload, optionalText(priority), opts ?? '', group === undefined ? '' : checkGroup(group)],
      ],
    }),
    read: (reply) => {
      const [word, next] = list('repeat_put', reply);
      const now = maybe('repeat_put', word);
      if (now !== 'created' && now !== 'changed' && now !== 'kept') return unexpected('repeat_put', reply);
      const slot = maybe('repeat_put', next);
      return { now, next: slot === null ? null : Number(slot) };
    },
  }),
  repeatFire: define<
    {
      readonly name: string;
      readonly slot: number;
      readonly id: string;
      readonly opts: string;
      readonly next: number | null;
    },
    (typeof FIRED)[number]
  >({
    name: 'repeat_fire',
    script: scripts.repeat_fire,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['name', 'slot', 'id', 'opts', 'next'],
    layout: (k, { name, slot, id, opts, next }) => ({
      keys: [k.base],
      args: [name, text(slot), k.job(id) && id, opts, optionalText(next ?? undefined)],
    }),
    read: (reply) => {
      const word = string('repeat_fire', reply);
      return FIRED.find((one) => one === word) ?? unexpected('repeat_fire', reply);
    },
  }),
  repeatPause: define<{ readonly name: string }, 'paused' | 'was paused' | 'gone'>({
    name: 'repeat_pause',
    script: scripts.repeat_pause,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['name'],
    layout: (k, { name }) => ({ keys: [k.base], args: [checkRepeatName(name)] }),
    read: (reply) =>
      integer('repeat_pause', reply) === -1
        ? 'gone'
        : oneOf('repeat_pause', 'paused' as const, 0, 'was paused' as const)(reply),
  }),
  repeatResume: define<{ readonly name: string; readonly next: number | null }, 'resumed' | 'not paused' | 'gone'>({
    name: 'repeat_resume',
    script: scripts.repeat_resume,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['name', 'next'],
    layout: (k, { name, next }) => ({ keys: [k.base], args: [checkRepeatName(name), optionalText(next ?? undefined)] }),
    read: (reply) =>
      integer('repeat_resume', reply) === -1
        ? 'gone'
        : oneOf('repeat_resume', 'resumed' as const, 0, 'not paused' as const)(reply),
  }),
  repeatRemove: define<{ readonly name: string }, 'removed' | 'gone'>({
    name: 'repeat_remove',
    script: scripts.repeat_remove,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['name'],
    layout: (k, { name }) => ({ keys: [k.base], args: [checkRepeatName(name)] }),
    read: oneOf('repeat_remove', 'removed', 0, 'gone'),
  }),
  repeats: define<
    { readonly which: 'due' | 'all'; readonly offset: number; readonly limit: number },
    { readonly now: number; readonly records: RepeatRecord[] }
  >({
    name: 'repeats',
    script: scripts.repeats,
    ...read,
    keyNames: ['b'],
    argNames: ['which', 'offset', 'limit'],
    layout: (k, { which, offset, limit }) => ({ keys: [k.base], args: [which, text(offset), text(limit)] }),
    read: (reply) => {
      const [now, ...records] = list('repeats', reply);
      return {
        now: integer('repeats', now ?? null),
        records: records.map((record) => {
          const [name, score, fields] = list('repeats', record);
          return {
            name: string('repeats', name ?? null),
            score: scoreOf(string('repeats', score ?? null)),
            fields: fieldsOf('repeats', fields ?? null),
          };
        }),
      };
    },
  }),
  repeatGet: define<{ readonly name: string }, { readonly now: number; readonly record: RepeatRecord | null }>({
    name: 'repeat_get',
    script: scripts.repeat_get,
    ...read,
    keyNames: ['b'],
    argNames: ['name'],
    layout: (k, { name }) => ({ keys: [k.base], args: [checkRepeatName(name)] }),
    read: (reply) => {
      const [now, score, flat] = list('repeat_get', reply);
      const fields = fieldsOf('repeat_get', flat ?? null);
      const at = maybe('repeat_get', score);
      const record =
        fields.size === 0 ? null : { name: fields.get('name')?.toString() ?? '', score: scoreOf(at ?? 'inf'), fields };
      return { now: integer('repeat_get', now ?? null), record };
    },
  }),
} as const;

const scoreOf = (score: string): number => (score === 'inf' ? Infinity : Number(score));
