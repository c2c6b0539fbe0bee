/**
 * A queue of a million jobs: 600,000 wait flat, 100,000 in 10,000 lanes, 100,000 for a time (each in a lane), 200,000 are dead
 * and 1,000 are in flight, each in a lane of its own.
 *
 * Written by one-off scripts, in steps; rows, sets, counts and ring are as the transitions would have left them.
 * Invariants: an id or a group is named by its number. Does not: measure anything.
 */
import type { Redis } from 'ioredis';
import type { Keyspace } from '../../../src/index.js';

/** So many of each, and from which number on. */
export const CROWD = {
  pending: { from: 0, size: 600_000 },
  schedule: { from: 600_000, size: 100_000 },
  dead: { from: 700_000, size: 200_000 },
  lanes: { from: 900_000, size: 100_000 },
  active: { from: 1_000_000, size: 1_000 },
} as const;
export const JOBS = Object.values(CROWD).reduce((sum, { size }) => sum + size, 0);
export const LANES = 10_000;
const STEP = 2_000;

export const idOf = (number: number): string => `JOB0${String(number).padStart(10, '0')}`;
export const groupOf = (number: number): string => `TEN0${String(number).padStart(10, '0')}`;

const FILL = `
local b, place, first, count, lanes, at = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local STATES = { pending = 'pending', lanes = 'pending', schedule = 'scheduled', dead = 'dead', active = 'active' }
for i = first, first + count - 1 do
  local id = string.format('JOB0%010d', i)
  local row = { 'HSET', b .. 'job:' .. id, 'state', STATES[place], 'attempts', '0', 'payload', string.rep('x', 60) }
  local function field(name, value)
    row[#row + 1] = name
    row[#row + 1] = value
  end
  local group = string.format('TEN0%010d', i % lanes)
  if place == 'lanes' or place == 'schedule' or place == 'active' then field('group', group) end
  if place == 'active' or place == 'dead' then row[6] = '1' end
  if place == 'dead' then field('last_error', 'broken') end
  if place == 'lanes' then
    redis.call('ZADD', b .. 'g:' .. group .. ':pending', 0, id)
  else
    local score = '0'
    if place == 'schedule' then score = string.format('%.0f', at + 86400000 + i) end
    if place == 'dead' then score = string.format('%.0f', at - 86400000 + i) end
    if place == 'active' then score = string.format('%.0f', at + 3600000) end
    redis.call('ZADD', b .. place, score, id)
  end
  if place == 'active' then redis.call('HSET', b .. 'gactive', group, '1') end
  redis.call(unpack(row))
end
if place == 'lanes' then
  for i = first, first + count - 1 do
    if i < ${CROWD.lanes.from} + lanes then redis.call('RPUSH', b .. 'ring', string.format('TEN0%010d', i % lanes)) end
  end
end
`;

/** Fills an empty queue. */
export async function populate(raw: Redis, k: Keyspace): Promise<void> {
  const [seconds] = await raw.time();
  const at = String(Number(seconds) * 1000);
  for (const [place, { from, size }] of Object.entries(CROWD)) {
    for (let i = 0; i < size; i += STEP) {
      await raw.eval(FILL, 0, k.base, place, from + i, Math.min(STEP, size - i), LANES, at);
    }
  }
}
