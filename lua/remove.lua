#!lua flags=allow-oom
-- remove: an operator takes a job out, wherever it is.
-- KEYS 1 row, 2 pending, 3 active, 4 schedule, 5 dead [, 6 a dedup key]   ARGV 1 id, 2 the base emq:{q}:
-- Reply 1, or -1 when the row is gone. The dedup key goes too if it holds this id, as the job's own does. A flow child
-- leaves word for its parent on flow:outbox; the children of a flow parent go on. Refuses EMQLOCK while a worker's lock
-- is there. Cost O(log N), O(lanes) for a grouped job.

-- @include lib/expel
-- @include lib/room

local id, b = ARGV[1], ARGV[2]
local owner = KEYS[6] and redis.call('GET', KEYS[6])
local job = whereabouts(id, KEYS[1], { KEYS[2], KEYS[3], KEYS[4], KEYS[5], b .. 'flow:held' })
if not job then return -1 end
if locked(job) then return redis.error_reply('EMQLOCK job is locked') end
local err = leave_lane(job, b)
if err then return err end
goodbye(job, b, 'removed', nil, true)
if owner == id then job.keys[#job.keys + 1] = KEYS[6] end
room(b, KEYS[3], job.held[KEYS[3]] and 1 or 0)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

write_expelled(b)
push_wakes(b .. 'wake', tokens)
return 1
