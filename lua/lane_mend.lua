#!lua flags=allow-oom
-- lane_mend: lanes wait, and are on the ring, as what is set for them says; for a queue in which what holds for all
-- lanes has changed.
-- KEYS 1 the base emq:{q}:   ARGV group ...
-- Reply 1. A lane whose counts or rate cannot be read is left as it is. Refuses ERR groups. Cost O(groups + lanes).

-- @include lib/mend

local b = KEYS[1]
if #ARGV == 0 then return redis.error_reply('ERR groups must be given') end
for _, group in ipairs(ARGV) do
  local k, bad = rate(b, group)
  local l = not bad and not lanes[group] and lane(b, group)
  if l then mend(l, k, redis.call('GET', b .. 'g:' .. group .. ':limiter')) end
end
local tokens = wakes > 0 and wake_room(b .. 'wake') or 0

write_mended(b)
push_wakes(b .. 'wake', tokens)
return 1
