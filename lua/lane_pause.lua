#!lua flags=allow-oom
-- lane_pause: no job of a lane is claimed any more.
-- KEYS 1 paused, 2 ring   ARGV 1 group.   Reply 1, or 0 when it was paused. Refuses ERR group. Cost O(lanes).

local group = ARGV[1]
if not group then return redis.error_reply('ERR group must be given') end
redis.call('LLEN', KEYS[2])
local was = redis.call('SISMEMBER', KEYS[1], group)

redis.call('SADD', KEYS[1], group)
redis.call('LREM', KEYS[2], '0', group)
return 1 - was
