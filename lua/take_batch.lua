#!lua flags=allow-oom
-- take_batch: up to size waiting jobs of one source become active on one deadline, if at least min of them wait and
-- may be claimed now. Native twin: EMQ.TAKE.BATCH.
-- KEYS 1 pending, 2 ring, 3 active, 4 the base emq:{q}:   ARGV 1 lease ms, 2 size, 3 min, 4 `flat` or `lanes`
-- Reply as take. `lanes`: all of one lane, the first in turn that has min jobs to give by its ceiling and its rate;
-- lanes with fewer go to the end of the ring, 64 of them at most. A lane's weight does not count. Refuses ERR lease,
-- ERR size, ERR min, ERR source. Cost O(size + ghosts + lanes that are passed) * log N.

-- @include lib/taking

local MOST_PASSED_OVER = 64

local lease, err = positive('lease', ARGV[1])
if err then return err end
local size
size, err = positive('size', ARGV[2])
if err then return err end
local min
min, err = positive('min', ARGV[3])
if err then return err end
local source, b = ARGV[4], KEYS[4]
if source ~= 'flat' and source ~= 'lanes' then return redis.error_reply('ERR source must be flat or lanes') end
local flat = heads(KEYS[1], redis.call('ZCARD', KEYS[1]), 16)
redis.call('LLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
local allowed
allowed, err = allowance(b, KEYS[3])
if err then return err end
if allowed.left < min then return {} end
local most = math.min(size, allowed.left)

-- gives(l) -> how many jobs of the lane could be claimed now
local function gives(l)
  local count = l.waiting
  if l.limit then count = math.min(count, l.limit - l.active) end
  if l.bucket then count = math.min(count, l.bucket.tokens) end
  return count
end

-- fill_from(source, l): claims from the head until there are enough
local function fill_from(from, l)
  while #jobs < most and head(from) do
    local id = head(from)
    use(from)
    if l then l.waiting = l.waiting - 1 end
    local ok, bad = claim(b, id)
    if bad then return bad end
    if ok and l then pay(l) end
    if l and not servable(l) then return nil end
  end
end

local more = false
if source == 'flat' then
  if flat.waiting < min then return {} end
  err = fill_from(flat)
  if err then return err end
  more = flat.used < flat.waiting
else
  flat.waiting = 0
  look_turns(b, KEYS[2])
  local l
  local over = 0
  l, err = turn(b)
  if err then return err end
  while l and gives(l) < min do
    passed_over(l)
    over = over + 1
    l = nil
    if over < MOST_PASSED_OVER and passed < on_ring then
      l, err = turn(b)
      if err then return err end
    end
  end
  if l then
    err = fill_from(l.heads, l)
    if err then return err end
    served(l, true)
  end
  if #jobs == size and size < allowed.left then
    more, err = turn(b)
    if err then return err end
  end
end
more = more and #jobs == size and size < allowed.left or walk.tired and #jobs < allowed.left
if more and redis.call('LLEN', b .. 'wake') == 0 then wakes = 1 end
if #jobs == 0 and flat.used == 0 and passed == 0 then return {} end
local deadline = digits(now() + lease)
end_turns(b)

write_claims(b, KEYS[3], flat, deadline, allowed)
push_wakes(b .. 'wake', 1)
return jobs
