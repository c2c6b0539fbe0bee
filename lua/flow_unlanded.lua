#!lua flags=no-writes
-- flow_unlanded: which of these children a flow parent still waits to see landed.
-- KEYS 1 row   ARGV child id ...   Reply their ids. Cost O(children).

-- @include lib/landing

redis.call('HLEN', KEYS[1])
local found = {}
for _, id in ipairs(ARGV) do
  if unlanded(redis.call('HGET', KEYS[1] .. ':children', id)) then found[#found + 1] = id end
end
return found
