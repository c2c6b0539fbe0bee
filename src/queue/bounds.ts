/**
 * How much a text may be that a verb writes besides the payload: so that no call, by mistake or not, makes a row, a log or a
 * message on a channel as large as it likes. The payload, and the `opts` beside it, have a limit of their own
 * (`maxPayloadBytes`, admission.ts), results too (results.ts).
 *
 * Invariants: bytes of UTF-8 are counted, never characters. What a person or a program wrote for others to read is refused
 * when it is too long; the text of an error is cut, with a mark, since a job must be able to fail.
 * Does not: judge what a text says.
 */
import { inputError } from '../wire/errors.js';

/** The most bytes of an error that a row keeps. */
export const ERROR_BYTES = 4_096;
/** The most bytes of a log line, and of what tells how far a job is. */
const TEXT_BYTES = 65_536;
/** The most bytes of the reason of a cancel. */
const REASON_BYTES = 4_096;
const MARK = ' [cut]';

/** A line for a job's log. @throws EmqError `EMQ_INPUT`. */
export function checkLine(line: string | Buffer): string | Buffer {
  return checkBytes('line', line, TEXT_BYTES);
}

/** How far a job is. @throws EmqError `EMQ_INPUT`. */
export function checkProgress(progress: string | number): string {
  return checkBytes('progress', String(progress), TEXT_BYTES);
}

/** Why a job is cancelled. @throws EmqError `EMQ_INPUT`. */
export function checkReason(reason: string): string {
  return checkBytes('the reason of a cancel', reason, REASON_BYTES);
}

/** The text of an error as the row keeps it: what fits, and a mark where something does not. */
export function errorBytes(text: string | Buffer): Buffer {
  const bytes = Buffer.isBuffer(text) ? text : Buffer.from(text);
  if (bytes.length <= ERROR_BYTES) return bytes;
  return Buffer.concat([cutBytes(bytes, ERROR_BYTES - MARK.length), Buffer.from(MARK)]);
}

/** At most so many bytes of UTF-8, never half a character. */
export function cut(text: string, most: number): Buffer {
  return cutBytes(Buffer.from(text), most);
}

function cutBytes(bytes: Buffer, most: number): Buffer {
  if (bytes.length <= most) return bytes;
  let end = most;
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

function checkBytes<T extends string | Buffer>(what: string, text: T, most: number): T {
  const bytes = Buffer.byteLength(text);
  if (bytes <= most) return text;
  throw inputError(`${what} has ${bytes} bytes, the limit is ${most}: store it elsewhere and say where it is`);
}
