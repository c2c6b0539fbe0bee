-- NOW: the server's clock in whole milliseconds. All readings inside one script are the same.

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
