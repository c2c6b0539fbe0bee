-- ROOM: ids leave the active set of a queue that is at its ceiling, and something waits.

-- @include lib/number
-- @include lib/wake

-- room(b, active, leaving): plans the wake. Anything but an integer of 1 or more is no ceiling here: a settle must not
-- be refused for a setting that somebody has spoilt.
local function room(b, active, leaving)
  local ceiling = integer(redis.call('HGET', b .. 'meta', 'concurrency'))
  if not ceiling or ceiling < 1 or leaving < 1 then return end
  local busy = redis.call('ZCARD', active)
  if busy < ceiling or busy - leaving >= ceiling then return end
  if redis.call('ZCARD', b .. 'pending') > 0 or redis.call('LLEN', b .. 'ring') > 0 then wakes = wakes + 1 end
end
