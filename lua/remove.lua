#!lua flags=allow-oom
-- remove: an operator takes a job out, wherever it is.
-- KEYS 1 row, 2 pending, 3 active, 4 schedule, 5 dead [, 6 the dedup key]   ARGV 1 id, 2 the base emq:{q}:
-- Reply 1, or -1 when the row is gone. The dedup key goes too if it holds this id. A flow child leaves word for its
-- parent on flow:outbox; the children of a flow parent go on. Refuses EMQLOCK while a worker's lock is there. Cost
-- O(log N), O(lanes) for a grouped job.

-- @include lib/expel

local id, b = ARGV[1], ARGV[2]
local owner = KEYS[6] and redis.call('GET', KEYS[6])
local job = whereabouts(id, KEYS[1], { KEYS[2], KEYS[3], KEYS[4], KEYS[5], b .. 'flow:held' })
if not job then return -1 end
return expel(job, b, 'removed', owner == id and KEYS[6]) or 1
