#!lua flags=allow-oom
-- claim: the first waiting flat job becomes active under a lease. Native twin: EMQ.CLAIM.
-- KEYS 1 pending, 2 active, 3 the base emq:{q}:   ARGV 1 lease ms
-- Reply [id, payload, attempts], attempts being the fencing token; empty when paused, at a limit, when nothing waits,
-- or when the head was a ghost, which is dropped. Refuses ERR lease. Cost O(log N).

-- @include lib/limits

local lease, err = positive('lease', ARGV[1])
if err then return err end
local b = KEYS[3]
local id = redis.call('ZRANGE', KEYS[1], '0', '0')[1]
redis.call('ZCARD', KEYS[2])
local allowed
allowed, err = allowance(b, KEYS[2])
if err then return err end
if allowed.left < 1 or not id then return {} end

local row = b .. 'job:' .. id
local fields = redis.call('HMGET', row, 'attempts', 'payload', 'lease_epoch')
if not fields[1] and redis.call('HLEN', row) == 0 then
  redis.call('ZPOPMIN', KEYS[1])
  return {}
end
local attempts
attempts, err = stored('attempts', fields[1])
if err then return err end
local deadline = digits(now() + lease)

redis.call('ZPOPMIN', KEYS[1])
redis.call('HINCRBY', row, 'attempts', 1)
redis.call('HSET', row, 'state', 'active')
-- the lease is now this script's: an epoch that a native claim left behind says nothing about it
if fields[3] then redis.call('HDEL', row, 'lease_epoch') end
redis.call('ZADD', KEYS[2], deadline, id)
spend(b, allowed, 1)
return { id, fields[2], attempts + 1 }
