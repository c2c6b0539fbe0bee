/**
 * What a queue holds that is still to be run, and assertions on it.
 *
 * Invariants: one look is one moment; a failed assertion is an `AssertionError` of Node, which every test runner shows,
 * and says what was there instead. Does not: change anything, or see jobs that run or are dead.
 */
import { AssertionError } from 'node:assert';
import { inspect, isDeepStrictEqual } from 'node:util';
import { known } from '../queue/input.js';
import { TakenJob } from '../queue/job.js';
import type { Jobs } from '../queue/jobs.js';
import { inputError, show } from '../wire/errors.js';
import { call } from './call.js';
import { lying } from './scripts.js';

/** A job that waits or is scheduled; plain data, for a test to compare. */
export interface EnqueuedJob<T = unknown> {
  readonly id: string;
  readonly state: 'pending' | 'scheduled';
  readonly name: string | undefined;
  readonly payload: T;
  readonly priority: number;
  /** Of a scheduled job. */
  readonly runAt: Date | undefined;
  /** The claims so far. */
  readonly attempts: number;
  readonly group: string | undefined;
  readonly opts: Readonly<Record<string, unknown>>;
}

/** Any part of a payload. */
export type Part<T> = T extends object ? { readonly [K in keyof T]?: Part<T[K]> } : T;

/** Which jobs are meant: those that fit everything that is given. */
export interface Expectation<T = unknown> {
  readonly id?: string;
  readonly name?: string;
  /** What the payload must hold: of objects these fields at least, all else exactly. */
  readonly payload?: Part<T>;
  readonly state?: 'pending' | 'scheduled';
  readonly priority?: number;
  readonly group?: string;
  /** Anything else. */
  readonly match?: (job: EnqueuedJob<T>) => boolean;
  /** How many jobs must fit. Default: one at least. */
  readonly count?: number;
}

const FIELDS = ['id', 'name', 'state', 'priority', 'group'] as const;
const SHOWN = 10;

/**
 * All jobs that wait, in the order in which they are served (those of lanes behind flat ones), and then the scheduled ones
 * by their time. @throws EmqError `EMQ_INPUT` for a payload that the queue's codec cannot decode.
 */
export async function enqueued<T, Input>(queue: Jobs<T, Input>): Promise<EnqueuedJob<T>[]> {
  const found = await call(queue, lying, undefined);
  return found.map(({ id, place, at, fields }) => {
    const number = (name: string): number => Number(fields.get(name)?.toString() ?? 0);
    const taken = {
      id,
      payload: fields.get('payload') ?? null,
      attempts: number('attempts'),
      group: fields.get('group')?.toString() ?? null,
      opts: fields.get('opts') ?? null,
      credit: number('credit'),
    };
    const { name, payload, attempts, group, opts } = new TakenJob(taken, queue.codec);
    const runAt = place === 'scheduled' ? new Date(at) : undefined;
    return { id, state: place, name, payload, priority: number('priority'), runAt, attempts, group, opts };
  });
}

/**
 * Fails unless a job that fits waits or is scheduled (with `count`: unless exactly so many do). Gives those that fit.
 * @throws AssertionError that tells what there is and why it does not fit; EmqError `EMQ_INPUT` for a wrong expectation.
 */
export async function assertEnqueued<T, Input>(
  queue: Jobs<T, Input>,
  expectation: Expectation<T> = {},
): Promise<EnqueuedJob<T>[]> {
  const { count } = check('assertEnqueued', expectation, ['count']);
  if (count !== undefined && (!Number.isInteger(count) || count < 0)) {
    throw inputError(`count must be an integer from 0, got ${show(count)}`);
  }
  const jobs = await enqueued(queue);
  const fitting = jobs.filter((job) => misfit(job, expectation) === undefined);
  if (count === undefined ? fitting.length > 0 : fitting.length === count) return fitting;
  const wanted = `${count ?? 'at least one'} expected`;
  return fail('assertEnqueued', queue, expectation, fitting.length, wanted, jobs, assertEnqueued);
}

/** Fails if a job that fits waits or is scheduled; without an expectation: if any does. @throws as `assertEnqueued`. */
export async function assertNotEnqueued<T, Input>(
  queue: Jobs<T, Input>,
  expectation: Omit<Expectation<T>, 'count'> = {},
): Promise<void> {
  check('assertNotEnqueued', expectation, []);
  const jobs = await enqueued(queue);
  const fitting = jobs.filter((job) => misfit(job, expectation) === undefined);
  if (fitting.length === 0) return;
  fail('assertNotEnqueued', queue, expectation, fitting.length, 'none expected', fitting, assertNotEnqueued);
}

function check<T>(what: string, expectation: Expectation<T>, more: readonly 'count'[]): Expectation<T> {
  known(what, expectation, [...FIELDS, 'payload', 'match', ...more]);
  const { match } = expectation;
  if (match !== undefined && typeof match !== 'function') {
    throw inputError(`match must be a function of the job, got ${show(match)}`);
  }
  return expectation;
}

/** The first thing about a job that does not fit, or undefined. */
function misfit<T>(job: EnqueuedJob<T>, expectation: Expectation<T>): string | undefined {
  for (const field of FIELDS) {
    if (expectation[field] !== undefined && expectation[field] !== job[field]) {
      return `${field} is ${inspect(job[field])}`;
    }
  }
  if (expectation.payload !== undefined) {
    const at = difference('payload', job.payload, expectation.payload);
    if (at !== undefined) return at;
  }
  return expectation.match === undefined || expectation.match(job) ? undefined : 'match says no';
}

/** Where `actual` does not hold what is expected, or undefined. */
function difference(path: string, actual: unknown, expected: unknown): string | undefined {
  if (!isPlain(expected) || !isPlain(actual)) {
    return isDeepStrictEqual(actual, expected) ? undefined : `${path} is ${brief(actual)}`;
  }
  for (const [key, value] of Object.entries(expected)) {
    const at = difference(`${path}.${key}`, actual[key], value);
    if (at !== undefined) return at;
  }
  return undefined;
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function brief(value: unknown): string {
  const text = inspect(value, { depth: 3, breakLength: Infinity, maxStringLength: 80, maxArrayLength: 5 });
  return text.length > 200 ? `${text.slice(0, 197)}...` : text;
}

function fail<T, Input>(
  operator: string,
  queue: Jobs<T, Input>,
  expectation: Expectation<T>,
  fitting: number,
  wanted: string,
  jobs: readonly EnqueuedJob<T>[],
  stackStartFn: (...args: never[]) => unknown,
): never {
  const { count: _count, ...what } = expectation;
  const subject = Object.keys(what).length === 0 ? 'are enqueued' : `enqueued fit ${brief(what)}`;
  const lines = jobs.slice(0, SHOWN).map((job) => {
    const why = misfit(job, expectation);
    const name = job.name === undefined ? '' : ` ${job.name}`;
    return `  ${job.id} ${job.state}${name} ${brief(job.payload)}${why === undefined ? '' : ` - ${why}`}`;
  });
  if (jobs.length > SHOWN) lines.push(`  and ${jobs.length - SHOWN} more`);
  const list = jobs.length === 0 ? 'nothing waits or is scheduled' : `there are:\n${lines.join('\n')}`;
  throw new AssertionError({
    message: `${fitting} jobs of queue ${queue.queue} ${subject}, ${wanted}; ${list}`,
    actual: jobs,
    expected: expectation,
    operator,
    stackStartFn,
  });
}
