-- Repeats: their records, and their places in `repeat`.

-- @include lib/number
-- @include lib/bytes

local function repeat_key(b, name)
  return b .. 'repeat:' .. name
end

-- first_repeat(b, name, at) -> whether a repeat of that name and slot is the first of all
local function first_repeat(b, name, at)
  local head = redis.call('ZRANGE', b .. 'repeat', '0', '1', 'WITHSCORES')
  local other = head[1] == name and 3 or 1
  if not head[other] then return true end
  local score = tonumber(head[other + 1])
  return at < score or (at == score and precedes(name, head[other]))
end

-- record(b, name) -> the fields by name, nil when there is none
local function record(b, name)
  local flat = redis.call('HGETALL', repeat_key(b, name))
  if #flat == 0 then return nil end
  local fields = {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end
