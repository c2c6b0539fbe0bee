#!lua flags=allow-oom
-- reap: jobs whose lease has lapsed wait to be claimed again; their claim count stays and nothing is counted.
-- KEYS 1 active, 2 pending, 3 the base emq:{q}:   ARGV 1 limit
-- Reply the number of jobs; a ghost uses up a place in the limit and is not counted. Refuses ERR limit.
-- Cost O(limit * log N), and O(lanes).

-- @include lib/lapse
-- @include lib/room

local limit, err = positive('limit', ARGV[1])
if err then return err end
local b = KEYS[3]
local count, moves
count, moves, err = plan_back(due(KEYS[1], now(), limit), KEYS[2], b, true)
if err then return err end
room(b, KEYS[1], #moves)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

write_back(KEYS[1], moves)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return count
