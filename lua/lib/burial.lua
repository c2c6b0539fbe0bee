-- What a flow parent hears of children that die: BURY and LOSE of the wire contract, section 4, and how a death climbs
-- from parent to parent (DIE). Planned in memory, as all of lib/fanin is.

-- @include lib/fanin

local HIGHEST_CLIMB = 8

local bury

-- DIE: the parent is dead, and its own parent hears of it
local function die(b, f, child, reason, height)
  redis.call('ZCARD', b .. 'dead')
  redis.call('ZCARD', b .. 'flow:held')
  local last_error = 'child ' .. child .. ' failed: ' .. reason
  f.state = 'dead'
  buried = buried + 1
  deed('ZREM', b .. 'flow:held', f.id)
  deed('HSET', f.row, 'state', 'dead', 'last_error', last_error)
  deed('ZADD', b .. 'dead', digits(now()), f.id)
  local key = parked(b, f.id, f.dedup)
  if key then deed('DEL', key) end
  news[#news + 1] = cjson.encode({ event = 'failed', job = f.id, error = string.sub(last_error, 1, 512) })
  if not f.parent then return nil end
  if height < HIGHEST_CLIMB and queue_of(b, f.parent_queue) == queue_of(b) then
    return select(2, bury(b, f.parent, f.id, f.policy, reason, false, height + 1))
  end
  letters[#letters + 1] = death_entry(b, f.id, f.parent, f.parent_queue, f.policy, reason)
end

-- bury(b, parent, child, policy, reason, lost, height) -> `gone`, `known`, `counted`, `released` or `failed`; or nil
-- and an ERR. `lost`: the child's row is gone for good (LOSE). `height`: how many parents below have died of this,
-- from 1.
function bury(b, parent, child, policy, reason, lost, height)
  local f, err = parent_plan(b, parent)
  if not f then return not err and 'gone' or nil, err end
  -- a second time in one step: somebody has tied parents into a ring
  if f.heard or not open_child(f, child) then return 'known' end
  f.heard = true
  policy = policy_of(policy)
  if policy ~= 'fp' then
    close(f, child)
    if policy ~= 'rd' then deed('HSET', f.row .. ':unsuccessful', child, reason) end
    if policy == 'cp' and f.state == 'awaiting_children' then
      f.open = 0
      deed('SET', f.row .. ':dependencies', '0')
      land_less(f, f.landing or 0)
      if f.listed > 0 then
        redis.call('EXISTS', b .. 'flow:cancel:' .. f.id) -- what is there is replaced
        deed('RENAME', f.row .. ':children', b .. 'flow:cancel:' .. f.id)
        letters[#letters + 1] = cancel_order(f.id, 'child ' .. child .. ' failed')
      end
    end
    local freed
    freed, err = free(b, f)
    if err then return nil, err end
    return freed and 'released' or 'counted'
  end
  if lost then close(f, child) end
  deed('HSET', f.row .. ':failed', child, reason)
  if f.state ~= 'awaiting_children' then return 'counted' end
  err = die(b, f, child, reason, height)
  if err then return nil, err end
  return 'failed'
end
