#!lua flags=allow-oom
-- add_log: one more line in a job's log.
-- KEYS 1 row, 2 the row's :logs   ARGV 1 line, 2 how many of the newest lines to keep, 0 for all
-- Reply the number of lines now, or -1 when the row is gone. Refuses ERR keep. Cost O(lines dropped).

-- @include lib/number

local keep, err = anyint('keep', ARGV[2])
if err then return err end
redis.call('LLEN', KEYS[2])
if redis.call('HLEN', KEYS[1]) == 0 then return -1 end

local count = redis.call('RPUSH', KEYS[2], ARGV[1])
if keep > 0 and count > keep then
  redis.call('LTRIM', KEYS[2], digits(-keep), '-1')
  return keep
end
return count
