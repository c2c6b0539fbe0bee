#!lua flags=no-writes
-- limits: the limits of a queue.
-- KEYS 1 the base emq:{q}:   ARGV none.
-- Reply [concurrency, max, duration, 0 where there is none; ms until the next token, 0: there is one; 1
-- when the queue is paused]. Cost O(1).

-- @include lib/clock
-- @include lib/bucket

local b = KEYS[1]
local meta = redis.call('HMGET', b .. 'meta', 'concurrency', 'max', 'duration', 'paused')
local concurrency, err = stored('concurrency', meta[1])
if err then return err end
local max
max, err = stored('max', meta[2])
if err then return err end
local full
full, err = stored('limiter', redis.call('GET', b .. 'limiter'))
if err then return err end
local at = now()
local open_at = full / 1000
if max >= 1 then
  local k = bucket(full, max, window(meta[3]), at)
  open_at = k.tokens > 0 and 0 or next_token(k)
end
return {
  math.max(0, concurrency),
  math.max(0, max),
  max >= 1 and window(meta[3]) or 0,
  math.max(0, math.ceil(open_at - at)),
  meta[4] and 1 or 0,
}
