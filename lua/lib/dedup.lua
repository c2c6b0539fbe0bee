-- Dedup ids: `de:<dedup id>` holds the id of the job that has it.

-- @include lib/number

local function dedup_key(b, dedup)
  return b .. 'de:' .. dedup
end

-- park(b, dedup, id, ttl, at): the dedup id is that job's from `at` on, for ttl ms if that is 1 or more
local function park(b, dedup, id, ttl, at)
  if ttl and ttl > 0 then
    redis.call('SET', dedup_key(b, dedup), id, 'PXAT', digits(at + ttl))
  else
    redis.call('SET', dedup_key(b, dedup), id)
  end
end

-- UNPARK: parked(b, id, dedup) -> the key that goes with the job, nil when it has none or it is another's by now
local function parked(b, id, dedup)
  if not dedup then return nil end
  local key = dedup_key(b, dedup)
  return redis.call('GET', key) == id and key or nil
end
