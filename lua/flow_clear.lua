#!lua flags=allow-oom
-- flow_clear: children whose parents, in other queues, know that they have landed.
-- KEYS 1 flow:landed   ARGV child id ...   Reply how many left the set. Cost O(children).

redis.call('ZCARD', KEYS[1])
local left = 0
for i = 1, #ARGV, 1000 do left = left + redis.call('ZREM', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV))) end
return left
