#!lua flags=allow-oom
-- promote_now: a scheduled job waits to be claimed, before its time.
-- KEYS 1 row, 2 schedule, 3 pending, 4 the base emq:{q}:   ARGV 1 id
-- Reply 1, or -1 when the row is gone. Refuses EMQSTATE when it is not scheduled. Cost O(log N), O(lanes) for a grouped
-- job.

-- @include lib/lapse

local id, b = ARGV[1], KEYS[4]
local scheduled = redis.call('ZSCORE', KEYS[2], id)
redis.call('ZCARD', KEYS[3])
local fields = redis.call('HMGET', KEYS[1], 'state', 'group', 'priority')
if not alive(KEYS[1], fields[1]) then return -1 end
if not scheduled then return redis.error_reply('EMQSTATE not scheduled') end
local to, err = ready(b, KEYS[3], fields[2], fields[3], false)
if err then return err end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('ZREM', KEYS[2], id)
redis.call('HSET', KEYS[1], 'state', 'pending')
redis.call('ZADD', to.key, to.score, id)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return 1
