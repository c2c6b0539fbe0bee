-- The death entry of a flow child, for the pump that tells its parent (wire contract, section 6): joined by NUL: empty,
-- `fail`, the parent's queue, parent id, child id, `fp` or `id`, error.

local function death_entry(b, id, parent, parent_queue, policy, reason)
  local queue = parent_queue or string.sub(b, 6, -3) -- the base is emq:{q}:
  return table.concat({ '', 'fail', queue, parent, id, policy == 'id' and 'id' or 'fp', reason }, '\0')
end
