#!lua flags=allow-oom
-- complete: the job is done and leaves no key behind. Native twin, but for flow children: EMQ.COMPLETE.
-- KEYS 1 active, 2 row   ARGV 1 id, 2 token, 3 the base emq:{q}:
-- A flow child whose parent is here: KEYS also 3 the parent's :dependencies, 4 its :processed, 5 its row; ARGV also 4
-- the parent's id, 5 the child's result. One whose parent is in another queue: KEYS also 3 flow:outbox; ARGV also 4
-- the parent's id, 5 the result, 6 `xq`, 7 the parent's queue.
-- Reply 1, or 0 when the row is gone (done already). Refuses EMQSTALE for another token, EMQSTATE for flow keys that
-- are not those of the row's parent and for a job that is neither active nor waiting. Cost O(log N), O(lanes) for a
-- grouped job.

-- @include lib/row
-- @include lib/settle
-- @include lib/retire
-- @include lib/kin
-- @include lib/fanin
-- @include lib/room
-- @include lib/dedup

local id, token, b = ARGV[1], ARGV[2], ARGV[3]
local active = redis.call('ZSCORE', KEYS[1], id)
if #KEYS == 5 then
  redis.call('GET', KEYS[3])
  redis.call('HLEN', KEYS[4])
  redis.call('HLEN', KEYS[5])
elseif #KEYS == 3 then
  redis.call('LLEN', KEYS[3])
end
local fields = redis.call('HMGET', KEYS[2], 'attempts', 'group', 'parent', 'parent_queue', 'dedup', 'dedup_keep')
if not fields[1] and redis.call('HLEN', KEYS[2]) == 0 then return 0 end
local _, err = fenced('complete', fields[1], token)
if err then return err end
local parent, result = ARGV[4], ARGV[5]
local whose = kin(b, fields[3], fields[4], {
  parent = parent,
  queue = ARGV[6] == 'xq' and ARGV[7],
  keys = { unpack(KEYS, 3) },
  names = { ':dependencies', ':processed', '' },
})
if not whose or (whose ~= 'none' and not result) then return redis.error_reply('EMQSTATE complete flow keys') end
local place
place, err = held('complete', b, id, active, fields[2], b .. 'pending')
if err then return err end
_, err = stored('metrics:completed', redis.call('HGET', b .. 'metrics:completed', 'count'))
if err then return err end
if whose == 'here' then
  err = select(2, join(b, parent, id, result))
  if err then return err end
elseif whose == 'elsewhere' then
  letters[1] = letter(ARGV[7], parent, id, result)
end
err = look_fanin(b)
if err then return err end
local keys = retirees(KEYS[2])
if not fields[6] then keys[#keys + 1] = parked(b, id, fields[5]) end
room(b, KEYS[1], active and 1 or 0)
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

depart(b, id, place)
write_fanin(b)
redis.call('DEL', unpack(keys))
redis.call('HINCRBY', b .. 'metrics:completed', 'count', 1)
push_wakes(b .. 'wake', tokens)
return 1
