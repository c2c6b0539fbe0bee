#!lua flags=allow-oom
-- metrics_roll: what was counted since the last minute goes into the history, minute by minute.
-- KEYS 1 the base emq:{q}:   ARGV none.
-- Reply how many minutes went. Cost O(minutes), 1440 at most.

-- @include lib/number
-- @include lib/clock
-- @include lib/push

local MINUTES = 1440
local b = KEYS[1]
local rolled = redis.call('HMGET', b .. 'metrics:rolled', 'minute', 'completed', 'failed')
local minute = math.floor(now() / 60000)
local counts, moves = {}, {}
local since, err = stored('minute', rolled[1])
if err then return err end
for i, name in ipairs({ 'completed', 'failed' }) do
  counts[i], err = stored('metrics:' .. name, redis.call('HGET', b .. 'metrics:' .. name, 'count'))
  if err then return err end
  local before
  before, err = stored('rolled', rolled[1 + i])
  if err then return err end
  moves[i] = { key = b .. 'metrics:' .. name .. ':data', count = math.max(0, counts[i] - before) }
  redis.call('LLEN', moves[i].key)
end
local gone = rolled[1] and minute - since or 0
if rolled[1] and gone < 1 then return 0 end

for _, move in ipairs(rolled[1] and moves or {}) do
  local items = {}
  for i = 1, math.min(gone, MINUTES) do items[i] = '0' end
  items[#items] = digits(move.count)
  push_all('LPUSH', move.key, items)
  redis.call('LTRIM', move.key, '0', digits(MINUTES - 1))
end
redis.call(
  'HSET', b .. 'metrics:rolled', 'minute', digits(minute), 'completed', digits(counts[1]), 'failed', digits(counts[2])
)
return gone
