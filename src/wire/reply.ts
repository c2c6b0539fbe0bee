/**
 * From what the client library decoded to a `Reply`.
 *
 * Invariants: RESP2 and RESP3 give the same `Reply`; bytes are passed on as they came. Types that no transition gives
 * (a double, a boolean, a big number, a map) become what RESP2 would have shown; anything else is refused.
 * Does not: read the fields of a reply; that is the transition's `read`.
 */
import type { Reply } from './call.js';
import { EmqError, fromReply } from './errors.js';

/**
 * Checks a decoded reply, all buffers as they are.
 * @throws EmqError for an error inside an array, and `ERR` for a type that is no part of the contract.
 */
export function toReply(raw: unknown): Reply {
  if (raw === null || typeof raw === 'number' || Buffer.isBuffer(raw)) return raw;
  if (Array.isArray(raw)) {
    // In place: a claim of many jobs is a large array, and nobody else holds it.
    for (let i = 0; i < raw.length; i++) raw[i] = toReply(raw[i]);
    return raw as Reply[];
  }
  if (typeof raw === 'string') return Buffer.from(raw, 'utf8');
  if (typeof raw === 'boolean') return raw ? 1 : 0;
  if (typeof raw === 'bigint') return Buffer.from(raw.toString());
  if (raw instanceof Error) throw fromReply(raw.message);
  throw new EmqError('ERR', `ERR a reply of type ${typeof raw} is no part of the wire contract`);
}

/** True for an error that the server replied with, whichever copy of the client library decoded it. */
export function isErrorReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/** What the server says of itself in reply to a HELLO without arguments. */
export interface Hello {
  /** True if the server is a node of a cluster. */
  readonly cluster: boolean;
  /** The RESP version of this connection. */
  readonly protocol: 2 | 3;
}

/** Reads the reply of HELLO: a map, or the same as a flat list. */
export function readHello(reply: Reply): Hello {
  const fields = new Map<string, Reply>();
  if (Array.isArray(reply)) {
    for (let i = 0; i + 1 < reply.length; i += 2) fields.set(String(reply[i]), reply[i + 1] ?? null);
  }
  return { cluster: String(fields.get('mode')) === 'cluster', protocol: fields.get('proto') === 3 ? 3 : 2 };
}
