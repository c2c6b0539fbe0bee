-- What a flow parent hears of its children: OPEN, CLOSE, FREE and JOIN of the wire contract, section 4. Everything is
-- planned in memory, `deeds` and `letters`, and put down by write_fanin(): so every read of the keyspace comes before
-- the first write. A parent's plan is kept, since a climbing death may come upon it again.

-- @include lib/clock
-- @include lib/lapse
-- @include lib/outbox
-- @include lib/dedup

local FIELDS = { 'state', 'group', 'priority', 'parent', 'parent_queue', 'parent_policy', 'landing', 'dedup' }

local parents = {} -- id -> plan
local deeds = {} -- commands, in order
local letters = {} -- for flow:outbox, in order
local news = {} -- events, in order
local buried = 0 -- parents that die

local function deed(...)
  deeds[#deeds + 1] = { ... }
end

-- parent_plan(b, id) -> the plan of a parent; nil when it has no row; nil and an ERR
local function parent_plan(b, id)
  local f = parents[id]
  if f then return f end
  local row = b .. 'job:' .. id
  local fields = redis.call('HMGET', row, unpack(FIELDS))
  if not alive(row, fields[1]) then return nil end
  local open, err = stored('dependencies', redis.call('GET', row .. ':dependencies'))
  if err then return nil, err end
  local landing
  landing, err = stored('landing', fields[7])
  if err then return nil, err end
  f = { id = id, row = row, open = open, listed = redis.call('HLEN', row .. ':children') }
  f.landing = fields[7] and landing
  f.state, f.group, f.rank, f.parent, f.parent_queue, f.policy = unpack(fields, 1, 6)
  f.dedup = fields[8]
  for _, name in ipairs({ ':processed', ':unsuccessful', ':failed' }) do redis.call('HLEN', row .. name) end
  parents[id] = f
  return f
end

-- OPEN: where no list was kept, by a client that keeps none, the count alone says that a child may be open
local function open_child(f, child)
  if f.listed > 0 then return redis.call('HEXISTS', f.row .. ':children', child) == 1 end
  return f.open > 0
    and not f.landing
    and redis.call('HEXISTS', f.row .. ':processed', child) == 0
    and redis.call('HEXISTS', f.row .. ':unsuccessful', child) == 0
end

-- `landing` counts the children that have still to land; at 0 the field goes
local function land_less(f, fewer)
  if not f.landing then return end
  f.landing = f.landing - fewer
  if f.landing > 0 then
    deed('HSET', f.row, 'landing', digits(f.landing))
  else
    f.landing = nil
    deed('HDEL', f.row, 'landing')
  end
end

-- CLOSE
local function close(f, child)
  f.open = f.open - 1
  if f.listed > 0 then
    f.listed = f.listed - 1
    -- of another queue, and done before this one was told that it had landed
    if string.sub(redis.call('HGET', f.row .. ':children', child), 1, 1) == '+' then land_less(f, 1) end
    deed('HDEL', f.row .. ':children', child)
  end
  if redis.call('HEXISTS', f.row .. ':failed', child) == 1 then deed('HDEL', f.row .. ':failed', child) end
  deed('DECR', f.row .. ':dependencies')
end

-- FREE -> whether the parent waits to be claimed now; or nil and an ERR
local function free(b, f)
  if f.state ~= 'awaiting_children' or f.open > 0 then return false end
  redis.call('ZCARD', b .. 'pending')
  redis.call('ZCARD', b .. 'flow:held')
  local to, err = ready(b, b .. 'pending', f.group, f.rank, false)
  if err then return nil, err end
  f.state = 'pending'
  deed('ZREM', b .. 'flow:held', f.id)
  deed('HSET', f.row, 'state', 'pending')
  deed('ZADD', to.key, to.score, f.id)
  return true
end

-- join(b, parent, child, result) -> `gone`, `known`, `counted` or `released`; or nil and an ERR
local function join(b, parent, child, result)
  local f, err = parent_plan(b, parent)
  if not f then return not err and 'gone' or nil, err end
  if open_child(f, child) then
    close(f, child)
    deed('HSET', f.row .. ':processed', child, result)
    local freed
    freed, err = free(b, f)
    if err then return nil, err end
    return freed and 'released' or 'counted'
  end
  if redis.call('HEXISTS', f.row .. ':unsuccessful', child) == 0 then return 'known' end
  -- it was counted when it died, and was brought back since
  deed('HDEL', f.row .. ':unsuccessful', child)
  deed('HSET', f.row .. ':processed', child, result)
  return 'counted'
end

-- look_fanin(b) -> an ERR or nil: the last reads for what was planned
local function look_fanin(b)
  if #letters > 0 then redis.call('LLEN', b .. 'flow:outbox') end
  if buried == 0 then return nil end
  return select(2, stored('metrics:failed', redis.call('HGET', b .. 'metrics:failed', 'count')))
end

-- write_fanin(b): all but lanes and wakes
local function write_fanin(b)
  for _, words in ipairs(deeds) do redis.call(unpack(words)) end
  if buried > 0 then redis.call('HINCRBY', b .. 'metrics:failed', 'count', buried) end
  push_all('RPUSH', b .. 'flow:outbox', letters)
  -- a courtesy: a caller without the channel's right does all the rest
  for _, event in ipairs(news) do redis.pcall('PUBLISH', b .. 'events', event) end
end
