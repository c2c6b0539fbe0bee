#!lua flags=allow-oom
-- flow_deliver: a flow parent hears of a child, by a letter that the child left.
-- KEYS 1 the parent's row, 2 the base emq:{q}: of its queue   ARGV 1 parent id, 2 child id, 3 `done`, `fail` (dead) or
-- `gone` (its row too), 4 policy, empty with `done`, 5 result or error
-- Reply `counted`, `released` (the parent waits to be claimed now) or `failed` (the parent is dead now); `known` or
-- `gone` when nothing changes. Refuses ERR kind, ERR a delivery. Cost O(log N), for each of up to 8 parents when
-- a death climbs.

-- @include lib/burial

local b, parent, child, kind = KEYS[2], ARGV[1], ARGV[2], ARGV[3]
if kind ~= 'done' and kind ~= 'fail' and kind ~= 'gone' then
  return redis.error_reply('ERR kind must be done, fail or gone')
end
-- what is missing would be missed in the middle of the writes
if #ARGV ~= 5 then return redis.error_reply('ERR a delivery is five arguments') end
redis.call('HLEN', KEYS[1])
local word, err
if kind == 'done' then
  word, err = join(b, parent, child, ARGV[5])
else
  word, err = bury(b, parent, child, ARGV[4], ARGV[5], kind == 'gone', 1)
end
if err then return err end
err = look_fanin(b)
if err then return err end
local room = wakes > 0 and wake_room(b .. 'wake') or 0

write_lanes(b)
write_fanin(b)
push_wakes(b .. 'wake', room)
return word
