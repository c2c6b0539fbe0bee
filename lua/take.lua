#!lua flags=allow-oom
-- take: up to count waiting jobs become active on one deadline, with all that a consumer wants to know. Native twin:
-- EMQ.TAKE.
-- KEYS 1 pending, 2 ring, 3 active, 4 the base emq:{q}:   ARGV 1 lease ms, 2 count, 3 `flat`, `lanes` or `both`
-- Reply [[id, payload, attempts, group, opts, credit]...]; empty when paused or when nothing can be served. Lanes take
-- turns along the ring; of the flat head and the head of the lane whose turn it is the lower goes first. Ghosts are
-- dropped and do not count. When count jobs were taken and more could be served, an empty wake list gets one token: the
-- next consumer. Refuses ERR lease, ERR count, ERR source. Cost O(count + ghosts + lanes that leave the ring) * log N.

-- @include lib/clock
-- @include lib/turns
-- @include lib/bytes

local lease, err = positive('lease', ARGV[1])
if err then return err end
local count
count, err = positive('count', ARGV[2])
if err then return err end
local source, b = ARGV[3], KEYS[4]
if source ~= 'flat' and source ~= 'lanes' and source ~= 'both' then
  return redis.error_reply('ERR source must be flat, lanes or both')
end
local flat = heads(KEYS[1], redis.call('ZCARD', KEYS[1]), 16)
on_ring = redis.call('LLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
if redis.call('HEXISTS', b .. 'meta', 'paused') == 1 then return {} end
if source == 'lanes' then flat.waiting = 0 end
if source == 'flat' then on_ring = 0 end

local jobs, taken = {}, {}
-- claim(id) -> true when the job is in the plan, false for a ghost, nil and an ERR
local function claim(id)
  if taken[id] then return false end -- the other source held it as well
  local row = b .. 'job:' .. id
  local fields = redis.call('HMGET', row, 'attempts', 'payload', 'lease_epoch', 'group', 'opts', 'credit')
  if not fields[1] and redis.call('HLEN', row) == 0 then return false end
  local attempts, bad = stored('attempts', fields[1])
  if bad then return nil, bad end
  local credit
  credit, bad = stored('credit', fields[6])
  if bad then return nil, bad end
  if fields[4] then
    local l
    l, bad = lane(b, fields[4], true)
    if bad then return nil, bad end
    enter(l)
  end
  taken[id] = true
  jobs[#jobs + 1] = { id, fields[2], attempts + 1, fields[4], fields[5], credit, row = row, epoch = fields[3] }
  return true
end

while #jobs < count do
  local id, score = head(flat)
  local l, ok
  l, err = turn(b)
  if err then return err end
  local from = flat
  if l then
    local first, its_score = head(l.heads)
    if not id or its_score < score or (its_score == score and not precedes(id, first)) then
      id, from = first, l.heads
      l.waiting = l.waiting - 1
    end
  end
  if not id then break end
  use(from)
  ok, err = claim(id)
  if err then return err end
  if ok and from ~= flat then served(l) end
end

local more = false
if #jobs == count then
  more = flat.used < flat.waiting
  if not more then
    more, err = turn(b)
    if err then return err end
  end
end
if more and redis.call('LLEN', b .. 'wake') == 0 then wakes = 1 end
if #jobs == 0 and flat.used == 0 and passed == 0 then return {} end
local deadline = digits(now() + lease)

write_heads(flat)
for _, l in ipairs(touched) do
  if l.heads then write_heads(l.heads) end
end
for _, job in ipairs(jobs) do
  redis.call('HSET', job.row, 'attempts', digits(job[3]), 'state', 'active')
  -- the lease is now this script's: an epoch that a native claim left behind says nothing about it
  if job.epoch then redis.call('HDEL', job.row, 'lease_epoch') end
  redis.call('ZADD', KEYS[3], deadline, job[1])
end
write_lanes(b)
write_turns(b)
push_wakes(b .. 'wake', 1)
return jobs
