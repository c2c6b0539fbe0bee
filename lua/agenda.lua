#!lua flags=no-writes
-- agenda: what a consumer has to know between its beats.
-- KEYS 1 schedule, 2 the base emq:{q}:   ARGV none.
-- Reply [ms until something is due, zero or negative when it is now: the first scheduled job, the first lane that
-- waits, or the next token of the rate while jobs wait for it; nil when nothing is, the recovery leg kept in meta, or
-- nil, the length of flow:outbox; nil when that is no list, 1 when the queue or a lane has a rate else 0, ms until the
-- first repeat, or nil]. Cost O(log N).

-- @include lib/number
-- @include lib/clock
-- @include lib/bucket

local b = KEYS[2]
local first = redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')[2]
local meta = redis.call('HMGET', b .. 'meta', 'recovery', 'paused', 'max', 'duration')

local failed
-- ask(command...) -> the reply, nil for a key of another type: what is broken must not keep the rest from anybody, and
-- whoever works with it says what is wrong
local function ask(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then failed = failed or reply end
  return nil
end
local letters = ask('LLEN', b .. 'flow:outbox')
local lane_score = (ask('ZRANGE', b .. 'gwait', '0', '0', 'WITHSCORES') or {})[2]
local repeat_score = (ask('ZRANGE', b .. 'repeat', '0', '0', 'WITHSCORES') or {})[2]
local max = integer(meta[3]) or 0
local limited = max >= 1 or (ask('HLEN', b .. 'gmax') or 0) > 0
local full = integer(ask('GET', b .. 'limiter')) or 0
local waits = (ask('ZCARD', b .. 'pending') or 0) > 0 or (ask('LLEN', b .. 'ring') or 0) > 0
if failed then return failed end

local at = now()
-- a score of a stranger may be a fraction or infinite
local function wait(score)
  return math.max(-LARGEST, math.min(LARGEST, math.ceil(tonumber(score) - at)))
end
local due = first and wait(first)
local function sooner(ms)
  if not due or ms < due then due = ms end
end
if lane_score then sooner(wait(lane_score)) end
if waits and not meta[2] and full > 0 then
  if max >= 1 then
    local k = bucket(full, max, window(meta[4]), at)
    if k.tokens < 1 then sooner(wait(next_token(k))) end
  elseif full > 1000 * at then
    sooner(wait(full / 1000))
  end
end
local repeat_wait = repeat_score and repeat_score ~= 'inf' and wait(repeat_score)
return { due or false, meta[1], letters or false, limited and 1 or 0, repeat_wait or false }
