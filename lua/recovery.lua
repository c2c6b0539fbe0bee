#!lua flags=allow-oom
-- recovery: which leg brings back jobs whose lease has lapsed, for all consumers of the queue.
-- KEYS 1 meta   ARGV 1 `reap` or `stalled`, 2 `keep` (a leg that stands already wins) or `set`
-- Reply the leg that stands. Refuses ERR leg, ERR mode. Cost O(1).

local leg, mode = ARGV[1], ARGV[2]
if leg ~= 'reap' and leg ~= 'stalled' then return redis.error_reply('ERR leg must be reap or stalled') end
if mode ~= 'keep' and mode ~= 'set' then return redis.error_reply('ERR mode must be keep or set') end
local stands = redis.call('HGET', KEYS[1], 'recovery')
if stands and mode == 'keep' then return stands end

redis.call('HSET', KEYS[1], 'recovery', leg)
return leg
