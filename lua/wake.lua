#!lua flags=allow-oom
-- wake: a consumer that was woken and has no free slot passes the token on.
-- KEYS 1 wake   ARGV none.   Reply 1, or 0 when the list holds 64 tokens. Cost O(1).

-- @include lib/wake

local room = wake_room(KEYS[1])
if room == 0 then return 0 end

wakes = 1
push_wakes(KEYS[1], room)
return 1
