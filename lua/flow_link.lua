#!lua flags=no-writes
-- flow_link: a flow child's way to its parent.
-- KEYS 1 row   ARGV none.   Reply [parent, parent_queue, parent_policy], nil where there is none; empty without a row.

local link = redis.call('HMGET', KEYS[1], 'parent', 'parent_queue', 'parent_policy')
if not link[1] and redis.call('HLEN', KEYS[1]) == 0 then return {} end
return link
