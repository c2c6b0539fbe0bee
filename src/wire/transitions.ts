/**
 * The transition table: every transition and read of the wire contract, declared once.
 *
 * Each entry names its script, its native twin if it has one, how keys and arguments are laid out and how the reply is
 * read. Executors, verbs, traces, documents and the parity battery all walk this table, so an entry that is added here
 * is covered everywhere or fails loudly.
 * Invariants: layouts are those of docs/wire.md, key for key; nothing here reads a clock or talks to a server.
 * Does not: encode payloads (the verbs do) or judge them.
 */
import { inputError, show } from './errors.js';
import { checkGroup } from './keyspace.js';
import { claim, taken, type Claim, type Taken } from './claim.js';
import { ids, integer, list, oneOf, string, unexpected } from './fields.js';
import { flowTransitions, type Held } from './flow-transitions.js';
import { auditTransitions } from './audit-transitions.js';
import type { Arg, Transition } from './call.js';
import { controlTransitions } from './control-transitions.js';
import { laneTransitions } from './lane-transitions.js';
import { repeatTransitions } from './repeat-transitions.js';
import { workerTransitions, type Agenda, type RecoveryLeg } from './worker-transitions.js';
import { runAtArgs, text, type When } from './texts.js';

import { scripts } from './scripts.generated.js';

export type { Agenda, Claim, RecoveryLeg, Taken, When };

/** Which waiting jobs a take serves. */
export type Source = 'flat' | 'lanes' | 'both';

export type JobState =
  | 'pending'
  | 'active'
  | 'scheduled'
  | 'dead'
  | 'awaiting_children'
  /** A row that no set holds. */
  | 'unknown'
  /** No row, and no set holds the id. */
  | 'absent';

/** The sets a job can be in; flow parents that wait for their children are in one of their own. */
export type PlaceName = 'pending' | 'active' | 'scheduled' | 'dead' | 'awaiting_children';
export type CountName = PlaceName | 'completed' | 'failed';

interface Admission {
  readonly id: string;
  readonly payload: Arg;
  /** 0..2097152, lower first. */
  readonly priority?: number | undefined;
  /** JSON text: the job's name and its own limits. */
  readonly opts?: string | undefined;
}

function optional(priority: number | undefined, opts: string | undefined): Arg[] {
  if (opts !== undefined) return [priority === undefined ? '' : text(priority), opts];
  return priority === undefined ? [] : [text(priority)];
}

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;

const write = { readOnly: false, repeatable: false } as const;
/** Writes that may be sent again when the reply was lost (wire contract, section 10). */
const repeatableWrite = { readOnly: false, repeatable: true } as const;
const read = { readOnly: true, repeatable: true } as const;

const SET_OF = {
  pending: 'pending',
  active: 'active',
  scheduled: 'schedule',
  dead: 'dead',
  awaiting_children: 'held',
} as const;

export const transitions = {
  enqueue: define<Admission, 'enqueued' | 'duplicate'>({
    name: 'enqueue',
    script: scripts.enqueue,
    ...write,
    keyNames: ['row', 'pending', 'wake'],
    argNames: ['id', 'payload', 'priority?', 'opts?'],
    layout: (k, { id, payload, priority, opts }) => ({
      keys: [k.job(id), k.pending, k.wake],
      args: [id, payload, ...optional(priority, opts)],
    }),
    read: oneOf('enqueue', 'enqueued', 0, 'duplicate'),
  }),
  schedule: define<Admission & { readonly when: When }, 'scheduled' | 'duplicate'>({
    name: 'schedule',
    script: scripts.schedule,
    ...write,
    keyNames: ['row', 'schedule', 'wake'],
    argNames: ['id', 'payload', 'mode', 'ms', 'priority?', 'opts?'],
    layout: (k, { id, payload, when: time, priority, opts }) => ({
      keys: [k.job(id), k.schedule, k.wake],
      args: [id, payload, ...runAtArgs(time), ...optional(priority, opts)],
    }),
    read: oneOf('schedule', 'scheduled', 0, 'duplicate'),
  }),
  claim: define<{ readonly leaseMs: number }, Claim | null>({
    name: 'claim',
    script: scripts.claim,
    native: 'EMQ.CLAIM',
    ...write,
    keyNames: ['pending', 'active', 'b'],
    argNames: ['lease'],
    layout: (k, { leaseMs }) => ({ keys: [k.pending, k.active, k.base], args: [text(leaseMs)] }),
    read: (reply) => {
      const job = list('claim', reply);
      return job.length === 0 ? null : claim(job);
    },
  }),
  claimBatch: define<{ readonly leaseMs: number; readonly size: number }, Claim[]>({
    name: 'claim_batch',
    script: scripts.claim_batch,
    native: 'EMQ.CLAIM.BATCH',
    ...write,
    keyNames: ['pending', 'active', 'b'],
    argNames: ['lease', 'size'],
    layout: (k, { leaseMs, size }) => ({ keys: [k.pending, k.active, k.base], args: [text(leaseMs), text(size)] }),
    read: (reply) => list('claim_batch', reply).map((job) => claim(list('claim_batch', job))),
  }),
  take: define<{ readonly leaseMs: number; readonly count: number; readonly source: Source }, Taken[]>({
    name: 'take',
    script: scripts.take,
    native: 'EMQ.TAKE',
    ...write,
    keyNames: ['pending', 'ring', 'active', 'b'],
    argNames: ['lease', 'count', 'source'],
    layout: (k, { leaseMs, count, source }) => ({
      keys: [k.pending, k.ring, k.active, k.base],
      args: [text(leaseMs), text(count), source],
    }),
    read: (reply) => list('take', reply).map((job) => taken(list('take', job))),
  }),
  release: define<Held, 'released'>({
    name: 'release',
    script: scripts.release,
    native: 'EMQ.RELEASE',
    ...write,
    keyNames: ['active', 'pending', 'row'],
    argNames: ['id', 'token', 'b'],
    layout: (k, { id, token }) => ({ keys: [k.active, k.pending, k.job(id)], args: [id, text(token), k.base] }),
    read: (reply) => (integer('release', reply) === 1 ? 'released' : unexpected('release', reply)),
  }),
  complete: define<Held, 'completed' | 'gone'>({
    name: 'complete',
    script: scripts.complete,
    native: 'EMQ.COMPLETE',
    ...repeatableWrite,
    keyNames: ['active', 'row'],
    argNames: ['id', 'token', 'b'],
    layout: (k, { id, token }) => ({ keys: [k.active, k.job(id)], args: [id, text(token), k.base] }),
    read: oneOf('complete', 'completed', 0, 'gone'),
  }),
  fail: define<
    Held & { readonly delayMs: number; readonly maxAttempts: number; readonly error: Arg },
    'scheduled' | 'dead'
  >({
    name: 'fail',
    script: scripts.fail,
    native: 'EMQ.FAIL',
    ...write,
    keyNames: ['active', 'schedule', 'dead', 'row'],
    argNames: ['id', 'token', 'delay', 'max', 'error', 'b'],
    layout: (k, { id, token, delayMs, maxAttempts, error }) => ({
      keys: [k.active, k.schedule, k.dead, k.job(id)],
      args: [id, text(token), text(delayMs), text(maxAttempts), error, k.base],
    }),
    read: (reply) => {
      const word = string('fail', reply);
      return word === 'scheduled' || word === 'dead' ? word : unexpected('fail', reply);
    },
  }),
  delay: define<Held & { readonly when: When }, 'scheduled'>({
    name: 'delay',
    script: scripts.delay,
    ...write,
    keyNames: ['row', 'active', 'schedule'],
    argNames: ['id', 'token', 'mode', 'ms', 'b'],
    layout: (k, { id, token, when: time }) => ({
      keys: [k.job(id), k.active, k.schedule],
      args: [id, text(token), ...runAtArgs(time), k.base],
    }),
    read: (reply) => (integer('delay', reply) === 1 ? 'scheduled' : unexpected('delay', reply)),
  }),
  extend: define<Held & { readonly leaseMs: number }, 'extended' | 'gone'>({
    name: 'extend',
    script: scripts.extend,
    ...repeatableWrite,
    keyNames: ['active', 'row'],
    argNames: ['id', 'token', 'lease'],
    layout: (k, { id, token, leaseMs }) => ({ keys: [k.active, k.job(id)], args: [id, text(token), text(leaseMs)] }),
    read: oneOf('extend', 'extended', -1, 'gone'),
  }),
  extendMany: define<{ readonly leaseMs: number; readonly held: readonly Held[] }, string[]>({
    name: 'extend_many',
    script: scripts.extend_many,
    ...repeatableWrite,
    keyNames: ['active', 'b'],
    argNames: ['lease', 'id...', 'token...'],
    layout: (k, { leaseMs, held }) => ({
      keys: [k.active, k.base],
      // every id goes through the row key's check, so that no ill-formed one reaches the wire
      args: [text(leaseMs), ...held.flatMap(({ id, token }) => [k.job(id) && id, text(token)])],
    }),
    read: (reply) => ids('extend_many', reply),
  }),
  promote: define<{ readonly limit: number }, number>({
    name: 'promote',
    script: scripts.promote,
    ...repeatableWrite,
    keyNames: ['schedule', 'pending', 'b'],
    argNames: ['limit'],
    layout: (k, { limit }) => ({ keys: [k.schedule, k.pending, k.base], args: [text(limit)] }),
    read: (reply) => integer('promote', reply),
  }),
  reap: define<{ readonly limit: number }, number>({
    name: 'reap',
    script: scripts.reap,
    ...repeatableWrite,
    keyNames: ['active', 'pending', 'b'],
    argNames: ['limit'],
    layout: (k, { limit }) => ({ keys: [k.active, k.pending, k.base], args: [text(limit)] }),
    read: (reply) => integer('reap', reply),
  }),
  stalledCheck: define<
    { readonly maxStalled: number; readonly limit: number },
    { readonly recovered: string[]; readonly dead: string[] }
  >({
    name: 'stalled_check',
    script: scripts.stalled_check,
    native: 'EMQ.STALLED.CHECK',
    ...write,
    keyNames: ['active', 'pending', 'dead'],
    argNames: ['b', 'max', 'limit'],
    layout: (k, { maxStalled, limit }) => ({
      keys: [k.active, k.pending, k.dead],
      args: [k.base, text(maxStalled), text(limit)],
    }),
    read: (reply) => {
      const [recovered, dead] = list('stalled_check', reply);
      return { recovered: ids('stalled_check', recovered ?? null), dead: ids('stalled_check', dead ?? null) };
    },
  }),
  quarantine: define<{ readonly limit: number }, { readonly id: string; readonly why: string }[]>({
    name: 'quarantine',
    script: scripts.quarantine,
    ...repeatableWrite,
    keyNames: ['pending', 'ring', 'active', 'schedule', 'dead', 'b'],
    argNames: ['limit'],
    layout: (k, { limit }) => ({
      keys: [k.pending, k.ring, k.active, k.schedule, k.dead, k.base],
      args: [text(limit)],
    }),
    read: (reply) =>
      list('quarantine', reply).map((found) => {
        const [id, why] = ids('quarantine', found);
        return id === undefined || why === undefined ? unexpected('quarantine', found) : { id, why };
      }),
  }),
  cancel: define<{ readonly id: string; readonly reason: string }, 'removed' | 'signalled' | 'dead' | 'gone'>({
    name: 'cancel',
    script: scripts.cancel,
    ...repeatableWrite,
    keyNames: ['row', 'pending', 'active', 'schedule', 'dead'],
    argNames: ['id', 'reason', 'b'],
    layout: (k, { id, reason }) => ({
      keys: [k.job(id), k.pending, k.active, k.schedule, k.dead],
      args: [id, reason, k.base],
    }),
    read: (reply) => {
      const word = string('cancel', reply);
      if (word === 'removed' || word === 'signalled' || word === 'dead' || word === 'gone') return word;
      return unexpected('cancel', reply);
    },
  }),
  pause: define<void, void>({
    name: 'pause',
    script: scripts.pause,
    ...write,
    keyNames: ['meta'],
    argNames: [],
    layout: (k) => ({ keys: [k.meta], args: [] }),
    read: (reply) => void integer('pause', reply),
  }),
  resume: define<void, void>({
    name: 'resume',
    script: scripts.resume,
    ...write,
    keyNames: ['meta', 'wake'],
    argNames: [],
    layout: (k) => ({ keys: [k.meta, k.wake], args: [] }),
    read: (reply) => void integer('resume', reply),
  }),
  updateData: define<{ readonly id: string; readonly payload: Arg }, 'updated' | 'gone'>({
    name: 'update_data',
    script: scripts.update_data,
    ...write,
    keyNames: ['row'],
    argNames: ['payload'],
    layout: (k, { id, payload }) => ({ keys: [k.job(id)], args: [payload] }),
    read: oneOf('update_data', 'updated', -1, 'gone'),
  }),
  updateProgress: define<{ readonly id: string; readonly progress: Arg }, 'updated' | 'gone'>({
    name: 'update_progress',
    script: scripts.update_progress,
    ...write,
    keyNames: ['row'],
    argNames: ['progress', 'id', 'b'],
    layout: (k, { id, progress }) => ({ keys: [k.job(id)], args: [progress, id, k.base] }),
    read: oneOf('update_progress', 'updated', -1, 'gone'),
  }),
  addLog: define<{ readonly id: string; readonly line: Arg; readonly keep: number }, number | 'gone'>({
    name: 'add_log',
    script: scripts.add_log,
    ...write,
    keyNames: ['row', 'logs'],
    argNames: ['line', 'keep'],
    layout: (k, { id, line, keep }) => ({ keys: [k.job(id), k.logs(id)], args: [line, text(keep)] }),
    read: (reply) => {
      const n = integer('add_log', reply);
      return n === -1 ? 'gone' : n;
    },
  }),
  remove: define<{ readonly id: string; readonly dedupId?: string | undefined }, 'removed' | 'gone'>({
    name: 'remove',
    script: scripts.remove,
    ...write,
    keyNames: ['row', 'pending', 'active', 'schedule', 'dead', 'dedup?'],
    argNames: ['id', 'b'],
    layout: (k, { id, dedupId }) => ({
      keys: [k.job(id), k.pending, k.active, k.schedule, k.dead, ...(dedupId === undefined ? [] : [k.dedup(dedupId)])],
      args: [id, k.base],
    }),
    read: oneOf('remove', 'removed', -1, 'gone'),
  }),
  reprocess: define<{ readonly id: string }, 'pending' | 'awaiting_children' | 'gone'>({
    name: 'reprocess',
    script: scripts.reprocess,
    ...write,
    keyNames: ['row', 'dead', 'pending'],
    argNames: ['id', 'b'],
    layout: (k, { id }) => ({ keys: [k.job(id), k.dead, k.pending], args: [id, k.base] }),
    read: (reply) =>
      reply === 2 ? 'awaiting_children' : oneOf<'pending', 'gone'>('reprocess', 'pending', -1, 'gone')(reply),
  }),
  get: define<{ readonly id: string }, Map<string, Buffer> | null>({
    name: 'get',
    script: scripts.get,
    ...read,
    keyNames: ['row'],
    argNames: [],
    layout: (k, { id }) => ({ keys: [k.job(id)], args: [] }),
    read: (reply) => {
      const flat = list('get', reply);
      if (flat.length === 0) return null;
      const row = new Map<string, Buffer>();
      for (let i = 0; i + 1 < flat.length; i += 2) {
        const value = flat[i + 1];
        if (Buffer.isBuffer(value)) row.set(string('get', flat[i] ?? null), value);
      }
      return row;
    },
  }),
  state: define<{ readonly id: string }, JobState>({
    name: 'state',
    script: scripts.state,
    ...read,
    keyNames: ['pending', 'active', 'schedule', 'dead', 'row'],
    argNames: ['id', 'b'],
    layout: (k, { id }) => ({ keys: [k.pending, k.active, k.schedule, k.dead, k.job(id)], args: [id, k.base] }),
    read: (reply) => string('state', reply) as JobState,
  }),
  browse: define<
    {
      readonly state: PlaceName;
      /** A lane's waiting jobs instead of the flat ones. */
      readonly lane?: string | undefined;
      readonly offset: number;
      readonly limit: number;
      readonly order?: 'asc' | 'desc' | undefined;
      /** Each id is followed by its score; goes with an order. */
      readonly scores?: boolean | undefined;
    },
    string[]
  >({
    name: 'browse',
    script: scripts.browse,
    ...read,
    keyNames: ['set'],
    argNames: ['offset', 'limit', 'order?', 'scores?'],
    layout: (k, { state, lane, offset, limit, order, scores }) => ({
      keys: [lane === undefined ? k[setOf(state)] : k.lane(checkGroup(lane))],
      args: [
        text(offset),
        text(limit),
        ...(order === undefined ? [] : [order]),
        ...(scores === true ? ['scores'] : []),
      ],
    }),
    read: (reply) => ids('browse', reply),
  }),
  counts: define<{ readonly names: readonly (CountName | 'ring')[] }, number[]>({
    name: 'counts',
    script: scripts.counts,
    ...read,
    keyNames: ['b'],
    argNames: ['name...'],
    layout: (k, { names }) => ({
      keys: [k.base],
      args: names.map((name) => (name === 'scheduled' ? 'schedule' : name)),
    }),
    read: (reply) => list('counts', reply).map((n) => integer('counts', n)),
  }),
  metrics: define<{ readonly outcome: 'completed' | 'failed' }, number>({
    name: 'metrics',
    script: scripts.metrics,
    ...read,
    keyNames: ['metrics'],
    argNames: [],
    layout: (k, { outcome }) => ({ keys: [k.metrics(outcome)], args: [] }),
    read: (reply) => integer('metrics', reply),
  }),
  logs: define<{ readonly id: string; readonly first: number; readonly last: number }, Buffer[] | 'gone'>({
    name: 'logs',
    script: scripts.logs,
    ...read,
    keyNames: ['row', 'logs'],
    argNames: ['first', 'last'],
    layout: (k, { id, first, last }) => ({ keys: [k.job(id), k.logs(id)], args: [text(first), text(last)] }),
    read: (reply) =>
      reply === -1
        ? 'gone'
        : list('logs', reply).map((line) => (Buffer.isBuffer(line) ? line : unexpected('logs', line))),
  }),
  ...workerTransitions,
  ...laneTransitions,
  ...repeatTransitions,
  ...controlTransitions,
  ...auditTransitions,
  ...flowTransitions,
} as const;

function setOf(state: PlaceName): (typeof SET_OF)[PlaceName] {
  if (!Object.hasOwn(SET_OF, state)) {
    throw inputError(`unknown state ${show(state)}: use ${Object.keys(SET_OF).join(', ')}`);
  }
  return SET_OF[state];
}

/** The sets and counters that `counts` knows. */
export const COUNT_NAMES: readonly CountName[] = [
  ...(['pending', 'active', 'scheduled', 'dead', 'awaiting_children'] as const),
  ...(['completed', 'failed'] as const),
];
