/**
 * A time to run at, as the verbs and handlers give it.
 *
 * Invariants: what passes `checkWhen` is exact on the wire. Does not: read a clock: `inMs` counts on the server's.
 */
import { inputError } from '../wire/errors.js';
import type { When } from '../wire/transitions.js';
import { anyInteger, given } from './input.js';

/** A time to run at: so many ms from now by the server's clock, or an absolute time (Unix ms or a Date). */
export type RunAt = { readonly inMs: number } | { readonly at: number | Date };

/** @throws EmqError `EMQ_INPUT` for anything but one of the two forms with a whole number or a valid Date. */
export function checkWhen(runAt: RunAt): When {
  const names = Object.keys(given('the time to run at', runAt));
  if (names.length !== 1 || !('at' in runAt || 'inMs' in runAt)) {
    throw inputError('the time to run at must be { inMs } (from now) or { at } (Unix ms or a Date)');
  }
  if ('at' in runAt && runAt.at instanceof Date && Number.isNaN(runAt.at.getTime())) {
    throw inputError('at must be an integer (Unix ms) or a valid Date, got NaN');
  }
  if ('at' in runAt) return { at: anyInteger('at', runAt.at instanceof Date ? runAt.at.getTime() : runAt.at) };
  return { inMs: anyInteger('inMs', runAt.inMs) };
}
