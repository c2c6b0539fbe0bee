/**
 * Numbers and times as arguments on the wire.
 *
 * Does not: check them; the verbs have.
 */
import type { Arg } from './call.js';

/** A run-at time: `inMs` from now on the server's clock, or `at`, Unix ms. */
export type When = { readonly inMs: number } | { readonly at: number };

/** Canonical decimal text. */
export const text = (n: number): string => (Object.is(n, -0) ? '0' : String(n));

/** The same, empty for none. */
export const optionalText = (n: number | undefined): string => (n === undefined ? '' : text(n));

/** The mode and the number. */
export function runAtArgs(time: When): Arg[] {
  return 'at' in time ? ['at', text(time.at)] : ['in', text(time.inMs)];
}
