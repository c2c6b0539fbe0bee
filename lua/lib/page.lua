-- A page of what is in order: where it begins, from 0, and how many at most.

-- @include lib/number

-- page(offset, limit) -> the first and the last place, as text; or nil, nil and the refusal
local function page(offset_text, limit_text)
  local offset, err = anyint('offset', offset_text)
  if err then return nil, nil, err end
  if offset < 0 then return nil, nil, redis.error_reply('ERR offset must not be negative') end
  local limit
  limit, err = positive('limit', limit_text)
  if err then return nil, nil, err end
  return digits(offset), digits(offset + limit - 1)
end
