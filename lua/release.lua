#!lua flags=allow-oom
-- release: a worker hands its job back untried; the claim it spent is credited. Native twin: EMQ.RELEASE.
-- KEYS 1 active, 2 pending, 3 row   ARGV 1 id, 2 token, 3 the base emq:{q}:
-- Reply 1. Refuses EMQSTALE when the row is gone or for another token, EMQSTATE when the job is not active. Cost
-- O(log N), O(lanes) for a grouped job.

-- @include lib/lapse
-- @include lib/room

local id, b = ARGV[1], ARGV[3]
local active = redis.call('ZSCORE', KEYS[1], id)
redis.call('ZCARD', KEYS[2])
local fields = redis.call('HMGET', KEYS[3], 'attempts', 'group', 'priority', 'credit')
if not alive(KEYS[3], fields[1]) then return redis.error_reply('EMQSTALE job gone') end
local _, err = fenced('release', fields[1], ARGV[2])
if err then return err end
if not active then return redis.error_reply('EMQSTATE release not active') end
local credit
credit, err = stored('credit', fields[4])
if err then return err end
local to
to, err = ready(b, KEYS[2], fields[2], fields[3], true)
if err then return err end
room(b, KEYS[1], 1)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

redis.call('ZREM', KEYS[1], id)
redis.call('HSET', KEYS[3], 'state', 'pending', 'credit', digits(credit + 1))
redis.call('ZADD', to.key, to.score, id)
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return 1
