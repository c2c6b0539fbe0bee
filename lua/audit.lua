#!lua flags=no-writes
-- audit: what is wrong with some of a queue's jobs, lanes or other keys, at this instant.
-- KEYS 1 the base emq:{q}:   ARGV 1 `jobs`, `lanes`, `counts`, `dedups`, `repeats` or `cancels`, then ids, groups or
-- names; or `lane`, then a group and an id that waits in its lane, for each; or `children`, then a parent and a child,
-- for each; or `queue`
-- Reply [[kind, subject, detail, 1 when a mend mends it else 0] ...]. Writes nothing, runs on a replica too. Refuses
-- ERR unknown audit, ERR an audit needs items, ERR a queue has no items. Cost O(items * log N); lanes O(items * ring);
-- counts O(jobs in flight) and children O(letters), of which some thousands at most are looked at.

-- @include lib/judges

local b = KEYS[1]
local err, what, items = subject()
if err then return err end
local reply = {}
local function add(wrong)
  for _, one in ipairs(wrong) do reply[#reply + 1] = { one[1], one[2], one[3], one[4] } end
end

if what == 'queue' then add(judge_queue(b)) end
local counts = what == 'counts' and flights(b)
local letters = (what == 'cancels' or what == 'children') and letters_of(b)
for _, pair in ipairs(items) do
  local item, of = pair[1], pair[2]
  if what == 'jobs' or what == 'lane' then
    local j
    j, err = judge_job(b, item, of)
    if err then return err end
    add(j.wrong)
    -- a lane with a job in flight has a count: whoever looks at counts may not know this one
    if j.home == 'active' and j.group and not redis.call('HGET', b .. 'gactive', j.group) then
      add({ { 'count', j.group, item, 0 } })
    end
  elseif what == 'lanes' then
    add(judge_lane(b, item).wrong)
  elseif what == 'counts' then
    add(judge_count(b, item, counts).wrong)
  elseif what == 'dedups' then
    add(judge_dedup(b, item))
  elseif what == 'repeats' then
    add(judge_repeat(b, item))
  elseif what == 'cancels' then
    add(judge_cancel(b, item, letters))
  elseif what == 'children' then
    add(judge_child(b, of, item, letters))
  end
end
return reply
