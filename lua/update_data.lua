#!lua flags=allow-oom
-- update_data: another payload for a job in whatever state.
-- KEYS 1 row   ARGV 1 payload.   Reply 1, or -1 when the row is gone. Cost O(1).

if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
redis.call('HSET', KEYS[1], 'payload', ARGV[1])
return 1
