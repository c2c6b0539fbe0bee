-- Landing a flow: what a parent knows of children that have not landed, and rows of jobs that belong to one.
-- A child's value in :children is the queue it is in, empty for the parent's own, with a `+` before it until it has
-- landed.

-- @include lib/row
-- @include lib/push
-- @include lib/admit
-- @include lib/outbox

-- kinds(first, step) -> nil, or the refusal of the first id among ARGV that is no job's
local function kinds(first, step)
  for i = first, #ARGV, step do
    local err = admissible(ARGV[i])
    if err then return err end
  end
end

-- nil, or the refusal
local function good_policy(text)
  if not POLICIES[text] then return redis.error_reply('ERR policy must be fp, id, rd or cp') end
end

local function taken()
  return redis.error_reply('EMQSTATE flow child exists')
end

-- kinship(row, parent, parent_queue, known) -> whether the row is there, which is then that parent's child's; or nil
-- and the refusal. parent_queue is empty for a parent in this queue. A dead child that is not marked (`known`) is of an
-- earlier life of its flow: nobody would hear of it again.
local function kinship(row, parent, parent_queue, known)
  if redis.call('HLEN', row) == 0 then return false end
  local fields = redis.call('HMGET', row, 'parent', 'parent_queue', 'state')
  if fields[1] == parent and (fields[2] or '') == parent_queue and (known or fields[3] ~= 'dead') then
    return true
  end
  return nil, taken()
end

-- link(parent, parent_queue, policy) -> the fields that are a child's way to its parent
local function link(parent, parent_queue, policy)
  if parent_queue == '' then return { 'parent', parent, 'parent_policy', policy } end
  return { 'parent', parent, 'parent_policy', policy, 'parent_queue', parent_queue }
end

-- listing(first, known) -> {id, value ...} of the children in ARGV from `first` on, id and queue each, and how many
-- they are; those in `known` are left out, and one that comes twice is one
local function listing(first, known)
  local words, count = {}, 0
  for i = first, #ARGV, 2 do
    local id, queue = ARGV[i], ARGV[i + 1] or ''
    if not known[id] then
      known[id] = true
      count = count + 1
      words[#words + 1] = id
      words[#words + 1] = '+' .. queue
    end
  end
  return words, count
end

-- Marks of children whose landing their parents have still to be told of: leaves of parents in other queues, and all
-- that are parents themselves. One that is older than a day goes when the next is made: whoever landed it is not coming
-- back.
local MARKED_MS = 86400000

-- marked(b, id) -> whether such a child is here, or was
local function marked(b, id)
  return redis.call('ZSCORE', b .. 'flow:landed', id) and true or false
end

-- mark(b, at, children)
local function mark(b, at, children)
  local words = {}
  for _, id in ipairs(children) do
    words[#words + 1] = digits(at)
    words[#words + 1] = id
  end
  push_all('ZADD', b .. 'flow:landed', words)
  redis.call('ZREMRANGEBYSCORE', b .. 'flow:landed', '-inf', digits(at - MARKED_MS))
end

local function unlanded(value)
  return value and string.sub(value, 1, 1) == '+'
end

-- mark_landed(row, landing, marks) -> how many have still to land; `marks` has id, value ... without the `+`, `landing`
-- is the number that is stored
local function mark_landed(row, landing, marks)
  if #marks == 0 then return landing end
  landing = landing - #marks / 2
  push_all('HSET', row .. ':children', marks)
  if landing > 0 then
    redis.call('HSET', row, 'landing', digits(landing))
    return landing
  end
  redis.call('HDEL', row, 'landing')
  return 0
end
