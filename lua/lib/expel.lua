-- How a job is taken out, wherever it is, for whoever does not work on it.

-- @include lib/lanes
-- @include lib/retire
-- @include lib/outbox

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
  local fields = redis.call('HMGET', row, 'group', 'parent', 'parent_queue', 'parent_policy', 'lock')
  if redis.call('HLEN', row) == 0 then return nil end
  return { id = id, row = row, held = held, fields = fields }
end

-- expel(job, b, reason, dedup, why) -> nil, or the refusal. The job leaves every place and RETIREs, and the key
-- `dedup`, if given, is deleted. A flow child that was not dead leaves its death entry, and one that its parent would
-- wait for its loss entry. `why`: the open children of a flow parent are to be cancelled, for that reason.
local function expel(job, b, reason, dedup, why)
  local id, held = job.id, job.held
  local group, parent, parent_queue, policy, lock = unpack(job.fields, 1, 5)
  if lock or redis.call('EXISTS', job.row .. ':lock') == 1 then return redis.error_reply('EMQLOCK job is locked') end
  local l, err
  if group then
    l, err = lane(b, group)
    if err then return err end
    if redis.call('ZSCORE', l.key, id) then
      held[#held + 1] = l.key
      l.waiting = l.waiting - 1
    end
    if held[b .. 'active'] then leave(l) end
    ring(l)
  end
  local keys = retirees(job.row)
  local letters = {}
  if parent and not held[b .. 'dead'] then
    letters[1] = death_entry(b, id, parent, parent_queue, policy, reason)
  end
  if parent and policy_of(policy) == 'fp' then
    letters[#letters + 1] = loss_entry(b, id, parent, parent_queue, policy, reason)
  end
  local orphans = why and redis.call('HLEN', job.row .. ':children') > 0
  if orphans then
    redis.call('EXISTS', b .. 'flow:cancel:' .. id)
    letters[#letters + 1] = cancel_order(id, why)
  end
  if #letters > 0 then redis.call('LLEN', b .. 'flow:outbox') end
  local room = wakes > 0 and wake_room(b .. 'wake') or 0

  for _, key in ipairs(held) do redis.call('ZREM', key, id) end
  write_lanes(b)
  if l and l.waiting == 0 and l.ringed then redis.call('LREM', b .. 'ring', '0', l.group) end
  if dedup then redis.call('DEL', dedup) end
  if orphans then redis.call('RENAME', job.row .. ':children', b .. 'flow:cancel:' .. id) end
  redis.call('DEL', unpack(keys))
  push_all('RPUSH', b .. 'flow:outbox', letters)
  push_wakes(b .. 'wake', room)
  return nil
end
