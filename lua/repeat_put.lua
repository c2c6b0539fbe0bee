#!lua
-- repeat_put: a repeat is registered, or what its jobs get is changed. The same spec again keeps its slots.
-- KEYS 1 the base emq:{q}:   ARGV 1 name, 2 spec, 3 first slot (Unix ms), 4 limit, 5 end (Unix ms), 6 payload, 7
-- priority, 8 opts, 9 group (4, 5, 7, 8 and 9 may be empty)
-- Reply [`created`, `changed` or `kept`, the next slot or nil]. Refuses ERR a repeat, ERR first, ERR limit, ERR end.
-- Cost O(log N).

-- @include lib/repeat
-- @include lib/wake

local b, name, spec = KEYS[1], ARGV[1], ARGV[2]
if #ARGV ~= 9 then return redis.error_reply('ERR a repeat is nine arguments') end
local first, err = anyint('first', ARGV[3])
if err then return err end
local last
if ARGV[4] ~= '' then
  err = select(2, positive('limit', ARGV[4]))
  if err then return err end
end
if ARGV[5] ~= '' then
  last, err = anyint('end', ARGV[5])
  if err then return err end
end
local stands = record(b, name)
redis.call('ZCARD', b .. 'repeat')
local template = {}
for i, field in ipairs({ 'payload', 'priority', 'opts', 'group' }) do
  template[i] = { field = field, value = ARGV[5 + i] }
end
local same = stands and stands.spec == spec
local next_slot = first
if last and first > last then next_slot = nil end
if same then next_slot = integer(stands.next) end
local runs = next_slot and not (stands and stands.paused)
if not same and runs and first_repeat(b, name, next_slot) then wakes = 1 end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

local fields = { 'name', name, 'spec', spec }
if not same then
  if stands then redis.call('DEL', repeat_key(b, name)) end
  local bounds = { { 'limit', ARGV[4] }, { 'end', ARGV[5] }, { 'next', next_slot and digits(next_slot) or '' } }
  for _, pair in ipairs(bounds) do
    if pair[2] ~= '' then
      fields[#fields + 1] = pair[1]
      fields[#fields + 1] = pair[2]
    end
  end
  fields[#fields + 1] = 'count'
  fields[#fields + 1] = '0'
  if stands and stands.paused then
    fields[#fields + 1] = 'paused'
    fields[#fields + 1] = '1'
  end
end
for _, part in ipairs(template) do
  if part.value ~= '' or part.field == 'payload' then
    fields[#fields + 1] = part.field
    fields[#fields + 1] = part.value
  elseif same then
    redis.call('HDEL', repeat_key(b, name), part.field)
  end
end
redis.call('HSET', repeat_key(b, name), unpack(fields))
redis.call('ZADD', b .. 'repeat', runs and digits(next_slot) or 'inf', name)
push_wakes(b .. 'wake', tokens)
return { same and 'kept' or stands and 'changed' or 'created', next_slot and digits(next_slot) or false }
