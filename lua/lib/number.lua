-- Numbers on the wire and in rows (wire contract, section 6).
-- A number is a canonical decimal integer between -2^52 and 2^52: no sign but a leading minus, no leading zero, no
-- "-0". Such a number is exact as a double, and so is NOW plus any of them.

local LARGEST = 4503599627370496

-- integer(text) -> the number, or nil when the text is not a canonical integer in range
local function integer(text)
  if type(text) ~= 'string' or #text > 17 then return nil end
  if text ~= '0' and not string.find(text, '^%-?[1-9]%d*$') then return nil end
  local n = tonumber(text)
  if n > LARGEST or n < -LARGEST then return nil end
  return n
end

-- anyint(what, text) / positive(what, text) -> the number, or nil and the refusal
local function anyint(what, text)
  local n = integer(text)
  if n then return n end
  return nil, redis.error_reply('ERR ' .. what .. ' must be an integer')
end

local function positive(what, text)
  local n = integer(text)
  if n and n >= 1 then return n end
  return nil, redis.error_reply('ERR ' .. what .. ' must be a positive integer')
end

-- stored(what, text) -> the value of a stored counter, 0 when there is none; nil and an ERR when it is no integer:
-- a transition never guesses what a counter was.
local function stored(what, text)
  if not text then return 0 end
  local n = integer(text)
  if n then return n end
  return nil, redis.error_reply('ERR stored ' .. what .. ' is not an integer')
end

-- digits(n) -> the canonical text of a number; Lua's own conversion goes over to an exponent at 1e14
local function digits(n)
  return string.format('%.0f', n)
end
