-- PUT: an id goes into `schedule`, and a parked consumer learns of it when it is now the earliest there.

-- @include lib/bytes

-- schedule_head(key) -> the two earliest [id, score]: two, since the first may be the very id that is put
local function schedule_head(key)
  return redis.call('ZRANGE', key, '0', '1', 'WITHSCORES')
end

-- earliest(head, id, score) -> whether id at score comes before all others
local function earliest(head, id, score)
  for i = 1, #head, 2 do
    if head[i] ~= id then
      local first = tonumber(head[i + 1])
      return score < first or (score == first and precedes(id, head[i]))
    end
  end
  return true
end
