#!lua flags=allow-oom
-- remove: an operator takes a job out, wherever it is.
-- KEYS 1 row, 2 pending, 3 active, 4 schedule, 5 dead [, 6 the dedup key]   ARGV 1 id, 2 the base emq:{q}:
-- Reply 1, or -1 when the row is gone. The dedup key goes too if it holds this id. A flow child that is not dead leaves
-- its death entry on flow:outbox. Refuses EMQLOCK while a worker's lock is there. Cost O(log N), O(lanes) for a
-- grouped job.

-- @include lib/lanes
-- @include lib/retire
-- @include lib/outbox

local id, b = ARGV[1], ARGV[2]
local places = {}
for i = 2, 5 do
  if redis.call('ZSCORE', KEYS[i], id) then places[#places + 1] = KEYS[i] end
end
local owner = KEYS[6] and redis.call('GET', KEYS[6])
local fields = redis.call('HMGET', KEYS[1], 'group', 'parent', 'parent_queue', 'parent_policy', 'lock')
if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
if fields[5] or redis.call('EXISTS', KEYS[1] .. ':lock') == 1 then
  return redis.error_reply('EMQLOCK job is locked')
end
local l, err
if fields[1] then
  l, err = lane(b, fields[1])
  if err then return err end
  if redis.call('ZSCORE', l.key, id) then
    places[#places + 1] = l.key
    l.waiting = l.waiting - 1
  end
  if redis.call('ZSCORE', KEYS[3], id) then leave(l) end
  ring(l)
end
local keys = retirees(KEYS[1])
local letters = {}
if fields[2] and not redis.call('ZSCORE', KEYS[5], id) then
  redis.call('LLEN', b .. 'flow:outbox')
  letters[1] = death_entry(b, id, fields[2], fields[3], fields[4], 'removed')
end
local room = wakes > 0 and wake_room(b .. 'wake') or 0

for _, key in ipairs(places) do redis.call('ZREM', key, id) end
write_lanes(b)
if l and l.waiting == 0 and l.ringed then redis.call('LREM', b .. 'ring', '0', l.group) end
if owner == id then redis.call('DEL', KEYS[6]) end
redis.call('DEL', unpack(keys))
push_all('RPUSH', b .. 'flow:outbox', letters)
push_wakes(b .. 'wake', room)
return 1
