-- How a job leaves the hands of its worker: HELD, LEAVE and RING for the transitions that settle one job.

-- @include lib/lanes

-- held(verb, b, id, active, group, pending) -> {key, lane}, or nil and the refusal.
-- `active` is the id's score in the active set, if it is there; an id both there and waiting leaves the active set.
-- Reads the lane, and plans what leaving does to it.
local function held(verb, b, id, active, group, pending)
  local place = {}
  local waits = group and not active and redis.call('ZSCORE', lane_key(b, group), id)
  if active then
    place.key = b .. 'active'
  elseif waits then
    place.key = lane_key(b, group)
  elseif redis.call('ZSCORE', pending, id) then
    place.key = pending
  else
    return nil, redis.error_reply('EMQSTATE ' .. verb .. ' not active')
  end
  if group then
    local l, err = lane(b, group)
    if err then return nil, err end
    if active then leave(l) end
    if waits then l.waiting = l.waiting - 1 end
    ring(l)
    place.lane = l
  end
  return place
end

-- depart(b, id, place): writes what held() planned, and what else was planned of lanes; all but the wake
local function depart(b, id, place)
  redis.call('ZREM', place.key, id)
  write_lanes(b)
  local l = place.lane
  if l and l.waiting == 0 and l.ringed then redis.call('LREM', b .. 'ring', '0', l.group) end
end
