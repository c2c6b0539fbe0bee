-- JUDGE of what a queue has besides jobs and lanes. It only reads. Each answers a list of {kind, subject, detail, 1
-- when a mend mends it else 0}.

-- @include lib/number
-- @include lib/dedup
-- @include lib/repeat
-- @include lib/outbox
-- @include lib/peek
-- @include lib/wake

local MOST_LETTERS = 1000 -- behind so many nobody looks for one: they may well say what is missing

-- a dedup key that does not lapse names a job that says so
local function judge_dedup(b, name)
  local key = dedup_key(b, name)
  local owner = redis.call('GET', key)
  if not owner or redis.call('PTTL', key) ~= -1 then return {} end
  if peek('HGET', b .. 'job:' .. owner, 'dedup') == name then return {} end
  return { { 'dedup', name, owner, 1 } }
end

-- a repeat has a place, by its next slot
local function judge_repeat(b, name)
  local stands = record(b, name)
  local score = redis.call('ZSCORE', b .. 'repeat', name)
  if not stands then return score and { { 'repeat', name, 'record', 1 } } or {} end
  local wrong = {}
  for _, field in ipairs({ 'count', 'end', 'limit' }) do
    if stands[field] and not integer(stands[field]) then wrong[#wrong + 1] = { 'repeat', name, field, 0 } end
  end
  if stands.next and not integer(stands.next) then
    wrong[#wrong + 1] = { 'repeat', name, 'next', 0 }
    return wrong
  end
  local place = stands.next and not stands.paused and stands.next or 'inf'
  if not score or tonumber(score) ~= tonumber(place) then
    wrong[#wrong + 1] = { 'repeat', name, 'place', 1, place = place }
  end
  return wrong
end

-- letters_of(b) -> the letters on the outbox, nil when they are too many
local function letters_of(b)
  if redis.call('LLEN', b .. 'flow:outbox') > MOST_LETTERS then return nil end
  return redis.call('LRANGE', b .. 'flow:outbox', '0', '-1')
end

-- children that are to be cancelled, and no letter orders it
local function judge_cancel(b, id, waiting)
  if not waiting or redis.call('HLEN', b .. 'flow:cancel:' .. id) == 0 then return {} end
  local order = '\0cancel\0' .. id .. '\0'
  for _, text in ipairs(waiting) do
    if string.sub(text, 1, #order) == order then return {} end
  end
  return { { 'cancel', id, '', 1 } }
end

-- a child that its parent, in this queue as it is, waits for, and that will not tell it of its end
local function judge_child(b, parent, child, waiting)
  local where = redis.call('HGET', b .. 'job:' .. parent .. ':children', child)
  if not waiting or not where or (where ~= '' and where ~= queue_of(b)) then return {} end
  local link = peek('HMGET', b .. 'job:' .. child, 'parent', 'parent_queue')
  if not link.err and link[1] == parent and queue_of(b, link[2]) == queue_of(b) then return {} end
  local named = queue_of(b) .. '\0' .. parent .. '\0' .. child .. '\0'
  for _, text in ipairs(waiting) do
    local kind = string.sub(text, 1, 6)
    local first = (kind == '\0fail\0' or kind == '\0gone\0') and 7 or 1
    if string.sub(text, first, first + #named - 1) == named then return {} end
  end
  return { { 'child', parent, child, 0 } }
end

-- what a queue has one of
local function judge_queue(b)
  local wrong = {}
  local function tell(kind, subject, detail, left)
    wrong[#wrong + 1] = { kind, subject, detail, left and 0 or 1 }
  end
  local length = redis.call('LLEN', b .. 'wake')
  local odd = length > WAKE_CAP
  for _, token in ipairs(redis.call('LRANGE', b .. 'wake', '0', digits(WAKE_CAP - 1))) do odd = odd or token ~= '1' end
  if odd then tell('wake', 'wake', digits(length)) end
  for _, name in ipairs({ 'metrics:completed', 'metrics:failed' }) do
    local count = redis.call('HGET', b .. name, 'count')
    if count and not integer(count) then tell('metrics', name, count) end
  end
  for _, field in ipairs({ 'minute', 'completed', 'failed' }) do
    local count = redis.call('HGET', b .. 'metrics:rolled', field)
    if count and not integer(count) then
      tell('metrics', 'metrics:rolled', count)
      break
    end
  end
  for _, field in ipairs({ 'concurrency', 'max' }) do
    local text = redis.call('HGET', b .. 'meta', field)
    if text and not integer(text) then tell('setting', field, text, true) end
  end
  for _, name in ipairs({ 'glimit', 'gmax' }) do
    local text = redis.call('HGET', b .. name, '*')
    if text and not integer(text) then tell('setting', '*', name, true) end
  end
  local edition = redis.call('HGET', b .. 'meta', 'letters')
  if edition and not integer(edition) then tell('letters', 'meta', edition) end
  local full = redis.call('GET', b .. 'limiter')
  if full and not integer(full) then tell('limiter', '', full) end
  return wrong
end
