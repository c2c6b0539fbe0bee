#!lua flags=allow-oom
-- resume: claims are answered again, and a parked consumer is told.
-- KEYS 1 meta, 2 wake   ARGV none.   Reply 1, or 0 when the queue was not paused. Cost O(1).

-- @include lib/wake

local paused = redis.call('HEXISTS', KEYS[1], 'paused') == 1
local room = wake_room(KEYS[2])
if not paused then return 0 end

redis.call('HDEL', KEYS[1], 'paused')
wakes = 1
push_wakes(KEYS[2], room)
return 1
