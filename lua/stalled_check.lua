#!lua flags=allow-oom
-- stalled_check: jobs whose lease has lapsed are counted as stalled, and are dead at the number. Native twin:
-- EMQ.STALLED.CHECK, which leaves a lease from before a server restart uncounted; here every lapse counts.
-- KEYS 1 active, 2 pending, 3 dead   ARGV 1 the base emq:{q}:, 2 max stalled, 3 limit
-- Reply [[recovered ids], [dead ids]]; a ghost uses up a place in the limit and is in neither. Refuses ERR max, ERR
-- limit. Cost O(limit * log N), and O(lanes) for each group among them.

-- @include lib/lapse
-- @include lib/outbox
-- @include lib/room
-- @include lib/dedup

local b = ARGV[1]
local max, err = positive('max', ARGV[2])
if err then return err end
local limit
limit, err = positive('limit', ARGV[3])
if err then return err end
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])

local at = now()
local moves, recovered, dead, letters = {}, {}, {}, {}
for i, id in ipairs(due(KEYS[1], at, limit)) do
  local row = b .. 'job:' .. id
  local fields = redis.call(
    'HMGET', row, 'state', 'group', 'priority', 'stalled', 'parent', 'parent_queue', 'parent_policy', 'dedup'
  )
  local move = { id = id, row = row }
  moves[i] = move
  if alive(row, fields[1]) then
    move.stalled, err = stored('stalled', fields[4])
    if err then return err end
    move.stalled = move.stalled + 1
    if move.stalled < max then
      move.to, err = ready(b, KEYS[2], fields[2], fields[3], true)
      if err then return err end
      recovered[#recovered + 1] = id
    else
      if fields[2] then
        local l
        l, err = lane(b, fields[2])
        if err then return err end
        leave(l)
        ring(l)
      end
      dead[#dead + 1] = id
      move.freed = parked(b, id, fields[8])
      if fields[5] then
        letters[#letters + 1] = death_entry(b, id, fields[5], fields[6], fields[7], 'stalled')
      end
    end
  end
end
room(b, KEYS[1], #moves)
local tokens = (#recovered > 0 or wakes > 0) and wake_room(b .. 'wake') or 0
if #dead > 0 then
  err = select(2, stored('metrics:failed', redis.call('HGET', b .. 'metrics:failed', 'count')))
  if err then return err end
end
if #letters > 0 then redis.call('LLEN', b .. 'flow:outbox') end

for _, move in ipairs(moves) do
  redis.call('ZREM', KEYS[1], move.id)
  if move.to then
    redis.call('HSET', move.row, 'stalled', digits(move.stalled), 'state', 'pending')
    redis.call('ZADD', move.to.key, move.to.score, move.id)
  elseif move.stalled then
    redis.call('HSET', move.row, 'stalled', digits(move.stalled), 'state', 'dead', 'last_error', 'stalled')
    redis.call('ZADD', KEYS[3], digits(at), move.id)
    if move.freed then redis.call('DEL', move.freed) end
  end
end
write_lanes(b)
if #dead > 0 then redis.call('HINCRBY', b .. 'metrics:failed', 'count', #dead) end
push_all('RPUSH', b .. 'flow:outbox', letters)
push_wakes(b .. 'wake', tokens)
return { recovered, dead }
