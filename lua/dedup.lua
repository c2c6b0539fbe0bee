#!lua flags=no-writes
-- dedup: who has a dedup id.
-- KEYS 1 de:<dedup id>   ARGV none.   Reply [the id of the job, or nil; the TTL in ms, -1: none]. Cost O(1).

local owner = redis.call('GET', KEYS[1])
return { owner, owner and redis.call('PTTL', KEYS[1]) or -1 }
