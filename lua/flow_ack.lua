#!lua flags=allow-oom
-- flow_ack: letters that were delivered leave the outbox, and so do those that cannot be.
-- KEYS 1 flow:outbox, 2 the base emq:{q}:   ARGV 1 the edition with which they were read, then for each: `done` or
-- `poison`, the letter
-- By value: whoever else has delivered the same letter may have taken it out already. A letter of a death may come
-- again with the same bytes: it goes only if no other of its kind went since they were read (the edition, which counts
-- that). Reply how many went. Refuses ERR edition, ERR letters, ERR verdict. Cost O(places of the letters).

-- @include lib/number
-- @include lib/push

local POISON_CAP = 1000

local b = KEYS[2]
local edition, err = anyint('edition', ARGV[1])
if err then return err end
if #ARGV < 3 or #ARGV % 2 ~= 1 then return redis.error_reply('ERR letters must be a verdict and a letter each') end
for i = 2, #ARGV, 2 do
  if ARGV[i] ~= 'done' and ARGV[i] ~= 'poison' then return redis.error_reply('ERR verdict must be done or poison') end
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', b .. 'flow:poison')
local current
current, err = stored('letters', redis.call('HGET', b .. 'meta', 'letters'))
if err then return err end

local gone, poison, counted = 0, {}, false
for i = 2, #ARGV, 2 do
  local text = ARGV[i + 1]
  local once = string.byte(text, 1) ~= 0
  if (once or edition == current) and redis.call('LREM', KEYS[1], '1', text) == 1 then
    gone = gone + 1
    counted = counted or not once
    if ARGV[i] == 'poison' then poison[#poison + 1] = text end
  end
end
if counted then redis.call('HINCRBY', b .. 'meta', 'letters', '1') end
if #poison > 0 then
  push_all('LPUSH', b .. 'flow:poison', poison)
  redis.call('LTRIM', b .. 'flow:poison', '0', tostring(POISON_CAP - 1))
end
return gone
