#!lua flags=allow-oom
-- mend: one job, lane or other key is put right, as an audit finds it wrong in this very step.
-- KEYS 1 the base emq:{q}:   ARGV as audit, for one item
-- Reply as audit: what was found; the last number is 1 when it was mended. Nothing wrong: nothing is written. Refuses
-- as audit; ERR a mend takes one item; ERR stored metrics. Cost as audit of one item.

-- @include lib/judges
-- @include lib/mend_job

local b = KEYS[1]
local err, what, items = subject()
if err then return err end
if #items > 1 then return redis.error_reply('ERR a mend takes one item') end
local item, of
if items[1] then
  item, of = items[1][1], items[1][2]
end
local wrong
local tokens = 0

if what == 'jobs' or what == 'lane' then
  local j
  j, err = judge_job(b, item, of)
  if not err then err = plan_job(b, j) end
  if err then return err end
  if wakes > 0 then tokens = wake_room(b .. 'wake') end
  write_job(b, j)
  wrong = j.wrong
elseif what == 'lanes' then
  local l = judge_lane(b, item)
  if l.ring == 'missing' then
    wakes = 1
    tokens = wake_room(b .. 'wake')
  end
  write_lane(b, l)
  wrong = l.wrong
elseif what == 'counts' then
  local l = judge_count(b, item, flights(b))
  write_lane(b, l)
  wrong = l.wrong
elseif what == 'dedups' then
  wrong = judge_dedup(b, item)
  if #wrong > 0 then redis.call('DEL', dedup_key(b, item)) end
elseif what == 'repeats' then
  wrong = judge_repeat(b, item)
  tokens = wake_room(b .. 'wake')
  for _, one in ipairs(wrong) do
    if one.place then
      wakes = 1
      redis.call('ZADD', b .. 'repeat', one.place, item)
    elseif one[3] == 'record' then
      redis.call('ZREM', b .. 'repeat', item)
    end
  end
elseif what == 'cancels' then
  wrong = judge_cancel(b, item, letters_of(b))
  if #wrong > 0 then redis.call('RPUSH', b .. 'flow:outbox', cancel_order(item, 'cancelled')) end
elseif what == 'children' then
  wrong = judge_child(b, of, item, letters_of(b))
else
  wrong = judge_queue(b)
  write_queue(b, wrong)
end
push_wakes(b .. 'wake', tokens)

local reply = {}
for i, one in ipairs(wrong) do reply[i] = { one[1], one[2], one[3], one[4] } end
return reply
