#!lua flags=no-writes
-- flow: the counts of a job as a flow parent.
-- KEYS 1 row   ARGV none.
-- Reply [dependencies, open children listed, processed, unsuccessful, failed, landing]. Cost O(1).

-- @include lib/number

local row = KEYS[1]
local open, err = stored('dependencies', redis.call('GET', row .. ':dependencies'))
if err then return err end
local landing
landing, err = stored('landing', redis.call('HGET', row, 'landing'))
if err then return err end
local reply = { open }
for _, name in ipairs({ ':children', ':processed', ':unsuccessful', ':failed' }) do
  reply[#reply + 1] = redis.call('HLEN', row .. name)
end
reply[#reply + 1] = landing
return reply
