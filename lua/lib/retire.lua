-- RETIRE: the row goes with everything that hangs on it.

local SUBKEYS = { ':logs', ':lock', ':dependencies', ':children', ':processed', ':unsuccessful', ':failed' }

-- retirees(row) -> all keys of a job. They are looked at before the first write: in a cluster whose slot is moving the
-- look is what refuses the call.
local function retirees(row)
  local keys = { row }
  for i, suffix in ipairs(SUBKEYS) do keys[i + 1] = row .. suffix end
  redis.call('EXISTS', unpack(keys))
  return keys
end
