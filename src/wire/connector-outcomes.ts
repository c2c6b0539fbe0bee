/**
 * How calls end that did not end with a reply: which may be repeated, and the words of the errors.
 *
 * Invariants: what is said about a call is true (nothing was sent; it may have happened), and no text holds a key, an
 * argument or a credential. Does not: decide when.
 */
import type { Call } from './call.js';
import { EmqError, inputError, show } from './errors.js';
import type { Link } from './transport.js';

/** True if the call may be executed twice without harm (wire contract, section 10). */
export function harmless(call: Call): boolean {
  return call.once !== true && (call.transition.repeatable || call.transition.readOnly);
}

/** Each caller gets an error of its own, with a stack of its own. */
export function again(error: EmqError): EmqError {
  return new EmqError(error.code, error.reason, { cause: error });
}

/** The call was written, and no reply will come. */
export function unknownOutcome(call: Call, where: string, reason: EmqError): EmqError {
  const { name } = call.transition;
  const text = `${name} was sent to ${where} and its reply was lost: it may or may not have happened (${reason.reason})`;
  return new EmqError('EMQ_UNKNOWN_OUTCOME', text, { cause: reason });
}

/** The call's time is up. */
export function overdue(call: Call, timeoutMs: number): EmqError {
  return new EmqError('EMQ_TIMEOUT', `no reply to ${call.transition.name} within ${timeoutMs} ms`);
}

/** The call waited for a connection in vain. */
export function unreachable(where: string, lastFailure: EmqError | undefined): EmqError {
  const why = lastFailure === undefined ? '' : ` (${lastFailure.reason})`;
  const text = `no connection to ${where} in time, nothing was sent${why}`;
  return new EmqError('EMQ_CONNECTION', text, { cause: lastFailure });
}

/** One call too many. */
export function overloaded(maxPending: number): EmqError {
  const text = `overloaded: ${maxPending} calls are in flight (maxPending); nothing was sent`;
  return new EmqError('EMQ_CONNECTION', text);
}

export function closed(): EmqError {
  return new EmqError('EMQ_CLOSED', 'the connector is closed');
}

/** One node of a cluster, met by itself, sends queues away that are not its own: says what would help. */
export function astray(error: EmqError, link: Link): EmqError {
  if (error.code !== 'MOVED' || link.manyNodes) return error;
  return new EmqError('MOVED', `${error.reason}: this is one node of a cluster, connect with the cluster option`);
}

/** A cluster looks for a queue's brand in its slot, and nowhere else. */
export function strayed({ transition, queue }: Call, key: string): EmqError {
  const text = `a call of ${transition.name} about queue ${queue} has the key ${show(key)}: in a cluster all keys of a call are those of its queue`;
  return inputError(text);
}

/** What ran is not what was sent. */
export function foreignScript(call: Call): EmqError {
  const text = `${call.transition.name} ran, but the server loaded another script than was sent: something between alters bytes`;
  return new EmqError('EMQ_UNKNOWN_OUTCOME', text);
}
