#!lua flags=allow-oom
-- reassign: a job that waits in a lane waits in another.
-- KEYS 1 row, 2 the base emq:{q}:   ARGV 1 id, 2 group
-- Reply 1; 0 when it is that lane's already; -1 without a row or a group; -2 when it does not wait in its lane.
-- Refuses ERR group; ERR stored. Cost O(log N), O(lanes).

-- @include lib/lanes

local id, group, b = ARGV[1], ARGV[2], KEYS[2]
if not group or group == '' then return redis.error_reply('ERR group must be given') end
local from = redis.call('HGET', KEYS[1], 'group')
if not from then return -1 end
if from == group then return 0 end
local score = redis.call('ZSCORE', lane_key(b, from), id)
if not score then return -2 end
local source, err = lane(b, from)
if err then return err end
local target
target, err = lane(b, group)
if err then return err end
source.waiting = source.waiting - 1
arrive(target)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('ZREM', source.key, id)
redis.call('ZADD', target.key, score, id)
redis.call('HSET', KEYS[1], 'group', group)
if source.ringed and source.waiting == 0 then redis.call('LREM', b .. 'ring', '0', from) end
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return 1
