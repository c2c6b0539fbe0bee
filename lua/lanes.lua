#!lua flags=no-writes
-- lanes: groups of a queue, a page of those of one place. Every lane that has jobs, waiting or in flight, is in one of
-- ring, paused, gactive and gwait.
-- KEYS 1 the base emq:{q}:   ARGV 1 ring, paused, gactive, gwait, glimit, gweight or gmax, 2 cursor, 3 count
-- Reply [next cursor, `0` at the end, [group ...]]. The ring and gwait come whole. Refuses ERR unknown place, ERR
-- count. Cost O(count), O(lanes) for the two.

-- @include lib/number

local MOST = '9999'
local place, cursor, b = ARGV[1], ARGV[2], KEYS[1]
local HASHES = { gactive = true, glimit = true, gweight = true, gmax = true }
local count, err = positive('count', ARGV[3])
if err then return err end
if place == 'ring' then return { '0', redis.call('LRANGE', b .. 'ring', '0', MOST) } end
if place == 'gwait' then return { '0', redis.call('ZRANGE', b .. 'gwait', '0', MOST) } end
if place == 'paused' then return redis.call('SSCAN', b .. 'paused', cursor, 'COUNT', digits(count)) end
if not HASHES[place] then return redis.error_reply('ERR unknown place') end
local page = redis.call('HSCAN', b .. place, cursor, 'COUNT', digits(count))
local groups = {}
for i = 1, #page[2], 2 do
  if page[2][i] ~= '*' then groups[#groups + 1] = page[2][i] end
end
return { page[1], groups }
