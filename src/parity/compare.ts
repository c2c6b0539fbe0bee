/**
 * Holding two keyspaces against each other, as far as two executors on two servers can agree.
 *
 * What may differ: `lease_epoch`, which only native claims write, and the milliseconds of the times that a server's clock
 * put into `active`, `schedule`, `dead`, `flow:held` and `flow:landed`. Everything else is equal: keys, types, members, bytes, presence of a TTL.
 * Does not: talk to a server.
 */
import type { Bytes, Entry, Keys } from './keyspace-dump.js';
import type { ModelReply } from './model/index.js';

export interface Leeway {
  /** How far two scores of a time may be apart, ms. */
  readonly toleranceMs: number;
  /** True to leave `lease_epoch` out of the rows. */
  readonly anyEpoch: boolean;
}

const TIMES = /^emq:\{[^{}]+\}:(active|schedule|dead|flow:(held|landed))$/;

/** True for a set whose scores are times. */
const holdsTimes = (key: Bytes): boolean => TIMES.test(key);

/** What two keyspaces disagree about, a line each; none when they agree. */
export function differences(expected: Keys, found: Keys, leeway: Leeway): string[] {
  const names = [...new Set([...expected.keys(), ...found.keys()])].sort();
  return names.flatMap((key) => {
    const a = describe(key, expected.get(key), leeway);
    const b = describe(key, found.get(key), leeway);
    if (a === b || (holdsTimes(key) && near(expected.get(key), found.get(key), leeway.toleranceMs))) return [];
    return [`${JSON.stringify(key)}: ${a} but ${b}`];
  });
}

/** Members whose scores differ, of the sets that hold times: what is to be made equal before the next step. */
export function apart(
  expected: Keys,
  found: Keys,
): { readonly key: Bytes; readonly member: Bytes; readonly score: number }[] {
  return [...expected].flatMap(([key, entry]) => {
    const other = found.get(key);
    if (!holdsTimes(key) || entry.type !== 'zset' || other?.type !== 'zset') return [];
    return [...entry.scores]
      .filter(([member, score]) => other.scores.get(member) !== score)
      .map(([member, score]) => ({ key, member, score }));
  });
}

/** The fields of a `get` reply by name, without `lease_epoch`: their order is the server's own business. */
export function rowOf(reply: ModelReply, anyEpoch: boolean): ModelReply {
  if (!Array.isArray(reply)) return reply;
  const fields: [Bytes, ModelReply][] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) {
    const name = String(reply[i]);
    if (!anyEpoch || name !== 'lease_epoch') fields.push([name, reply[i + 1] ?? null]);
  }
  return fields.sort(([a], [b]) => (a < b ? -1 : 1)).flat();
}

/** The reply of an agenda with the wait that was expected, if the one it tells is as good: the clock goes on meanwhile. */
export function agendaOf(reply: ModelReply, expected: ModelReply, toleranceMs: number): ModelReply {
  if (!Array.isArray(reply) || !Array.isArray(expected)) return reply;
  const [wait, ...rest] = reply;
  const [wanted] = expected;
  const good = typeof wait === 'number' && typeof wanted === 'number' && Math.abs(wait - wanted) <= toleranceMs;
  return good ? [wanted, ...rest] : reply;
}

/** A page of a hash with its fields sorted by name: their order is the server's own business. */
export function pageOf(reply: ModelReply): ModelReply {
  if (!Array.isArray(reply)) return reply;
  const [next = null, fields = null] = reply;
  return [next, rowOf(fields, false)];
}

function near(a: Entry | undefined, b: Entry | undefined, toleranceMs: number): boolean {
  if (a?.type !== 'zset' || b?.type !== 'zset' || a.scores.size !== b.scores.size || a.lapses !== b.lapses)
    return false;
  return [...a.scores].every(([member, score]) => {
    const other = b.scores.get(member);
    return other !== undefined && (other === score || Math.abs(other - score) <= toleranceMs);
  });
}

function describe(key: Bytes, entry: Entry | undefined, { anyEpoch }: Leeway): string {
  if (entry === undefined) return 'nothing';
  const ttl = entry.lapses ? ', lapses' : '';
  switch (entry.type) {
    case 'string':
      return `string ${JSON.stringify(entry.value)}${ttl}`;
    case 'list':
      return `list ${JSON.stringify(entry.items)}${ttl}`;
    case 'stream':
      return `stream ${JSON.stringify(entry.entries)}${ttl}`;
    case 'set':
      return `set ${JSON.stringify([...entry.members].sort())}${ttl}`;
    case 'zset':
      return `zset ${JSON.stringify([...entry.scores].sort(([a], [b]) => (a < b ? -1 : 1)))}${ttl}`;
    case 'hash': {
      const fields = [...entry.fields].filter(([name]) => !(anyEpoch && name === 'lease_epoch' && isRow(key)));
      return `hash ${JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)))}${ttl}`;
    }
  }
}

const isRow = (key: Bytes): boolean => /^emq:\{[^{}]+\}:job:/.test(key);
