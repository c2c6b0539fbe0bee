#!lua flags=allow-oom
-- flow_cancelled: children that were to be cancelled, and were.
-- KEYS 1 flow:cancel:<parent id>   ARGV child id ...   Reply how many are left. Cost O(children).

local left = redis.call('HLEN', KEYS[1])
for i = 1, #ARGV, 1000 do left = left - redis.call('HDEL', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV))) end
return left
