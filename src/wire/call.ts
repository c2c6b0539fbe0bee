/**
 * What passes between the verbs and the wire: a transition, one call of it, and a reply.
 *
 * Invariants: keys and arguments are bytes or text in the order of the wire contract (section 6); replies hold
 * Buffers, never strings, so that no byte of a payload is ever decoded on the way.
 * Does not: know any particular transition (transitions.ts) or how a call is sent (connector.ts).
 */
import type { Keyspace } from './keyspace.js';

/** One key or argument. Text is sent as UTF-8. */
export type Arg = string | Buffer;

/** A decoded reply. Status and bulk strings are Buffers, a nil is null. Error replies are never values of this type. */
export type Reply = Buffer | number | null | Reply[];

/** A Lua script as the build step put it together: `sha` is the lower-case hex SHA-1 of `source`. */
export interface Script {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
}

/** The native commands of the module `trafikey` (wire contract, section 7). */
export type NativeCommand =
  | 'EMQ.CLAIM'
  | 'EMQ.CLAIM.BATCH'
  | 'EMQ.TAKE'
  | 'EMQ.TAKE.BATCH'
  | 'EMQ.RELEASE'
  | 'EMQ.COMPLETE'
  | 'EMQ.FAIL'
  | 'EMQ.STALLED.CHECK';

/**
 * One transition or read, declared once. `Input` is what a verb gives, `Result` what it gets back.
 */
export interface Transition<Input, Result> {
  readonly name: string;
  readonly script: Script;
  /** The command that does the same natively, where there is one. */
  readonly native?: NativeCommand;
  /** True for calls that write nothing. */
  readonly readOnly: boolean;
  /** True if a call whose reply was lost may be sent again without harm (wire contract, section 10). */
  readonly repeatable: boolean;
  /** Set where the keys are in the slot of `{emq}`, and not in the queue's. */
  readonly slot?: 'registry';
  /** The names of the keys and arguments, for traces and documents; a trailing `...` may repeat. */
  readonly keyNames: readonly string[];
  readonly argNames: readonly string[];
  layout(keys: Keyspace, input: Input): { readonly keys: readonly Arg[]; readonly args: readonly Arg[] };
  read(reply: Reply): Result;
}

/** What the wire needs of a transition: everything but the reading of its input and reply. */
export type WireTransition = Pick<
  Transition<never, unknown>,
  'name' | 'script' | 'native' | 'readOnly' | 'repeatable' | 'slot' | 'keyNames' | 'argNames'
>;

/** One call, laid out and ready to be sent by either executor. */
export interface Call {
  readonly transition: WireTransition;
  /** The queue the call belongs to: in cluster mode its brand is checked before the first call (section 8). */
  readonly queue: string;
  readonly keys: readonly Arg[];
  readonly args: readonly Arg[];
  /**
   * True for a call that is right only now, on the connection that is up: it does not wait for one and is never sent a
   * second time, not even where that would do no harm. A sweep must not be the first thing after a reconnect.
   */
  readonly once?: true;
  /** Told, before the reply is given, on which socket it ran. */
  readonly ran?: (socket: object | undefined) => void;
}

/** The outcome of one call of several that were sent together. */
export type Outcome =
  { readonly ok: true; readonly reply: Reply } | { readonly ok: false; readonly error: import('./errors.js').EmqError };
