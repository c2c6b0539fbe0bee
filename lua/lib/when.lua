-- A run-at time given as `in` (from NOW) or `at` (absolute).

-- @include lib/number
-- @include lib/clock

-- run_at(mode, ms) -> the score in `schedule`, or nil and the refusal
local function run_at(mode, ms)
  if mode ~= 'in' and mode ~= 'at' then return nil, redis.error_reply('ERR mode must be in or at') end
  local n, err = anyint('ms', ms)
  if err then return nil, err end
  if mode == 'in' then return now() + n end
  return n
end
