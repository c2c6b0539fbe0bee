#!lua flags=allow-oom
-- fail: the job's handler failed; it waits for its next try, or is dead at the cap. Native twin: EMQ.FAIL.
-- KEYS 1 active, 2 schedule, 3 dead, 4 row   ARGV 1 id, 2 token, 3 delay ms, 4 max attempts, 5 error, 6 the base
-- Reply "scheduled" or "dead". Refuses ERR delay, ERR max; EMQSTALE when the row is gone or for another token, EMQSTATE
-- for a flow child without its flow keys and for a job that is neither active nor waiting. Cost O(log N), O(lanes) for
-- a grouped job.

-- @include lib/row
-- @include lib/clock
-- @include lib/settle
-- @include lib/schedule

local id, token, b = ARGV[1], ARGV[2], ARGV[6]
local delay, err = anyint('delay', ARGV[3])
if err then return err end
local max
max, err = positive('max', ARGV[4])
if err then return err end
local active = redis.call('ZSCORE', KEYS[1], id)
local head = schedule_head(KEYS[2])
redis.call('ZCARD', KEYS[3])
local fields = redis.call('HMGET', KEYS[4], 'attempts', 'group', 'parent')
if not fields[1] and redis.call('HLEN', KEYS[4]) == 0 then return redis.error_reply('EMQSTALE job gone') end
local attempts
attempts, err = fenced('retry', fields[1], token)
if err then return err end
if fields[3] then return redis.error_reply('EMQSTATE retry flow keys') end
local place
place, err = held('retry', b, id, active, fields[2], b .. 'pending')
if err then return err end
local at = now()
local dies = attempts >= max
if dies then
  err = select(2, stored('metrics:failed', redis.call('HGET', b .. 'metrics:failed', 'count')))
  if err then return err end
elseif earliest(head, id, at + delay) then
  wakes = wakes + 1
end
local room = wakes > 0 and wake_room(b .. 'wake') or 0

depart(b, id, place)
redis.call('HSET', KEYS[4], 'state', dies and 'dead' or 'scheduled', 'last_error', ARGV[5])
if dies then
  redis.call('ZADD', KEYS[3], digits(at), id)
  redis.call('HINCRBY', b .. 'metrics:failed', 'count', 1)
else
  redis.call('ZADD', KEYS[2], digits(at + delay), id)
end
push_wakes(b .. 'wake', room)
return dies and 'dead' or 'scheduled'
