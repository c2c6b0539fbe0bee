#!lua
-- schedule: a new job waits for a time.
-- KEYS 1 row, 2 schedule, 3 wake   ARGV 1 id, 2 payload, 3 `in` or `at`, 4 ms [, 5 priority [, 6 opts]]
-- Reply 1, or 0 when the id has a row already. Refuses EMQKIND, then ERR mode, ERR ms. Cost O(log N) of schedule.

-- @include lib/row
-- @include lib/when
-- @include lib/wake
-- @include lib/schedule
-- @include lib/admit

local err = admissible(ARGV[1])
if err then return err end
local score
score, err = run_at(ARGV[3], ARGV[4])
if err then return err end
local head = schedule_head(KEYS[2])
local room = wake_room(KEYS[3])
if redis.call('HLEN', KEYS[1]) > 0 then return 0 end

admit(KEYS[1], 'scheduled', ARGV[2], ARGV[5], ARGV[6])
redis.call('ZADD', KEYS[2], digits(score), ARGV[1])
if earliest(head, ARGV[1], score) then wakes = 1 end
push_wakes(KEYS[3], room)
return 1
