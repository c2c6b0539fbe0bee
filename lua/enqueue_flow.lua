#!lua
-- enqueue_flow: a flow of one queue lands whole: its children can be claimed, its parents are held.
-- KEYS 1 pending, 2 wake, 3... the row of each job, the root first   ARGV 1 the base emq:{q}:, then for each job: id,
-- payload, priority, opts, the place of its parent among the jobs (from 1; the root 0), policy (the root: empty)
-- Reply 1; 0 when the root has a row already: nothing changes then; 2 when that row has not landed whole. Refuses
-- EMQKIND; ERR a flow, ERR parent, ERR policy; EMQSTATE when another job has a row. Cost O(jobs * log N).

-- @include lib/wake
-- @include lib/clock
-- @include lib/landing

local b, size = ARGV[1], 6
local err = kinds(2, size)
if err then return err end
if #KEYS < 4 or #ARGV ~= 1 + size * (#KEYS - 2) then
  return redis.error_reply('ERR a flow is six arguments for each of two or more rows')
end
local jobs, held, seen = {}, {}, {}
for i = 2, #ARGV, size do
  if seen[ARGV[i]] then return redis.error_reply('ERR a flow names each job once') end
  seen[ARGV[i]] = true
end
for i = 1, #KEYS - 2 do
  local id, payload, rank, opts, parent, policy = unpack(ARGV, size * i - 4, size * i + 1)
  local job = { row = KEYS[i + 2], id = id, payload = payload, rank = rank, opts = opts, policy = policy }
  job.children = {}
  if i > 1 then
    local place = integer(parent)
    job.parent = place and place >= 1 and place < i and jobs[place]
    if not job.parent then return redis.error_reply('ERR parent must be the place of an earlier job') end
    err = good_policy(policy)
    if err then return err end
    if #job.parent.children == 0 then held[#held + 1] = job.parent end
    local children = job.parent.children
    children[#children + 1] = id
    children[#children + 1] = ''
  end
  jobs[i] = job
end
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', b .. 'flow:held')
local room = wake_room(KEYS[2])
local there
for i = 2, #jobs do there = redis.call('HLEN', jobs[i].row) > 0 or there end
if redis.call('HLEN', KEYS[3]) > 0 then return redis.call('HEXISTS', KEYS[3], 'landing') == 1 and 2 or 0 end
if there then return taken() end
for _, job in ipairs(held) do
  redis.call('HLEN', job.row .. ':children')
  redis.call('EXISTS', job.row .. ':dependencies')
end
local at = digits(now())

for _, job in ipairs(jobs) do
  local holds = #job.children > 0
  local way = job.parent and link(job.parent.id, '', job.policy)
  admit(job.row, holds and 'awaiting_children' or 'pending', job.payload, job.rank, job.opts, way)
  if holds then
    redis.call('SET', job.row .. ':dependencies', digits(#job.children / 2))
    push_all('HSET', job.row .. ':children', job.children)
    redis.call('ZADD', b .. 'flow:held', at, job.id)
  else
    redis.call('ZADD', KEYS[1], priority(job.rank), job.id)
    wakes = wakes + 1
  end
end
push_wakes(KEYS[2], room)
return 1
