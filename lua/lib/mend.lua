-- MEND: whether a lane waits and is on the ring as what is set for it says.

-- @include lib/turns

local mended = {} -- {lane, waits (false: it waits no longer)} in order

-- mend(l, k, spent, backs_off): plans it; `k` is the lane's bucket, nil without a rate; `spent`: its bucket was not
-- full. A lane that waits and has spent nothing was told to back off, and goes on waiting; `backs_off`: until when it
-- does though its rate goes, Unix ms.
local function mend(l, k, spent, backs_off)
  local m = { lane = l }
  if l.waits and spent then
    l.waits = k and k.tokens < 1 and next_token(k) or not k and backs_off or false
    m.waits = l.waits and digits(l.waits)
    m.waited = true
  end
  if l.ringed and not servable(l) then m.off = true end
  ring(l)
  mended[#mended + 1] = m
end

-- write_mended(b): all but the wakes
local function write_mended(b)
  local off = {}
  for _, m in ipairs(mended) do
    if m.waited and m.waits then
      redis.call('ZADD', b .. 'gwait', m.waits, m.lane.group)
    elseif m.waited then
      redis.call('ZREM', b .. 'gwait', m.lane.group)
    end
    if m.off then off[#off + 1] = m.lane.group end
  end
  unring(b, off)
  write_lanes(b)
end
