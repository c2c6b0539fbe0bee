-- ALLOWANCE and ROOM: how many jobs a queue may claim now, and whom a freed place wakes.

-- @include lib/clock
-- @include lib/bucket
-- @include lib/wake

-- allowance(b, active) -> {left, bucket}: how many more jobs may be claimed, math.huge without a limit, and the bucket
-- of the rate, if there is one; or nil and an ERR
local function allowance(b, active)
  local meta = redis.call('HMGET', b .. 'meta', 'paused', 'concurrency', 'max', 'duration')
  if meta[1] then return { left = 0 } end
  local concurrency, err = stored('concurrency', meta[2])
  if err then return nil, err end
  local max
  max, err = stored('max', meta[3])
  if err then return nil, err end
  local full
  full, err = stored('limiter', redis.call('GET', b .. 'limiter'))
  if err then return nil, err end
  local left = math.huge
  if concurrency >= 1 then left = math.max(0, concurrency - redis.call('ZCARD', active)) end
  if max >= 1 then
    local k = bucket(full, max, window(meta[4]), now())
    return { left = math.min(left, k.tokens), bucket = k }
  end
  if full > 0 and full > 1000 * now() then left = 0 end
  return { left = left }
end

-- spend(b, allowed, count): writes that so many jobs were claimed
local function spend(b, allowed, count)
  local k = allowed.bucket
  if k and count > 0 then fill(b .. 'limiter', k.full + count * k.step) end
end
