#!lua flags=allow-oom
-- lane_set: what is set for a lane, or, as `*`, for all that have no setting of their own.
-- KEYS 1 the base emq:{q}:   ARGV 1 group or `*`, then name, value (empty: none) for each: limit, weight, max, duration
-- Reply 1. What was spent of a rate stays spent, and a back-off goes on; the lane is on the ring or not as it should
-- be now. Refuses ERR limits, ERR unknown limit, ERR limit, ERR weight, ERR max, ERR duration; ERR stored. Cost
-- O(lanes).

-- @include lib/settings
-- @include lib/mend

local b, group = KEYS[1], ARGV[1]
local HASHES = { limit = 'glimit', weight = 'gweight', max = 'gmax', duration = 'gduration' }
local given, err = settings(2, HASHES)
if err then return err end

-- what stands, and what will stand, for the lane
local function standing(name)
  local fields = redis.call('HMGET', b .. HASHES[name], group, '*')
  return fields[1] or nil, fields[2] or nil
end
local will = {}
for _, setting in ipairs(given) do will[setting.name] = setting end
local before, after = {}, {}
for name in pairs(HASHES) do
  local ours, all = standing(name)
  before[name] = ours or all
  after[name] = before[name]
  if will[name] then after[name] = will[name].value or (group ~= '*' and all or nil) end
end
local changed, filled = false, nil
local bucket_key = b .. 'g:' .. group .. ':limiter'
if group ~= '*' then
  local at = now()
  local spent = redis.call('GET', bucket_key)
  local full = integer(spent) or 0
  local was = { max = math.max(0, integer(before.max) or 0), duration = window(before.duration) }
  local is = { max = math.max(0, integer(after.max) or 0), duration = window(after.duration) }
  changed = is.max ~= was.max or (is.max >= 1 and is.duration ~= was.duration)
  local backs_off
  -- without a rate nobody reads a lane's bucket: it waits in gwait alone
  if changed and was.max >= 1 then filled, backs_off = refill(full, was, is, at) end
  if is.max < 1 then filled = nil end
  local k = is.max >= 1 and bucket(changed and (filled or 0) or full, is.max, is.duration, at) or nil
  local l
  l, err = lane(b, group, false, after.limit or false)
  if err then return err end
  mend(l, k, spent, backs_off and math.ceil(backs_off / 1000))
end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

for _, setting in ipairs(given) do put_setting(b .. HASHES[setting.name], group, setting.value) end
if filled then
  fill(bucket_key, filled)
elseif changed then
  redis.call('DEL', bucket_key)
end
write_mended(b)
push_wakes(b .. 'wake', tokens)
return 1
