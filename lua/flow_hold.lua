#!lua
-- flow_hold: a flow parent is held, and its children are listed, or the first of them.
-- KEYS 1 row   ARGV 1 the base emq:{q}:, 2 id, 3 payload, 4 priority, 5 opts, 6 its own parent's id, 7 that one's
-- queue, 8 policy (6 to 8 empty for a root, 7 for a parent in this queue), 9 the number of children, then child id,
-- child queue (empty: this one) for some of them
-- Reply [word, children not yet listed, `landing`]: `held`; `exists`; `landed` (it was here and has gone), `unwanted`
-- (its parent does not wait for it). Refuses EMQKIND; ERR children, ERR policy; EMQSTATE when the row is another's.
-- Cost O(children).

-- @include lib/clock
-- @include lib/push
-- @include lib/landing

local row, b, id = KEYS[1], ARGV[1], ARGV[2]
local parent, parent_queue, policy = ARGV[6], ARGV[7], ARGV[8]
local err = admissible(id)
if err then return err end
local count
count, err = positive('children', ARGV[9])
if err then return err end
local words, given = listing(10, {})
if (#ARGV - 9) % 2 ~= 0 or given > count then
  return redis.error_reply('ERR children must be ids and queues, no more than their number')
end
local child = parent ~= ''
if child then
  err = good_policy(policy)
  if err then return err end
end
redis.call('ZCARD', b .. 'flow:held')
local elsewhere = child and parent_queue ~= ''
local was_here = child and marked(b, id)
if child and not elsewhere then
  local value = redis.call('HGET', b .. 'job:' .. parent .. ':children', id)
  if value == '' then return { 'landed', 0, 0 } end
  if value ~= '+' then return { 'unwanted', 0, 0 } end
end
if redis.call('HLEN', row) > 0 then
  if child then
    err = select(2, kinship(row, parent, parent_queue, was_here))
    if err then return err end
  end
  local fields = redis.call('HMGET', row, 'landing')
  local landing
  landing, err = stored('landing', fields[1])
  if err then return err end
  local open
  open, err = stored('dependencies', redis.call('GET', row .. ':dependencies'))
  if err then return err end
  return { 'exists', math.max(0, open - redis.call('HLEN', row .. ':children')), landing }
end
if was_here then return { 'landed', 0, 0 } end
redis.call('HLEN', row .. ':children')
redis.call('EXISTS', row .. ':dependencies')
local at = now()

local more = child and link(parent, parent_queue, policy) or {}
more[#more + 1] = 'landing'
more[#more + 1] = digits(count)
admit(row, 'awaiting_children', ARGV[3], ARGV[4], ARGV[5], more)
redis.call('SET', row .. ':dependencies', digits(count))
push_all('HSET', row .. ':children', words)
redis.call('ZADD', b .. 'flow:held', digits(at), id)
if child then mark(b, at, { id }) end
return { 'held', count - given, count }
