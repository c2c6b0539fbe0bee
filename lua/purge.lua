#!lua flags=allow-oom
-- purge: jobs are taken out of one set, a bounded step of a drain or a trim.
-- KEYS 1 pending, schedule, dead or a lane, 2 the base emq:{q}:   ARGV 1 reason, 2 offset, 3 limit, 4 age ms, 5 keep
-- (the last two may be empty)
-- Looks at up to limit ids from place offset on, lowest score first; with age or keep only at those that are so old, or
-- that are more than are to be kept. Reply [how many went, how many stayed]: a job under a worker's lock stays. A flow
-- child leaves word for its parent, the open children of a flow parent are to be cancelled. Refuses ERR offset, ERR
-- limit, ERR age, ERR keep, ERR unknown set. Cost O(limit * log N), and O(lanes).

-- @include lib/clock
-- @include lib/page
-- @include lib/expel

local key, b, reason = KEYS[1], KEYS[2], ARGV[1]
if #ARGV ~= 5 then return redis.error_reply('ERR a purge is five arguments') end
local offset, err = natural('offset', ARGV[2])
if err then return err end
local limit
limit, err = positive('limit', ARGV[3])
if err then return err end
local age, keep
if ARGV[4] ~= '' then
  age, err = natural('age', ARGV[4])
  if err then return err end
end
if ARGV[5] ~= '' then
  keep, err = natural('keep', ARGV[5])
  if err then return err end
end
local name = string.sub(key, 1, #b) == b and string.sub(key, #b + 1) or ''
local group = string.match(name, '^g:(.*):pending$')
if name ~= 'pending' and name ~= 'schedule' and name ~= 'dead' and not group then
  return redis.error_reply('ERR unknown set')
end
local last = digits(offset + limit - 1)
local found = redis.call('ZRANGE', key, digits(offset), last, 'WITHSCORES')
local total = redis.call('ZCARD', key)
local oldest = age and now() - age
local ghosts, stayed = {}, 0
local l
if group then
  l, err = lane(b, group)
  if err then return err end
end

for i = 1, #found, 2 do
  local id, score = found[i], tonumber(found[i + 1])
  local goes = not age and not keep
  goes = goes or (age and score <= oldest) or (keep and total - offset - (i - 1) / 2 > keep)
  if not goes then break end
  local row = b .. 'job:' .. id
  local fields = redis.pcall('HMGET', row, 'group', 'parent', 'parent_queue', 'parent_policy', 'lock', 'dedup')
  local job = { id = id, row = row, held = { key, [key] = true }, fields = fields }
  if fields.err then
    if string.sub(fields.err, 1, 9) ~= 'WRONGTYPE' then return fields end
    -- no hash: nothing can be read of it, and it goes with the rest
    job.fields = {}
  end
  if not fields.err and redis.call('HLEN', row) == 0 then
    ghosts[#ghosts + 1] = id
    if l then l.waiting = l.waiting - 1 end
  elseif locked(job) then
    stayed = stayed + 1
  else
    if l then l.waiting = l.waiting - 1 end
    goodbye(job, b, reason, reason, true)
  end
end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

push_all('ZREM', key, ghosts)
write_expelled(b)
push_wakes(b .. 'wake', tokens)
return { #ghosts + #expelled, stayed }
