-- How a job leaves the hands of its worker: HELD, LEAVE and RING for the transitions that settle one job.

-- @include lib/lanes

-- held(verb, b, id, active, group, pending) -> {key, lane, was_active}, or nil and the refusal.
-- `active` is the id's score in the active set, if it is there; an id both there and waiting leaves the active set.
-- Reads the lane, and plans what leaving does to it.
local function held(verb, b, id, active, group, pending)
  local place = { was_active = active and true }
  if group then
    local err
    place.lane, err = lane(b, group)
    if err then return nil, err end
  end
  if active then
    place.key = b .. 'active'
  elseif place.lane and redis.call('ZSCORE', place.lane.key, id) then
    place.key = place.lane.key
    place.lane.waiting = place.lane.waiting - 1
  elseif redis.call('ZSCORE', pending, id) then
    place.key = pending
  else
    return nil, redis.error_reply('EMQSTATE ' .. verb .. ' not active')
  end
  if place.lane then
    if active then leave(place.lane) end
    ring(place.lane)
  end
  return place
end

-- depart(b, id, place): writes what held() planned, all but the wake
local function depart(b, id, place)
  redis.call('ZREM', place.key, id)
  if not place.lane then return end
  write_lanes(b)
  if place.lane.waiting == 0 and place.lane.ringed then redis.call('LREM', b .. 'ring', '0', place.lane.group) end
end
