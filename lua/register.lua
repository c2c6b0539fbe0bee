#!lua flags=allow-oom
-- register: a queue is named where queues are looked for.
-- KEYS 1 {emq}:queues   ARGV 1 name, 2 `add` or `remove`
-- Reply 1, or 0 when it was so already. Refuses ERR mode. Cost O(log queues).

-- @include lib/clock
-- @include lib/number

if ARGV[2] ~= 'add' and ARGV[2] ~= 'remove' then return redis.error_reply('ERR mode must be add or remove') end
redis.call('ZCARD', KEYS[1])
if ARGV[2] == 'remove' then return redis.call('ZREM', KEYS[1], ARGV[1]) end
return redis.call('ZADD', KEYS[1], 'NX', digits(now()), ARGV[1])
