#!lua flags=no-writes
-- flow_letters: letters of a queue, from the head of its outbox on.
-- KEYS 1 flow:outbox, 2 the base emq:{q}:   ARGV 1 offset, 2 limit
-- Reply [edition, [letter ...]]; the edition is for flow_ack. Refuses ERR offset, ERR limit. Cost O(offset + limit).

-- @include lib/page

local first, last, err = page(ARGV[1], ARGV[2])
if err then return err end
local edition
edition, err = stored('letters', redis.call('HGET', KEYS[2] .. 'meta', 'letters'))
if err then return err end
return { edition, redis.call('LRANGE', KEYS[1], first, last) }
