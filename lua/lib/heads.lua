-- The waiting ids of a sorted set from its head on, read in steps that grow: never many more are read than are used.

-- @include lib/number

-- heads(key, waiting, step) -> a source of the `waiting` ids that are in the set; the first reading is of `step` ids
local function heads(key, waiting, step)
  return { key = key, waiting = waiting, step = step, read = 0, used = 0, place = 1, found = {} }
end

-- head(source) -> the first id that was not used, and its score; nil when all were
local function head(source)
  if not source.found[source.place] and source.read < source.waiting then
    local last = source.read + source.step - 1
    source.found = redis.call('ZRANGE', source.key, digits(source.read), digits(last), 'WITHSCORES')
    source.read = last + 1
    source.step = math.min(2 * source.step, 512)
    source.place = 1
  end
  return source.found[source.place], tonumber(source.found[source.place + 1] or 0)
end

local function use(source)
  source.place = source.place + 2
  source.used = source.used + 1
end

-- write_heads(source): the ids that were used leave the set
local function write_heads(source)
  if source.used > 0 then redis.call('ZPOPMIN', source.key, digits(source.used)) end
end
