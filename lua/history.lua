#!lua flags=no-writes
-- history: how many jobs were counted in each of the last minutes.
-- KEYS 1 metrics:completed:data or metrics:failed:data, 2 the base emq:{q}:   ARGV 1 first, 2 count
-- Reply [the minute that is open, or nil; numbers, newest first, the first of them of the minute before]. Refuses ERR
-- first, ERR count. Cost O(count).

-- @include lib/page

local first, err = natural('first', ARGV[1])
if err then return err end
local count
count, err = positive('count', ARGV[2])
if err then return err end
local minute = redis.call('HGET', KEYS[2] .. 'metrics:rolled', 'minute')
return { minute, redis.call('LRANGE', KEYS[1], digits(first), digits(first + count - 1)) }
