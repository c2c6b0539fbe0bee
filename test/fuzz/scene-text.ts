/**
 * Scenes for the fake server (scene.h) as text: keyspaces, calls and replies in its words.
 * Does not: run anything.
 */
import type { Bytes, Entry, Keys } from '../../src/parity/keyspace-dump.js';
import type { Reply } from '../../src/wire/call.js';

/** The run_id of the fake server (fake_api.h). */
export const FAKE_RUN_ID = '0123456789abcdef0123456789abcdef01234567';

/** A word of a scene; latin1, one character a byte. */
export function word(text: Bytes): string {
  return text === '' ? '""' : bare(text);
}

function bare(text: Bytes): string {
  return text.replace(/[^!-~]|[\\"]|^@/g, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** A key as a statement; undefined for a type that the fake server does not have. */
export function plant(key: Bytes, entry: Entry): string[] | undefined {
  const words = contents(entry);
  if (words === undefined) return undefined;
  const line = [entry.type, key, ...words].map(word).join(' ');
  return entry.lapses === false ? [line] : [line, `until ${word(key)} ${entry.lapses}`];
}

function contents(entry: Entry): Bytes[] | undefined {
  switch (entry.type) {
    case 'string':
      return [entry.value];
    case 'list':
      return entry.items;
    case 'set':
      return [...entry.members];
    case 'zset':
      return [...entry.scores].flatMap(([member, score]) => [String(score).replace('Infinity', 'inf'), member]);
    case 'hash':
      return [...entry.fields].flat();
    case 'stream':
      return undefined;
  }
}

/** All keys, or undefined when one is of a type that the fake server does not have. */
export function plants(keys: Keys): string[] | undefined {
  const lines = [...keys].map(([key, entry]) => plant(key, entry));
  return lines.some((line) => line === undefined) ? undefined : lines.flatMap((line) => line ?? []);
}

/** A reply in the words of the line that judges it. */
export function replyWords(reply: Reply): string {
  if (Array.isArray(reply)) return [`*${reply.length}`, ...reply.map(replyWords)].join(' ');
  if (reply === null) return '_';
  if (Buffer.isBuffer(reply)) return `$${bare(reply.toString('latin1'))}`;
  return `:${String(reply)}`;
}
