#!lua flags=allow-oom
-- pause: no job of the queue is claimed any more; admissions, settles and sweeps go on.
-- KEYS 1 meta   ARGV none.   Reply 1. Cost O(1).

redis.call('HSET', KEYS[1], 'paused', '1')
return 1
