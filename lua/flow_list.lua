#!lua
-- flow_list: more children of a held flow parent are listed; those that are listed already stay as they are.
-- KEYS 1 row   ARGV child id, child queue (empty: the parent's) for each
-- Reply how many are not yet listed; 0 when none were left to list: nothing changes then; -1 when the row is gone.
-- Refuses ERR children; EMQSTATE when these would be more than the parent was held for. Cost O(children).

-- @include lib/push
-- @include lib/landing

local row = KEYS[1]
if #ARGV % 2 ~= 0 then return redis.error_reply('ERR children must be ids and queues') end
if redis.call('HLEN', row) == 0 then return -1 end
local open, err = stored('dependencies', redis.call('GET', row .. ':dependencies'))
if err then return err end
local missing = open - redis.call('HLEN', row .. ':children')
if missing <= 0 then return 0 end
local known = {}
for i = 1, #ARGV, 2 do
  if redis.call('HEXISTS', row .. ':children', ARGV[i]) == 1 then known[ARGV[i]] = true end
end
local words, given = listing(1, known)
missing = missing - given
if missing < 0 then return redis.error_reply('EMQSTATE flow children differ') end

push_all('HSET', row .. ':children', words)
return missing
