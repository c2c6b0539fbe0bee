/**
 * The values of a scenario: placeholders become bytes, and a reply is held against what was expected.
 *
 * Invariants: a placeholder that nobody knows is an error, never sent as it stands; bytes are compared, not characters.
 * Does not: talk to a server.
 */
import type { Reply } from '../wire/call.js';
import type { Expected, Value } from './vector-format.js';

/** What the placeholders of one run of a scenario stand for. */
export interface Scope {
  readonly queue: string;
  readonly base: string;
  readonly runId: string;
  /** The server's clock when the scenario began, Unix ms. */
  readonly now: number;
  readonly toleranceMs: number;
  readonly names: Readonly<Record<string, string>>;
}

/** The bytes of a value. @throws RangeError for an unknown placeholder. */
export function resolve(value: Value, scope: Scope): Buffer {
  if (typeof value === 'string') return Buffer.from(fill(value, scope), 'utf8');
  if ('hex' in value) return Buffer.from(value.hex, 'hex');
  return Buffer.concat(Array<Buffer>(value.repeat[1]).fill(resolve(value.repeat[0], scope)));
}

/** The text of a value: what `resolve` gives, read as UTF-8. */
export function fill(text: string, scope: Scope): string {
  return text.replace(/<([^<>]+)>/g, (whole, name: string) => {
    const time = /^now([+-]\d+)$/.exec(name);
    if (time) return String(scope.now + Number(time[1]));
    if (name === 'b') return scope.base;
    if (name === 'q') return scope.queue;
    if (name === 'run_id') return scope.runId;
    const named = scope.names[name];
    if (named === undefined) throw new RangeError(`${whole} stands for nothing`);
    return named;
  });
}

/** Why a reply is not what was expected, or undefined when it is. */
export function mismatch(expected: Expected, reply: Reply, scope: Scope): string | undefined {
  return fits(expected, reply, scope) ? undefined : `expected ${JSON.stringify(expected)}, got ${show(reply)}`;
}

function fits(expected: Expected, reply: Reply, scope: Scope): boolean {
  if (expected === '<any>') return true;
  if (expected === null || typeof expected === 'number') return reply === expected;
  if (typeof expected === 'string') {
    const near = /^<near:(now)?([+-]\d+)>$/.exec(expected);
    if (near) {
      const got = Buffer.isBuffer(reply) || typeof reply === 'number' ? Number(String(reply)) : NaN;
      const wanted = (near[1] === undefined ? 0 : scope.now) + Number(near[2]);
      return Math.abs(got - wanted) <= scope.toleranceMs;
    }
    return Buffer.isBuffer(reply) && reply.equals(resolve(expected, scope));
  }
  if (isList(expected)) {
    return (
      Array.isArray(reply) &&
      reply.length === expected.length &&
      expected.every((e, i) => fits(e, reply[i] ?? null, scope))
    );
  }
  if ('hash' in expected) return Array.isArray(reply) && fitsHash(expected.hash, reply, scope);
  if ('set' in expected) return Array.isArray(reply) && fitsSet(expected.set, reply, scope);
  return Buffer.isBuffer(reply) && reply.equals(resolve(expected, scope));
}

function fitsHash(fields: Readonly<Record<string, Expected>>, reply: Reply[], scope: Scope): boolean {
  const found = new Map<string, Reply>();
  for (let i = 0; i + 1 < reply.length; i += 2) found.set(String(reply[i]), reply[i + 1] ?? null);
  const names = Object.entries(fields).map(([name, value]) => [fill(name, scope), value] as const);
  return found.size === names.length && names.every(([name, value]) => fits(value, found.get(name) ?? null, scope));
}

function fitsSet(members: readonly Expected[], reply: Reply[], scope: Scope): boolean {
  const left = reply.slice();
  for (const member of members) {
    const at = left.findIndex((got) => fits(member, got, scope));
    if (at < 0) return false;
    left.splice(at, 1);
  }
  return left.length === 0;
}

function isList(expected: Expected): expected is readonly Expected[] {
  return Array.isArray(expected);
}

/** A reply for a person: text as JSON, bytes that are no text in hex. */
export function show(reply: Reply): string {
  if (reply === null || typeof reply === 'number') return String(reply);
  if (Array.isArray(reply)) return `[${reply.map(show).join(', ')}]`;
  const text = reply.toString('utf8');
  return Buffer.from(text, 'utf8').equals(reply) ? JSON.stringify(text) : `hex ${reply.toString('hex')}`;
}
