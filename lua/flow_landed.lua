#!lua flags=allow-oom
-- flow_landed: a flow parent learns that children have landed in other queues.
-- KEYS 1 row   ARGV child id ...
-- Reply how many have still to land; -1 when the row is gone. Cost O(children).

-- @include lib/push
-- @include lib/landing

local row = KEYS[1]
if redis.call('HLEN', row) == 0 then return -1 end
local landing, err = stored('landing', redis.call('HGET', row, 'landing'))
if err then return err end
local marks, seen = {}, {}
for _, id in ipairs(ARGV) do
  local value = redis.call('HGET', row .. ':children', id)
  if unlanded(value) and not seen[id] then
    seen[id] = true
    marks[#marks + 1] = id
    marks[#marks + 1] = string.sub(value, 2)
  end
end
return mark_landed(row, landing, marks)
