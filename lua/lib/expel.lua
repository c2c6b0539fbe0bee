-- How jobs are taken out, wherever they are, for whoever does not work on them. Planned one by one, then written
-- together.

-- @include lib/lanes
-- @include lib/retire
-- @include lib/outbox
-- @include lib/dedup

local expelled = {} -- the jobs that go
local letters = {} -- for flow:outbox, in order

-- whereabouts(id, row, sets) -> {id, row, held, fields}, nil when there is no row. `held` has the sets that hold the
-- id, in order and by name.
local function whereabouts(id, row, sets)
  local held = {}
  for _, key in ipairs(sets) do
    if redis.call('ZSCORE', key, id) then
      held[#held + 1] = key
      held[key] = true
    end
  end
  local fields = redis.call('HMGET', row, 'group', 'parent', 'parent_queue', 'parent_policy', 'lock', 'dedup')
  if redis.call('HLEN', row) == 0 then return nil end
  return { id = id, row = row, held = held, fields = fields }
end

local function locked(job)
  return job.fields[5] or redis.call('EXISTS', job.row .. ':lock') == 1
end

-- leave_lane(job, b) -> nil, or an ERR: plans what the job's going means for its lane
local function leave_lane(job, b)
  local group = job.fields[1]
  if not group then return nil end
  local l, err = lane(b, group)
  if err then return err end
  if not job.held[l.key] and redis.call('ZSCORE', l.key, job.id) then
    job.held[#job.held + 1] = l.key
    job.held[l.key] = true
  end
  if job.held[l.key] then l.waiting = l.waiting - 1 end
  if job.held[b .. 'active'] then leave(l) end
  ring(l)
  job.lane = l
end

-- goodbye(job, b, reason, why, here_too): plans the row's end and its letters. A flow child that was not dead leaves
-- its death entry, and one that its parent would wait for its loss entry; `here_too` false: not to a parent in this
-- queue, which goes too. `why`: the open children of a flow parent are to be cancelled, for that reason.
local function goodbye(job, b, reason, why, here_too)
  local id = job.id
  local _, parent, parent_queue, policy, _, dedup = unpack(job.fields, 1, 6)
  job.keys = retirees(job.row)
  job.keys[#job.keys + 1] = parked(b, id, dedup)
  if parent and (here_too or queue_of(b, parent_queue) ~= queue_of(b)) then
    if not job.held[b .. 'dead'] then
      letters[#letters + 1] = death_entry(b, id, parent, parent_queue, policy, reason)
    end
    if policy_of(policy) == 'fp' then
      letters[#letters + 1] = loss_entry(b, id, parent, parent_queue, policy, reason)
    end
  end
  job.orphans = why and redis.call('HLEN', job.row .. ':children') > 0
  if job.orphans then
    redis.call('EXISTS', b .. 'flow:cancel:' .. id)
    letters[#letters + 1] = cancel_order(id, why)
  end
  if #letters > 0 then redis.call('LLEN', b .. 'flow:outbox') end
  expelled[#expelled + 1] = job
end

-- write_expelled(b): all but the wakes
local function write_expelled(b)
  for _, job in ipairs(expelled) do
    for _, key in ipairs(job.held) do redis.call('ZREM', key, job.id) end
  end
  write_lanes(b)
  local off = {}
  for _, l in ipairs(touched) do
    if l.waiting == 0 and l.ringed then off[#off + 1] = l.group end
  end
  unring(b, off)
  for _, job in ipairs(expelled) do
    if job.orphans then redis.call('RENAME', job.row .. ':children', b .. 'flow:cancel:' .. job.id) end
    redis.call('DEL', unpack(job.keys))
  end
  push_all('RPUSH', b .. 'flow:outbox', letters)
end
