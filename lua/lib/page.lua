-- A page of what is in order: where it begins, from 0, and how many at most.

-- @include lib/number

-- natural(what, text) -> an integer of at least 0; or nil and the refusal
local function natural(what, text)
  local n, err = anyint(what, text)
  if err then return nil, err end
  if n < 0 then return nil, redis.error_reply('ERR ' .. what .. ' must not be negative') end
  return n
end

-- page(offset, limit) -> the first and the last place, as text; or nil, nil and the refusal
local function page(offset_text, limit_text)
  local offset, err = natural('offset', offset_text)
  if err then return nil, nil, err end
  local limit
  limit, err = positive('limit', limit_text)
  if err then return nil, nil, err end
  return digits(offset), digits(offset + limit - 1)
end
