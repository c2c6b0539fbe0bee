-- Letters on flow:outbox: what a step of this queue has to say to a flow parent, for the pump that delivers it (wire
-- contract, section 6, Flows). Parts joined by NUL; the last may hold any bytes.

local POLICIES = { fp = true, id = true, rd = true, cp = true }

-- a policy of another name, or none, fails the parent
local function policy_of(text)
  return POLICIES[text] and text or 'fp'
end

local function letter(...)
  return table.concat({ ... }, '\0')
end

-- the queue of a parent; the base is emq:{q}:
local function queue_of(b, parent_queue)
  return parent_queue or string.sub(b, 6, -3)
end

-- the child is dead, its row is still there
local function death_entry(b, id, parent, parent_queue, policy, reason)
  return letter('', 'fail', queue_of(b, parent_queue), parent, id, policy_of(policy), reason)
end

-- the child's row is gone for good
local function loss_entry(b, id, parent, parent_queue, policy, reason)
  return letter('', 'gone', queue_of(b, parent_queue), parent, id, policy_of(policy), reason)
end

-- the children in flow:cancel:<id> are to be cancelled
local function cancel_order(id, reason)
  return letter('', 'cancel', id, reason)
end
