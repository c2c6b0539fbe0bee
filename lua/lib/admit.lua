-- Admission: what enqueue and schedule share.

-- KIND: admissible(id) -> nil, or the refusal
local function admissible(id)
  if string.sub(id, 1, 3) ~= 'JOB' then return redis.error_reply('EMQKIND job id must be JOB-namespaced') end
end

-- admit(row, state, payload, priority, opts, more): writes a new row; optional fields only when given and not empty;
-- `more` has further fields, if any
local function admit(row, state, payload, rank, opts, more)
  local fields = { 'state', state, 'attempts', '0', 'payload', payload }
  if rank and rank ~= '' then
    fields[#fields + 1] = 'priority'
    fields[#fields + 1] = rank
  end
  if opts and opts ~= '' then
    fields[#fields + 1] = 'opts'
    fields[#fields + 1] = opts
  end
  for _, word in ipairs(more or {}) do fields[#fields + 1] = word end
  redis.call('HSET', row, unpack(fields))
end
