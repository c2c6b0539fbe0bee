-- The walk along the ring: whose turn it is. A lane that was served goes to the end of the ring while it can be served
-- further; one that cannot be served leaves it. All in memory until write_turns.

-- @include lib/lanes
-- @include lib/heads

local on_ring = 0 -- how many groups the ring holds
local passed = 0 -- how many of these the walk has passed
local queued, next_queued = {}, 1 -- the groups that went to the end, and which of them comes first
local window, window_from = {}, 0 -- a piece of the ring, and the place where it begins

-- group_at_turn(b) -> the group at the head, nil at the end of the walk
local function group_at_turn(b)
  if passed >= on_ring then return queued[next_queued] end
  if passed >= window_from + #window then
    window_from = passed
    window = redis.call('LRANGE', b .. 'ring', digits(passed), digits(passed + 15))
  end
  return window[passed - window_from + 1]
end

-- pass: the head leaves the ring
local function pass()
  if passed < on_ring then
    passed = passed + 1
  else
    next_queued = next_queued + 1
  end
end

-- turn(b) -> the lane whose turn it is, with its `heads`; nil when none can be served; nil and an ERR
local function turn(b)
  local group = group_at_turn(b)
  while group do
    local l, err = lane(b, group, true)
    if err then return nil, err end
    if servable(l) then
      l.heads = l.heads or heads(l.key, l.waiting, 1)
      return l
    end
    pass()
    group = group_at_turn(b)
  end
  return nil
end

-- served(l): the lane at the head has given a job
local function served(l)
  pass()
  if servable(l) then queued[#queued + 1] = l.group end
end

-- write_turns(b): the ring as the walk has left it
local function write_turns(b)
  if passed > 0 then redis.call('LTRIM', b .. 'ring', digits(passed), '-1') end
  local rest = {}
  for i = next_queued, #queued do rest[#rest + 1] = queued[i] end
  push_all('RPUSH', b .. 'ring', rest)
end
