-- Claims of waiting jobs with all that a consumer wants to know, for take and take_batch. Planned in memory, written
-- last.

-- @include lib/limits
-- @include lib/turns

local jobs, taken = {}, {}

-- claim(b, id) -> true when the job is in the plan, false for a ghost, nil and an ERR
local function claim(b, id)
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

-- write_claims(b, active, flat, deadline, allowed): all but the wake
local function write_claims(b, active, flat, deadline, allowed)
  write_heads(flat)
  for _, l in ipairs(touched) do
    if l.heads then write_heads(l.heads) end
  end
  for _, job in ipairs(jobs) do
    redis.call('HSET', job.row, 'attempts', digits(job[3]), 'state', 'active')
    -- the lease is now this script's: an epoch that a native claim left behind says nothing about it
    if job.epoch then redis.call('HDEL', job.row, 'lease_epoch') end
    redis.call('ZADD', active, deadline, job[1])
  end
  write_lanes(b)
  write_waits(b)
  spend(b, allowed, #jobs)
  write_turns(b)
end
