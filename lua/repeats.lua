#!lua flags=no-writes
-- repeats: repeats and their records, those that are due or all, by their next slot.
-- KEYS 1 the base emq:{q}:   ARGV 1 `due` or `all`, 2 offset, 3 limit
-- Reply [NOW, [name, score, [field, value ...]] ...]. Refuses ERR which, ERR offset, ERR limit. Cost O(log N + limit).

-- @include lib/clock
-- @include lib/page
-- @include lib/repeat

local which, b = ARGV[1], KEYS[1]
if which ~= 'due' and which ~= 'all' then return redis.error_reply('ERR which must be due or all') end
local offset, err = natural('offset', ARGV[2])
if err then return err end
local limit
limit, err = positive('limit', ARGV[3])
if err then return err end
local at = now()
local until_when = which == 'due' and digits(at) or '+inf'
local found = redis.call(
  'ZRANGE', b .. 'repeat', '-inf', until_when, 'BYSCORE', 'LIMIT', digits(offset), digits(limit), 'WITHSCORES'
)
local reply = { at }
for i = 1, #found, 2 do
  reply[#reply + 1] = { found[i], found[i + 1], redis.call('HGETALL', repeat_key(b, found[i])) }
end
return reply
