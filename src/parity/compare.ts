/**
 * Holding two keyspaces and two replies against each other, as far as two executors on two servers can agree.
 *
 * What may differ: `lease_epoch`, which only native claims write, and the milliseconds of the times that a server's clock
 * wrote: the scores of `active`, `schedule`, `dead`, `flow:held`, `flow:landed`, `gwait` and `queues`, what a limiter holds, when a
 * key lapses. Everything else is equal: keys, types, members, bytes.
 * Does not: talk to a server.
 */
import { bytesOf, type Bytes, type Entry, type Keys } from './keyspace-dump.js';
import type { ModelCall, ModelReply } from './model/index.js';
import type { RawCommand } from './node.js';

export interface Leeway {
  /** How far two scores of a time may be apart, ms. */
  readonly toleranceMs: number;
  /** True to leave `lease_epoch` out of the rows. */
  readonly anyEpoch: boolean;
}

const TIMES = /^emq:\{[^{}]+\}:(active|schedule|dead|gwait|queues|flow:(held|landed))$/;
const LIMITER = /^emq:\{[^{}]+\}:(g:[^]*:)?limiter$/;

/** What two keyspaces disagree about, a line each; none when they agree. */
export function differences(expected: Keys, found: Keys, leeway: Leeway): string[] {
  const names = [...new Set([...expected.keys(), ...found.keys()])].sort();
  return names.flatMap((key) => {
    const [a, b] = [expected.get(key), found.get(key)];
    if (a !== undefined && b !== undefined && agree(key, a, b, leeway)) return [];
    return [`${JSON.stringify(key)}: ${describe(key, a, leeway)} but ${describe(key, b, leeway)}`];
  });
}

/** Commands that make the second keyspace's times those of the first, before the next step. */
export function apart(expected: Keys, found: Keys): RawCommand[] {
  return [...expected].flatMap(([name, entry]) => {
    const other = found.get(name);
    const key = bytesOf(name);
    const commands: RawCommand[] = [];
    if (TIMES.test(name) && entry.type === 'zset' && other?.type === 'zset') {
      for (const [member, score] of entry.scores)
        if (other.scores.get(member) !== score) commands.push(['ZADD', key, 'XX', String(score), bytesOf(member)]);
    }
    if (LIMITER.test(name) && entry.type === 'string' && other?.type === 'string' && entry.value !== other.value)
      commands.push(['SET', key, bytesOf(entry.value), 'XX', 'KEEPTTL']);
    if (other !== undefined && entry.lapses !== false && entry.lapses !== other.lapses)
      commands.push(['PEXPIREAT', key, String(entry.lapses)]);
    return commands;
  });
}

/** Fields one after the other, by name, perhaps without `lease_epoch`: their order is the server's own business. */
export function rowOf(reply: ModelReply, anyEpoch: boolean): ModelReply {
  if (!Array.isArray(reply)) return reply;
  const fields: [Bytes, ModelReply][] = [];
  for (let i = 0; i + 1 < reply.length; i += 2) {
    const name = String(reply[i]);
    if (!anyEpoch || name !== 'lease_epoch') fields.push([name, reply[i + 1] ?? null]);
  }
  return fields.sort(([a], [b]) => (a < b ? -1 : 1)).flat();
}

/** A reply whose order is the server's own business, in the order of the bytes. */
export function ordered({ transition, args }: ModelCall, reply: ModelReply, anyEpoch: boolean): ModelReply {
  if (transition === 'get') return rowOf(reply, anyEpoch);
  if (!Array.isArray(reply)) return reply;
  const [first = null, second = null, third = null] = reply;
  if (transition === 'flow_children') return [first, rowOf(second, false)];
  if (transition === 'repeat_get') return [first, second, rowOf(third, false)];
  if (transition === 'lanes') {
    const isList = args[0] === 'ring' || args[0] === 'gwait';
    return [first, Array.isArray(second) && !isList ? [...second].sort() : second];
  }
  if (transition !== 'repeats') return reply;
  return reply.map((one) =>
    Array.isArray(one) ? [one[0] ?? null, one[1] ?? null, rowOf(one[2] ?? null, false)] : one,
  );
}

/** The places of a reply that tell a time, or how long it is until then. */
const CLOCKS: Readonly<Record<string, readonly number[]>> = {
  agenda: [0, 4],
  limits: [3],
  dedup: [1],
  repeats: [0],
  repeat_get: [0],
};
/** The same, in each of the lists that a reply is made of. */
const CLOCKS_EACH: Readonly<Record<string, readonly number[]>> = { lane_info: [7, 8] };

/** The reply with the times that were expected, where those it tells are as good: the clock goes on meanwhile. */
export function timely(transition: string, reply: ModelReply, expected: ModelReply, toleranceMs: number): ModelReply {
  const places = CLOCKS[transition];
  if (places !== undefined) return timelyAt(places, reply, expected, toleranceMs);
  const each = CLOCKS_EACH[transition];
  if (each === undefined || !Array.isArray(reply)) return reply;
  return reply.map((one, i) =>
    timelyAt(each, one, Array.isArray(expected) ? (expected[i] ?? null) : null, toleranceMs),
  );
}

/** The reply without its times, for holding two nodes against each other. */
export function timeless(transition: string, reply: ModelReply): ModelReply {
  const zeros = Array.from({ length: 9 }, () => 0);
  const each = Array.isArray(reply) ? reply.map(() => zeros) : [];
  return timely(transition, reply, transition in CLOCKS_EACH ? each : zeros, Infinity);
}

function timelyAt(places: readonly number[], reply: ModelReply, expected: ModelReply, toleranceMs: number): ModelReply {
  if (!Array.isArray(reply) || !Array.isArray(expected)) return reply;
  return reply.map((told, i) => {
    const wanted = expected[i];
    if (!places.includes(i) || typeof told !== 'number' || typeof wanted !== 'number') return told;
    return Math.abs(told - wanted) <= toleranceMs ? wanted : told;
  });
}

function agree(key: Bytes, a: Entry, b: Entry, leeway: Leeway): boolean {
  const near = (one: number, other: number, unit = 1): boolean =>
    one === other || Math.abs(one - other) <= unit * leeway.toleranceMs;
  const lapse = a.lapses === false || b.lapses === false ? a.lapses === b.lapses : near(a.lapses, b.lapses);
  if (!lapse) return false;
  if (TIMES.test(key) && a.type === 'zset' && b.type === 'zset') {
    return (
      a.scores.size === b.scores.size &&
      [...a.scores].every(([member, score]) => near(score, b.scores.get(member) ?? NaN))
    );
  }
  if (LIMITER.test(key) && a.type === 'string' && b.type === 'string')
    return a.value === b.value || near(Number(a.value), Number(b.value), 1000);
  const whole = (entry: Entry): string => describe(key, { ...entry, lapses: false }, leeway);
  return whole(a) === whole(b);
}

function describe(key: Bytes, entry: Entry | undefined, { anyEpoch }: Leeway): string {
  if (entry === undefined) return 'nothing';
  const ttl = entry.lapses === false ? '' : `, lapses at ${entry.lapses}`;
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
