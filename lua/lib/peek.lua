-- Reading a key that may be of any type: what is of another type is an answer here, and no other error is: a read that
-- was refused says nothing of what is there.

-- peek(command, ...) -> the reply; a WRONGTYPE is given as redis.pcall gives it, any other error ends the script
local function peek(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then error(reply) end
  return reply
end
