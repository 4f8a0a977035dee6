-- Counts of calls. ARGV: a prefix for keys, and a request as JSON. Times are microseconds of this server's
-- clock. Everything that decides is in the values; keys expire only to be swept.

local LEASE, MARK, SECOND, DAY = 10000000, 900000000, 1000000, 86400000000
local prefix, request = ARGV[1], cjson.decode(ARGV[2])
local clock = redis.call('TIME')
local now = clock[1] * SECOND + clock[2]
local day = math.floor(now / DAY)

local function budget_key(key, of)
  return string.format('%sbudget:%d:%s', prefix, of, key)
end

-- A rate is the time of the first of a run of calls and their number, so that no rounding adds up.
-- Return both, and how long before now the next call is due at an even pace.
local function read_rate(key, maximum, period)
  local first, count = string.match(redis.call('GET', prefix .. 'rate:' .. key) or '', '^(%d+) (%d+)$')
  if not first then return now, 0 end
  first, count = math.min(tonumber(first), now), tonumber(count)
  if first + math.floor(count * period / maximum) <= now then return now, 0 end
  return first, count
end

local function read_slots(key)
  redis.call('ZREMRANGEBYSCORE', prefix .. 'slot:' .. key, '-inf', now)
  return redis.call('ZCARD', prefix .. 'slot:' .. key)
end

local function hold(key, id)
  redis.call('ZADD', prefix .. 'slot:' .. key, now + LEASE, id)
  redis.call('PEXPIRE', prefix .. 'slot:' .. key, LEASE / 1000 + 1000)
end

local function release(released)
  for _, each in ipairs(released) do
    local id, spent_on, slots, budgets = unpack(each)
    for _, key in ipairs(slots) do redis.call('ZREM', prefix .. 'slot:' .. key, id) end
    if spent_on == day then
      for _, key in ipairs(budgets) do
        local name = budget_key(key, day)
        if (tonumber(redis.call('GET', name)) or 0) > 0 then redis.call('DECR', name) end
      end
    end
  end
end

-- Return the number of the limit with the longest wait, from 0, and milliseconds; or -1, the day of the
-- budgets that were spent, 0 for none, and how much of each is spent now.
local function acquire(id, limits, mark, resumed)
  local marked = prefix .. 'mark:' .. mark
  local counted = not resumed and (mark == '' or (tonumber(redis.call('GET', marked)) or 0) > now)
  local exceeded, longest, rates = -1, 0, {}
  for number, limit in ipairs(limits) do
    local kind, key, maximum, period, burst = unpack(limit)
    local wait = 0
    if kind == 'concurrency' then
      if not resumed and read_slots(key) >= maximum then wait = SECOND end
    elseif counted and kind == 'rate' then
      period = period * 1000
      local first, count = read_rate(key, maximum, period)
      local due = first + math.floor((count - burst + 1) * period / maximum)
      wait = math.max(0, due - now)
      local idle = first + math.ceil((count + 1) * period / maximum)
      rates[#rates + 1] = {key, string.format('%.0f %.0f', first, count + 1), math.ceil((idle - now) / 1000)}
    elseif counted then
      local used = tonumber(redis.call('GET', budget_key(key, day))) or 0
      if used >= maximum then wait = (day + 1) * DAY - now end
    end
    if wait > longest then exceeded, longest = number - 1, wait end
  end
  if exceeded >= 0 then return {exceeded, math.ceil(longest / 1000)} end
  local admitted = {-1, 0}
  if counted then
    admitted[2] = day
    for _, each in ipairs(rates) do redis.call('SET', prefix .. 'rate:' .. each[1], each[2], 'PX', each[3]) end
  elseif not resumed then
    redis.call('SET', marked, string.format('%.0f', now + MARK), 'PX', MARK / 1000)
    if math.floor((now - MARK) / DAY) == day then admitted[2] = day end
  end
  for _, limit in ipairs(limits) do
    if limit[1] == 'concurrency' then hold(limit[2], id) end
    if limit[1] == 'budget' and counted then
      admitted[#admitted + 1] = redis.call('INCR', budget_key(limit[2], day))
      redis.call('PEXPIRE', budget_key(limit[2], day), 2 * DAY / 1000)
    end
  end
  return admitted
end

local function usage(limits)
  local used = {}
  for number, limit in ipairs(limits) do
    local kind, key, maximum, period = unpack(limit)
    if kind == 'concurrency' then
      used[number] = read_slots(key)
    elseif kind == 'rate' then
      local first, count = read_rate(key, maximum, period * 1000)
      used[number] = math.max(0, math.ceil(count - (now - first) * maximum / (period * 1000) - 1e-6))
    else
      used[number] = tonumber(redis.call('GET', budget_key(key, day))) or 0
    end
  end
  return used
end

-- Budgets of copies, after this server has lost them.
local function restore(budgets)
  for _, each in ipairs(budgets) do
    local of, key, used = unpack(each)
    if used > (tonumber(redis.call('GET', budget_key(key, of))) or 0) then
      redis.call('SET', budget_key(key, of), used, 'PX', 2 * DAY / 1000)
    end
  end
end

release(request.released)
if request.id then return acquire(request.id, request.limits, request.mark, request.resumed) end
if request.limits then return usage(request.limits) end
if request.budgets then return restore(request.budgets) end
for id, slots in pairs(request.held) do
  for _, key in ipairs(slots) do hold(key, id) end
end
-- A server without an epoch is new, or has lost what it had: one replica learns of it.
return redis.call('SET', prefix .. 'epoch', string.format('%.0f', now), 'NX') and 'EMPTY' or 'OK'
