-- Ids whose score is due (score <= NOW), and their way back to the waiting jobs (READY).

-- @include lib/row
-- @include lib/clock
-- @include lib/lanes

-- due(set, at, limit, offset) -> up to limit ids, earliest first, from place offset on
local function due(set, at, limit, offset)
  return redis.call('ZRANGE', set, '-inf', digits(at), 'BYSCORE', 'LIMIT', digits(offset or 0), digits(limit))
end

-- alive(row, field) -> false for a ghost, an id whose row is not there; `field` is one that every row has
local function alive(row, field)
  return field or redis.call('HLEN', row) > 0
end

-- ready(b, pending, group, rank, leaves) -> {key, score} where the job will wait, or nil and an ERR; plans the ring or
-- the wake. `leaves` says that the job was in flight.
local function ready(b, pending, group, rank, leaves)
  if not group then
    wakes = wakes + 1
    return { key = pending, score = priority(rank) }
  end
  local l, err = lane(b, group)
  if err then return nil, err end
  if leaves then leave(l) end
  arrive(l)
  return { key = l.key, score = priority(rank) }
end

-- plan_back(ids, pending, b, leaves, only) -> how many of the ids wait again, and the moves; or nil, nil and an ERR.
-- `only`: those of that group, and no ghosts.
local function plan_back(ids, pending, b, leaves, only)
  redis.call('ZCARD', pending)
  local moves, count = {}, 0
  for _, id in ipairs(ids) do
    local row = b .. 'job:' .. id
    local fields = redis.call('HMGET', row, 'state', 'group', 'priority')
    if not only or fields[2] == only then
      local move = { id = id, row = row }
      moves[#moves + 1] = move
      if alive(row, fields[1]) then
        local err
        move.to, err = ready(b, pending, fields[2], fields[3], leaves)
        if err then return nil, nil, err end
        count = count + 1
      end
    end
  end
  return count, moves
end

-- write_back(set, moves)
local function write_back(set, moves)
  for _, move in ipairs(moves) do
    redis.call('ZREM', set, move.id)
    if move.to then
      redis.call('HSET', move.row, 'state', 'pending')
      redis.call('ZADD', move.to.key, move.to.score, move.id)
    end
  end
end
