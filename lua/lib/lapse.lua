-- Ids whose score is due (score <= NOW), and their way back to the waiting jobs (READY).

-- @include lib/row
-- @include lib/clock
-- @include lib/lanes

-- due(set, at, limit) -> up to limit ids, earliest first
local function due(set, at, limit)
  return redis.call('ZRANGE', set, '-inf', digits(at), 'BYSCORE', 'LIMIT', '0', digits(limit))
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

-- bring_back(set, pending, b, limit, leaves) -> how many due ids of `set` wait again, or an ERR
local function bring_back(set, pending, b, limit, leaves)
  redis.call('ZCARD', pending)
  local moves, count = {}, 0
  for i, id in ipairs(due(set, now(), limit)) do
    local row = b .. 'job:' .. id
    local fields = redis.call('HMGET', row, 'state', 'group', 'priority')
    moves[i] = { id = id, row = row }
    if alive(row, fields[1]) then
      local err
      moves[i].to, err = ready(b, pending, fields[2], fields[3], leaves)
      if err then return err end
      count = count + 1
    end
  end
  local room = count > 0 and wake_room(b .. 'wake') or 0

  for _, move in ipairs(moves) do
    redis.call('ZREM', set, move.id)
    if move.to then
      redis.call('HSET', move.row, 'state', 'pending')
      redis.call('ZADD', move.to.key, move.to.score, move.id)
    end
  end
  write_lanes(b)
  push_wakes(b .. 'wake', room)
  return count
end
