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

/** Options: an object that has no other fields than these. A misspelt option must not be ignored in silence. */
export function known<T extends object>(what: string, value: T, names: readonly (keyof T & string)[]): T {
  given(`the options of ${what}`, value);
  const unknown = Object.keys(value).find((name) => !(names as readonly string[]).includes(name));
  if (unknown === undefined) return value;
  throw inputError(`unknown option ${show(unknown)} of ${what}: it takes ${names.join(', ')}`);
}

/** A list of objects. */
export function givenList<T>(what: string, value: readonly T[]): readonly T[] {
  if (!Array.isArray(value)) throw inputError(`${what} must be a list, got ${show(value)}`);
  return value as readonly T[];
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
