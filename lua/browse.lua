#!lua flags=no-writes
-- browse: ids of one of the sets by rank, the last to be served first (`desc`; with equal scores that is the newest),
-- or the first.
-- KEYS 1 pending, active, schedule, dead, flow:held or a lane   ARGV 1 offset, 2 limit [, 3 `asc` or `desc` [, 4
-- `scores`]]
-- Reply the ids, with `scores` each followed by its score. Refuses ERR offset, ERR limit, ERR order, ERR the fourth
-- word. Cost O(log N + limit).

-- @include lib/page

local first, last, err = page(ARGV[1], ARGV[2])
if err then return err end
local order = ARGV[3] or 'desc'
if order ~= 'asc' and order ~= 'desc' then return redis.error_reply('ERR order must be asc or desc') end
if ARGV[4] and ARGV[4] ~= 'scores' then return redis.error_reply('ERR the fourth word must be scores') end
local words = {}
if order == 'desc' then words[1] = 'REV' end
if ARGV[4] then words[#words + 1] = 'WITHSCORES' end
return redis.call('ZRANGE', KEYS[1], first, last, unpack(words))
