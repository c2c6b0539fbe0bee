#!lua flags=no-writes
-- get: the row of a job, field after field.
-- KEYS 1 row   ARGV none.   Reply [field, value ...], empty when there is no row. Cost O(fields).

return redis.call('HGETALL', KEYS[1])
