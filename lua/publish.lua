#!lua flags=allow-oom
-- publish: lifecycle events of a queue, in order.
-- KEYS 1 the base emq:{q}:   ARGV one or more messages
-- Publishes each on <base>events. Reply how many messages. Refuses ERR publish. Cost O(messages * subscribers).

if #ARGV == 0 then return redis.error_reply('ERR publish needs a message') end
for _, message in ipairs(ARGV) do redis.call('PUBLISH', KEYS[1] .. 'events', message) end
return #ARGV
