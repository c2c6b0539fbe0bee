/**
 * A rate, as callers give it.
 *
 * Does not: apply one (claims do, at the server).
 */
import { inputError, show } from '../wire/errors.js';
import { known, positive } from './input.js';

/** So many claims in so many ms: a bucket of `max` tokens that is refilled evenly. */
export interface Rate {
  readonly max: number;
  readonly durationMs: number;
}

/** The longest window there may be, in ms (wire contract, section 2). */
const LONGEST = 2 ** 31 - 1;

/** With its default. @throws EmqError `EMQ_INPUT`. */
export function checkRate(what: string, rate: { max: number; durationMs?: number }): Rate {
  const { max, durationMs = 1000 } = known(what, rate, ['max', 'durationMs']);
  if (!Number.isInteger(durationMs) || durationMs < 1 || durationMs > LONGEST) {
    throw inputError(
      `durationMs of ${what} must be a whole number of ms from 1 to ${LONGEST}, got ${show(durationMs)}`,
    );
  }
  return { max: positive(`max of ${what}`, max), durationMs };
}
