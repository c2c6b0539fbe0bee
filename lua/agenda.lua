#!lua flags=no-writes
-- agenda: what a consumer has to know between its beats.
-- KEYS 1 schedule, 2 the base emq:{q}:   ARGV none.
-- Reply [ms until the earliest scheduled job is due, zero or negative when it is due now; nil when none is scheduled,
-- the recovery leg kept in meta, or nil]. Cost O(log N).

-- @include lib/number
-- @include lib/clock

local first = redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')[2]
local leg = redis.call('HGET', KEYS[2] .. 'meta', 'recovery')
if not first then return { false, leg } end
-- a score of a stranger may be a fraction or infinite
local wait = math.ceil(tonumber(first) - now())
return { math.max(-LARGEST, math.min(LARGEST, wait)), leg }
