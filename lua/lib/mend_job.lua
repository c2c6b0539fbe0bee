-- How what a judge has found is mended: of a job planned first and written later, as all of lib/lanes is.

-- @include lib/judges
-- @include lib/clock
-- @include lib/room

-- An edition of the outbox that counting never comes to: whoever holds letters of an earlier one looks again.
local FAR_EDITION = 2251799813685248

-- shift(j, l): the job leaves a lane, or comes to it, in the plan
local function shift(j, l)
  if j.held[l.key] and l.key ~= j.final then l.waiting = l.waiting - 1 end
  if l.key == j.final and not j.held[l.key] then l.waiting = l.waiting + 1 end
  ring(l)
end

-- plan_job(b, j) -> nil, or an ERR. A lane whose counts cannot be read stays as it is: nobody can be served from it.
local function plan_job(b, j)
  local active = b .. 'active'
  j.moves = {}
  for _, key in ipairs(j.keys) do
    if key ~= j.final then j.moves[#j.moves + 1] = key end
  end
  local left = j.held[active] and j.home ~= 'active'
  if left then room(b, active, 1) end
  j.lanes = {}
  if j.group and (#j.moves > 0 or (j.final and not j.held[j.final])) then
    local l = lane(b, j.group)
    if l then
      if left then leave(l) end
      shift(j, l)
      j.lanes[#j.lanes + 1] = l
    end
  end
  if j.stray and j.held[lane_key(b, j.stray)] then
    local l = lane(b, j.stray)
    if l then
      shift(j, l)
      j.lanes[#j.lanes + 1] = l
    end
  end
  if not j.final then return nil end
  local comes = not j.held[j.final]
  if comes then j.score = j.home == 'waiting' and priority(j.rank) or digits(now()) end
  if comes and (j.final == b .. 'pending' or j.home == 'schedule') then wakes = wakes + 1 end
  if j.why then
    local _, err = stored('metrics:failed', redis.call('HGET', b .. 'metrics:failed', 'count'))
    if err then return err end
    if not j.odd then
      local link = redis.call('HMGET', j.row, 'parent', 'parent_queue', 'parent_policy', 'dedup')
      j.freed = parked(b, j.id, link[4])
      -- a parent of one that was dead has heard of it
      if link[1] and not j.homes.dead then
        redis.call('LLEN', b .. 'flow:outbox')
        j.letter = death_entry(b, j.id, link[1], link[2], link[3], 'unreadable: ' .. j.why)
      end
    end
  end
end

-- write_row(j): what the row says; of one that is a hash
local function write_row(j)
  local fields = {}
  if j.unclaimed then fields = { 'attempts', '0' } end
  if j.state ~= STATES[j.home] then
    fields[#fields + 1] = 'state'
    fields[#fields + 1] = STATES[j.home]
  end
  if j.why then
    fields[#fields + 1] = 'last_error'
    fields[#fields + 1] = 'unreadable: ' .. j.why
  end
  push_all('HSET', j.row, fields)
  push_all('HDEL', j.row, j.drop)
  if not j.books.wrong then return end
  redis.call('SET', j.row .. ':dependencies', digits(j.books.open))
  if j.books.landing and j.books.landing > 0 then
    redis.call('HSET', j.row, 'landing', digits(j.books.landing))
  elseif j.books.landing then
    redis.call('HDEL', j.row, 'landing')
  end
end

-- write_job(b, j): all but the wakes
local function write_job(b, j)
  for _, key in ipairs(j.moves) do redis.call('ZREM', key, j.id) end
  if j.final and not j.held[j.final] then
    redis.call('ZADD', j.final, j.score, j.id)
  end
  if j.final and not j.odd then write_row(j) end
  for _, suffix in ipairs(j.leftovers or {}) do redis.call('DEL', j.row .. suffix) end
  if j.freed then redis.call('DEL', j.freed) end
  if j.why then redis.call('HINCRBY', b .. 'metrics:failed', 'count', 1) end
  if j.letter then redis.call('RPUSH', b .. 'flow:outbox', j.letter) end
  write_lanes(b)
  local off = {}
  for _, l in ipairs(j.lanes) do
    if l.ringed and not servable(l) then off[#off + 1] = l.group end
  end
  unring(b, off)
end

-- write_lane(b, l): all but the wake
local function write_lane(b, l)
  if l.active and l.active > 0 then
    redis.call('HSET', b .. 'gactive', l.group, digits(l.active))
  elseif l.active then
    redis.call('HDEL', b .. 'gactive', l.group)
  end
  if l.limiter then redis.call('DEL', l.limiter) end
  if l.ring == 'missing' then
    redis.call('RPUSH', b .. 'ring', l.group)
  elseif l.ring == 'there' then
    redis.call('LREM', b .. 'ring', '0', l.group)
  elseif l.ring == 'twice' then
    redis.call('LREM', b .. 'ring', digits(-l.surplus), l.group)
  end
end

-- write_queue(b, wrong)
local function write_queue(b, wrong)
  for _, one in ipairs(wrong) do
    local kind, subject_key = one[1], one[2]
    if kind == 'wake' then
      local tokens = {}
      for i = 1, math.min(WAKE_CAP, tonumber(one[3])) do tokens[i] = '1' end
      redis.call('DEL', b .. 'wake')
      push_all('LPUSH', b .. 'wake', tokens)
    elseif kind == 'metrics' and subject_key == 'metrics:rolled' then
      redis.call('DEL', b .. subject_key)
    elseif kind == 'metrics' then
      redis.call('HDEL', b .. subject_key, 'count')
    elseif kind == 'letters' then
      redis.call('HSET', b .. 'meta', 'letters', digits(FAR_EDITION))
    elseif kind == 'limiter' then
      redis.call('DEL', b .. 'limiter')
    end
  end
end
