/**
 * What a flow child gives its parent, as bytes and back.
 *
 * Invariants: bytes travel as they are; no result is recorded as the child's own id, which no JSON text can be; everything
 * else is JSON. Does not: know a queue's codec, which is for payloads: children of one parent may be of many queues.
 */
import type { Arg } from '../wire/call.js';
import { inputError } from '../wire/errors.js';
import { asBuffer, said } from './input.js';

/** The most bytes of a result: as many as a payload may have unless that is set otherwise. */
const MOST_BYTES = 1_048_576;

/** @throws EmqError `EMQ_INPUT` for a value that has no JSON form (a cycle, a bigint), and for one of over 1 MiB. */
export function encodeResult(child: string, value: unknown): Arg {
  if (value instanceof Uint8Array) return measured(child, asBuffer(value));
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw inputError(
      `the result of ${child} has no JSON form for its parent: ${said(cause)}; give bytes or plain data`,
    );
  }
  // undefined and functions
  return text === undefined ? child : measured(child, Buffer.from(text));
}

function measured(child: string, bytes: Buffer): Buffer {
  if (bytes.length <= MOST_BYTES) return bytes;
  throw inputError(
    `the result of ${child} has ${bytes.length} bytes, the limit is ${MOST_BYTES}: store it elsewhere and give its parent where it is`,
  );
}

/** The value that was given; undefined for none, the bytes themselves where they are no JSON text. */
export function decodeResult(child: string, bytes: Buffer): unknown {
  const text = bytes.toString('utf8');
  if (text === child) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return bytes;
  }
}
