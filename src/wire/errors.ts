/**
 * The one error class of the package, and the reading of the server's error replies.
 *
 * Invariants: `code` is one of a closed set, so that a caller can switch on it; the text the server sent is kept in
 * `reason`. Ordinary outcomes (a duplicate, a job that is gone) are values of the verbs and never errors.
 * Does not: retry, log, or hold any part of a payload or a credential.
 */

/** The refusals of the wire contract, section 5: the first word of the reply. */
export const WIRE_CLASSES = ['EMQKIND', 'EMQSTALE', 'EMQSTATE', 'EMQLOCK', 'EMQRATE', 'EMQWIRE'] as const;

/** The server's own error words that callers handle differently. Any other word is read as `ERR`. */
export const SERVER_CLASSES = [
  'WRONGTYPE',
  'NOPERM',
  'NOAUTH',
  'WRONGPASS',
  'OOM',
  'READONLY',
  'LOADING',
  'BUSY',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'CLUSTERDOWN',
  'CROSSSLOT',
  'MOVED',
  'ASK',
  'TRYAGAIN',
  'NOSCRIPT',
  'UNKILLABLE',
  'EXECABORT',
  'ERR',
] as const;

/** What the client itself reports. */
export const CLIENT_CODES = [
  'EMQ_INPUT',
  'EMQ_CONNECTION',
  'EMQ_TIMEOUT',
  'EMQ_CLOSED',
  'EMQ_UNKNOWN_OUTCOME',
  'EMQ_DURABILITY',
  'EMQ_EVICTION',
] as const;

export type WireClass = (typeof WIRE_CLASSES)[number];
export type ServerClass = (typeof SERVER_CLASSES)[number];
export type ClientCode = (typeof CLIENT_CODES)[number];
/** The closed set of `EmqError.code`. */
export type EmqCode = WireClass | ServerClass | ClientCode;

/**
 * What an admission came to that was not confirmed. With `EMQ_DURABILITY` the job is there; with `EMQ_UNKNOWN_OUTCOME` it
 * was, and its server is gone. Enqueue it again with this id: a `duplicate` is confirmed as anything else is.
 */
export interface Unconfirmed {
  readonly id: string;
  /** What the verb would have answered. */
  readonly outcome: string;
  /** How many replicas have it, on disk where `fsync` was asked for, as far as was told in time. */
  readonly replicas: number;
  /** The primary has it on disk; false where that was not asked for. */
  readonly fsynced: boolean;
}

/**
 * The only error this package throws or rejects with.
 *
 * `code` is what to switch on:
 * - `EMQKIND` `EMQSTALE` `EMQSTATE` `EMQLOCK` `EMQRATE` `EMQWIRE`: a refusal of the wire contract (section 5); nothing was written.
 * - `EMQ_INPUT`: refused by the client before anything was sent.
 * - `EMQ_CONNECTION`: no connection; nothing was sent, or what was sent may be repeated without harm.
 * - `EMQ_TIMEOUT`: no reply within the deadline to a call that may be repeated without harm.
 * - `EMQ_UNKNOWN_OUTCOME`: the call was sent and its reply was lost: it may or may not have happened (section 10).
 * - `EMQ_CLOSED`: the connector was closed.
 * - `EMQ_DURABILITY`: written, but not as durably as was asked for.
 * - `EMQ_EVICTION`: the node throws jobs away when its memory is full, and the connector was told to refuse such a node.
 * - any other word (`OOM`, `NOPERM`, `WRONGTYPE`, `READONLY` ...): the server's own error.
 *
 * `reason` is the text for a person: for a server's error the whole reply.
 */
export class EmqError extends Error {
  override readonly name = 'EmqError';
  readonly code: EmqCode;
  readonly reason: string;
  /** Of an admission that was made and then not confirmed as it was asked to be (`durability`): what was made. */
  readonly unconfirmed?: Unconfirmed;

  constructor(code: EmqCode, reason: string, options: { cause?: unknown; unconfirmed?: Unconfirmed | undefined } = {}) {
    super(reason.startsWith(code) ? reason : `${code} ${reason}`, 'cause' in options ? { cause: options.cause } : {});
    this.code = code;
    this.reason = reason;
    if (options.unconfirmed !== undefined) this.unconfirmed = options.unconfirmed;
  }

  /**
   * Says in the message which verb met the error, and lets the stack begin where the verb was called: a reply has no
   * caller of its own. `code` and `reason` stay.
   * @internal
   */
  during(what: string): this {
    this.message += ` (${what})`;
    Error.captureStackTrace(this);
    return this;
  }
}

/**
 * What a server says when a command inside a script looks for a key whose slot is on the move. A script looks at every
 * key before it writes any (wire contract, section 6), so nothing was written: the same as TRYAGAIN.
 */
export const SLOT_ON_THE_MOVE = /non local key in a cluster node|undeclared keys were ac/;

/**
 * How a command inside a script is refused to the script's user: since Redis 7.2 and in all Valkeys, and in Redis 7.0 (where
 * it can't run a command, can't access a key, can't publish to a channel).
 */
const NOT_ALLOWED_IN_SCRIPT = /^(?:ERR |NOPERM )?(?:ACL failure in script|The user executing the script can't )/;

const KNOWN: ReadonlySet<string> = new Set<string>([...WIRE_CLASSES, ...SERVER_CLASSES]);
/** What a script's `redis.call` puts behind the text of an error: where in the script it happened; since 9.1 without the sha. */
export const SCRIPT_SUFFIX = / script: (?:[0-9a-f]{40}, )?on @?user_script:\d+\.$/;

/**
 * Reads an error reply of the server (without the leading `-`) into an `EmqError`.
 * The place in the script that the server puts behind the text is dropped, so that both executors give the same text;
 * an ACL failure inside a script is a `NOPERM` like any other.
 */
export function fromReply(text: string): EmqError {
  const reason = text.replace(SCRIPT_SUFFIX, '');
  if (SLOT_ON_THE_MOVE.test(reason)) return new EmqError('TRYAGAIN', reason);
  const word = /^[A-Z][A-Z0-9]*/.exec(reason)?.[0] ?? '';
  if (NOT_ALLOWED_IN_SCRIPT.test(reason)) return new EmqError('NOPERM', reason);
  return new EmqError(KNOWN.has(word) ? (word as EmqCode) : 'ERR', reason);
}

/** A refusal by the client, before the wire: what was wrong and what to do. */
export function inputError(reason: string): EmqError {
  return new EmqError('EMQ_INPUT', reason);
}

/**
 * A short, safe picture of a wrong value: numbers as they are, text cut short, anything else by its type. Never throws,
 * whatever the value does when it is looked at.
 */
export function show(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'bigint') return cutShort(String(value));
  if (typeof value === 'string') return JSON.stringify(cutShort(value));
  try {
    if (Array.isArray(value)) return 'a list';
    if (value instanceof Uint8Array) return 'bytes';
  } catch {
    // a proxy that throws
  }
  return value === null ? 'null' : typeof value;
}

function cutShort(text: string): string {
  return text.length > 40 ? `${text.slice(0, 37)}...` : text;
}
