-- JUDGE of one job (wire contract, section 6, The audit): whether its row and its places agree. It only reads; what it
-- finds is in `wrong`, a {kind, subject, detail, 1 when a mend mends it else 0} each, and where the job belongs in
-- `final`.

-- @include lib/lapse
-- @include lib/retire

-- where a job can be at home, the first before the others when nothing else decides; and what its row says there
local HOMES = { 'active', 'waiting', 'schedule', 'dead', 'held' }
local STATES =
  { active = 'active', waiting = 'pending', schedule = 'scheduled', dead = 'dead', held = 'awaiting_children' }
local HOME_OF =
  { active = 'active', pending = 'waiting', scheduled = 'schedule', dead = 'dead', awaiting_children = 'held' }
local SETS = {
  { 'active', 'active' },
  { 'pending', 'waiting' },
  { 'schedule', 'schedule' },
  { 'dead', 'dead' },
  { 'flow:held', 'held' },
}
local FIELDS = { 'state', 'attempts', 'group', 'priority', 'stalled', 'credit', 'last_error', 'landing' }
local MOST_CHILDREN = 1000 -- of a parent with more only the number is looked at

-- books_of(row, landing) -> what a parent's counts should be: `open`; `landing`, nil where that was not looked at;
-- `wrong` when they are not so, `broken` when nobody can tell
local function books_of(row, landing)
  local text = redis.call('GET', row .. ':dependencies')
  local open = integer(text or '0')
  local listed = redis.call('HLEN', row .. ':children')
  if listed == 0 and not landing then
    -- no list is kept by a client that keeps none: the count alone says how many are open
    if not open then return { open = 1, broken = true } end
    return { open = math.max(0, open), wrong = open < 0 }
  end
  local f = { open = listed }
  if landing and open and open > listed then f.open = open end
  f.wrong = open ~= f.open
  if listed > MOST_CHILDREN then return f end
  local children = redis.call('HGETALL', row .. ':children')
  f.landing = f.open - listed
  for i = 2, #children, 2 do
    if string.sub(children[i], 1, 1) == '+' then f.landing = f.landing + 1 end
  end
  if f.landing ~= (landing and integer(landing) or 0) or (landing and f.landing == 0) then f.wrong = true end
  return f
end

-- found(j, key, home, word): notes a place where the id is
local function found(j, key, home, word)
  if not redis.call('ZSCORE', key, j.id) then return end
  j.held[key] = true
  j.homes[home] = true
  j.keys[#j.keys + 1] = key
  j.words[#j.words + 1] = word
end

local function say(j, kind, detail, left)
  j.wrong[#j.wrong + 1] = { kind, j.id, detail or '', left and 0 or 1 }
end

-- home_of(j) -> where the job belongs, and why it is to be buried there, if it is
local function home_of(j)
  local said = HOME_OF[j.state or '']
  local to
  if #j.keys == 0 then
    if not said then return 'dead', 'state is not known' end
    to = said == 'active' and 'waiting' or said
  elseif said and j.homes[said] then
    to = said
  elseif said == 'held' and j.books.open > 0 and j.homes.waiting and not j.homes.active then
    to = 'held'
  else
    for i = #HOMES, 1, -1 do
      if j.homes[HOMES[i]] then to = HOMES[i] end
    end
  end
  if to == 'held' and j.books.open < 1 then return 'waiting' end
  return to
end

-- judge_ghost(j): ids without a row, and what is left of one
local function judge_ghost(j)
  if #j.keys > 0 then say(j, 'ghost', table.concat(j.words, ', ')) end
  local left = {}
  for _, suffix in ipairs(SUBKEYS) do
    -- a lock goes by itself
    local stays = suffix == ':lock' and redis.call('PTTL', j.row .. suffix) == -1
    if suffix ~= ':lock' then stays = redis.call('EXISTS', j.row .. suffix) == 1 end
    if stays then left[#left + 1] = suffix end
  end
  j.leftovers = left
  if #left > 0 then say(j, 'leftovers', table.concat(left, ', ')) end
end

-- judge_fields(j): numbers that are none. Claims are the fence and cannot be guessed: the job is buried. What has been
-- buried for that stays as it is.
local function judge_fields(j, attempts, numbers)
  local buried = #j.keys == 1 and j.homes.dead and j.state == 'dead'
  buried = buried and string.sub(j.last_error or '', 1, 12) == 'unreadable: '
  j.drop = {}
  if not attempts then
    say(j, 'field', 'attempts')
    j.unclaimed = true
  elseif not integer(attempts) and not buried then
    j.why = 'attempts is not an integer'
    say(j, 'unreadable', j.why)
  end
  for name, text in pairs(numbers) do
    if text and not integer(text) and not buried then j.drop[#j.drop + 1] = name end
  end
  table.sort(j.drop)
  if j.rank and priority(j.rank) ~= j.rank then j.drop[#j.drop + 1] = 'priority' end
  for _, name in ipairs(j.drop) do say(j, 'field', name) end
end

-- judge_job(b, id, stray) -> the verdict, or nil and an ERR. `stray`: a group in whose lane the id was come upon.
local function judge_job(b, id, stray)
  local row = b .. 'job:' .. id
  local fields = redis.pcall('HMGET', row, unpack(FIELDS))
  if fields.err and string.sub(fields.err, 1, 9) ~= 'WRONGTYPE' then return nil, fields end
  local j = { id = id, row = row, wrong = {}, held = {}, homes = {}, keys = {}, words = {} }
  j.odd = fields.err and true
  if j.odd then fields = {} end
  local attempts, stalled, credit, landing
  j.state, attempts, j.group, j.rank, stalled, credit, j.last_error, landing = unpack(fields, 1, 8)
  for _, set in ipairs(SETS) do found(j, b .. set[1], set[2], set[1]) end
  if j.group then found(j, lane_key(b, j.group), 'waiting', 'its lane') end
  if stray and stray ~= j.group then
    j.stray = stray
    found(j, lane_key(b, stray), 'waiting', 'another lane')
  end
  if j.odd then
    local left = #j.keys == 0 or (#j.keys == 1 and j.homes.dead)
    say(j, 'row', table.concat(j.words, ', '), left)
    if not left then
      j.home = 'dead'
      j.why = 'row is not a hash'
    end
  elseif not alive(row, j.state) then
    j.ghost = true
    judge_ghost(j)
  else
    j.landing = landing
    j.books = books_of(row, landing)
    judge_fields(j, attempts, { stalled = stalled, credit = credit })
    local why
    j.home, why = home_of(j)
    if j.why then j.home = 'dead' end
    j.why = j.why or why
  end
  if not j.home then return j end
  local keys = { active = 'active', waiting = 'pending', schedule = 'schedule', dead = 'dead', held = 'flow:held' }
  j.final = b .. keys[j.home]
  local goes = ' -> ' .. keys[j.home]
  if j.home == 'waiting' and j.group then
    j.final = lane_key(b, j.group)
    goes = ' -> its lane'
  end
  if j.odd then return j end
  if j.books.broken and (j.state == 'awaiting_children' or j.homes.held) then
    say(j, 'flow', 'unreadable', true)
  elseif j.books.broken then
    -- nobody waits for the count: it goes
    j.books = { open = 0, wrong = true }
    say(j, 'flow', 'counts')
  elseif j.books.wrong then
    say(j, 'flow', 'counts')
  end
  local placed = #j.keys == 1 and j.held[j.final]
  if #j.keys == 0 then
    say(j, 'orphan', (j.state or '') .. goes)
  elseif j.homes.held and #j.keys == 1 and not placed and j.home == 'waiting' then
    say(j, 'flow', 'nobody' .. goes)
  elseif not placed and j.why ~= 'attempts is not an integer' then
    say(j, 'places', table.concat(j.words, ', ') .. goes)
  elseif placed and j.state ~= STATES[j.home] then
    say(j, 'state', (j.state or '') .. ' -> ' .. STATES[j.home])
  end
  return j
end
