#!lua flags=allow-oom
-- back_off: a worker hands its job back untried, since what it needs is too busy, and nothing is claimed for a while:
-- from the job's lane, or from the queue.
-- KEYS 1 active, 2 pending, 3 row   ARGV 1 id, 2 token, 3 ms, 4 `own` or `queue`, 5 the base emq:{q}:
-- Reply 1. Refuses ERR ms, ERR scope; EMQSTALE when the row is gone or for another token, EMQSTATE when the job is not
-- active. Cost O(log N), O(lanes) for a grouped job.

-- @include lib/lapse
-- @include lib/turns
-- @include lib/room

local id, b = ARGV[1], ARGV[5]
local ms = integer(ARGV[3])
if not ms or ms < 1 or ms > LONGEST_WINDOW then
  return redis.error_reply('ERR ms must be an integer from 1 to 2147483647')
end
if ARGV[4] ~= 'own' and ARGV[4] ~= 'queue' then return redis.error_reply('ERR scope must be own or queue') end
local active = redis.call('ZSCORE', KEYS[1], id)
redis.call('ZCARD', KEYS[2])
local fields = redis.call('HMGET', KEYS[3], 'attempts', 'group', 'priority', 'credit')
if not alive(KEYS[3], fields[1]) then return redis.error_reply('EMQSTALE job gone') end
local _, err = fenced('back_off', fields[1], ARGV[2])
if err then return err end
if not active then return redis.error_reply('EMQSTATE back_off not active') end
local credit
credit, err = stored('credit', fields[4])
if err then return err end
local at = now()
local group = fields[2]
local l, full, waits
if group then
  l, err = lane(b, group)
  if err then return err end
  leave(l)
end
local own_lane = l and ARGV[4] == 'own'
if own_lane then
  waits = math.max(at + ms, tonumber(l.waits) or 0)
  local k
  k, err = rate(b, group)
  if err then return err end
  if k then
    -- in its bucket too: whoever changes what is set for the lane goes by that
    full = math.max(k.full, 1000 * waits + k.step * (k.max - 1))
    k.full = full
    waits = math.max(waits, next_token(k))
  end
else
  local meta = redis.call('HMGET', b .. 'meta', 'max', 'duration')
  local max
  max, err = stored('max', meta[1])
  if err then return err end
  full, err = stored('limiter', redis.call('GET', b .. 'limiter'))
  if err then return err end
  local until_then = 1000 * (at + ms)
  if max >= 1 then
    -- one token then, and the others after it, each in its time
    local k = bucket(full, max, window(meta[2]), at)
    until_then = until_then + k.step * (max - 1)
  end
  full = math.max(full, until_then)
end
if l then l.waiting = l.waiting + 1 end
if l and not own_lane then ring(l) end
room(b, KEYS[1], own_lane and 1 or 0)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('ZREM', KEYS[1], id)
redis.call('HSET', KEYS[3], 'state', 'pending', 'credit', digits(credit + 1))
redis.call('ZADD', l and l.key or KEYS[2], priority(fields[3]), id)
write_lanes(b)
if own_lane then
  if l.ringed then redis.call('LREM', b .. 'ring', '0', group) end
  redis.call('ZADD', b .. 'gwait', digits(waits), group)
end
if full then fill(own_lane and b .. 'g:' .. group .. ':limiter' or b .. 'limiter', full) end
push_wakes(b .. 'wake', tokens)
return 1
