-- What an audit and a mend are about: their first words, and what each finds wrong.

-- @include lib/judge_job
-- @include lib/judge_lane
-- @include lib/judge_rest

local SINGLE = { jobs = true, lanes = true, counts = true, dedups = true, repeats = true, cancels = true }

-- subject() -> nil, what is looked at, {item, of what} each (nil where that has no meaning); or the refusal
local function subject()
  local what = ARGV[1]
  local pairs_of = what == 'lane' or what == 'children'
  if not SINGLE[what] and not pairs_of and what ~= 'queue' then return redis.error_reply('ERR unknown audit') end
  local items = {}
  if pairs_of then
    for i = 2, #ARGV - 1, 2 do items[#items + 1] = { ARGV[i + 1], ARGV[i] } end
  else
    for i = 2, #ARGV do items[#items + 1] = { ARGV[i] } end
  end
  if what == 'queue' and #items > 0 then return redis.error_reply('ERR a queue has no items') end
  if what ~= 'queue' and (#items == 0 or (pairs_of and #ARGV % 2 == 0)) then
    return redis.error_reply('ERR an audit needs items')
  end
  return nil, what, items
end
