#!lua flags=allow-oom
-- set_limits: the limits of a queue.
-- KEYS 1 the base emq:{q}:   ARGV name, value (empty: none) for each: concurrency, max, duration
-- Reply 1. What was spent of a rate stays spent, and a back-off goes on. Refuses ERR limits, ERR unknown limit, ERR
-- concurrency, ERR max, ERR duration. Cost O(1).

-- @include lib/clock
-- @include lib/settings
-- @include lib/wake

local b = KEYS[1]
local given, err = settings(1, { concurrency = true, max = true, duration = true })
if err then return err end
local key = b .. 'meta'
local stands = redis.call('HMGET', key, 'max', 'duration')
local full = integer(redis.call('GET', b .. 'limiter')) or 0
local was = { max = math.max(0, integer(stands[1]) or 0), duration = window(stands[2]) }
local is = { max = was.max, duration = was.duration }
for _, setting in ipairs(given) do
  if setting.name == 'max' then
    is.max = tonumber(setting.value) or 0
  elseif setting.name == 'duration' then
    is.duration = window(setting.value)
  end
end
-- the same rate again, as from a client that sets it whenever it starts, changes nothing
local changed = is.max ~= was.max or (is.max >= 1 and is.duration ~= was.duration)
local filled = changed and refill(full, was, is, now())
if redis.call('ZCARD', b .. 'pending') > 0 or redis.call('LLEN', b .. 'ring') > 0 then wakes = 1 end
local tokens = wake_room(b .. 'wake')

for _, setting in ipairs(given) do put_setting(key, setting.name, setting.value) end
if filled then
  fill(b .. 'limiter', filled)
elseif changed then
  redis.call('DEL', b .. 'limiter')
end
push_wakes(b .. 'wake', tokens)
return 1
