-- BUCKET: a rate of so many jobs in so many ms, as a bucket of tokens that is refilled evenly. What is stored is when
-- the bucket is full again, in Unix microseconds: whole numbers, exact as doubles.

-- @include lib/number

local LONGEST_WINDOW = 2147483647
local WINDOW = 1000

-- window(text) -> the window of a rate in ms
local function window(text)
  local n = integer(text)
  if n and n >= 1 and n <= LONGEST_WINDOW then return n end
  return WINDOW
end

-- bucket(full, max, duration, at) -> {tokens, step, max, full}: `step` is what one token takes, in microseconds, and
-- `full` when the bucket is full again, from `at` (ms) on
local function bucket(full, max, duration, at)
  local step = math.max(1, math.floor(1000 * duration / max))
  local from = math.max(full, 1000 * at)
  local tokens = math.floor((1000 * at + step * max - from) / step)
  return { tokens = math.max(0, math.min(max, tokens)), step = step, max = max, full = from }
end

-- next_token(k) -> when the next token comes, Unix ms
local function next_token(k)
  return math.ceil((k.full - k.step * k.max + k.step) / 1000)
end

-- fill(key, full): the bucket is full again at that time; the key goes then
local function fill(key, full)
  redis.call('SET', key, digits(full), 'PXAT', digits(math.ceil(full / 1000)))
end
