/**
 * Whatever a handler threw, as an Error and as the text that is kept in the row.
 *
 * Invariants: nothing here throws, whatever was thrown: null, a symbol, an object whose getters throw. The text is
 * message, newline, stack, and at most 4 KiB of UTF-8. Does not: judge (consumer.ts does, by the error's name).
 */
import { errorBytes } from '../queue/bounds.js';

/** The thrown value itself if it is a well-behaved Error, else a new one that tells what it was. */
export function asError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error && [thrown.message, thrown.name].every((text) => typeof text === 'string')) {
      void thrown.stack; // may be a getter that throws, too
      return thrown;
    }
    // an error of another realm or thread is no Error of ours
    const { message, stack, name, runAt, ms, scope } = (thrown ?? {}) as Record<string, unknown>;
    const error = new Error(typeof message === 'string' ? message : describe(thrown));
    if (typeof name === 'string' && name !== '') error.name = name;
    if (typeof stack === 'string') error.stack = stack;
    if (runAt !== undefined) return Object.assign(error, { runAt });
    return ms === undefined ? error : Object.assign(error, { ms, scope });
  } catch {
    return new Error('the handler threw something that cannot be printed');
  }
}

/** One part of an error, empty where there is none: a getter that worked once may throw the next time. */
export function partOf(error: Error, part: 'message' | 'name' | 'stack'): string {
  try {
    const text: unknown = error[part];
    return typeof text === 'string' ? text : '';
  } catch {
    return '';
  }
}

/** The text of an error for the row's `last_error`. */
export function errorText(error: Error): Buffer {
  const [message, stack] = [partOf(error, 'message'), partOf(error, 'stack')];
  return errorBytes(stack === '' ? message : `${message}\n${stack}`);
}

function describe(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown;
  if (typeof thrown === 'object' && thrown !== null) {
    const json = JSON.stringify(thrown) as string | undefined;
    return `the handler threw an object: ${json ?? 'of no JSON form'}`;
  }
  return `the handler threw ${String(thrown)}`;
}
