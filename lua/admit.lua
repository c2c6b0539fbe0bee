#!lua
-- admit: a new job of a lane, or with a dedup id; at once or for a time.
-- KEYS 1 row, 2 the base emq:{q}:   ARGV 1 id, 2 payload, 3 priority, 4 opts, 5 `now`, `in` or `at`, 6 ms, 7 group, 8
-- dedup id, 9 `drop`, `throttle` or `replace`, 10 ttl ms, 11 keep, 0 or 1 (priority, opts, group and dedup id may be
-- empty)
-- Reply [`enqueued`, `scheduled`, `duplicate`, `deduplicated` or `replaced`, the id of the job that stands]. Refuses
-- EMQKIND; ERR an admission, ERR mode, ERR ms, ERR dedup, ERR ttl, ERR keep. Cost O(log N), O(lanes) for a lane.

-- @include lib/lapse
-- @include lib/when
-- @include lib/schedule
-- @include lib/admit
-- @include lib/dedup
-- @include lib/page

local id, payload, rank, opts, mode, ms, group, dedup, how, ttl_text, keep = unpack(ARGV)
local b = KEYS[2]
local err = admissible(id)
if err then return err end
if #ARGV ~= 11 then return redis.error_reply('ERR an admission is eleven arguments') end
local at
if mode ~= 'now' then
  at, err = run_at(mode, ms)
  if err then
    return mode == 'in' and err or mode == 'at' and err or redis.error_reply('ERR mode must be now, in or at')
  end
end
local ttl
if dedup ~= '' then
  if how ~= 'drop' and how ~= 'throttle' and how ~= 'replace' then
    return redis.error_reply('ERR dedup must be drop, throttle or replace')
  end
  ttl, err = natural('ttl', ttl_text)
  if err then return err end
  if keep ~= '0' and keep ~= '1' then return redis.error_reply('ERR keep must be 0 or 1') end
  if ttl < 1 and (keep == '1' or how == 'throttle') then
    return redis.error_reply('ERR ttl must be a positive integer')
  end
end
if redis.call('HLEN', KEYS[1]) > 0 then return { 'duplicate', id } end
local head = schedule_head(b .. 'schedule')

local at_now = dedup ~= '' and now()
local owner = dedup ~= '' and redis.call('GET', dedup_key(b, dedup))
if owner then
  local row = b .. 'job:' .. owner
  local fields = redis.call('HMGET', row, 'state', 'group')
  local there = alive(row, fields[1])
  local scheduled = redis.call('ZSCORE', b .. 'schedule', owner)
  local waits = scheduled or redis.call('ZSCORE', b .. 'pending', owner)
  if not waits and fields[2] then waits = redis.call('ZSCORE', lane_key(b, fields[2]), owner) end
  if there and how == 'replace' and waits then
    local moves = scheduled and at
    if moves and earliest(head, owner, at) then wakes = 1 end
    local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

    redis.call('HSET', row, 'payload', payload)
    if opts ~= '' then redis.call('HSET', row, 'opts', opts) end
    if ttl > 0 then redis.call('PEXPIREAT', dedup_key(b, dedup), digits(at_now + ttl)) end
    if moves then redis.call('ZADD', b .. 'schedule', digits(at), owner) end
    push_wakes(b .. 'wake', tokens)
    return { 'replaced', owner }
  end
  -- a key without a TTL goes with its job: one without a job is nobody's
  local nobody = not there and redis.call('PTTL', dedup_key(b, dedup)) == -1
  if not nobody and not (there and how == 'replace') then return { 'deduplicated', owner } end
end

local to
if at then
  if earliest(head, id, at) then wakes = 1 end
elseif group ~= '' then
  to, err = ready(b, nil, group, rank, false)
else
  redis.call('ZCARD', b .. 'pending')
  to, err = ready(b, b .. 'pending', nil, rank, false)
end
if err then return err end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0
local more = {}
if group ~= '' then more = { 'group', group } end
if dedup ~= '' then
  more[#more + 1] = 'dedup'
  more[#more + 1] = dedup
  if ttl > 0 then
    more[#more + 1] = 'dedup_ttl'
    more[#more + 1] = digits(ttl)
  end
  if keep == '1' then
    more[#more + 1] = 'dedup_keep'
    more[#more + 1] = '1'
  end
end

admit(KEYS[1], at and 'scheduled' or 'pending', payload, rank, opts, more)
if dedup ~= '' then park(b, dedup, id, ttl, at_now) end
if at then
  redis.call('ZADD', b .. 'schedule', digits(at), id)
else
  redis.call('ZADD', to.key, to.score, id)
end
write_lanes(b)
push_wakes(b .. 'wake', tokens)
return { at and 'scheduled' or 'enqueued', id }
