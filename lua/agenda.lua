#!lua flags=no-writes
-- agenda: what a consumer has to know between its beats.
-- KEYS 1 schedule, 2 the base emq:{q}:   ARGV none.
-- Reply [ms until the earliest scheduled job is due, zero or negative when it is due now; nil when none is scheduled,
-- the recovery leg kept in meta, or nil, the length of flow:outbox; nil when that is no list]. Cost O(log N).

-- @include lib/number
-- @include lib/clock

local first = redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')[2]
local leg = redis.call('HGET', KEYS[2] .. 'meta', 'recovery')
-- a broken outbox must not keep the rest from anybody: who delivers says what is wrong with it
local waiting = redis.pcall('LLEN', KEYS[2] .. 'flow:outbox')
if type(waiting) == 'table' then
  if string.sub(waiting.err, 1, 9) ~= 'WRONGTYPE' then return waiting end
  waiting = false
end
if not first then return { false, leg, waiting } end
-- a score of a stranger may be a fraction or infinite
local wait = math.ceil(tonumber(first) - now())
return { math.max(-LARGEST, math.min(LARGEST, wait)), leg, waiting }
