#!lua flags=no-writes
-- logs: the log lines of a job, oldest first.
-- KEYS 1 row, 2 the row's :logs   ARGV 1 first, 2 last (places, -1 is the newest)
-- Reply the lines, or -1 when the row is gone. Refuses ERR first, ERR last. Cost O(lines).

-- @include lib/number

local first, err = anyint('first', ARGV[1])
if err then return err end
local last
last, err = anyint('last', ARGV[2])
if err then return err end
redis.call('LLEN', KEYS[2])
if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
return redis.call('LRANGE', KEYS[2], digits(first), digits(last))
