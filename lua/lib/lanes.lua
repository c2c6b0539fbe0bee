-- Lanes: the waiting jobs of a group, its count of jobs in flight, and the ring of lanes that can be served.
-- A script plans first and writes later: lane() reads what is known of a lane, leave() and arrive() change the plan in
-- memory, and write_lanes() puts it down. So every read of the keyspace comes before the first write.

-- @include lib/number
-- @include lib/push
-- @include lib/wake

local lanes = {} -- group -> plan
local touched = {} -- the plans in the order of their first reading
local ringing = {} -- groups that go on the ring, in order

local function lane_key(b, group)
  return b .. 'g:' .. group .. ':pending'
end

-- lane(b, group) -> the plan of a lane, or nil and an ERR
local function lane(b, group)
  local l = lanes[group]
  if l then return l end
  local counted = redis.call('HGET', b .. 'gactive', group)
  local active, err = stored('gactive', counted)
  if err then return nil, err end
  local ceiling = redis.call('HGET', b .. 'glimit', group)
  local limit
  limit, err = stored('glimit', ceiling)
  if err then return nil, err end
  l = {
    group = group,
    key = lane_key(b, group),
    active = active,
    counted = counted,
    left = 0,
    limit = ceiling and limit,
    paused = redis.call('SISMEMBER', b .. 'paused', group) == 1,
    waiting = redis.call('ZCARD', lane_key(b, group)),
    ringed = redis.call('LPOS', b .. 'ring', group) and true,
  }
  lanes[group] = l
  touched[#touched + 1] = l
  return l
end

-- LEAVE: a job of the group is no longer in flight
local function leave(l)
  l.left = l.left + 1
  l.active = math.max(l.active - 1, 0)
end

-- RING: onto the ring when the lane can be served and is not there yet
local function ring(l)
  if l.paused or l.ringed or l.waiting < 1 or (l.limit and l.active >= l.limit) then return end
  l.ringed = true
  ringing[#ringing + 1] = l.group
  wakes = wakes + 1
end

-- READY into a lane
local function arrive(l)
  l.waiting = l.waiting + 1
  ring(l)
end

-- write_lanes(b): the counts, then the ring
local function write_lanes(b)
  for _, l in ipairs(touched) do
    if l.left > 0 and l.counted then
      if l.active > 0 then
        redis.call('HINCRBY', b .. 'gactive', l.group, -l.left)
      else
        redis.call('HDEL', b .. 'gactive', l.group)
      end
    end
  end
  push_all('RPUSH', b .. 'ring', ringing)
end
