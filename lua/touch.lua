-- touch: writes a job's state to itself, so that the caller's WAIT has a write to wait for. No transition: nothing
-- changes. WAIT asks about the last write of its own connection, and answers at once on one that wrote nothing: whoever
-- met a job that was there already has to write, or its WAIT means nothing.
-- KEYS 1 row   ARGV none.   Reply 1, or 0 when the row is gone. Cost O(1).

local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 0 end

redis.call('HSET', KEYS[1], 'state', state)
return 1
