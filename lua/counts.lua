#!lua flags=no-writes
-- counts: how many ids are in a set, or how many jobs a counter has counted.
-- KEYS 1 the base emq:{q}:   ARGV any of pending, active, schedule, dead, awaiting_children, ring (lanes that can be
-- served), completed, failed
-- Reply one number for each name. Refuses ERR unknown state. Cost O(names).

-- @include lib/number

local SETS = { pending = 'pending', active = 'active', schedule = 'schedule', dead = 'dead' }
SETS.awaiting_children = 'flow:held'
local LISTS = { ring = true }
local COUNTERS = { completed = true, failed = true }

local b, counts = KEYS[1], {}
for _, name in ipairs(ARGV) do
  if not SETS[name] and not LISTS[name] and not COUNTERS[name] then return redis.error_reply('ERR unknown state') end
end
for i, name in ipairs(ARGV) do
  if SETS[name] then
    counts[i] = redis.call('ZCARD', b .. SETS[name])
  elseif LISTS[name] then
    counts[i] = redis.call('LLEN', b .. name)
  else
    local n, err = stored('metrics:' .. name, redis.call('HGET', b .. 'metrics:' .. name, 'count'))
    if err then return err end
    counts[i] = n
  end
end
return counts
