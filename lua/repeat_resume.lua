#!lua flags=allow-oom
-- repeat_resume: a paused repeat fires again.
-- KEYS 1 the base emq:{q}:   ARGV 1 name, 2 next slot (Unix ms; empty: none is left)
-- Reply 1; 0 when it was not paused; -1 without a record. Refuses ERR next. Cost O(log N).

-- @include lib/repeat
-- @include lib/wake

local b, name = KEYS[1], ARGV[1] or ''
local next_slot, err
if ARGV[2] ~= '' then
  next_slot, err = anyint('next', ARGV[2])
  if err then return err end
end
local stands = record(b, name)
redis.call('ZCARD', b .. 'repeat')
if not stands then return -1 end
if not stands.paused then return 0 end
if next_slot and first_repeat(b, name, next_slot) then wakes = 1 end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('HDEL', repeat_key(b, name), 'paused', 'next')
if next_slot then redis.call('HSET', repeat_key(b, name), 'next', digits(next_slot)) end
redis.call('ZADD', b .. 'repeat', next_slot and digits(next_slot) or 'inf', name)
push_wakes(b .. 'wake', tokens)
return 1
