/**
 * What a job carries besides its payload: its name, its own limits and its trace context, as JSON in the row's `opts`.
 *
 * Invariants: what is written was checked; what is read is taken leniently, since another client may have written it: a
 * field that makes no sense counts as absent, and everything unknown is kept for the handler.
 * Does not: apply a limit (the consumer does).
 */
import { EmqError, inputError, show } from '../wire/errors.js';
import { checkBackoff, parseBackoff, type BackoffPolicy } from './backoff.js';
import { LARGEST, plainObject, positive, said } from './input.js';

/** A job's own limits. They win over the consumer's. */
export interface JobLimits {
  /** What kind of job it is, for handlers, events and metrics. */
  name?: string | undefined;
  /** How often it may be claimed before it is dead; delays and hand-backs do not count. */
  maxAttempts?: number | undefined;
  /** The pause before the next try: a policy, or a number of ms. */
  backoff?: BackoffPolicy | number | undefined;
  /** How long one try may take, in ms. */
  timeoutMs?: number | undefined;
}

/** What `readOpts` finds. */
export interface ReadOpts {
  readonly name: string | undefined;
  readonly maxAttempts: number | undefined;
  readonly backoff: BackoffPolicy | undefined;
  readonly timeoutMs: number | undefined;
  /** The context of the span that enqueued the job (traceparent, tracestate). */
  readonly trace: Readonly<Record<string, string>> | undefined;
  /** All of it, as it was given. */
  readonly all: Readonly<Record<string, unknown>>;
}

export const LIMIT_NAMES = ['name', 'maxAttempts', 'backoff', 'timeoutMs'] as const;

/** The longest a timer of Node can wait, in ms. */
const LONGEST_TIMER = 2 ** 31 - 1;
const LONGEST_NAME = 255;
const NONE: ReadOpts = {
  name: undefined,
  maxAttempts: undefined,
  backoff: undefined,
  timeoutMs: undefined,
  trace: undefined,
  all: {},
};

/** The `opts` field of a new row, or undefined when there is nothing to keep. @throws EmqError `EMQ_INPUT`. */
export function optsText(
  limits: JobLimits & { opts?: Readonly<Record<string, unknown>> | undefined },
  trace: Readonly<Record<string, string>> = {},
): string | undefined {
  const { opts } = limits;
  const all: Record<string, unknown> = {};
  try {
    Object.assign(all, opts === undefined ? {} : plainObject('opts', opts));
  } catch (cause) {
    throw cause instanceof EmqError ? cause : inputError(`opts cannot be read: ${said(cause)}`);
  }
  for (const name of LIMIT_NAMES) if (limits[name] !== undefined) all[name] = limits[name];
  check(all);
  if (Object.keys(trace).length > 0) all['trace'] = trace;
  if (Object.keys(all).length === 0) return undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(all);
  } catch (cause) {
    throw inputError(`opts have no JSON form: ${said(cause)}`);
  }
  // a toJSON may make anything of them
  if (text?.startsWith('{') !== true) throw inputError('opts must be a plain object in their JSON form too');
  return text;
}

/** Reads a row's `opts`; null or text that is no JSON object: nothing. */
export function readOpts(bytes: Buffer | null): ReadOpts {
  if (bytes === null || bytes.length === 0) return NONE;
  let all: Record<string, unknown>;
  try {
    all = plainObject('opts', JSON.parse(bytes.toString()) as object) as Record<string, unknown>;
  } catch {
    return NONE;
  }
  const { name, maxAttempts, backoff, timeoutMs, trace } = all;
  return {
    name: typeof name === 'string' && name !== '' ? name : undefined,
    maxAttempts: whole(maxAttempts, LARGEST),
    backoff: parseBackoff(backoff),
    timeoutMs: whole(timeoutMs, LONGEST_TIMER),
    trace: isTrace(trace) ? trace : undefined,
    all,
  };
}

function check(all: Record<string, unknown>): void {
  const { name, maxAttempts, backoff, timeoutMs } = all;
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > LONGEST_NAME)) {
    throw inputError(`the name of a job must be a string of 1 to ${LONGEST_NAME} characters, got ${show(name)}`);
  }
  if (maxAttempts !== undefined) positive('maxAttempts', maxAttempts as number);
  if (typeof backoff === 'function') {
    throw inputError('the backoff of a job must be a policy or ms: a function cannot travel, give it to the consumer');
  }
  if (backoff !== undefined) all['backoff'] = checkBackoff('backoff', backoff as BackoffPolicy);
  if (timeoutMs !== undefined) checkTimer('timeoutMs', timeoutMs as number);
}

/** A time that a timer of Node can wait, at least 1 ms. */
export function checkTimer(what: string, ms: number): number {
  if (whole(ms, LONGEST_TIMER) === undefined) {
    throw inputError(`${what} must be a whole number of ms from 1 to ${LONGEST_TIMER}, got ${show(ms)}`);
  }
  return ms;
}

function whole(value: unknown, most: number): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most ? value : undefined;
}

function isTrace(value: unknown): value is Record<string, string> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((field) => typeof field === 'string')
  );
}
