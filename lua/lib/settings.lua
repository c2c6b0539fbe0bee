-- Settings of a queue or a lane as a caller gives them, and what a change of a rate means for its bucket.

-- @include lib/bucket

-- settings(first, names) -> {name, value (nil: the field goes)} for each; or nil and the refusal
local function settings(first, names)
  if #ARGV < first or (#ARGV - first) % 2 == 0 then
    return nil, redis.error_reply('ERR limits must be names and values')
  end
  local given = {}
  for i = first, #ARGV, 2 do
    local name, text = ARGV[i], ARGV[i + 1]
    if not names[name] then return nil, redis.error_reply('ERR unknown limit') end
    local value, err
    if text ~= '' then
      value, err = positive(name, text)
      if err then return nil, err end
      if name == 'duration' and value > LONGEST_WINDOW then
        return nil, redis.error_reply('ERR duration must be an integer from 1 to 2147483647')
      end
    end
    given[#given + 1] = { name = name, value = value and digits(value) }
  end
  return given
end

-- refill(full, was, is, at) -> when the bucket is full again after a change, nil: now; and, where a back-off is under
-- way, until when, Unix microseconds. What was spent stays spent, and a back-off stays: no rate makes anybody wait for
-- more than one token. `was` and `is`: {max, duration}, max 0 without a rate.
local function refill(full, was, is, at)
  local from = 1000 * at
  local old = was.max >= 1 and bucket(full, was.max, was.duration, at) or { full = full, step = 0, max = 1 }
  local first = old.full - old.step * (old.max - 1)
  local step = is.max >= 1 and bucket(0, is.max, is.duration, at).step
  if first > from + old.step then return step and first + step * (is.max - 1) or first, first end
  if not step or was.max < 1 then return nil end
  local spent = math.min(is.max, math.ceil((old.full - from) / old.step))
  if spent < 1 then return nil end
  return from + spent * step
end

-- put_setting(key, field, value): the field is set, or goes
local function put_setting(key, field, value)
  if value then
    redis.call('HSET', key, field, value)
  else
    redis.call('HDEL', key, field)
  end
end
