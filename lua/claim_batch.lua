#!lua flags=allow-oom
-- claim_batch: up to size waiting flat jobs become active on one deadline. Native twin: EMQ.CLAIM.BATCH.
-- KEYS 1 pending, 2 active, 3 the base emq:{q}:   ARGV 1 lease ms, 2 size
-- Reply [[id, payload, attempts]...], first first; empty when paused, at a limit, or when nothing waits. Ghosts are
-- dropped and do not count. Refuses ERR lease, ERR size. Cost O(size + ghosts) times log N.

-- @include lib/limits

local lease, err = positive('lease', ARGV[1])
if err then return err end
local size
size, err = positive('size', ARGV[2])
if err then return err end
local b = KEYS[3]
local waiting = redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', KEYS[2])
local allowed
allowed, err = allowance(b, KEYS[2])
if err then return err end
if allowed.left < 1 then return {} end
size = math.min(size, allowed.left)

-- the look: heads in steps, until enough of them have a row
local claimed, looked = {}, 0
while #claimed < size and looked < waiting do
  local last = math.min(looked + math.min(size - #claimed, 1000), waiting) - 1
  for _, id in ipairs(redis.call('ZRANGE', KEYS[1], digits(looked), digits(last))) do
    local row = b .. 'job:' .. id
    local fields = redis.call('HMGET', row, 'attempts', 'payload', 'lease_epoch')
    if fields[1] or redis.call('HLEN', row) > 0 then
      local attempts
      attempts, err = stored('attempts', fields[1])
      if err then return err end
      claimed[#claimed + 1] = { id, fields[2], attempts + 1, row = row, epoch = fields[3] }
    end
  end
  looked = last + 1
end
if looked == 0 then return {} end
local deadline = digits(now() + lease)

redis.call('ZPOPMIN', KEYS[1], digits(looked))
for _, job in ipairs(claimed) do
  redis.call('HSET', job.row, 'attempts', digits(job[3]), 'state', 'active')
  if job.epoch then redis.call('HDEL', job.row, 'lease_epoch') end
  redis.call('ZADD', KEYS[2], deadline, job[1])
end
spend(b, allowed, #claimed)
return claimed
