#!lua flags=allow-oom
-- take: up to count waiting jobs become active on one deadline, with all that a consumer wants to know. Native twin:
-- EMQ.TAKE.
-- KEYS 1 pending, 2 ring, 3 active, 4 the base emq:{q}:   ARGV 1 lease ms, 2 count, 3 `flat`, `lanes` or `both`
-- Reply [[id, payload, attempts, group, opts, credit]...]; empty when paused, at a limit of the queue, or when nothing
-- can be served. Lanes take turns along the ring; of the flat head and the head of the lane whose turn it is the lower
-- goes first. Ghosts are dropped and do not count. When count jobs were taken and more could be served, an empty wake
-- list gets one token: the next consumer. Refuses ERR lease, ERR count, ERR source. Cost O(count + ghosts + lanes that
-- leave the ring) * log N.

-- @include lib/taking
-- @include lib/bytes

local lease, err = positive('lease', ARGV[1])
if err then return err end
local count
count, err = positive('count', ARGV[2])
if err then return err end
local source, b = ARGV[3], KEYS[4]
if source ~= 'flat' and source ~= 'lanes' and source ~= 'both' then
  return redis.error_reply('ERR source must be flat, lanes or both')
end
local flat = heads(KEYS[1], redis.call('ZCARD', KEYS[1]), 16)
redis.call('LLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
local allowed
allowed, err = allowance(b, KEYS[3])
if err then return err end
if allowed.left < 1 then return {} end
local most = math.min(count, allowed.left)
if source == 'lanes' then flat.waiting = 0 end
if source ~= 'flat' then look_turns(b, KEYS[2]) end

while #jobs < most do
  local id, score = head(flat)
  local l, ok
  l, err = turn(b)
  if err then return err end
  local from = flat
  if l then
    local first, its_score = head(l.heads)
    if not id or its_score < score or (its_score == score and not precedes(id, first)) then
      id, from = first, l.heads
      l.waiting = l.waiting - 1
    end
  end
  if not id then break end
  use(from)
  ok, err = claim(b, id)
  if err then return err end
  if ok and from ~= flat then
    pay(l)
    served(l)
  end
end

local more = false
if #jobs < allowed.left then
  if #jobs == count then more = flat.used < flat.waiting end
  if #jobs == count and not more then
    more, err = turn(b)
    if err then return err end
  end
  more = more or walk.tired
end
if more and redis.call('LLEN', b .. 'wake') == 0 then wakes = 1 end
if #jobs == 0 and flat.used == 0 and passed == 0 then return {} end
local deadline = digits(now() + lease)
end_turns(b)

write_claims(b, KEYS[3], flat, deadline, allowed)
push_wakes(b .. 'wake', 1)
return jobs
