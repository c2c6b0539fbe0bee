#!lua flags=allow-oom
-- repeat_pause: a repeat fires no more until it is resumed.
-- KEYS 1 the base emq:{q}:   ARGV 1 name.   Reply 1; 0 when it was paused; -1 without a record. Cost O(log N).

-- @include lib/repeat

local b, name = KEYS[1], ARGV[1] or ''
local stands = record(b, name)
redis.call('ZCARD', b .. 'repeat')
if not stands then return -1 end

redis.call('HSET', repeat_key(b, name), 'paused', '1')
redis.call('ZADD', b .. 'repeat', 'inf', name)
return stands.paused and 0 or 1
