/**
 * The whole keyspace of a node as a value: for the comparison of what two executors left behind, and for the proof that a
 * refusal left nothing.
 *
 * Bytes are kept as latin1 text, one character a byte: such strings compare and sort as the server compares bytes, and
 * print readably. Invariants: read-only; every key of the database is in it, of whatever type.
 * Does not: see a consistent picture while others write (a battery is alone on its node).
 */
import type { Redis } from 'ioredis';

import type { Reply } from '../wire/call.js';
import { EmqError } from '../wire/errors.js';
import { ask, askAll, need, type RawCommand } from './node.js';

/** Bytes as latin1 text, one character a byte. */
export type Bytes = string;

/** One key's content. */
export type Content =
  | { readonly type: 'string'; value: Bytes }
  | { readonly type: 'list'; readonly items: Bytes[] }
  | { readonly type: 'set'; readonly members: Set<Bytes> }
  | { readonly type: 'zset'; readonly scores: Map<Bytes, number> }
  | { readonly type: 'hash'; readonly fields: Map<Bytes, Bytes> }
  /** Entries as they come, each one text. */
  | { readonly type: 'stream'; readonly entries: Bytes[] };

/** One key: what it holds, and when it lapses, Unix ms; false: never. */
export type Entry = Content & { lapses: number | false };

/** A keyspace: key -> entry. */
export type Keys = Map<Bytes, Entry>;

/** Text or bytes of a reply as latin1; integers as their digits. */
export const latin1 = (value: Reply | undefined): Bytes =>
  Buffer.isBuffer(value) ? value.toString('latin1') : String(value);

/** The bytes that a latin1 text stands for. */
export const bytesOf = (text: Bytes): Buffer => Buffer.from(text, 'latin1');

/** All keys of the database (of those that match a glob pattern), sorted by bytes. */
export async function keysOf(client: Redis, match = '*'): Promise<Bytes[]> {
  const found = new Set<Bytes>();
  let cursor = '0';
  do {
    const reply = await need(client, ['SCAN', cursor, 'MATCH', match, 'COUNT', '1000']);
    const [next, keys] = Array.isArray(reply) ? reply : [];
    if (Array.isArray(keys)) for (const key of keys) found.add(latin1(key));
    cursor = latin1(next);
  } while (cursor !== '0');
  return [...found].sort();
}

const READS: Readonly<Record<Entry['type'], (key: Buffer) => RawCommand>> = {
  string: (key) => ['GET', key],
  list: (key) => ['LRANGE', key, '0', '-1'],
  set: (key) => ['SMEMBERS', key],
  zset: (key) => ['ZRANGE', key, '0', '-1', 'WITHSCORES'],
  hash: (key) => ['HGETALL', key],
  stream: (key) => ['XRANGE', key, '-', '+'],
};

/** The content of every key (of those that match a glob pattern). */
export async function readKeys(client: Redis, match = '*'): Promise<Keys> {
  const names = await keysOf(client, match);
  const types = await askAll(
    client,
    names.flatMap((key): RawCommand[] => [
      ['TYPE', bytesOf(key)],
      ['PEXPIRETIME', bytesOf(key)],
    ]),
  );
  const read = await Promise.all(
    names.map(async (key, i): Promise<[Bytes, Entry]> => {
      const type = text(types[2 * i]) as Entry['type'];
      if (!Object.hasOwn(READS, type)) throw new EmqError('ERR', `ERR key ${JSON.stringify(key)} is of type ${type}`);
      const reply = await need(client, READS[type](bytesOf(key)));
      const until = Number(text(types[2 * i + 1]));
      return [key, { ...content(type, reply), lapses: until >= 0 && until }];
    }),
  );
  return new Map(read);
}

/**
 * Every key by its serialized value and the instant at which it lapses: equal before and after a call if and only if
 * the call changed nothing at all.
 */
export async function snapshot(client: Redis): Promise<Map<Bytes, Bytes>> {
  const names = await keysOf(client);
  const read = await Promise.all(
    names.map(async (key): Promise<[Bytes, Bytes]> => {
      const [dump, expires] = await Promise.all([
        ask(client, ['DUMP', bytesOf(key)]),
        ask(client, ['PEXPIRETIME', bytesOf(key)]),
      ]);
      return [key, `${text(expires)} ${text(dump)}`];
    }),
  );
  return new Map(read);
}

/** The keys that two snapshots disagree about. */
export function changedKeys(before: ReadonlyMap<Bytes, Bytes>, after: ReadonlyMap<Bytes, Bytes>): Bytes[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((key) => before.get(key) !== after.get(key)).sort();
}

/** Removes exactly these keys. */
export async function removeKeys(client: Redis, keys: readonly Bytes[]): Promise<void> {
  for (let i = 0; i < keys.length; i += 500) {
    const step = keys.slice(i, i + 500);
    if (step.length > 0) await need(client, ['DEL', ...step.map(bytesOf)]);
  }
}

function text(answer: Awaited<ReturnType<typeof ask>> | undefined): Bytes {
  if (answer === undefined || !answer.ok) throw new EmqError('ERR', `ERR the keyspace cannot be read: ${answer?.text}`);
  return latin1(answer.reply);
}

function content(type: Entry['type'], reply: Reply): Content {
  const items = Array.isArray(reply) ? reply.map(flat) : [];
  switch (type) {
    case 'string':
      return { type, value: latin1(reply) };
    case 'list':
      return { type, items };
    case 'set':
      return { type, members: new Set(items.sort()) };
    case 'zset':
      return { type, scores: new Map([...pairs(items)].map(([member, score]) => [member, number(score)])) };
    case 'hash':
      return { type, fields: new Map([...pairs(items)].sort(([a], [b]) => (a < b ? -1 : 1))) };
    case 'stream':
      return { type, entries: items };
  }
}

function flat(item: Reply): Bytes {
  return Array.isArray(item) ? JSON.stringify(item.map(flat)) : latin1(item);
}

function* pairs(items: readonly Bytes[]): Generator<[Bytes, Bytes]> {
  for (let i = 0; i + 1 < items.length; i += 2) yield [items[i] ?? '', items[i + 1] ?? ''];
}

const number = (score: Bytes): number => (score === 'inf' ? Infinity : score === '-inf' ? -Infinity : Number(score));
