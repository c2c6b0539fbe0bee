#!lua
-- enqueue: a new job waits in the flat queue.
-- KEYS 1 row, 2 pending, 3 wake   ARGV 1 id, 2 payload [, 3 priority [, 4 opts]]
-- Reply 1, or 0 when the id has a row already: nothing changes then. Refuses EMQKIND. Cost O(log N) of pending.

-- @include lib/row
-- @include lib/wake
-- @include lib/admit

local err = admissible(ARGV[1])
if err then return err end
redis.call('ZCARD', KEYS[2])
local room = wake_room(KEYS[3])
if redis.call('HLEN', KEYS[1]) > 0 then return 0 end

admit(KEYS[1], 'pending', ARGV[2], ARGV[3], ARGV[4])
redis.call('ZADD', KEYS[2], priority(ARGV[3]), ARGV[1])
wakes = 1
push_wakes(KEYS[3], room)
return 1
