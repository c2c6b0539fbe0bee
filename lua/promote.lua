#!lua flags=allow-oom
-- promote: scheduled jobs whose time has come wait to be claimed, and lanes that waited for their rate are served
-- again.
-- KEYS 1 schedule, 2 pending, 3 the base emq:{q}:   ARGV 1 limit
-- Reply the number of jobs; a ghost uses up a place in the limit and is not counted. Refuses ERR limit.
-- Cost O(limit * log N), and O(lanes).

-- @include lib/lapse

local limit, err = positive('limit', ARGV[1])
if err then return err end
local b = KEYS[3]
local count, moves
local at = now()
count, moves, err = plan_back(due(KEYS[1], at, limit), KEYS[2], b, false)
if err then return err end
local rested = due(b .. 'gwait', at, limit)
for _, group in ipairs(rested) do
  -- one whose counts cannot be read is served by nobody, and must not keep the others
  local l = lane(b, group)
  if l then
    l.waits = nil
    ring(l)
  end
end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

write_back(KEYS[1], moves)
push_all('ZREM', b .. 'gwait', rested)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return count
