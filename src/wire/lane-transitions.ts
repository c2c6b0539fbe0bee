/**
 * The transitions and reads of lanes, limits and dedup ids (docs/wire.md, section 6, Lanes, limits and dedup), in the style
 * of the transition table, of which they are a part.
 *
 * Invariants: layouts are those of docs/wire.md, key for key; none has a native twin: the native commands honour what these
 * set. Does not: check what a caller gives (src/queue does).
 */
import { taken, type Taken } from './claim.js';
import { ids, integer, list, maybe, oneOf, string, unexpected } from './fields.js';
import type { Arg, Reply, Transition } from './call.js';
import type { Held } from './flow-transitions.js';
import { checkGroup, type Keyspace } from './keyspace.js';
import { scripts } from './scripts.generated.js';
import { optionalText, runAtArgs, text, type When } from './texts.js';

/** How a dedup id is meant. */
export type DedupMode = 'drop' | 'throttle' | 'replace';

/** A dedup id as an admission takes it; `ttlMs` 0: as long as its job is there. */
export interface DedupClaim {
  readonly id: string;
  readonly mode: DedupMode;
  readonly ttlMs: number;
  /** The key outlives the job's completion. */
  readonly keep: boolean;
}

/** What an admission came to, and the id of the job that stands. */
export interface Admitted {
  readonly outcome: 'enqueued' | 'scheduled' | 'duplicate' | 'deduplicated' | 'replaced';
  readonly id: string;
}

export interface AdmitInput {
  readonly id: string;
  readonly payload: Arg;
  readonly priority?: number | undefined;
  readonly opts?: string | undefined;
  /** Absent: it can be claimed at once. */
  readonly when?: When | undefined;
  readonly group?: string | undefined;
  readonly dedup?: DedupClaim | undefined;
}

/** The limits of a queue; 0 where there is none. */
export interface QueueLimits {
  readonly concurrency: number;
  readonly max: number;
  readonly durationMs: number;
  /** 0: a job could be claimed now, as far as the rate goes. */
  readonly nextTokenMs: number;
  readonly paused: boolean;
}

/** What can be set on a queue; null unsets. */
export type LimitName = 'concurrency' | 'max' | 'duration';
/** What can be set on a lane; null unsets. */
export type LaneSettingName = 'limit' | 'weight' | 'max' | 'duration';
export type Settings<Name extends string> = readonly (readonly [Name, number | null])[];

/** Where groups are found: each of the first four holds some of the lanes that have jobs, and together all of them. */
export type LanePlace = 'ring' | 'paused' | 'gactive' | 'gwait' | 'glimit' | 'gweight' | 'gmax';

export interface LaneInfo {
  readonly waiting: number;
  readonly active: number;
  /** 0: no ceiling. */
  readonly limit: number;
  readonly weight: number;
  /** 0: no rate. */
  readonly max: number;
  readonly durationMs: number;
  readonly paused: boolean;
  /** Until when the lane waits for its rate or a back-off, Unix ms; 0: it does not. */
  readonly waitsUntil: number;
  readonly nextTokenMs: number;
}

const write = { readOnly: false, repeatable: false } as const;
const repeatableWrite = { readOnly: false, repeatable: true } as const;
const read = { readOnly: true, repeatable: true } as const;

const define = <I, R>(transition: Transition<I, R>): Transition<I, R> => transition;
const settings = (list: Settings<string>): string[] =>
  list.flatMap(([name, value]) => [name, value === null ? '' : text(value)]);
const OUTCOMES: readonly string[] = [
  ...(['enqueued', 'scheduled', 'duplicate', 'deduplicated', 'replaced'] satisfies Admitted['outcome'][]),
];

const numbers = (what: string, reply: Reply): number[] => list(what, reply).map((n) => integer(what, n));

function info(reply: Reply): LaneInfo {
  const [
    waiting = 0,
    active = 0,
    limit = 0,
    weight = 1,
    max = 0,
    durationMs = 0,
    paused = 0,
    waitsUntil = 0,
    next = 0,
  ] = numbers('lane_info', reply);
  return {
    ...{ waiting, active, limit, weight, max, durationMs, waitsUntil },
    paused: paused === 1,
    nextTokenMs: next,
  };
}

export const laneTransitions = {
  admit: define<AdmitInput, Admitted>({
    name: 'admit',
    script: scripts.admit,
    ...write,
    keyNames: ['row', 'b'],
    argNames: [
      ...['id', 'payload', 'priority', 'opts', 'mode', 'ms'],
      ...['group', 'dedup id', 'dedup mode', 'ttl', 'keep'],
    ],
    layout: (k, { id, payload, priority, opts, when, group, dedup }) => ({
      keys: [k.job(id), k.base],
      args: [
        ...[id, payload, optionalText(priority), opts ?? ''],
        ...(when === undefined ? ['now', '0'] : runAtArgs(when)),
        group === undefined ? '' : checkGroup(group),
        ...(dedup === undefined
          ? ['', '', '0', '0']
          : [k.dedup(dedup.id) && dedup.id, dedup.mode, text(dedup.ttlMs), dedup.keep ? '1' : '0']),
      ],
    }),
    read: (reply) => {
      const [outcome, id] = ids('admit', reply);
      if (outcome === undefined || id === undefined || !OUTCOMES.includes(outcome)) return unexpected('admit', reply);
      return { outcome: outcome as Admitted['outcome'], id };
    },
  }),
  takeBatch: define<
    { readonly leaseMs: number; readonly size: number; readonly min: number; readonly source: 'flat' | 'lanes' },
    Taken[]
  >({
    name: 'take_batch',
    script: scripts.take_batch,
    native: 'EMQ.TAKE.BATCH',
    ...write,
    keyNames: ['pending', 'ring', 'active', 'b'],
    argNames: ['lease', 'size', 'min', 'source'],
    layout: (k, { leaseMs, size, min, source }) => ({
      keys: [k.pending, k.ring, k.active, k.base],
      args: [text(leaseMs), text(size), text(min), source],
    }),
    read: (reply) => list('take_batch', reply).map((job) => taken(list('take_batch', job))),
  }),
  backOff: define<Held & { readonly ms: number; readonly scope: 'own' | 'queue' }, 'released'>({
    name: 'back_off',
    script: scripts.back_off,
    ...write,
    keyNames: ['active', 'pending', 'row'],
    argNames: ['id', 'token', 'ms', 'scope', 'b'],
    layout: (k, { id, token, ms, scope }) => ({
      keys: [k.active, k.pending, k.job(id)],
      args: [id, text(token), text(ms), scope, k.base],
    }),
    read: (reply) => (integer('back_off', reply) === 1 ? 'released' : unexpected('back_off', reply)),
  }),
  consult: define<void, 'ok'>({
    name: 'consult',
    script: scripts.consult,
    ...read,
    keyNames: ['meta', 'active', 'limiter'],
    argNames: [],
    layout: (k) => ({ keys: [k.meta, k.active, k.limiter], args: [] }),
    read: (reply) => (integer('consult', reply) === 1 ? 'ok' : unexpected('consult', reply)),
  }),
  limits: define<void, QueueLimits>({
    name: 'limits',
    script: scripts.limits,
    ...read,
    keyNames: ['b'],
    argNames: [],
    layout: (k) => ({ keys: [k.base], args: [] }),
    read: (reply) => {
      const [concurrency = 0, max = 0, durationMs = 0, nextTokenMs = 0, paused = 0] = numbers('limits', reply);
      return { concurrency, max, durationMs, nextTokenMs, paused: paused === 1 };
    },
  }),
  setLimits: define<{ readonly settings: Settings<LimitName> }, void>({
    name: 'set_limits',
    script: scripts.set_limits,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['name...', 'value...'],
    layout: (k, { settings: all }) => ({ keys: [k.base], args: settings(all) }),
    read: (reply) => void integer('set_limits', reply),
  }),
  laneSet: define<{ readonly group: string; readonly settings: Settings<LaneSettingName> }, void>({
    name: 'lane_set',
    script: scripts.lane_set,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['group', 'name...', 'value...'],
    layout: (k, { group, settings: all }) => ({
      keys: [k.base],
      args: [group === '*' ? group : checkGroup(group), ...settings(all)],
    }),
    read: (reply) => void integer('lane_set', reply),
  }),
  laneMend: define<{ readonly groups: readonly string[] }, void>({
    name: 'lane_mend',
    script: scripts.lane_mend,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['group...'],
    // a queue may hold groups of any name: whoever mends them passes them on
    layout: (k, { groups }) => ({ keys: [k.base], args: groups }),
    read: (reply) => void integer('lane_mend', reply),
  }),
  lanePause: define<{ readonly group: string }, 'paused' | 'was paused'>({
    name: 'lane_pause',
    script: scripts.lane_pause,
    ...repeatableWrite,
    keyNames: ['paused', 'ring'],
    argNames: ['group'],
    layout: (k, { group }) => ({ keys: [k.paused, k.ring], args: [checkGroup(group)] }),
    read: oneOf('lane_pause', 'paused', 0, 'was paused'),
  }),
  laneResume: define<{ readonly group: string }, 'resumed' | 'not paused'>({
    name: 'lane_resume',
    script: scripts.lane_resume,
    ...repeatableWrite,
    keyNames: ['b'],
    argNames: ['group'],
    layout: (k, { group }) => ({ keys: [k.base], args: [checkGroup(group)] }),
    read: oneOf('lane_resume', 'resumed', 0, 'not paused'),
  }),
  reassign: define<
    { readonly id: string; readonly group: string },
    'reassigned' | 'noop' | 'not found' | 'not pending'
  >({
    name: 'reassign',
    script: scripts.reassign,
    ...write,
    keyNames: ['row', 'b'],
    argNames: ['id', 'group'],
    layout: (k, { id, group }) => ({ keys: [k.job(id), k.base], args: [id, checkGroup(group)] }),
    read: (reply) => {
      const n = integer('reassign', reply);
      if (n === 1) return 'reassigned';
      if (n === 0) return 'noop';
      if (n === -1) return 'not found';
      return n === -2 ? 'not pending' : unexpected('reassign', reply);
    },
  }),
  reapGroup: define<
    { readonly group: string; readonly limit: number; readonly offset: number },
    { readonly recovered: number; readonly next: number | null }
  >({
    name: 'reap_group',
    script: scripts.reap_group,
    ...repeatableWrite,
    keyNames: ['active', 'b'],
    argNames: ['group', 'limit', 'offset'],
    layout: (k, { group, limit, offset }) => ({
      keys: [k.active, k.base],
      args: [checkGroup(group), text(limit), text(offset)],
    }),
    read: (reply) => {
      const [recovered = 0, next = -1] = numbers('reap_group', reply);
      return { recovered, next: next < 0 ? null : next };
    },
  }),
  lanes: define<
    { readonly place: LanePlace; readonly cursor: string; readonly count: number },
    { readonly next: string; readonly groups: string[] }
  >({
    name: 'lanes',
    script: scripts.lanes,
    ...read,
    keyNames: ['b'],
    argNames: ['place', 'cursor', 'count'],
    layout: (k, { place, cursor, count }) => ({ keys: [k.base], args: [place, cursor, text(count)] }),
    read: (reply) => {
      const [next, groups] = list('lanes', reply);
      return { next: string('lanes', next ?? null), groups: ids('lanes', groups ?? null) };
    },
  }),
  laneInfo: define<{ readonly groups: readonly string[] }, LaneInfo[]>({
    name: 'lane_info',
    script: scripts.lane_info,
    ...read,
    keyNames: ['b'],
    argNames: ['group...'],
    layout: (k, { groups }) => ({ keys: [k.base], args: groups }),
    read: (reply) => list('lane_info', reply).map(info),
  }),
  dedup: define<{ readonly id: string }, { readonly owner: string; readonly ttlMs: number | null } | null>({
    name: 'dedup',
    script: scripts.dedup,
    ...read,
    keyNames: ['dedup'],
    argNames: [],
    layout: (k, { id }) => ({ keys: [k.dedup(id)], args: [] }),
    read: (reply) => {
      const [id, ttl] = list('dedup', reply);
      const owner = maybe('dedup', id);
      if (owner === null) return null;
      const ttlMs = integer('dedup', ttl ?? null);
      return { owner, ttlMs: ttlMs < 0 ? null : ttlMs };
    },
  }),
  dedupFree: define<{ readonly id: string }, 'freed' | 'absent'>({
    name: 'dedup_free',
    script: scripts.dedup_free,
    ...repeatableWrite,
    keyNames: ['dedup'],
    argNames: [],
    layout: (k: Keyspace, { id }) => ({ keys: [k.dedup(id)], args: [] }),
    read: oneOf('dedup_free', 'freed', 0, 'absent'),
  }),
} as const;
