#!lua flags=no-writes
-- metrics: one counter of finished jobs.
-- KEYS 1 metrics:completed or metrics:failed   ARGV none.   Reply the count, 0 when nothing was counted. Cost O(1).

-- @include lib/number

local count, err = stored('count', redis.call('HGET', KEYS[1], 'count'))
if err then return err end
return count
