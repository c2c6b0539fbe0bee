-- WAKE: readiness tokens that a parked consumer pops, at most 64 in the list.
-- A script counts its wakes in `wakes`, reads how many tokens are there before its first write (wake_room), and pushes
-- them last and together (push_wakes).

-- @include lib/push

local WAKE_CAP = 64
local wakes = 0

-- wake_room(key) -> how many tokens the list still takes
local function wake_room(key)
  local room = WAKE_CAP - redis.call('LLEN', key)
  if room < 0 then return 0 end
  return room
end

local function push_wakes(key, room)
  local tokens = {}
  for i = 1, math.min(wakes, room) do tokens[i] = '1' end
  push_all('LPUSH', key, tokens)
end
