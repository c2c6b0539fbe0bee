/**
 * The whole keyspace of a node in one call, as text: for the model to be held against, and for what must hold by itself.
 *
 * Invariants: read-only, one moment. Bytes are latin1 text. Does not: know the types of lapsing keys or streams, of which
 * flows have none.
 */
import type { Redis } from 'ioredis';
import { latin1 } from '../../../src/parity/keyspace-dump.js';
import { need } from '../../../src/parity/node.js';
import { NODE_VERSION_KEY } from '../../../src/wire/keyspace.js';
import type { Reply } from '../../../src/wire/call.js';

export type Value =
  | { readonly type: 'string'; readonly text: string }
  | { readonly type: 'hash' | 'zset'; readonly fields: ReadonlyMap<string, string> }
  | { readonly type: 'set' | 'list'; readonly items: readonly string[] };

/** Key -> value. */
export type Dump = ReadonlyMap<string, Value>;

const READ_ALL = `#!lua flags=no-writes
local reads = {
  string = function(key) return { redis.call('GET', key) } end,
  hash = function(key) return redis.call('HGETALL', key) end,
  zset = function(key) return redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES') end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  list = function(key) return redis.call('LRANGE', key, '0', '-1') end,
}
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  found[#found + 1] = { key, kind, reads[kind](key) }
end
return found`;

/** Reads everything but the node's brand. */
export async function dump(client: Redis): Promise<Dump> {
  const found = (await need(client, ['EVAL', READ_ALL, '0'])) as Reply[];
  const keys = new Map<string, Value>();
  for (const entry of found) {
    const [name, type, content] = entry as [Reply, Reply, Reply[]];
    if (latin1(name) !== NODE_VERSION_KEY) keys.set(latin1(name), value(latin1(type), content.map(latin1)));
  }
  return keys;
}

function value(type: string, items: string[]): Value {
  switch (type) {
    case 'string':
      return { type, text: items[0] ?? '' };
    case 'hash':
    case 'zset': {
      const fields = new Map<string, string>();
      for (let i = 0; i + 1 < items.length; i += 2) fields.set(items[i] ?? '', items[i + 1] ?? '');
      return { type, fields };
    }
    case 'set':
    case 'list':
      return { type, items };
    default:
      throw new Error(`a key of type ${type}`);
  }
}

const NONE: ReadonlyMap<string, string> = new Map();

/** The fields of a hash, the members of a sorted set; none where there is no such key. */
export function fields(keys: Dump, key: string): ReadonlyMap<string, string> {
  const found = keys.get(key);
  return found?.type === 'hash' || found?.type === 'zset' ? found.fields : NONE;
}

/** The items of a list or a set. */
export function items(keys: Dump, key: string): readonly string[] {
  const found = keys.get(key);
  return found?.type === 'list' || found?.type === 'set' ? found.items : [];
}
