/**
 * How long a failed job waits for its next try.
 *
 * A policy is plain JSON, so that it can travel in a job's `opts`; a function is the consumer's own and stays in its
 * process. The wire always gets a literal delay.
 * Invariants: whatever a policy or a function says, `delayOf` gives an integer from 0 to `LONGEST_DELAY_MS`.
 * Does not: decide whether there is a next try, or read a clock.
 */
import { EmqError, inputError, show } from '../wire/errors.js';
import { fields, known, said } from './input.js';

/** Plain JSON. Times in ms; `attempt` below is the claim that just failed, 1 for the first. */
export type BackoffPolicy =
  /** Always the same. */
  | { readonly type: 'fixed'; readonly delayMs: number }
  /** min(delayMs * 2^(attempt-1), maxDelayMs), exact. */
  | { readonly type: 'exponential'; readonly delayMs: number; readonly maxDelayMs: number }
  /** A uniform integer from 0 to what the policy inside says, both included: so that many failures do not return at once. */
  | { readonly type: 'jitter'; readonly of: BackoffPolicy };

/** A policy, a fixed number of ms, or a function of the attempt that failed and its error that gives ms. */
export type Backoff = BackoffPolicy | number | ((attempt: number, error: Error) => number);

/** 2^31 - 1 ms, nearly 25 days: the longest delay there is. */
export const LONGEST_DELAY_MS = 2 ** 31 - 1;
/** What a function's failure costs, in ms. */
const FALLBACK_MS = 1000;
const HOUR_MS = 3_600_000;
/** A row's opts may be anyone's: a policy in a policy in a policy must end somewhere. */
const DEEPEST = 8;

/** Always `delayMs`. */
export function fixed(delayMs: number): BackoffPolicy {
  return checkPolicy('fixed', { type: 'fixed', delayMs });
}

/** `delayMs`, twice that, four times that, up to `maxDelayMs`. */
export function exponential(delayMs: number, maxDelayMs = HOUR_MS): BackoffPolicy {
  return checkPolicy('exponential', { type: 'exponential', delayMs, maxDelayMs });
}

/** Anything from 0 to what `policy` says. */
export function jitter(policy: BackoffPolicy): BackoffPolicy {
  return checkPolicy('jitter', { type: 'jitter', of: policy });
}

/**
 * The backoff itself, a policy as a copy that nobody else can change.
 * @param what the name of the option, for the error. @throws EmqError `EMQ_INPUT`.
 */
export function checkBackoff(what: string, value: Backoff): Backoff {
  if (typeof value === 'function') return value;
  if (typeof value === 'number') return checkMs(what, value, 0);
  return checkPolicy(what, value);
}

/** The policy in a row's `opts`, where a number stands for a fixed one; undefined for anything that is none. */
export function parseBackoff(value: unknown): BackoffPolicy | undefined {
  return typeof value === 'number' ? parsePolicy({ type: 'fixed', delayMs: value }, 0) : parsePolicy(value, 0);
}

/**
 * Ms until the next try: an integer from 0 to `LONGEST_DELAY_MS`. Never throws by itself: a function that throws, or
 * gives what is no delay (a negative number, NaN, an infinite one, no number), costs 1000 ms and is reported. A fraction is
 * rounded, and more than the longest is the longest.
 * @param attempt the claim that just failed, 1 for the first.
 * @param report told what is wrong with the function; what it throws goes through.
 */
export function delayOf(backoff: Backoff, attempt: number, error: Error, report?: (problem: EmqError) => void): number {
  if (typeof backoff === 'number') return backoff;
  if (typeof backoff !== 'function') return policyDelay(backoff, Math.max(1, attempt));
  let problem: EmqError;
  try {
    const given: unknown = backoff(attempt, error);
    if (typeof given === 'number' && given >= 0 && Number.isFinite(given)) {
      return Math.min(Math.round(given), LONGEST_DELAY_MS);
    }
    // its rejection would be nobody's
    if (given instanceof Promise) given.catch(() => {});
    problem = inputError(
      `the backoff function must give ms from 0, it gave ${show(given)}: ${FALLBACK_MS} ms are used`,
    );
  } catch (cause) {
    problem = new EmqError('EMQ_INPUT', `the backoff function threw (${said(cause)}): ${FALLBACK_MS} ms are used`, {
      cause,
    });
  }
  report?.(problem);
  return FALLBACK_MS;
}

function policyDelay(policy: BackoffPolicy, attempt: number): number {
  switch (policy.type) {
    case 'fixed':
      return policy.delayMs;
    case 'exponential':
      // a power of two keeps a double exact, and where it ends at infinity the cap is the smaller one
      return Math.min(policy.delayMs * 2 ** (attempt - 1), policy.maxDelayMs);
    case 'jitter':
      return Math.floor(Math.random() * (policyDelay(policy.of, attempt) + 1));
  }
}

type Policy<T extends BackoffPolicy['type']> = Extract<BackoffPolicy, { readonly type: T }>;

function checkPolicy(what: string, value: BackoffPolicy, depth = 0): BackoffPolicy {
  // a caller without types may have given anything
  const policy = typeof value === 'object' ? (value as BackoffPolicy | null) : null;
  const { type } = policy === null ? {} : fields(what, policy, ['type']);
  switch (type) {
    case 'fixed': {
      const { delayMs } = known(what, policy as Policy<'fixed'>, ['type', 'delayMs']);
      return Object.freeze({ type, delayMs: checkMs(`${what}.delayMs`, delayMs, 0) });
    }
    case 'exponential': {
      const own = known(what, policy as Policy<'exponential'>, ['type', 'delayMs', 'maxDelayMs']);
      const delayMs = checkMs(`${what}.delayMs`, own.delayMs, 1);
      return Object.freeze({ type, delayMs, maxDelayMs: checkMs(`${what}.maxDelayMs`, own.maxDelayMs, 1) });
    }
    case 'jitter': {
      const own = known(what, policy as Policy<'jitter'>, ['type', 'of']);
      if (depth === DEEPEST) throw inputError(`${what} holds more than ${DEEPEST} policies in each other`);
      return Object.freeze({ type, of: checkPolicy(`${what}.of`, own.of, depth + 1) });
    }
    default:
      throw inputError(
        `${what} must be ms, a function or a policy (fixed, exponential or jitter), got ${policy ? `the type ${show(type)}` : show(value)}`,
      );
  }
}

function checkMs(what: string, value: number, least: number): number {
  if (isMs(value, least)) return value;
  throw inputError(`${what} must be an integer from ${least} to ${LONGEST_DELAY_MS} ms, got ${show(value)}`);
}

function isMs(value: unknown, least: number): value is number {
  return Number.isInteger(value) && (value as number) >= least && (value as number) <= LONGEST_DELAY_MS;
}

/** As checkPolicy, for what somebody else wrote: unknown fields are theirs, and what is no policy is none. */
function parsePolicy(value: unknown, depth: number): BackoffPolicy | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { type, delayMs, maxDelayMs = HOUR_MS, of } = value as Record<string, unknown>;
  if (type === 'fixed' && isMs(delayMs, 0)) return { type, delayMs };
  if (type === 'exponential' && isMs(delayMs, 1) && isMs(maxDelayMs, 1)) return { type, delayMs, maxDelayMs };
  if (type !== 'jitter' || depth === DEEPEST) return undefined;
  const inner = parsePolicy(of, depth + 1);
  return inner && { type, of: inner };
}
