/**
 * What the handler of a batch says of each job, and what became of each.
 *
 * Invariants: pure; whatever a handler returned, every job of the batch gets one verdict, and nothing here throws; every
 * job is in exactly one part of a partition, in the order of the claim.
 * Does not: settle (batch-consumer.ts does).
 */
import type { RunAt } from '../queue/run-at.js';
import { asError } from './failure.js';
import { DelayError } from './handler.js';
import type { Answer } from './settle.js';

/**
 * Of one job: done; done with a result (for the parent of a flow, and the consumer's event); failed, as if a handler had
 * thrown it; put off, by ms from now or to a time.
 */
export type Verdict =
  | 'complete'
  | { readonly complete: unknown }
  | { readonly fail: Error | string }
  | { readonly delay: number | RunAt | Date };

/** A verdict for each job, by its id. A job that has none is tried again: `missing verdict`. */
export type Verdicts = ReadonlyMap<string, Verdict> | Readonly<Record<string, Verdict>>;

/** A verdict as a handler of one job would have given it. */
export type Said = { readonly result: unknown } | { readonly thrown: unknown };

/** What was said of each job, and the ids that are no job's of this batch. */
export interface Reading {
  readonly said: ReadonlyMap<string, Said>;
  readonly strangers: readonly string[];
}

/** The ids of a batch by what became of them. */
export interface BatchPartition {
  readonly completed: readonly string[];
  /** Failed, and tried again. */
  readonly retried: readonly string[];
  readonly dead: readonly string[];
  /** Put off, or handed back by a RateLimitError. */
  readonly delayed: readonly string[];
  /** Handed back by a close. */
  readonly released: readonly string[];
  /** Another run has the job, or its outcome could not be taken to the server: it is not this batch's any more. */
  readonly stale: readonly string[];
}

const PARTS: Readonly<Record<Answer['now'], keyof BatchPartition>> = {
  completed: 'completed',
  scheduled: 'retried',
  dead: 'dead',
  delayed: 'delayed',
  'backed off': 'delayed',
  released: 'released',
  stale: 'stale',
  unsettled: 'stale',
};

/** Reads what a handler returned for the jobs with these ids. */
export function readVerdicts(ids: readonly string[], returned: unknown): Reading {
  const said = new Map<string, Said>();
  const verdicts = entriesOf(returned);
  for (const id of ids) {
    if (verdicts instanceof Error) said.set(id, { thrown: verdicts });
    else said.set(id, verdicts.has(id) ? readVerdict(verdicts.get(id)) : { thrown: plain('missing verdict') });
  }
  const strangers = verdicts instanceof Error ? [] : [...verdicts.keys()].filter((id) => !said.has(String(id)));
  return { said, strangers: strangers.map(String) };
}

/** What became of each job. An id without an answer counts as stale. */
export function partition(ids: readonly string[], answers: ReadonlyMap<string, Answer['now']>): BatchPartition {
  const parts = { completed: [], retried: [], dead: [], delayed: [], released: [], stale: [] } as Record<
    keyof BatchPartition,
    string[]
  >;
  for (const id of ids) parts[PARTS[answers.get(id) ?? 'stale']].push(id);
  return parts;
}

function entriesOf(returned: unknown): ReadonlyMap<unknown, unknown> | Error {
  try {
    if (returned instanceof Map) return returned as ReadonlyMap<unknown, unknown>;
    const prototype: unknown =
      typeof returned === 'object' && returned !== null ? Object.getPrototypeOf(returned) : undefined;
    // a list, an Error or a Buffer is an object too, and no answer
    if (prototype === null || prototype === Object.prototype) return new Map(Object.entries(returned as object));
  } catch (error) {
    return asError(error);
  }
  return plain(
    `bad verdict: a batch handler must return a Map or an object of job id -> verdict, it returned ${what(returned)}`,
  );
}

function readVerdict(verdict: unknown): Said {
  try {
    if (verdict === 'complete') return { result: undefined };
    if (typeof verdict === 'object' && verdict !== null) {
      const words = Object.keys(verdict);
      const { complete, fail, delay } = verdict as { complete?: unknown; fail?: unknown; delay?: unknown };
      if (words.length === 1 && 'complete' in verdict) return { result: complete };
      if (words.length === 1 && 'fail' in verdict) return { thrown: typeof fail === 'string' ? plain(fail) : fail };
      // what is no time is said by whoever judges it
      if (words.length === 1 && 'delay' in verdict) return { thrown: new DelayError(delay as number) };
    }
  } catch (error) {
    return { thrown: asError(error) };
  }
  const text = `bad verdict: it must be 'complete', { complete: result }, { fail: error } or { delay: ms }, it was ${what(verdict)}`;
  return { thrown: plain(text) };
}

/** A failure that nobody threw: a stack would be ours, and tell the reader of a row nothing. */
function plain(text: string): Error {
  return Object.assign(new Error(text), { stack: '' });
}

/** In a few words; never throws. */
function what(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 40));
  if (typeof value === 'object' && value !== null) {
    try {
      return Array.isArray(value)
        ? 'a list'
        : `an object with ${Object.keys(value).join(', ').slice(0, 80) || 'nothing'}`;
    } catch {
      return 'an object';
    }
  }
  return typeof value === 'function' ? 'a function' : String(value);
}
