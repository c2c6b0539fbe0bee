#!lua flags=no-writes
-- consult: whether a limit of the queue would hold back a claim now, for a caller that asks before it does.
-- KEYS 1 meta, 2 active, 3 limiter   ARGV none.   Reply 1. Refuses EMQRATE at a ceiling; ERR stored. Cost O(1).

-- @include lib/clock
-- @include lib/bucket

local meta = redis.call('HMGET', KEYS[1], 'concurrency', 'max', 'duration')
local held = redis.call('ZCARD', KEYS[2])
local text = redis.call('GET', KEYS[3])
local concurrency, err = stored('concurrency', meta[1])
if err then return err end
local max
max, err = stored('max', meta[2])
if err then return err end
local full
full, err = stored('limiter', text)
if err then return err end
if concurrency >= 1 and held >= concurrency then return redis.error_reply('EMQRATE at concurrency ceiling') end
local at = now()
local open
if max >= 1 then
  open = bucket(full, max, window(meta[3]), at).tokens > 0
else
  open = full <= 1000 * at
end
if not open then return redis.error_reply('EMQRATE at rate ceiling') end
return 1
