-- What the transitions share about a job's row (wire contract, sections 3 and 4).

-- @include lib/number

local HIGHEST_PRIORITY = 2097152

-- priority(text) -> the score a waiting job has: anything but an integer 0..2097152 counts as 0
local function priority(text)
  local n = integer(text)
  if n and n >= 0 and n <= HIGHEST_PRIORITY then return digits(n) end
  return '0'
end

-- TOKEN(verb): fenced(verb, attempts, token) -> the claim count, or nil and the refusal.
-- Compared as text; "0" belongs to a job that was never claimed and fences nothing.
local function fenced(verb, attempts, token)
  if not attempts or attempts ~= token or attempts == '0' then
    return nil, redis.error_reply('EMQSTALE ' .. verb .. ' token mismatch')
  end
  return stored('attempts', attempts)
end
