/**
 * Branded ids: 14 bytes, 3 letters `A-Z` (the namespace) and 11 base62 digits that hold a 63-bit snowflake
 * (wire contract, section 1).
 *
 * Invariants: digits run `0-9 A-Z a-z`, ascending in ASCII, and are zero-padded, so inside a namespace the order of the
 * bytes is the order of the numbers. Ids are compared by bytes only (`<` on the strings does that), never by locale.
 * Does not: mint (mint.ts), or ask for a particular namespace: which kind a verb admits is the server's business.
 */
import { inputError, show } from '../wire/errors.js';

declare const BRAND: unique symbol;
/** Text that `isBranded` has passed. */
export type BrandedId = string & { readonly [BRAND]: true };

/** The instant from which ids count, 2024-01-01T00:00:00Z, in Unix ms. */
export const EPOCH_MS = 1_704_067_200_000;
/** Node ids are 0 to this. */
export const NODE_MAX = 1023;
/** Snowflakes are 0 to this, 2^63 - 1. */
export const SNOWFLAKE_MAX = (1n << 63n) - 1n;
/** 62^6: splits a snowflake into two halves of 5 and 6 digits, each an exact Number. */
const LOW_HALF = 62 ** 6;

const LENGTH = 14;
const PREFIX = 3;
/** The digits of `SNOWFLAKE_MAX`. */
const LAST = 'AzL8n0Y58m7';
const LAST_LEAD = 0x41;
const DIGITS = Uint8Array.from('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', (digit) =>
  digit.charCodeAt(0),
);

/** What an id says. */
export interface IdParts {
  /** 3 letters A-Z. */
  readonly namespace: string;
  /** The whole number, 0 to 2^63 - 1. */
  readonly snowflake: bigint;
  /** When it was minted by the minter's clock, Unix ms. */
  readonly unixMs: number;
  /** The minter's node id, 0 to 1023. */
  readonly node: number;
  /** 0 to 4095. */
  readonly sequence: number;
}

/** True for a well-formed id of any namespace. Takes anything; one pass over the 14 characters. */
export function isBranded(value: unknown): value is BrandedId {
  if (typeof value !== 'string' || value.length !== LENGTH) return false;
  for (let at = 0; at < PREFIX; at += 1) if (!isUpper(value.charCodeAt(at))) return false;
  for (let at = PREFIX; at < LENGTH; at += 1) if (!isDigit(value.charCodeAt(at))) return false;
  const lead = value.charCodeAt(PREFIX);
  return lead < LAST_LEAD || (lead === LAST_LEAD && value.slice(PREFIX) <= LAST);
}

/**
 * Takes an id apart.
 * @throws EmqError `EMQ_INPUT` for an ill-formed id; the text says which of length, namespace, charset or range is wrong.
 */
export function parseId(id: string): IdParts {
  if (!isBranded(id)) throw inputError(faultOf(id));
  const snowflake = BigInt(valueOf(id, 3, 8)) * BigInt(LOW_HALF) + BigInt(valueOf(id, 8, LENGTH));
  const tail = Number(snowflake & 0x3fffffn);
  return {
    namespace: id.slice(0, PREFIX),
    snowflake,
    unixMs: EPOCH_MS + Number(snowflake >> 22n),
    node: tail >>> 12,
    sequence: tail & 0xfff,
  };
}

/**
 * The id of a number in a namespace; the inverse of `parseId`.
 * @throws EmqError `EMQ_INPUT` unless `namespace` is 3 letters A-Z and `snowflake` a bigint of 0 to 2^63 - 1.
 */
export function encodeId(namespace: string, snowflake: bigint): BrandedId {
  if (typeof snowflake !== 'bigint' || snowflake < 0n || snowflake > SNOWFLAKE_MAX) {
    throw inputError(`snowflake ${show(snowflake)} is out of range: it must be a bigint of 0 to 2^63 - 1`);
  }
  const low = BigInt(LOW_HALF);
  return spell(namespace, Number(snowflake / low), Number(snowflake % low));
}

/**
 * Writes an id from its two halves, `high * 62^6 + low`, both whole, 0 or more, and together at most 2^63 - 1 (not checked).
 * For callers that have them at hand and must not pay for a bigint.
 * @throws EmqError `EMQ_INPUT` unless `namespace` is 3 letters A-Z.
 */
export function spell(namespace: string, high: number, low: number): BrandedId {
  if (typeof namespace !== 'string' || namespace.length !== PREFIX) throw inputError(badNamespace(namespace));
  const [n0, n1, n2] = [namespace.charCodeAt(0), namespace.charCodeAt(1), namespace.charCodeAt(2)];
  if (!isUpper(n0) || !isUpper(n1) || !isUpper(n2)) throw inputError(badNamespace(namespace));
  const mid = Math.floor(low / 238_328);
  const end = low - mid * 238_328;
  // One call makes one flat string; joining pieces would leave a tree that the socket's writer has to flatten.
  return String.fromCharCode(
    n0,
    n1,
    n2,
    digit(high / 14_776_336),
    digit(high / 238_328),
    digit(high / 3_844),
    digit(high / 62),
    digit(high),
    digit(mid / 3_844),
    digit(mid / 62),
    digit(mid),
    digit(end / 3_844),
    digit(end / 62),
    digit(end),
  ) as BrandedId;
}

/** The last base62 digit of a number below 2^31; the fraction is dropped. */
function digit(value: number): number {
  return DIGITS[(value | 0) % 62] as number;
}

/** The number that the digits from `start` to before `end` stand for: at most 6 digits of a well-formed id. */
function valueOf(id: string, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at += 1) {
    const code = id.charCodeAt(at);
    value = value * 62 + (code <= 0x39 ? code - 0x30 : code <= 0x5a ? code - 0x37 : code - 0x3d);
  }
  return value;
}

function isUpper(code: number): boolean {
  return code >= 0x41 && code <= 0x5a;
}

function isDigit(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || isUpper(code) || (code >= 0x61 && code <= 0x7a);
}

/** Why an id is refused, tested in the order length, namespace, charset, range. */
function faultOf(id: unknown): string {
  if (typeof id !== 'string') return `id ${show(id)} must be text`;
  const bytes = Buffer.byteLength(id);
  if (bytes !== LENGTH) return `id ${show(id)} has the wrong length: it must be ${LENGTH} bytes, not ${bytes}`;
  if (!/^[A-Z]{3}/.test(id)) {
    return `id ${show(id)} has a wrong namespace: its first 3 characters must be letters A-Z`;
  }
  if (!/^.{3}[0-9A-Za-z]{11}$/.test(id)) {
    return `id ${show(id)} leaves the charset: behind the namespace come 11 digits of 0-9 A-Z a-z`;
  }
  return `id ${show(id)} is out of range: its digits must be at most ${LAST}`;
}

function badNamespace(namespace: unknown): string {
  return `namespace ${show(namespace)} must be 3 letters A-Z`;
}
