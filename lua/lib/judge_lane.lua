-- JUDGE of a lane: its count of jobs in flight, its other numbers, and whether it is on the ring. It only reads.

-- @include lib/lanes
-- @include lib/peek

local MOST_ACTIVE = 2000 -- with more jobs in flight they are not counted: it would take too long for one step

-- flights(b) -> group -> jobs in flight by the rows of the active ids; nil when they are too many
local function flights(b)
  if redis.call('ZCARD', b .. 'active') > MOST_ACTIVE then return nil end
  local counts = {}
  for _, id in ipairs(redis.call('ZRANGE', b .. 'active', '0', '-1')) do
    -- of a row that is no hash nobody knows the group
    local group = peek('HGET', b .. 'job:' .. id, 'group')
    if type(group) == 'string' then counts[group] = (counts[group] or 0) + 1 end
  end
  return counts
end

-- judge_count(b, group, counts) -> the verdict; `counts` as of flights(): nobody can tell without
local function judge_count(b, group, counts)
  local l = { group = group, wrong = {} }
  local counted = redis.call('HGET', b .. 'gactive', group)
  local active = counts and counts[group] or 0
  if not counts or ((counted or '0') == digits(active) and counted ~= '0') then return l end
  l.active = active
  l.wrong[1] = { 'gactive', group, (counted or '') .. ', ' .. digits(active), 1 }
  return l
end

-- judge_lane(b, group) -> the verdict. Where a count or a ceiling cannot be read, nobody can say whether it is
-- servable.
local function judge_lane(b, group)
  local l = { group = group, wrong = {} }
  local function tell(kind, detail, left)
    l.wrong[#l.wrong + 1] = { kind, group, detail, left and 0 or 1 }
  end
  local active = integer(redis.call('HGET', b .. 'gactive', group) or '0')
  local ceilings = redis.call('HMGET', b .. 'glimit', group, '*')
  if ceilings[1] and not integer(ceilings[1]) then tell('setting', 'glimit', true) end
  local max = redis.call('HGET', b .. 'gmax', group)
  if max and not integer(max) then tell('setting', 'gmax', true) end
  local key = b .. 'g:' .. group .. ':limiter'
  local full = redis.call('GET', key)
  if full and not integer(full) then
    l.limiter = key
    tell('limiter', full)
  end
  local waiting = redis.call('ZCARD', lane_key(b, group))
  local held = redis.call('SISMEMBER', b .. 'paused', group) == 1 or redis.call('ZSCORE', b .. 'gwait', group)
  local times = #redis.call('LPOS', b .. 'ring', group, 'COUNT', '0')
  local ceiling = ceilings[1] or ceilings[2]
  local limit = ceiling and integer(ceiling)
  if not active or (ceiling and not limit) then return l end
  local open = waiting > 0 and not held and not (limit and active >= limit)
  if open and times == 0 then
    l.ring = 'missing'
  elseif not open and times > 0 then
    l.ring = 'there'
  elseif times > 1 then
    l.ring = 'twice'
    l.surplus = times - 1
  end
  if l.ring then tell('ring', l.ring) end
  return l
end
