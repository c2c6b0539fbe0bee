#!lua flags=allow-oom
-- quarantine: jobs whose rows cannot be read leave the way of the others and go to the dead.
-- KEYS 1 pending, 2 ring, 3 active, 4 schedule, 5 dead, 6 the base emq:{q}:   ARGV 1 limit
-- Reply [[id, why]...], then [[group, why]...] for lanes whose counts cannot be read, which are only told of. Looks at
-- up to limit jobs as take, stalled_check or reap, and promote would come upon them: of the flat head, of the lanes in
-- turn, of the lapsed and of the due. Unreadable is a row that is no hash, or whose attempts, credit or stalled is no
-- integer. Refuses ERR limit. Cost O(limit + ghosts + lanes) * log N.

-- @include lib/clock
-- @include lib/lapse
-- @include lib/turns
-- @include lib/outbox
-- @include lib/room
-- @include lib/dedup

local limit, err = positive('limit', ARGV[1])
if err then return err end
local b = KEYS[6]
local flat = heads(KEYS[1], redis.call('ZCARD', KEYS[1]), 16)
look_turns(b, KEYS[2])
for i = 3, 5 do redis.call('ZCARD', KEYS[i]) end
local at = now()

local COUNTERS = { 'attempts', 'credit', 'stalled' }
local seen, unreadable = {}, {} -- id -> job; the jobs that have a `why`
-- group -> `counts` or `all`, what was looked at; [group, why] of the lanes that cannot be read
local judged, broken = {}, {}

-- judge(group, walked): tells of a lane whose counts cannot be read, or, where a walk came upon it, its rate
local function judge(group, walked)
  if judged[group] == 'all' or (judged[group] and not walked) then return end
  local _, bad = lane_counts(b, group)
  if not bad and walked then
    _, bad = rate(b, group)
  end
  judged[group] = (bad or walked) and 'all' or 'counts'
  if bad then broken[#broken + 1] = { group, string.match(bad.err, 'stored (.+)$') } end
end

-- look(id) -> {id, row, from, ghost, hash, group, why ...}, or nil and an error of the server
local function look(id)
  if seen[id] then return seen[id] end
  local job = { id = id, row = b .. 'job:' .. id, from = {} }
  local fields =
    redis.pcall('HMGET', job.row, 'group', 'parent', 'parent_queue', 'parent_policy', 'dedup', unpack(COUNTERS))
  if fields.err then
    if string.sub(fields.err, 1, 9) ~= 'WRONGTYPE' then return nil, fields end
    job.why = 'row is not a hash'
  else
    job.hash = true
    job.group, job.parent, job.parent_queue, job.policy, job.dedup = unpack(fields, 1, 5)
    job.ghost = not alive(job.row, fields[6])
    for i, name in ipairs(COUNTERS) do
      if not job.why and not integer(fields[5 + i] or '0') then job.why = name .. ' is not an integer' end
    end
    if job.group then judge(job.group) end
  end
  seen[id] = job
  if job.why then unreadable[#unreadable + 1] = job end
  return job
end

-- sift(id, key, l) -> the job, or nil and an error; when it cannot be read it is to leave the set `key`, that of lane l
local function sift(id, key, l)
  local job, bad = look(id)
  if bad then return nil, bad end
  job.from[#job.from + 1] = { key = key, lane = l }
  return job
end

-- the flat head, as a take of limit jobs goes along it
local looked = 0
while looked < limit and head(flat) do
  local job
  job, err = sift(head(flat), KEYS[1])
  if err then return err end
  use(flat)
  if not job.ghost then looked = looked + 1 end
end

-- the lanes, as a take of limit jobs goes around them; a lane that cannot be read is passed
looked = 0
while looked < limit and group_at_turn(b) do
  local l = turn(b)
  if l then
    local job
    job, err = sift(head(l.heads), l.key, l)
    if err then return err end
    use(l.heads)
    l.waiting = l.waiting - 1
    if not job.ghost then looked = looked + 1 end
    if not job.ghost and not job.why then
      if job.group == l.group then enter(l) end
      pay(l)
      served(l)
    end
  elseif walk.tired then
    break
  elseif group_at_turn(b) then
    judge(group_at_turn(b), true)
    pass()
  end
end
-- that was a walk in thought only
for _, l in ipairs(touched) do
  l.active = l.active - l.entered
  l.entered = 0
  if l.drained then l.waits = nil end
  l.bucket = nil
  if l.heads then l.waiting = l.waiting + l.heads.used end
end

for _, key in ipairs({ KEYS[3], KEYS[4] }) do
  for _, id in ipairs(due(key, at, limit)) do
    err = select(2, sift(id, key))
    if err then return err end
  end
end

local reply, letters = {}, {}
for _, job in ipairs(unreadable) do
  reply[#reply + 1] = { job.id, job.why }
  for _, from in ipairs(job.from) do
    if from.lane then
      from.lane.waiting = from.lane.waiting - 1
      from.lane.lost = true
    end
  end
  if job.parent then
    letters[#letters + 1] = death_entry(b, job.id, job.parent, job.parent_queue, job.policy, 'unreadable: ' .. job.why)
  end
end
for _, counts in ipairs(broken) do reply[#reply + 1] = counts end
if #unreadable == 0 then return reply end
local lapsed = 0
for _, job in ipairs(unreadable) do
  if job.hash then job.freed = parked(b, job.id, job.dedup) end
  for _, from in ipairs(job.from) do
    if from.key == KEYS[3] then lapsed = lapsed + 1 end
    -- a lane whose counts cannot be read stays as it is
    local l = from.key == KEYS[3] and job.group and lane(b, job.group)
    if l then
      leave(l)
      ring(l)
      l.lost = true
    end
  end
end
err = select(2, stored('metrics:failed', redis.call('HGET', b .. 'metrics:failed', 'count')))
if err then return err end
if #letters > 0 then redis.call('LLEN', b .. 'flow:outbox') end
room(b, KEYS[3], lapsed)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

for _, job in ipairs(unreadable) do
  for _, from in ipairs(job.from) do redis.call('ZREM', from.key, job.id) end
  if job.hash then redis.call('HSET', job.row, 'state', 'dead', 'last_error', 'unreadable: ' .. job.why) end
  redis.call('ZADD', KEYS[5], digits(at), job.id)
  if job.freed then redis.call('DEL', job.freed) end
end
write_lanes(b)
local off = {}
for _, l in ipairs(touched) do
  if l.lost and l.ringed and l.waiting == 0 then off[#off + 1] = l.group end
end
unring(b, off)
redis.call('HINCRBY', b .. 'metrics:failed', 'count', #unreadable)
push_all('RPUSH', b .. 'flow:outbox', letters)
push_wakes(b .. 'wake', tokens)
return reply
