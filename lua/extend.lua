#!lua flags=allow-oom
-- extend: the worker renews its lease from now on; it may also shorten it.
-- KEYS 1 active, 2 row   ARGV 1 id, 2 token, 3 lease ms
-- Reply 1, or -1 when the row is gone. Refuses ERR lease; EMQSTALE for another token, EMQSTATE when the job is not
-- active (a reaped job is not put back). Cost O(log N).

-- @include lib/row
-- @include lib/clock

local lease, err = positive('lease', ARGV[3])
if err then return err end
local active = redis.call('ZSCORE', KEYS[1], ARGV[1])
local attempts = redis.call('HGET', KEYS[2], 'attempts')
if not attempts and redis.call('HLEN', KEYS[2]) == 0 then return -1 end
err = select(2, fenced('extend', attempts, ARGV[2]))
if err then return err end
if not active then return redis.error_reply('EMQSTATE extend not active') end

redis.call('ZADD', KEYS[1], digits(now() + lease), ARGV[1])
return 1
