#!lua flags=allow-oom
-- obliterate: a paused queue goes with everything in it, in bounded steps.
-- KEYS 1 meta, 2 the base emq:{q}:   ARGV 1 `force` or empty, 2 limit
-- Reply 1: call again; 2: letters wait for parents in other queues, deliver them and call again; 0: nothing is left.
-- `force` goes over running jobs and over letters. Refuses ERR limit; EMQSTATE when the queue is not paused, or has
-- running jobs. Cost O(limit * log N).

-- @include lib/number
-- @include lib/expel

local force, b = ARGV[1] == 'force', KEYS[2]
local limit, err = positive('limit', ARGV[2])
if err then return err end
if redis.call('HEXISTS', KEYS[1], 'paused') == 0 then return redis.error_reply('EMQSTATE not paused') end
if not force and redis.call('ZCARD', b .. 'active') > 0 then
  return redis.error_reply('EMQSTATE active jobs present')
end
local left = limit
local seen = {} -- an id may be in two places: it goes once

-- wipe(key): as many ids of a set as are left to do
local function wipe(key)
  for _, id in ipairs(left > 0 and redis.call('ZRANGE', key, '0', digits(left - 1)) or {}) do
    local row = b .. 'job:' .. id
    local fields = redis.pcall('HMGET', row, 'group', 'parent', 'parent_queue', 'parent_policy', 'lock', 'dedup')
    if fields.err and string.sub(fields.err, 1, 9) ~= 'WRONGTYPE' then return fields end
    if seen[id] then
      table.insert(seen[id].held, key)
    else
      seen[id] = { id = id, row = row, held = { key, [key] = true }, fields = fields.err and {} or fields }
      goodbye(seen[id], b, 'obliterated', 'obliterated', false)
    end
    left = left - 1
  end
end

for _, name in ipairs({ 'active', 'pending', 'schedule', 'dead', 'flow:held' }) do
  err = wipe(b .. name)
  if err then return err end
end

-- scan(command, key, step) -> at least one item, as long as there are any: a page may be empty though the key is not.
-- `step` is 2 for a hash, whose values are left out.
local function scan(command, key, step)
  local cursor, found = '0', {}
  repeat
    local page = redis.call(command, key, cursor, 'COUNT', '1000')
    cursor = page[1]
    for i = 1, #page[2], step do found[#found + 1] = page[2][i] end
  until cursor == '0' or #found >= left
  return found
end
-- where lanes are found, how some of them are read there, and how these are taken off
local function fields_of(key) return scan('HSCAN', key, 2) end
local function without_fields(key, groups) push_all('HDEL', key, groups) end
local PLACES = {
  {
    'ring',
    function(key) return redis.call('LRANGE', key, '0', digits(left - 1)) end,
    function(key, groups) redis.call('LTRIM', key, digits(#groups), '-1') end,
  },
  {
    'paused',
    function(key) return scan('SSCAN', key, 1) end,
    function(key, groups) push_all('SREM', key, groups) end,
  },
  { 'gactive', fields_of, without_fields },
  {
    'gwait',
    function(key) return redis.call('ZRANGE', key, '0', digits(left - 1)) end,
    function(key, groups) push_all('ZREM', key, groups) end,
  },
  { 'glimit', fields_of, without_fields },
  { 'gmax', fields_of, without_fields }, -- for their buckets
}
local empty, buckets = {}, {}
for i, place in ipairs(PLACES) do
  empty[i] = {}
  for _, group in ipairs(left > 0 and place[2](b .. place[1]) or {}) do
    if left < 1 then break end
    left = left - 1
    local key = lane_key(b, group)
    local waiting = redis.call('ZCARD', key)
    local before = left
    err = wipe(key)
    if err then return err end
    if before - left < waiting then break end
    empty[i][#empty[i] + 1] = group
    buckets[#buckets + 1] = b .. 'g:' .. group .. ':limiter'
  end
end

local again = left < limit
local repeats, outbox, poison, landed = {}, {}, {}, 0
if not again then
  repeats = redis.call('ZRANGE', b .. 'repeat', '0', digits(limit - 1))
  again = #repeats > 0
end
if not again then
  outbox = redis.call('LRANGE', b .. 'flow:outbox', '0', digits(limit - 1))
  if #outbox > 0 and not force then return 2 end
  poison = redis.call('LRANGE', b .. 'flow:poison', '0', digits(limit - 1))
  landed = redis.call('ZCARD', b .. 'flow:landed')
  again = #outbox > 0 or #poison > 0 or landed > 0
end
-- keys that go by themselves, looked at before the first write as all others are
local loose = buckets
for _, name in ipairs(repeats) do loose[#loose + 1] = b .. 'repeat:' .. name end
for _, list in ipairs({ outbox, poison }) do
  for _, letter_text in ipairs(list) do
    local orders_of = string.match(letter_text, '^%zcancel%z(.-)%z')
    if orders_of then loose[#loose + 1] = b .. 'flow:cancel:' .. orders_of end
  end
end
local rest = {}
local NAMES = {
  'ring', 'wake', 'paused', 'glimit', 'gactive', 'gweight', 'gmax', 'gduration', 'gwait', 'limiter', 'flow:outbox',
  'metrics:completed', 'metrics:failed', 'metrics:completed:data', 'metrics:failed:data', 'metrics:rolled', 'meta',
}
for i, name in ipairs(NAMES) do rest[i] = b .. name end
redis.call('EXISTS', unpack(rest))
for _, key in ipairs(loose) do redis.call('EXISTS', key) end

write_expelled(b)
for i, place in ipairs(PLACES) do
  if #empty[i] > 0 then place[3](b .. place[1], empty[i]) end
end
for _, key in ipairs(loose) do redis.call('DEL', key) end
push_all('ZREM', b .. 'repeat', repeats)
if #outbox > 0 then redis.call('LTRIM', b .. 'flow:outbox', digits(#outbox), '-1') end
if #poison > 0 then redis.call('LTRIM', b .. 'flow:poison', digits(#poison), '-1') end
if landed > 0 then redis.call('ZPOPMIN', b .. 'flow:landed', digits(limit)) end
if again then return 1 end
redis.call('DEL', unpack(rest))
return 0
