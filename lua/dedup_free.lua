#!lua flags=allow-oom
-- dedup_free: an operator frees a dedup id; its job stays.
-- KEYS 1 de:<dedup id>   ARGV none.   Reply 1, or 0 when nobody had it. Cost O(1).

redis.call('GET', KEYS[1]) -- a key of another type is nobody's dedup id
return redis.call('DEL', KEYS[1])
