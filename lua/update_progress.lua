#!lua flags=allow-oom
-- update_progress: how far a job is, in its row and as an event.
-- KEYS 1 row   ARGV 1 progress, 2 id, 3 the base emq:{q}:
-- Publishes {"event":"progress","job":id,"progress":text} on <base>events. Reply 1, or -1 when the row is gone.

if redis.call('HLEN', KEYS[1]) == 0 then return -1 end
-- first, since a caller without the channel's right fails here
redis.call('PUBLISH', ARGV[3] .. 'events', cjson.encode({ event = 'progress', job = ARGV[2], progress = ARGV[1] }))
redis.call('HSET', KEYS[1], 'progress', ARGV[1])
return 1
