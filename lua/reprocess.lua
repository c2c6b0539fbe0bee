#!lua flags=allow-oom
-- reprocess: an operator brings a dead job back to wait; its last error and its stall count are forgotten, and the
-- claims so far are credited: they no longer count against its cap.
-- KEYS 1 row, 2 dead, 3 pending   ARGV 1 id, 2 the base emq:{q}:
-- Reply 1; 2 for a flow parent that has open children, which waits for them again; -1 when the row is gone. A job that
-- had a dedup id has it again. Refuses EMQSTATE when the job is not dead, or another has its dedup id. Cost O(log N),
-- O(lanes) for a grouped job.

-- @include lib/lapse
-- @include lib/dedup

local id, b = ARGV[1], ARGV[2]
local dead = redis.call('ZSCORE', KEYS[2], id)
redis.call('ZCARD', KEYS[3])
local fields = redis.call('HMGET', KEYS[1], 'group', 'priority', 'attempts', 'dedup', 'dedup_ttl')
if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
if not dead then return redis.error_reply('EMQSTATE not dead') end
local attempts, err = stored('attempts', fields[3])
if err then return err end
local dedup = fields[4]
if dedup then
  local owner = redis.call('GET', dedup_key(b, dedup))
  if owner and owner ~= id then return redis.error_reply('EMQSTATE dedup id taken') end
end
local open
open, err = stored('dependencies', redis.call('GET', KEYS[1] .. ':dependencies'))
if err then return err end
local to
if open < 1 then
  to, err = ready(b, KEYS[3], fields[1], fields[2], false)
  if err then return err end
end
redis.call('ZCARD', b .. 'flow:held')
local at = now()
local room = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('ZREM', KEYS[2], id)
if dedup then park(b, dedup, id, integer(fields[5]), at) end
redis.call('HDEL', KEYS[1], 'last_error', 'stalled')
redis.call('HSET', KEYS[1], 'state', to and 'pending' or 'awaiting_children', 'credit', digits(attempts))
if not to then
  redis.call('ZADD', b .. 'flow:held', digits(at), id)
  return 2
end
redis.call('ZADD', to.key, to.score, id)
write_lanes(b)
push_wakes(b .. 'wake', room)
return 1
