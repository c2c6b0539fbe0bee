/**
 * The parts of a reply, read as what a transition expects there.
 *
 * Invariants: what is not of the expected kind is a TypeError that names the transition: the script and its entry in the
 * table do not fit. Does not: know any transition.
 */
import type { Reply } from './call.js';

export function unexpected(what: string, reply: Reply): never {
  const kind =
    reply === null ? 'nil' : Buffer.isBuffer(reply) ? 'a string' : Array.isArray(reply) ? 'an array' : String(reply);
  throw new TypeError(`${what}: unexpected reply ${kind}`);
}

export function integer(what: string, reply: Reply): number {
  return typeof reply === 'number' ? reply : unexpected(what, reply);
}

export function list(what: string, reply: Reply): Reply[] {
  return Array.isArray(reply) ? reply : unexpected(what, reply);
}

export function string(what: string, reply: Reply): string {
  return Buffer.isBuffer(reply) ? reply.toString() : unexpected(what, reply);
}

export function ids(what: string, reply: Reply): string[] {
  return list(what, reply).map((id) => string(what, id));
}

/** A text, or null for a nil. */
export function maybe(what: string, reply: Reply | undefined): string | null {
  return reply === null || reply === undefined ? null : string(what, reply);
}

/** One of two words for the replies 1 and another number. */
export function oneOf<A, B>(what: string, one: A, otherReply: number, other: B): (reply: Reply) => A | B {
  return (reply) => {
    const n = integer(what, reply);
    if (n === 1) return one;
    return n === otherReply ? other : unexpected(what, reply);
  };
}
