-- TURN: the walk along the ring. A lane that was served leaves the head when its turn is over, and goes to the end of
-- the ring while it can be served further; one that cannot be served leaves it, and waits in `gwait` if it is its rate
-- that holds it. All in memory until write_turns.

-- @include lib/lanes
-- @include lib/heads
-- @include lib/bucket
-- @include lib/clock

local on_ring = 0 -- how many groups the ring holds
local passed = 0 -- how many of these the walk has passed
local queued, next_queued = {}, 1 -- the groups that went to the end, and which of them comes first
local window_of, window_from = {}, 0 -- a piece of the ring, and the place where it begins
local kept = {} -- the turn that was under way: its group, and how many jobs that has given
local turn_of, given_now -- the same as the walk goes on
local MOST_DROPPED = 256 -- heads that leave unserved in one call
local walk = { dropped = 0 } -- and `tired`, when they were as many
local last_head -- the group at the head at the end
local waiters = {} -- score, group of the lanes that go into gwait

-- look_turns(b, ring): where the walk begins
local function look_turns(b, ring_key)
  on_ring = redis.call('LLEN', ring_key)
  if on_ring == 0 then return end
  kept = redis.call('HMGET', b .. 'meta', 'turn', 'given')
  turn_of, given_now = kept[1], integer(kept[2]) or 0
end

-- group_at_turn(b) -> the group at the head, nil at the end of the walk
local function group_at_turn(b)
  if passed >= on_ring then return queued[next_queued] end
  if passed >= window_from + #window_of then
    window_from = passed
    window_of = redis.call('LRANGE', b .. 'ring', digits(passed), digits(passed + 15))
  end
  return window_of[passed - window_from + 1]
end

-- pass: the head leaves the ring
local function pass()
  if passed < on_ring then
    passed = passed + 1
  else
    next_queued = next_queued + 1
  end
end

-- rate(b, group) -> the bucket of a lane, nil when it has no rate; or nil and an ERR
local function rate(b, group)
  local max, err = stored('gmax', own(b, 'gmax', group))
  if err then return nil, err end
  if max < 1 then return nil end
  local full
  full, err = stored('limiter', redis.call('GET', b .. 'g:' .. group .. ':limiter'))
  if err then return nil, err end
  return bucket(full, max, window(own(b, 'gduration', group)), now())
end

-- drained(l): a lane without a token waits for its next one
local function drained(l)
  if not l.bucket or l.bucket.tokens > 0 or l.waits then return end
  l.waits = next_token(l.bucket)
  l.drained = true
  waiters[#waiters + 1] = digits(l.waits)
  waiters[#waiters + 1] = l.group
end

-- turn(b) -> the lane whose turn it is, with its `heads`; nil when none can be served, or, `tired`, when too many could
-- not; nil and an ERR
local function turn(b)
  local group = group_at_turn(b)
  while group do
    local l, err = lane(b, group, true)
    if err then return nil, err end
    if not l.walked then
      l.bucket, err = rate(b, group)
      if err then return nil, err end
      l.weight = math.max(1, integer(own(b, 'gweight', group)) or 1)
      l.walked = true
    end
    if servable(l) then
      l.heads = l.heads or heads(l.key, l.waiting, 1)
      return l
    end
    if walk.dropped == MOST_DROPPED then
      walk.tired = true
      return nil
    end
    walk.dropped = walk.dropped + 1
    drained(l)
    pass()
    group = group_at_turn(b)
  end
  return nil
end

-- pay(l): the lane spends a token for a job
local function pay(l)
  if not l.bucket then return end
  l.bucket.tokens = l.bucket.tokens - 1
  l.bucket.full = l.bucket.full + l.bucket.step
  l.paid = true
  drained(l)
end

-- served(l, over): the lane at the head has given a job; `over`: its turn ends with it, whatever its weight
local function served(l, over)
  if turn_of ~= l.group then turn_of, given_now = l.group, 0 end
  given_now = given_now + 1
  local can = servable(l)
  if can and not over and given_now < l.weight then return end
  turn_of = nil
  pass()
  if can then queued[#queued + 1] = l.group end
end

-- passed_over(l): the lane at the head goes to the end unserved
local function passed_over(l)
  if turn_of == l.group then turn_of = nil end
  pass()
  queued[#queued + 1] = l.group
end

-- write_waits(b): the lanes that wait for their rate, and what all have spent
local function write_waits(b)
  push_all('ZADD', b .. 'gwait', waiters)
  for _, l in ipairs(touched) do
    if l.paid then fill(b .. 'g:' .. l.group .. ':limiter', l.bucket.full) end
  end
end

-- end_turns(b): the walk is over; the last look before the first write
local function end_turns(b)
  last_head = group_at_turn(b)
end

-- write_turns(b): the ring as the walk has left it, and the turn that is under way
local function write_turns(b)
  if on_ring == 0 then return end
  if passed > 0 then redis.call('LTRIM', b .. 'ring', digits(passed), '-1') end
  local rest = {}
  for i = next_queued, #queued do rest[#rest + 1] = queued[i] end
  push_all('RPUSH', b .. 'ring', rest)
  if turn_of and turn_of == last_head and given_now > 0 then
    local count = digits(given_now)
    if turn_of ~= kept[1] or count ~= kept[2] then redis.call('HSET', b .. 'meta', 'turn', turn_of, 'given', count) end
  elseif kept[1] or kept[2] then
    redis.call('HDEL', b .. 'meta', 'turn', 'given')
  end
end
