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

-- OWN: own(b, key, group) -> the field of a group, else what holds for all lanes
local function own(b, key, group)
  local fields = redis.call('HMGET', b .. key, group, '*')
  return fields[1] or fields[2]
end

-- lane_counts(b, group) -> {active, counted, limit}: the jobs in flight, their count as it is stored, and the ceiling,
-- if any; or nil and an ERR. `ceiling`: it is about to become this, false for none.
local function lane_counts(b, group, ceiling)
  local counted = redis.call('HGET', b .. 'gactive', group)
  local active, err = stored('gactive', counted)
  if err then return nil, err end
  if ceiling == nil then ceiling = own(b, 'glimit', group) end
  local limit
  limit, err = stored('glimit', ceiling)
  if err then return nil, err end
  return { active = active, counted = counted, limit = ceiling and limit }
end

local MANY = 8 -- lanes of one call; beyond these the ring is read once and whole, since each search is O(lanes)
local searched, ring_members = 0, nil

local function on_the_ring(b, group)
  if not ring_members then
    searched = searched + 1
    if searched <= MANY then return redis.call('LPOS', b .. 'ring', group) and true end
    ring_members = {}
    for _, member in ipairs(redis.call('LRANGE', b .. 'ring', '0', '-1')) do ring_members[member] = true end
  end
  return ring_members[group]
end

-- lane(b, group, walked) -> the plan of a lane, or nil and an ERR. `walked` says that the caller goes along the ring
-- itself: the ring is not searched for the lane then. `ceiling` as in lane_counts.
local function lane(b, group, walked, ceiling)
  local l = lanes[group]
  if l then return l end
  local err
  l, err = lane_counts(b, group, ceiling)
  if err then return nil, err end
  l.group = group
  l.key = lane_key(b, group)
  l.entered = 0
  l.left = 0
  l.paused = redis.call('SISMEMBER', b .. 'paused', group) == 1
  l.waits = redis.call('ZSCORE', b .. 'gwait', group)
  l.waiting = redis.call('ZCARD', l.key)
  l.ringed = walked or on_the_ring(b, group)
  lanes[group] = l
  touched[#touched + 1] = l
  return l
end

-- LEAVE: a job of the group is no longer in flight
local function leave(l)
  l.left = l.left + 1
  l.active = math.max(l.active - 1, 0)
end

-- a job of the group is in flight
local function enter(l)
  l.entered = l.entered + 1
  l.active = l.active + 1
end

-- servable(l) -> whether a job of the lane could be claimed now
local function servable(l)
  if l.paused or l.waits or l.waiting < 1 then return false end
  return not (l.limit and l.active >= l.limit) and not (l.bucket and l.bucket.tokens < 1)
end

-- RING: onto the ring when the lane can be served and is not there yet
local function ring(l)
  if l.ringed or not servable(l) then return end
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
    if l.entered > 0 then redis.call('HINCRBY', b .. 'gactive', l.group, l.entered) end
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

-- unring(b, groups): they leave the ring. Many at once are taken out by putting the ring down anew: each search for one
-- is O(lanes).
local function unring(b, groups)
  if #groups <= MANY then
    for _, group in ipairs(groups) do redis.call('LREM', b .. 'ring', '0', group) end
    return
  end
  local gone, rest = {}, {}
  for _, group in ipairs(groups) do gone[group] = true end
  for _, member in ipairs(redis.call('LRANGE', b .. 'ring', '0', '-1')) do
    if not gone[member] then rest[#rest + 1] = member end
  end
  redis.call('DEL', b .. 'ring')
  push_all('RPUSH', b .. 'ring', rest)
end
