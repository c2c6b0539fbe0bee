#!lua
-- flow_land: children of a held flow parent land and can be claimed.
-- KEYS 1 pending, 2 wake, 3 the base emq:{q}:   ARGV 1 the parent's id, 2 its queue (empty: this one), then for each
-- child: id, payload, priority, opts, policy
-- A child lands once: one of a parent in this queue while its parent's list says that it has not landed, and the list
-- says so then; one of a parent in another queue unless it is in flow:landed, and then it is there. Reply how many
-- rows were made; -1 when a parent in this queue is gone. Refuses EMQKIND; ERR children, ERR policy; EMQSTATE when a
-- row is another's, or the parent's list is not whole. Cost O(children * log N).

-- @include lib/wake
-- @include lib/clock
-- @include lib/landing

local b, parent, parent_queue, size = KEYS[3], ARGV[1], ARGV[2], 5
local err = kinds(3, size)
if err then return err end
if #ARGV < 2 + size or (#ARGV - 2) % size ~= 0 then
  return redis.error_reply('ERR children must be five arguments each')
end
for i = 2 + size, #ARGV, size do
  err = good_policy(ARGV[i])
  if err then return err end
end
redis.call('ZCARD', KEYS[1])
local room = wake_room(KEYS[2])
local here = parent_queue == ''
local parent_row = b .. 'job:' .. parent
local landing
if here then
  landing, err = stored('landing', redis.call('HGET', parent_row, 'landing'))
  if err then return err end
  local listed = redis.call('HLEN', parent_row .. ':children')
  if redis.call('HLEN', parent_row) == 0 then return -1 end
  local open
  open, err = stored('dependencies', redis.call('GET', parent_row .. ':dependencies'))
  if err then return err end
  if listed < open then return redis.error_reply('EMQSTATE flow children not listed') end
else
  redis.call('ZCARD', b .. 'flow:landed')
end
local fresh, marks, seen = {}, {}, {}
for i = 3, #ARGV, size do
  local id = ARGV[i]
  local row = b .. 'job:' .. id
  local wanted
  if here then
    wanted = redis.call('HGET', parent_row .. ':children', id) == '+'
  else
    wanted = not marked(b, id)
  end
  if wanted and not seen[id] then
    seen[id] = true
    local there
    there, err = kinship(row, parent, parent_queue, false)
    if err then return err end
    if not there then fresh[#fresh + 1] = { row = row, id = id, words = { unpack(ARGV, i + 1, i + 4) } } end
    marks[#marks + 1] = id
    if here then marks[#marks + 1] = '' end
  end
end
local at = now()

for _, child in ipairs(fresh) do
  local payload, rank, opts, policy = unpack(child.words)
  admit(child.row, 'pending', payload, rank, opts, link(parent, parent_queue, policy))
  redis.call('ZADD', KEYS[1], priority(rank), child.id)
end
if here then
  mark_landed(parent_row, landing, marks)
else
  mark(b, at, marks)
end
wakes = #fresh
push_wakes(KEYS[2], room)
return #fresh
