#!lua flags=allow-oom
-- extend_many: one renewal for all the jobs a worker holds.
-- KEYS 1 active, 2 the base emq:{q}:   ARGV 1 lease ms, then id, token for each job
-- Reply the ids that were not renewed (gone, another token, not active, unreadable row), in the order given.
-- Refuses ERR lease, ERR pairs. Cost O(jobs * log N).

-- @include lib/row
-- @include lib/clock

local lease, err = positive('lease', ARGV[1])
if err then return err end
if #ARGV % 2 == 0 then return redis.error_reply('ERR ids and tokens must come in pairs') end
redis.call('ZCARD', KEYS[1])

local renewed, failed = {}, {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  -- one row of a wrong type must not let the leases of all the others lapse
  local attempts = redis.pcall('HGET', KEYS[2] .. 'job:' .. id, 'attempts')
  if type(attempts) == 'table' then
    if string.sub(attempts.err, 1, 9) ~= 'WRONGTYPE' then return attempts end
    attempts = nil
  end
  if fenced('extend', attempts, ARGV[i + 1]) and redis.call('ZSCORE', KEYS[1], id) then
    renewed[#renewed + 1] = id
  else
    failed[#failed + 1] = id
  end
end

local deadline = digits(now() + lease)
for _, id in ipairs(renewed) do redis.call('ZADD', KEYS[1], deadline, id) end
return failed
