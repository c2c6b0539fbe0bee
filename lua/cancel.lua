#!lua flags=allow-oom
-- cancel: a waiting job is taken out; a running one is not touched, but whoever runs it is told.
-- KEYS 1 row, 2 pending, 3 active, 4 schedule, 5 dead   ARGV 1 id, 2 reason, 3 the base emq:{q}:
-- Publishes {"job":id,"reason":reason} on <base>cancel for a running job. Reply `removed`, `signalled`, `dead` (nothing
-- changes) or `gone`. A flow child that goes leaves word for its parent on flow:outbox, and the open children of a flow
-- parent that goes are to be cancelled in their turn. Refuses EMQLOCK while a worker's
-- lock is on a waiting job. Cost O(log N), O(lanes) for a grouped job.

-- @include lib/expel

local id, reason, b = ARGV[1], ARGV[2], ARGV[3]
local job = whereabouts(id, KEYS[1], { KEYS[2], KEYS[3], KEYS[4], KEYS[5], b .. 'flow:held' })
if not job then return 'gone' end
if job.held[KEYS[3]] then
  redis.call('PUBLISH', b .. 'cancel', cjson.encode({ job = id, reason = reason }))
  return 'signalled'
end
if job.held[KEYS[5]] then return 'dead' end
if locked(job) then return redis.error_reply('EMQLOCK job is locked') end
local err = leave_lane(job, b)
if err then return err end
goodbye(job, b, 'cancelled: ' .. reason, reason, true)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

write_expelled(b)
push_wakes(b .. 'wake', tokens)
return 'removed'
