#!lua
-- repeat_fire: a slot of a repeat has come: its job is added and the next slot is set, in one step and only once.
-- KEYS 1 the base emq:{q}:   ARGV 1 name, 2 slot (Unix ms), 3 id, 4 opts (may be empty), 5 next slot (empty: none)
-- Reply `fired`; `gone` without a record; `moved` when another slot is next, `early` when its time has not come,
-- `duplicate` when the id has a row: nothing changes. Refuses EMQKIND; ERR slot, ERR next; ERR stored. Cost O(log N),
-- O(lanes) for a lane.

-- @include lib/clock
-- @include lib/lapse
-- @include lib/admit
-- @include lib/repeat

local b, name, id, opts = KEYS[1], ARGV[1], ARGV[3] or '', ARGV[4]
local err = admissible(id)
if err then return err end
if #ARGV ~= 5 then return redis.error_reply('ERR a fire is five arguments') end
local slot
slot, err = anyint('slot', ARGV[2])
if err then return err end
local next_slot
if ARGV[5] ~= '' then
  next_slot, err = anyint('next', ARGV[5])
  if err then return err end
  if next_slot <= slot then return redis.error_reply('ERR next must be later than slot') end
end
local stands = record(b, name)
local score = redis.call('ZSCORE', b .. 'repeat', name)
if not stands then
  if score then redis.call('ZREM', b .. 'repeat', name) end
  return 'gone'
end
if tonumber(score) ~= slot then return 'moved' end
if slot > now() then return 'early' end
local row = b .. 'job:' .. id
if redis.call('HLEN', row) > 0 then return 'duplicate' end
local count
count, err = stored('count', stands.count)
if err then return err end
local limit = integer(stands.limit)
local last = integer(stands['end'])
if (limit and count + 1 >= limit) or (last and next_slot and next_slot > last) then next_slot = nil end
redis.call('ZCARD', b .. 'pending')
local to
to, err = ready(b, b .. 'pending', stands.group, stands.priority, false)
if err then return err end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

admit(row, 'pending', stands.payload or '', stands.priority, opts, stands.group and { 'group', stands.group })
redis.call('ZADD', to.key, to.score, id)
redis.call('HSET', repeat_key(b, name), 'count', digits(count + 1), 'last', digits(slot))
if next_slot then
  redis.call('HSET', repeat_key(b, name), 'next', digits(next_slot))
else
  redis.call('HDEL', repeat_key(b, name), 'next')
end
redis.call('ZADD', b .. 'repeat', next_slot and digits(next_slot) or 'inf', name)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return 'fired'
