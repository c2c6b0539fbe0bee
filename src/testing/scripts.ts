/**
 * The scripts of the test helpers: they look at a whole queue, and make time pass in it.
 *
 * Invariants: one script, one moment; a job is never lost or doubled by any of them.
 * Does not: belong in production: these walk over everything a queue holds, and lie about time. So they are not in the
 * transition table.
 */
import { createHash } from 'node:crypto';
import type { Reply, Transition } from '../wire/call.js';
import type { Keyspace } from '../wire/keyspace.js';
import { EmqError } from '../wire/errors.js';

/** Where a queue stands. */
export interface Standing {
  /** Flat jobs that could be claimed now: none when the queue is paused. */
  readonly flat: number;
  /** Lanes that can be served, now or as soon as their rate or a back-off lets them. */
  readonly lanes: number;
  /** Scheduled jobs whose time has come. */
  readonly due: number;
  readonly paused: boolean;
}

/** A waiting or scheduled job, as it lies there. */
export interface Lying {
  readonly id: string;
  readonly place: 'pending' | 'scheduled';
  /** Of a scheduled job: Unix ms. */
  readonly at: number;
  readonly fields: ReadonlyMap<string, Buffer>;
}

const NOW = `local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

/** Every group that may hold waiting jobs: on the ring, or off it since it is paused, at its limit, or waits for its rate. */
const GROUPS = `local groups, seen = {}, {}
local function note(list)
  for _, group in ipairs(list) do
    if not seen[group] then
      seen[group] = true
      groups[#groups + 1] = group
    end
  end
end
note(redis.call('LRANGE', b .. 'ring', '0', '-1'))
note(redis.call('SMEMBERS', b .. 'paused'))
note(redis.call('HKEYS', b .. 'gactive'))
note(redis.call('ZRANGE', b .. 'gwait', '0', '-1'))
`;

export const standing = define<void, Standing>('standing', true, {
  source: `#!lua flags=no-writes
-- Where a queue stands. KEYS 1 the base. Reply [flat, lanes, due, paused].
${NOW}local b = KEYS[1]
local due = redis.call('ZCOUNT', b .. 'schedule', '-inf', string.format('%.0f', now))
if redis.call('HEXISTS', b .. 'meta', 'paused') == 1 then return { 0, 0, due, 1 } end
local lanes = redis.call('LLEN', b .. 'ring')
-- those that nothing holds back but their rate, or a back-off
for _, group in ipairs(redis.call('ZRANGE', b .. 'gwait', '0', '-1')) do
  local limit = redis.call('HGET', b .. 'glimit', group) or redis.call('HGET', b .. 'glimit', '*')
  local free = not limit or (tonumber(redis.call('HGET', b .. 'gactive', group)) or 0) < (tonumber(limit) or 0)
  local open = free and redis.call('SISMEMBER', b .. 'paused', group) == 0
  if open and redis.call('ZCARD', b .. 'g:' .. group .. ':pending') > 0 then lanes = lanes + 1 end
end
return { redis.call('ZCARD', b .. 'pending'), lanes, due, 0 }
`,
  keys: (k) => [k.base],
  args: () => [],
  read(reply) {
    const [flat = 0, lanes = 0, due = 0, paused = 0] = reply as number[];
    return { flat, lanes, due, paused: paused === 1 };
  },
});

export const advance = define<number, { readonly due: number; readonly lapsed: number }>('advance', false, {
  source: `#!lua
-- Time passes: all that is scheduled and all leases come nearer. KEYS 1 the base  ARGV 1 ms. Reply [due, lapsed].
${NOW}local b = KEYS[1]
local ms = tonumber(ARGV[1])
local function nearer(key)
  local flat, due = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES'), 0
  for i = 1, #flat, 2 do
    local at = tonumber(flat[i + 1]) - ms
    redis.call('ZADD', key, string.format('%.17g', at), flat[i])
    if at <= now then due = due + 1 end
  end
  return due
end
local due, lapsed = nearer(b .. 'schedule'), nearer(b .. 'active')
-- a parked consumer knows the old time
if redis.call('ZCARD', b .. 'schedule') > 0 and redis.call('LLEN', b .. 'wake') < 64 then
  redis.call('LPUSH', b .. 'wake', '1')
end
return { due, lapsed }
`,
  keys: (k) => [k.base],
  args: (ms) => [String(ms)],
  read(reply) {
    const [due = 0, lapsed = 0] = reply as number[];
    return { due, lapsed };
  },
});

export const lying = define<void, Lying[]>('lying', true, {
  source: `#!lua flags=no-writes
-- All jobs that wait, in their order, lanes after flat ones, then the scheduled. KEYS 1 the base.
-- Reply [[id, place, score, [field, value ...]]...]; ids without a row are left out.
local b = KEYS[1]
${GROUPS}local found = {}
local function add(key, place)
  local flat = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES')
  for i = 1, #flat, 2 do
    local row = redis.call('HGETALL', b .. 'job:' .. flat[i])
    if #row > 0 then found[#found + 1] = { flat[i], place, flat[i + 1], row } end
  end
end
add(b .. 'pending', 'pending')
for _, group in ipairs(groups) do add(b .. 'g:' .. group .. ':pending', 'pending') end
add(b .. 'schedule', 'scheduled')
return found
`,
  keys: (k) => [k.base],
  args: () => [],
  read: (reply) =>
    (reply as [Buffer, Buffer, Buffer, Buffer[]][]).map(([id, place, score, flat]) => {
      const fields = new Map<string, Buffer>();
      for (let i = 0; i + 1 < flat.length; i += 2) fields.set(String(flat[i]), flat[i + 1] as Buffer);
      return { id: String(id), place: String(place) as Lying['place'], at: Number(score), fields };
    }),
});

interface Definition<I, R> {
  readonly source: string;
  readonly keys: (keyspace: Keyspace) => string[];
  readonly args: (input: I) => string[];
  readonly read: (reply: Reply) => R;
}

function define<I, R>(
  what: string,
  readOnly: boolean,
  { source, keys, args, read }: Definition<I, R>,
): Transition<I, R> {
  const name = `testing_${what}`;
  return {
    name,
    script: { name, source, sha: createHash('sha1').update(source).digest('hex') },
    readOnly,
    repeatable: readOnly,
    keyNames: ['b'],
    argNames: [],
    layout: (keyspace, input) => ({ keys: keys(keyspace), args: args(input) }),
    read: (reply) => (Array.isArray(reply) ? read(reply) : unexpected(name)),
  };
}

function unexpected(name: string): never {
  throw new EmqError('ERR', `ERR ${name}: a reply that makes no sense`);
}
