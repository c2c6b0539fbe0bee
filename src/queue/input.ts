/**
 * The checks that the verbs make before anything is sent, so that a mistake costs no round trip and names itself.
 *
 * Invariants: every refusal is an `EmqError` `EMQ_INPUT` that says what was given and what to give.
 * Does not: repeat what only the server can know (kind, token, state).
 */
import { inputError, show } from '../wire/errors.js';

/** The largest number on the wire, 2^52: exact as a double, and so is the server's clock plus it. */
export const LARGEST = 2 ** 52;
const HIGHEST_PRIORITY = 2_097_152;

/** An integer of at least 1 and at most 2^52. */
export function positive(what: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > LARGEST) {
    throw inputError(`${what} must be an integer from 1 to 2^52, got ${show(value)}`);
  }
  return value;
}

/** An integer from -2^52 to 2^52. */
export function anyInteger(what: string, value: number): number {
  if (!Number.isInteger(value) || value < -LARGEST || value > LARGEST) {
    throw inputError(`${what} must be an integer from -2^52 to 2^52, got ${show(value)}`);
  }
  return value;
}

/** An integer of at least 0. */
export function notNegative(what: string, value: number): number {
  if (!Number.isInteger(value) || value < 0 || value > LARGEST) {
    throw inputError(`${what} must be an integer from 0 to 2^52, got ${show(value)}`);
  }
  return value;
}

/** 0..2097152, lower first. */
export function checkPriority(value: number | undefined): number | undefined {
  if (value !== undefined && (!Number.isInteger(value) || value < 0 || value > HIGHEST_PRIORITY)) {
    throw inputError(`priority must be an integer from 0 (first) to ${HIGHEST_PRIORITY} (last), got ${show(value)}`);
  }
  return value;
}

/** An object, where a caller without types may have given anything. */
export function given<T extends object>(what: string, value: T): T {
  if (typeof value !== 'object' || (value as unknown) === null) {
    throw inputError(`${what} must be an object, got ${show(value)}`);
  }
  return value;
}

/**
 * Options: an object that has no other fields than these. A misspelt option must not be ignored in silence.
 * Each is read once, here: what a getter or a proxy says later is not looked at, and one that throws is a refusal too.
 */
export function known<T extends object>(what: string, value: T, names: readonly (keyof T & string)[]): T {
  const all = `the options of ${what}`;
  const unknown = namesOf(all, given(all, value)).find((name) => !(names as readonly string[]).includes(name));
  if (unknown === undefined) return fields(all, value, names) as T;
  throw inputError(`unknown option ${show(unknown)} of ${what}: it takes ${names.join(', ')}`);
}

/** A copy of these fields of an object, each read once; one that is absent stays so. */
export function fields<T extends object, N extends keyof T & string>(
  what: string,
  value: T,
  names: readonly N[],
): Pick<T, N> {
  // without a prototype: a field may have any name, __proto__ too
  const copy = Object.create(null) as Partial<Pick<T, N>>;
  try {
    for (const name of names) if (name in value) copy[name] = value[name];
  } catch (cause) {
    throw inputError(`${what} cannot be read: ${said(cause)}`);
  }
  return copy as Pick<T, N>;
}

/** The names of an object's own fields. */
export function namesOf(what: string, value: object): string[] {
  try {
    return Object.keys(value);
  } catch (cause) {
    throw inputError(`${what} cannot be read: ${said(cause)}`);
  }
}

/** What was thrown, in a few words. Never throws, whatever that was. */
export function said(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : show(thrown));
  } catch {
    return 'something that cannot be printed';
  }
}

/** A list, as a copy: a hole in it is an item that is not there. */
export function givenList<T>(what: string, value: readonly T[]): readonly T[] {
  if (!Array.isArray(value)) throw inputError(`${what} must be a list, got ${show(value)}`);
  return Array.from(value as readonly T[]);
}

/** A plain object: not null, a list or bytes. */
export function plainObject(what: string, value: object): object {
  if (typeof value !== 'object' || (value as unknown) === null || Array.isArray(value) || value instanceof Uint8Array) {
    throw inputError(`${what} must be a plain object, got ${show(value)}`);
  }
  return value;
}

/** Text or bytes, as they are. */
export function bytes(what: string, value: string | Uint8Array): string | Buffer {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return asBuffer(value);
  throw inputError(`${what} must be a string or bytes, got ${show(value)}`);
}

export function asBuffer(value: Uint8Array): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
