-- Text in the order of its bytes: Lua's own `<` on strings follows the server's locale, a sorted set does not.

local function precedes(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
