#!lua flags=no-writes
-- flow_children: a page of what a flow parent knows of its children.
-- KEYS 1 the row's :children, :processed, :unsuccessful or :failed, or flow:cancel:<id>   ARGV 1 cursor, 2 count
-- Reply [next cursor, [id, value ...]], as HSCAN gives it: `0` ends it, an id may come twice. Refuses ERR count. Cost
-- O(count), small hashes come whole.

-- @include lib/number

local count, err = positive('count', ARGV[2])
if err then return err end
return redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', digits(count))
