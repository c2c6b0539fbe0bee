-- push_all(command, key, items): one command for all items, in steps that fit Lua's stack; nothing for no items.

local function push_all(command, key, items)
  for i = 1, #items, 1000 do
    redis.call(command, key, unpack(items, i, math.min(i + 999, #items)))
  end
end
