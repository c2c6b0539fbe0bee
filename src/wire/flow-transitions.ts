/**
 * The transitions and reads of flows (docs/wire.md, section 6, Flows), in the style of the transition table, of which
 * they are a part.
 *
 * Invariants: layouts are those of docs/wire.md, key for key; none has a native twin: completeChild and failChild are the
 * flow layouts of complete and fail, which the native commands refuse.
 * Does not: decide how a flow lands or what is in a letter (src/queue does).
 */
import { ids, integer, list, maybe, oneOf, string, unexpected } from './fields.js';
import type { Arg, Reply, Transition } from './call.js';
import type { Keyspace } from './keyspace.js';
import { scripts } from './scripts.generated.js';

/** What the death of a child means for its parent, on the wire. */
export type PolicyToken = 'fp' | 'id' | 'rd' | 'cp';

/** One job of a flow. */
export interface FlowJob {
  readonly id: string;
  readonly payload: Arg;
  readonly priority?: number | undefined;
  readonly opts?: string | undefined;
}

/** A child's way to its parent; `queue` is null for a parent in the child's own queue. */
export interface FlowLink {
  readonly parent: string;
  readonly queue: string | null;
  readonly policy: PolicyToken;
}

/** A child as its parent lists it; `queue` is null for the parent's own. */
export interface ListedChild {
  readonly id: string;
  readonly queue: string | null;
}

/** What a parent knows its children by. */
export type FlowBook = 'children' | 'processed' | 'unsuccessful' | 'failed';

/** The counts of a job as a flow parent; all 0 for any other job. */
export interface FlowCounts {
  /** Children that are still open. */
  readonly open: number;
  /** How many of them are listed. */
  readonly listed: number;
  readonly processed: number;
  readonly unsuccessful: number;
  readonly failed: number;
  /** Children that have still to land. */
  readonly landing: number;
}

/** What became of a letter. */
export type Delivered = 'gone' | 'known' | 'counted' | 'released' | 'failed';

/** A job in somebody's hands. */
export interface Held {
  readonly id: string;
  /** The claim count the caller holds. */
  readonly token: number;
}

const write = { readOnly: false, repeatable: false } as const;
const repeatableWrite = { readOnly: false, repeatable: true } as const;
const read = { readOnly: true, repeatable: true } as const;

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;
const text = (n: number): string => String(n);
/** Every id goes through the row key's check, so that no ill-formed one reaches the wire. */
const checked = (k: Keyspace, list: readonly string[]): string[] => list.map((id) => k.job(id) && id);
const job = (k: Keyspace, { id, payload, priority, opts }: FlowJob): Arg[] => [
  ...checked(k, [id]),
  payload,
  priority === undefined ? '' : text(priority),
  opts ?? '',
];
const listed = (k: Keyspace, children: readonly ListedChild[]): string[] =>
  children.flatMap(({ id, queue }) => [...checked(k, [id]), queue ?? '']);
/** Not checked: the row is anybody's, and what its link names need not be there. */
const rowOf = (k: Keyspace, id: string): string => `${k.base}job:${id}`;

function counted(what: string): (reply: Reply) => number | 'gone' {
  return (reply) => {
    const n = integer(what, reply);
    return n === -1 ? 'gone' : n;
  };
}

const HOLD_WORDS = ['held', 'exists', 'landed', 'unwanted'] as const;
const DELIVERED: readonly string[] = ['gone', 'known', 'counted', 'released', 'failed'] satisfies Delivered[];

export const flowTransitions = {
  completeChild: define<Held & FlowLink & { readonly result: Arg }, 'completed' | 'gone'>({
    name: 'complete_child',
    script: scripts.complete,
    ...repeatableWrite,
    keyNames: ['active', 'row', 'dependencies or flow:outbox', 'processed?', 'parent row?'],
    argNames: ['id', 'token', 'b', 'parent id', 'result', 'xq?', 'parent queue?'],
    layout: (k, { id, token, parent, queue, result }) => {
      const args = [id, text(token), k.base, parent, result];
      const row = rowOf(k, parent);
      if (queue !== null) return { keys: [k.active, k.job(id), k.outbox], args: [...args, 'xq', queue] };
      return { keys: [k.active, k.job(id), `${row}:dependencies`, `${row}:processed`, row], args };
    },
    read: oneOf('complete', 'completed', 0, 'gone'),
  }),
  failChild: define<
    Held & FlowLink & { readonly delayMs: number; readonly maxAttempts: number; readonly error: Arg },
    'scheduled' | 'dead'
  >({
    name: 'fail_child',
    script: scripts.fail,
    ...write,
    keyNames: [
      'active',
      'schedule',
      'dead',
      'row',
      'failed or flow:outbox',
      'unsuccessful?',
      'dependencies?',
      'parent row?',
    ],
    argNames: ['id', 'token', 'delay', 'max', 'error', 'b', 'sq:policy or xq:policy', 'parent queue?', 'parent id'],
    layout: (k, { id, token, delayMs, maxAttempts, error, parent, queue, policy }) => {
      const keys = [k.active, k.schedule, k.dead, k.job(id)];
      const args = [id, text(token), text(delayMs), text(maxAttempts), error, k.base];
      const row = rowOf(k, parent);
      if (queue !== null) return { keys: [...keys, k.outbox], args: [...args, `xq:${policy}`, queue, parent] };
      return {
        keys: [...keys, `${row}:failed`, `${row}:unsuccessful`, `${row}:dependencies`, row],
        args: [...args, `sq:${policy}`, parent],
      };
    },
    read: (reply) => {
      const word = string('fail', reply);
      return word === 'scheduled' || word === 'dead' ? word : unexpected('fail', reply);
    },
  }),
  enqueueFlow: define<
    {
      /** The root first, each behind its parent; `parent` is the place of its parent among them, from 0. */
      readonly jobs: readonly (FlowJob & {
        readonly parent?: number | undefined;
        readonly policy?: PolicyToken | undefined;
      })[];
    },
    'added' | 'duplicate' | 'partial'
  >({
    name: 'enqueue_flow',
    script: scripts.enqueue_flow,
    ...write,
    keyNames: ['pending', 'wake', 'row...'],
    argNames: ['b', 'id...', 'payload...', 'priority...', 'opts...', 'parent place...', 'policy...'],
    layout: (k, { jobs }) => ({
      keys: [k.pending, k.wake, ...jobs.map(({ id }) => k.job(id))],
      args: [
        k.base,
        ...jobs.flatMap((one) => [
          ...job(k, one),
          text(one.parent === undefined ? 0 : one.parent + 1),
          one.policy ?? '',
        ]),
      ],
    }),
    read: (reply) => {
      const word = (['duplicate', 'added', 'partial'] as const)[integer('enqueue_flow', reply)];
      return word ?? unexpected('enqueue_flow', reply);
    },
  }),
  flowHold: define<
    FlowJob & {
      /** undefined for the root of a flow. */
      readonly link?: FlowLink | undefined;
      readonly count: number;
      readonly children: readonly ListedChild[];
    },
    { readonly word: (typeof HOLD_WORDS)[number]; readonly unlisted: number; readonly landing: number }
  >({
    name: 'flow_hold',
    script: scripts.flow_hold,
    ...write,
    keyNames: ['row'],
    argNames: [
      'b',
      'id',
      'payload',
      'priority',
      'opts',
      'parent',
      'parent queue',
      'policy',
      'children',
      'child id...',
      'child queue...',
    ],
    layout: (k, { link, count, children, ...one }) => ({
      keys: [k.job(one.id)],
      args: [
        k.base,
        ...job(k, one),
        ...(link === undefined ? ['', '', ''] : [...checked(k, [link.parent]), link.queue ?? '', link.policy]),
        text(count),
        ...listed(k, children),
      ],
    }),
    read: (reply) => {
      const [first, unlisted, landing] = list('flow_hold', reply);
      const word = string('flow_hold', first ?? null) as (typeof HOLD_WORDS)[number];
      if (!HOLD_WORDS.includes(word)) return unexpected('flow_hold', reply);
      return {
        word,
        unlisted: integer('flow_hold', unlisted ?? null),
        landing: integer('flow_hold', landing ?? null),
      };
    },
  }),
  flowList: define<{ readonly id: string; readonly children: readonly ListedChild[] }, number | 'gone'>({
    name: 'flow_list',
    script: scripts.flow_list,
    ...repeatableWrite,
    keyNames: ['row'],
    argNames: ['child id...', 'child queue...'],
    layout: (k, { id, children }) => ({ keys: [k.job(id)], args: listed(k, children) }),
    read: counted('flow_list'),
  }),
  flowLand: define<
    {
      readonly parent: string;
      /** null for a parent in this queue. */
      readonly queue: string | null;
      readonly children: readonly (FlowJob & { readonly policy: PolicyToken })[];
    },
    number | 'gone'
  >({
    name: 'flow_land',
    script: scripts.flow_land,
    ...write,
    keyNames: ['pending', 'wake', 'b'],
    argNames: ['parent', 'parent queue', 'id...', 'payload...', 'priority...', 'opts...', 'policy...'],
    layout: (k, { parent, queue, children }) => ({
      keys: [k.pending, k.wake, k.base],
      args: [...checked(k, [parent]), queue ?? '', ...children.flatMap((one) => [...job(k, one), one.policy])],
    }),
    read: counted('flow_land'),
  }),
  flowLanded: define<{ readonly id: string; readonly children: readonly string[] }, number | 'gone'>({
    name: 'flow_landed',
    script: scripts.flow_landed,
    ...repeatableWrite,
    keyNames: ['row'],
    argNames: ['child id...'],
    layout: (k, { id, children }) => ({ keys: [k.job(id)], args: checked(k, children) }),
    read: counted('flow_landed'),
  }),
  flowClear: define<{ readonly children: readonly string[] }, number>({
    name: 'flow_clear',
    script: scripts.flow_clear,
    ...repeatableWrite,
    keyNames: ['flow:landed'],
    argNames: ['child id...'],
    layout: (k, { children }) => ({ keys: [k.landed], args: checked(k, children) }),
    read: (reply) => integer('flow_clear', reply),
  }),
  flowDeliver: define<
    {
      readonly parent: string;
      readonly child: string;
      readonly kind: 'done' | 'fail' | 'gone';
      readonly policy: string;
      readonly bytes: Arg;
    },
    Delivered
  >({
    name: 'flow_deliver',
    script: scripts.flow_deliver,
    ...repeatableWrite,
    keyNames: ['parent row', 'b'],
    argNames: ['parent id', 'child id', 'kind', 'policy', 'bytes'],
    layout: (k, { parent, child, kind, policy, bytes }) => ({
      keys: [k.job(parent), k.base],
      args: [parent, child, kind, policy, bytes],
    }),
    read: (reply) => {
      const word = string('flow_deliver', reply);
      return DELIVERED.includes(word) ? (word as Delivered) : unexpected('flow_deliver', reply);
    },
  }),
  flowAck: define<
    {
      /** That with which they were read. */
      readonly edition: number;
      readonly letters: readonly { readonly verdict: 'done' | 'poison'; readonly letter: Buffer }[];
    },
    number
  >({
    name: 'flow_ack',
    script: scripts.flow_ack,
    // not repeatable: a second one could take out a letter of the same bytes that nobody has delivered
    ...write,
    keyNames: ['flow:outbox', 'b'],
    argNames: ['edition', 'verdict...', 'letter...'],
    layout: (k, { edition, letters }) => ({
      keys: [k.outbox, k.base],
      args: [text(edition), ...letters.flatMap(({ verdict, letter }): Arg[] => [verdict, letter])],
    }),
    read: (reply) => integer('flow_ack', reply),
  }),
  flowCancelled: define<{ readonly id: string; readonly children: readonly string[] }, number>({
    name: 'flow_cancelled',
    script: scripts.flow_cancelled,
    ...repeatableWrite,
    keyNames: ['flow:cancel'],
    argNames: ['child id...'],
    layout: (k, { id, children }) => ({ keys: [k.toCancel(id)], args: children }),
    read: (reply) => integer('flow_cancelled', reply),
  }),
  flowLetters: define<
    { readonly offset: number; readonly limit: number },
    { readonly edition: number; readonly letters: readonly Buffer[] }
  >({
    name: 'flow_letters',
    script: scripts.flow_letters,
    ...read,
    keyNames: ['flow:outbox', 'b'],
    argNames: ['offset', 'limit'],
    layout: (k, { offset, limit }) => ({ keys: [k.outbox, k.base], args: [text(offset), text(limit)] }),
    read: (reply) => {
      const [edition, letters] = list('flow_letters', reply);
      return {
        edition: integer('flow_letters', edition ?? null),
        letters: list('flow_letters', letters ?? null).map((one) =>
          Buffer.isBuffer(one) ? one : unexpected('flow_letters', one),
        ),
      };
    },
  }),
  flowUnlanded: define<{ readonly id: string; readonly children: readonly string[] }, string[]>({
    name: 'flow_unlanded',
    script: scripts.flow_unlanded,
    ...read,
    keyNames: ['row'],
    argNames: ['child id...'],
    layout: (k, { id, children }) => ({ keys: [k.job(id)], args: checked(k, children) }),
    read: (reply) => ids('flow_unlanded', reply),
  }),
  flowLink: define<{ readonly id: string }, FlowLink | null>({
    name: 'flow_link',
    script: scripts.flow_link,
    ...read,
    keyNames: ['row'],
    argNames: [],
    layout: (k, { id }) => ({ keys: [k.job(id)], args: [] }),
    read: (reply) => {
      const [parent, queue, policy] = list('flow_link', reply).map((part) => maybe('flow_link', part));
      if (parent === null || parent === undefined) return null;
      return {
        parent,
        queue: queue ?? null,
        policy: policy === 'id' || policy === 'rd' || policy === 'cp' ? policy : 'fp',
      };
    },
  }),
  flowChildren: define<
    { readonly id: string; readonly book: FlowBook | 'cancel'; readonly cursor: string; readonly count: number },
    { readonly next: string; readonly entries: readonly (readonly [string, Buffer])[] }
  >({
    name: 'flow_children',
    script: scripts.flow_children,
    ...read,
    keyNames: ['book'],
    argNames: ['cursor', 'count'],
    layout: (k, { id, book, cursor, count }) => ({
      keys: [book === 'cancel' ? k.toCancel(id) : `${k.job(id)}:${book}`],
      args: [cursor, text(count)],
    }),
    read: (reply) => {
      const [next, flat] = list('flow_children', reply);
      const fields = list('flow_children', flat ?? null);
      const entries: [string, Buffer][] = [];
      for (let i = 0; i + 1 < fields.length; i += 2) {
        const value = fields[i + 1];
        if (Buffer.isBuffer(value)) entries.push([string('flow_children', fields[i] ?? null), value]);
      }
      return { next: string('flow_children', next ?? null), entries };
    },
  }),
  flow: define<{ readonly id: string }, FlowCounts>({
    name: 'flow',
    script: scripts.flow,
    ...read,
    keyNames: ['row'],
    argNames: [],
    layout: (k, { id }) => ({ keys: [k.job(id)], args: [] }),
    read: (reply) => {
      const [open = 0, listedNow = 0, processed = 0, unsuccessful = 0, failed = 0, landing = 0] = list(
        'flow',
        reply,
      ).map((n) => integer('flow', n));
      return { open, listed: listedNow, processed, unsuccessful, failed, landing };
    },
  }),
} as const;
