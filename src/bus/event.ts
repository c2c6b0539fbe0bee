/**
 * The text of an event: what travels on a queue's events channel, written and read.
 *
 * Invariants: a JSON object with string values, `event` and `job` among them; anything else is no event. A channel is
 * open to strangers: nothing that is read here is trusted to be more than text.
 * Does not: send, receive, or know what an event means.
 */

/** One event of a queue. `error` (of `failed` and `scheduled`) is cut to 512 bytes; the whole is in the job's row. */
export interface QueueEvent {
  /** What happened: one of `EVENT_NAMES`, or a name that this version does not know. */
  readonly event: string;
  /** The id of the job. */
  readonly job: string;
  readonly [extra: string]: string | undefined;
}

/** The names that the package publishes. */
export const EVENT_NAMES = [
  'completed',
  /** Dead: no further try. Extra `error`. */
  'failed',
  /** Failed, and to be tried again. Extra `error`. */
  'scheduled',
  /** Put off without a failure. */
  'delayed',
  /** Its lease lapsed: taken from its worker. */
  'stalled',
  /** Extra `progress`. */
  'progress',
] as const;
export type EventName = (typeof EVENT_NAMES)[number];

/** The most bytes of an error that an event carries. */
const MAX_ERROR_BYTES = 512;

/** The text to publish. */
export function eventText(event: string, job: string, extras: Readonly<Record<string, string>> = {}): string {
  const { error } = extras;
  return JSON.stringify({ ...extras, ...(error === undefined ? {} : { error: cut(error) }), event, job });
}

/** The event in a message, or undefined if it is none. */
export function readEvent(message: Buffer): QueueEvent | undefined {
  let value: unknown;
  try {
    value = JSON.parse(message.toString('utf8'));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { event, job } = value as { event?: unknown; job?: unknown };
  // A reader could not tell an event of that name from the notice that something is missing.
  if (event === undefined || job === undefined || event === 'gap') return undefined;
  if (!Object.values(value).every((part) => typeof part === 'string')) return undefined;
  // Many listeners share it.
  return Object.freeze(value as QueueEvent);
}

/** Cut to whole characters. */
function cut(text: string): string {
  // A character of text is at least one byte: a long stack is not encoded only to be thrown away.
  const bytes = Buffer.from(text.slice(0, MAX_ERROR_BYTES));
  // As a stream, the decoder keeps back what is only the beginning of a character.
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(0, MAX_ERROR_BYTES), { stream: true });
}
