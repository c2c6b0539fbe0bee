-- Dedup ids: `de:<dedup id>` holds the id of the job that has it.

local function dedup_key(b, dedup)
  return b .. 'de:' .. dedup
end

-- UNPARK: parked(b, id, dedup) -> the key that goes with the job, nil when it has none or it is another's by now
local function parked(b, id, dedup)
  if not dedup then return nil end
  local key = dedup_key(b, dedup)
  return redis.call('GET', key) == id and key or nil
end
