#!lua flags=no-writes
-- repeat_get: one repeat, and the server's time.
-- KEYS 1 the base emq:{q}:   ARGV 1 name.   Reply [NOW, score or nil, [field, value ...]]. Cost O(1).

-- @include lib/clock
-- @include lib/repeat

local b, name = KEYS[1], ARGV[1] or ''
return { now(), redis.call('ZSCORE', b .. 'repeat', name), redis.call('HGETALL', repeat_key(b, name)) }
