#!lua flags=allow-oom
-- repeat_remove: a repeat is forgotten; jobs that it has added stay.
-- KEYS 1 the base emq:{q}:   ARGV 1 name.   Reply 1, or 0 when there was none. Cost O(log N).

-- @include lib/repeat

local b, name = KEYS[1], ARGV[1] or ''
local stands = record(b, name)
redis.call('ZCARD', b .. 'repeat')

redis.call('DEL', repeat_key(b, name))
redis.call('ZREM', b .. 'repeat', name)
return stands and 1 or 0
