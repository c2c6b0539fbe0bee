#!lua flags=no-writes
-- browse: ids of one of the sets by rank, the last to be served first; with equal scores that is the newest.
-- KEYS 1 pending, active, schedule, dead or flow:held   ARGV 1 offset, 2 limit
-- Reply the ids. Refuses ERR offset, ERR limit. Cost O(log N + limit).

-- @include lib/page

local first, last, err = page(ARGV[1], ARGV[2])
if err then return err end
return redis.call('ZRANGE', KEYS[1], first, last, 'REV')
