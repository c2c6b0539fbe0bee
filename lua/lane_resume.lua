#!lua flags=allow-oom
-- lane_resume: the jobs of a lane are claimed again.
-- KEYS 1 the base emq:{q}:   ARGV 1 group.   Reply 1, or 0 when it was not paused. Refuses ERR group; ERR stored. Cost
-- O(lanes).

-- @include lib/lanes

local b, group = KEYS[1], ARGV[1]
if not group then return redis.error_reply('ERR group must be given') end
local l, err = lane(b, group)
if err then return err end
local was = l.paused
l.paused = false
ring(l)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('SREM', b .. 'paused', group)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return was and 1 or 0
