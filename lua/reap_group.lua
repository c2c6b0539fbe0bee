#!lua flags=allow-oom
-- reap_group: as reap, for the jobs of one lane.
-- KEYS 1 active, 2 the base emq:{q}:   ARGV 1 group, 2 limit, 3 offset
-- Looks at up to limit lapsed ids from place offset on. Reply [how many wait again, the offset at which to go on, -1
-- when no more ids have lapsed]. Ghosts tell no group and stay. Refuses ERR limit, ERR offset. Cost O(log N + limit).

-- @include lib/lapse
-- @include lib/room
-- @include lib/page

local group, b = ARGV[1], KEYS[2]
local limit, err = positive('limit', ARGV[2])
if err then return err end
local offset
offset, err = natural('offset', ARGV[3])
if err then return err end
local ids = due(KEYS[1], now(), limit, offset)
local count, moves
count, moves, err = plan_back(ids, b .. 'pending', b, true, group)
if err then return err end
room(b, KEYS[1], #moves)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

write_back(KEYS[1], moves)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return { count, #ids == limit and offset + #ids - #moves or -1 }
