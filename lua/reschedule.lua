#!lua flags=allow-oom
-- reschedule: a scheduled job waits for another time.
-- KEYS 1 row, 2 schedule, 3 wake   ARGV 1 id, 2 `in` or `at`, 3 ms
-- Reply 1, or -1 when the row is gone. Refuses ERR mode, ERR ms; EMQSTATE when it is not scheduled. Cost O(log N).

-- @include lib/when
-- @include lib/wake
-- @include lib/schedule

local id = ARGV[1]
local score, err = run_at(ARGV[2], ARGV[3])
if err then return err end
local head = schedule_head(KEYS[2])
local scheduled = redis.call('ZSCORE', KEYS[2], id)
local tokens = wake_room(KEYS[3])
if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
if not scheduled then return redis.error_reply('EMQSTATE not scheduled') end

redis.call('ZADD', KEYS[2], digits(score), id)
if earliest(head, id, score) then wakes = 1 end
push_wakes(KEYS[3], tokens)
return 1
