#!lua flags=no-writes
-- state: where a job is, by the set that holds it.
-- KEYS 1 pending, 2 active, 3 schedule, 4 dead, 5 row   ARGV 1 id, 2 the base emq:{q}:
-- Reply pending (flat or in its lane), active, scheduled, dead, awaiting_children, unknown (a row in no place) or
-- absent (no row and in no set). Cost O(log N).

local id = ARGV[1]
local place
for i, name in ipairs({ 'pending', 'active', 'scheduled', 'dead' }) do
  if redis.call('ZSCORE', KEYS[i], id) then place = place or name end
end
local fields = redis.call('HMGET', KEYS[5], 'state', 'group')
if place then return place end
if fields[2] and redis.call('ZSCORE', ARGV[2] .. 'g:' .. fields[2] .. ':pending', id) then return 'pending' end
if fields[1] == 'awaiting_children' then return fields[1] end
if fields[1] or redis.call('HLEN', KEYS[5]) > 0 then return 'unknown' end
return 'absent'
