/**
 * A time to run at, as the verbs and handlers give it.
 *
 * Invariants: what passes `checkWhen` is exact on the wire. Does not: read a clock: `inMs` counts on the server's.
 */
import { inputError } from '../wire/errors.js';
import type { When } from '../wire/transitions.js';
import { anyInteger, fields, given, namesOf } from './input.js';

/** A time to run at: so many ms from now by the server's clock, or an absolute time (Unix ms or a Date). */
export type RunAt = { readonly inMs: number } | { readonly at: number | Date };

/** @throws EmqError `EMQ_INPUT` for anything but one of the two forms with a whole number or a valid Date. */
export function checkWhen(runAt: RunAt): When {
  const what = 'the time to run at';
  const [name, ...more] = namesOf(what, given(what, runAt));
  if (more.length > 0 || (name !== 'at' && name !== 'inMs')) {
    throw inputError('the time to run at must be { inMs } (from now) or { at } (Unix ms or a Date)');
  }
  const { at, inMs } = fields<{ at?: number | Date; inMs?: number }, 'at' | 'inMs'>(what, runAt, ['at', 'inMs']);
  if (name === 'inMs') return { inMs: anyInteger('inMs', inMs as number) };
  if (at instanceof Date && Number.isNaN(at.getTime())) {
    throw inputError('at must be an integer (Unix ms) or a valid Date, got NaN');
  }
  return { at: anyInteger('at', at instanceof Date ? at.getTime() : (at as number)) };
}
