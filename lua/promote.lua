#!lua flags=allow-oom
-- promote: scheduled jobs whose time has come wait to be claimed.
-- KEYS 1 schedule, 2 pending, 3 the base emq:{q}:   ARGV 1 limit
-- Reply the number of jobs; a ghost uses up a place in the limit and is not counted. Refuses ERR limit.
-- Cost O(limit * log N), and O(lanes) for each group among them.

-- @include lib/lapse

local limit, err = positive('limit', ARGV[1])
if err then return err end
return bring_back(KEYS[1], KEYS[2], KEYS[3], limit, false)
