#!lua flags=no-writes
-- lane_info: how lanes are.
-- KEYS 1 the base emq:{q}:   ARGV group ...
-- Reply [waiting, in flight, limit, weight, max, duration (0 where there is none, the weight 1), 1 when paused, until
-- when it waits (Unix ms, 0: it does not), ms until its next token (0: it has one)] for each. What cannot be read
-- counts as not set. Cost O(groups).

-- @include lib/turns

local b, found = KEYS[1], {}
local at = now()
for i, group in ipairs(ARGV) do
  local max = math.max(0, integer(own(b, 'gmax', group)) or 0)
  local duration = max > 0 and window(own(b, 'gduration', group)) or 0
  local next_ms = 0
  if max > 0 then
    local k = bucket(integer(redis.call('GET', b .. 'g:' .. group .. ':limiter')) or 0, max, duration, at)
    if k.tokens < 1 then next_ms = math.max(0, next_token(k) - at) end
  end
  found[i] = {
    redis.call('ZCARD', lane_key(b, group)),
    math.max(0, integer(redis.call('HGET', b .. 'gactive', group)) or 0),
    math.max(0, integer(own(b, 'glimit', group)) or 0),
    math.max(1, integer(own(b, 'gweight', group)) or 1),
    max,
    duration,
    redis.call('SISMEMBER', b .. 'paused', group),
    tonumber(redis.call('ZSCORE', b .. 'gwait', group)) or 0,
    next_ms,
  }
end
return found
