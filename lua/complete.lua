#!lua flags=allow-oom
-- complete: the job is done and leaves no key behind. Native twin: EMQ.COMPLETE.
-- KEYS 1 active, 2 row   ARGV 1 id, 2 token, 3 the base emq:{q}:
-- Reply 1, or 0 when the row is gone (done already). Refuses EMQSTALE for another token, EMQSTATE for a flow child
-- without its flow keys and for a job that is neither active nor waiting. Cost O(log N), O(lanes) for a grouped job.

-- @include lib/row
-- @include lib/settle
-- @include lib/retire

local id, token, b = ARGV[1], ARGV[2], ARGV[3]
local active = redis.call('ZSCORE', KEYS[1], id)
local fields = redis.call('HMGET', KEYS[2], 'attempts', 'group', 'parent')
if not fields[1] and redis.call('HLEN', KEYS[2]) == 0 then return 0 end
local _, err = fenced('complete', fields[1], token)
if err then return err end
if fields[3] then return redis.error_reply('EMQSTATE complete flow keys') end
local place
place, err = held('complete', b, id, active, fields[2], b .. 'pending')
if err then return err end
_, err = stored('metrics:completed', redis.call('HGET', b .. 'metrics:completed', 'count'))
if err then return err end
local keys = retirees(KEYS[2])
local room = wakes > 0 and wake_room(b .. 'wake') or 0

depart(b, id, place)
redis.call('DEL', unpack(keys))
redis.call('HINCRBY', b .. 'metrics:completed', 'count', 1)
push_wakes(b .. 'wake', room)
return 1
