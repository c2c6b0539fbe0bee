-- Whether the flow keys that a settle was given are those of the row's own parent.

-- @include lib/outbox

-- kin(b, parent, parent_queue, given) -> where the parent is: `none`, `here` or `elsewhere`; false when what was given
-- is not that parent's. `parent` and `parent_queue` are the row's; given: {parent, queue, keys, names}, `queue` false
-- for a parent here, whose keys must be its row key with these names behind.
local function kin(b, parent, parent_queue, given)
  if not parent then return #given.keys == 0 and 'none' end
  if given.parent ~= parent then return false end
  if queue_of(b, parent_queue) ~= queue_of(b) then
    return #given.keys == 1 and given.keys[1] == b .. 'flow:outbox' and given.queue == parent_queue and 'elsewhere'
  end
  if given.queue or #given.keys ~= #given.names then return false end
  for i, name in ipairs(given.names) do
    if given.keys[i] ~= b .. 'job:' .. parent .. name then return false end
  end
  return 'here'
end
