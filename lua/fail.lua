#!lua flags=allow-oom
-- fail: the job's handler failed; it waits for its next try, or is dead at the cap. Native twin, but for flow children:
-- EMQ.FAIL.
-- KEYS 1 active, 2 schedule, 3 dead, 4 row   ARGV 1 id, 2 token, 3 delay ms, 4 max attempts, 5 error, 6 the base
-- A flow child whose parent is here: KEYS also 5 the parent's :failed, 6 its :unsuccessful, 7 its :dependencies, 8 its
-- row; ARGV also 7 `sq:` and the policy, 8 the parent's id. One whose parent is in another queue: KEYS also
-- 5 flow:outbox; ARGV also 7 `xq:` and the policy, 8 the parent's queue, 9 the parent's id.
-- Reply "scheduled" or "dead". Refuses ERR delay, ERR max; EMQSTALE when the row is gone or for another token, EMQSTATE
-- for flow keys that are not those of the row's parent and for a job that is neither active nor waiting. Cost O(log N),
-- O(lanes) for a grouped job; a death that climbs costs that again for each of up to 8 parents.

-- @include lib/row
-- @include lib/clock
-- @include lib/settle
-- @include lib/schedule
-- @include lib/kin
-- @include lib/burial
-- @include lib/room
-- @include lib/dedup

local id, token, b = ARGV[1], ARGV[2], ARGV[6]
local delay, err = anyint('delay', ARGV[3])
if err then return err end
local max
max, err = positive('max', ARGV[4])
if err then return err end
local active = redis.call('ZSCORE', KEYS[1], id)
local head = schedule_head(KEYS[2])
redis.call('ZCARD', KEYS[3])
if #KEYS == 8 then
  for _, i in ipairs({ 5, 6, 8 }) do redis.call('HLEN', KEYS[i]) end
  redis.call('GET', KEYS[7])
elseif #KEYS == 5 then
  redis.call('LLEN', KEYS[5])
end
local fields = redis.call('HMGET', KEYS[4], 'attempts', 'group', 'parent', 'parent_queue', 'dedup')
if not fields[1] and redis.call('HLEN', KEYS[4]) == 0 then return redis.error_reply('EMQSTALE job gone') end
local attempts
attempts, err = fenced('retry', fields[1], token)
if err then return err end
local where, policy = string.match(ARGV[7] or '', '^([sx]q):(.*)$')
local parent = where == 'xq' and ARGV[9] or ARGV[8]
local whose = kin(b, fields[3], fields[4], {
  parent = where and parent,
  queue = where == 'xq' and ARGV[8],
  keys = { unpack(KEYS, 5) },
  names = { ':failed', ':unsuccessful', ':dependencies', '' },
})
if not whose then return redis.error_reply('EMQSTATE retry flow keys') end
local place
place, err = held('retry', b, id, active, fields[2], b .. 'pending')
if err then return err end
local at = now()
local dies = attempts >= max
local freed = dies and parked(b, id, fields[5])
if dies then
  err = select(2, stored('metrics:failed', redis.call('HGET', b .. 'metrics:failed', 'count')))
  if err then return err end
  if whose == 'here' then
    err = select(2, bury(b, parent, id, policy, ARGV[5], false, 1))
    if err then return err end
  elseif whose == 'elsewhere' then
    letters[1] = death_entry(b, id, parent, fields[4], policy, ARGV[5])
  end
  err = look_fanin(b)
  if err then return err end
elseif earliest(head, id, at + delay) then
  wakes = wakes + 1
end
room(b, KEYS[1], active and 1 or 0)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

depart(b, id, place)
redis.call('HSET', KEYS[4], 'state', dies and 'dead' or 'scheduled', 'last_error', ARGV[5])
if dies then
  redis.call('ZADD', KEYS[3], digits(at), id)
  redis.call('HINCRBY', b .. 'metrics:failed', 'count', 1)
  if freed then redis.call('DEL', freed) end
else
  redis.call('ZADD', KEYS[2], digits(at + delay), id)
end
write_fanin(b)
push_wakes(b .. 'wake', tokens)
return dies and 'dead' or 'scheduled'
