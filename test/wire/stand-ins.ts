/**
 * Small transitions of the tests' own: what the connector does must not depend on the real scripts.
 */
import { createHash } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Arg, Call, NativeCommand, Reply, WireTransition } from '../../src/wire/call.js';
import { EmqError, type EmqCode } from '../../src/wire/errors.js';

/** The RESP version that results from asking for one: ioredis 5 speaks RESP2 whatever it is asked for. */
export function spoken(protocol: 2 | 3): 2 | 3 {
  return new Redis({ lazyConnect: true }).options.protocol === undefined ? 2 : protocol;
}

interface Nature {
  readonly native?: NativeCommand;
  readonly readOnly?: boolean;
  readonly repeatable?: boolean;
}

export function transition(name: string, source: string, nature: Nature = {}): WireTransition {
  const sha = createHash('sha1').update(source).digest('hex');
  const { readOnly = false, repeatable = false, native } = nature;
  const rest = native === undefined ? {} : { native };
  return { name, script: { name, source, sha }, readOnly, repeatable, keyNames: [], argNames: [], ...rest };
}

/** Counts how often it ran: not to be repeated. */
export const count = transition('count', "return redis.call('INCR', KEYS[1])");
/** The same, declared harmless to repeat, so that repeats can be counted. */
export const touch = transition('touch', "return redis.call('INCR', KEYS[1]) -- again", { repeatable: true });
export const read = transition('read', "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])", { readOnly: true });
/** Gives back its arguments and one of each other type. */
export const echo = transition('echo', "return {ARGV, 7, false, {}, redis.status_reply('OK')}", { readOnly: true });
export const refuse = transition('refuse', "return redis.error_reply('EMQSTALE complete token mismatch')");
/** Appends its argument to a list: the order in which calls ran can be read. */
export const append = transition('append', "return redis.call('RPUSH', KEYS[1], ARGV[1])");
export const append2 = transition('append2', "return redis.call('RPUSH', KEYS[1], ARGV[1]) -- the same, another sha");

export function call(what: WireTransition, key = 'k', args: readonly Arg[] = [], queue = 'q'): Call {
  return { transition: what, queue, keys: [`emq:{${queue}}:${key}`], args };
}

/** The error that a promise rejects with. Fails the test if it resolves, or rejects with anything else. */
export async function errorOf(promise: Promise<unknown>, code?: EmqCode): Promise<EmqError> {
  const error: unknown = await promise.then(
    (value: unknown) => {
      throw new Error(`expected a rejection, got ${String(value)}`);
    },
    (reason: unknown) => reason,
  );
  if (!(error instanceof EmqError)) throw error;
  if (code !== undefined && error.code !== code) throw error;
  return error;
}

export function text(reply: Reply | undefined): string {
  return Buffer.isBuffer(reply) ? reply.toString() : String(reply);
}
