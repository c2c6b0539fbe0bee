#!lua flags=allow-oom
-- delay: the worker puts its job off without a failure; the claim it spent is credited.
-- KEYS 1 row, 2 active, 3 schedule   ARGV 1 id, 2 token, 3 `in` or `at`, 4 ms, 5 the base emq:{q}:
-- Reply 1. Refuses ERR mode, ERR ms; EMQSTALE when the row is gone or for another token, EMQSTATE when the job is not
-- active. Cost O(log N), O(lanes) for a grouped job.

-- @include lib/row
-- @include lib/when
-- @include lib/settle
-- @include lib/schedule
-- @include lib/room

local id, token, b = ARGV[1], ARGV[2], ARGV[5]
local score, err = run_at(ARGV[3], ARGV[4])
if err then return err end
local active = redis.call('ZSCORE', KEYS[2], id)
local head = schedule_head(KEYS[3])
local fields = redis.call('HMGET', KEYS[1], 'attempts', 'group', 'credit')
if not fields[1] and redis.call('HLEN', KEYS[1]) == 0 then return redis.error_reply('EMQSTALE job gone') end
local _
_, err = fenced('delay', fields[1], token)
if err then return err end
if not active then return redis.error_reply('EMQSTATE delay not active') end
local credit
credit, err = stored('credit', fields[3])
if err then return err end
local place
place, err = held('delay', b, id, active, fields[2])
if err then return err end
if earliest(head, id, score) then wakes = wakes + 1 end
room(b, KEYS[2], 1)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

depart(b, id, place)
redis.call('HSET', KEYS[1], 'state', 'scheduled', 'credit', digits(credit + 1))
redis.call('ZADD', KEYS[3], digits(score), id)
push_wakes(b .. 'wake', tokens)
return 1
