"""The Lua that runs inside Redis. Each script is one step nobody can come between.

Every script takes as ARGV[1] whether it is asked again because the answer to its first run was lost. Lists travel as
MessagePack: Lua cannot unpack more than some 8000 arguments, and a client reads one long reply far faster than many short.
Lua never compares strings for order here: it would do so by the server's locale, not by bytes.

Expiry: the keys of one place expire together, so they never contradict each other. Lanes that places share live as long
as the longest of them; the field `NUL` of such a lane's counter is the moment (ms) from which it may count the dead, and
a member is alive as long as it stands in its own place's lane.

Swaps: the field `NUL v` of a lane's counter names the last swap that touched the lane. A swap that saw another name there
when it read starts over: something it did not find may be there now.
"""

import hashlib


class Script:
    """A script and the name Redis calls it by once loaded."""

    def __init__(self, *parts: str) -> None:
        self.text = "\n".join(parts).encode()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


_MEMBERS = r"""
local again = ARGV[1] == '1'
local function id_of(member) return string.sub(member, 30, -22) end
local function place_of(member) return string.sub(member, -20) end
local function version(kinds) return redis.call('HGET', kinds, '\0v') or '' end
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
"""

_SHARED = r"""
local function alive(base, member)
  return redis.call('ZSCORE', base .. 'lane:place:' .. place_of(member), member)
end
local function bury(base, lane, kinds, member)
  redis.call('ZREM', lane, member)
  redis.call('HSET', kinds, '\0', 0)
  if redis.call('HEXISTS', base .. 'body:' .. place_of(member), id_of(member)) == 0 then
    redis.call('ZREM', base .. 'names', string.sub(member, 30))
  end
end
"""

# KEYS: whatever the writes touch. ARGV: again, ttl, a letter per key (h or z), stands, entries[, witnesses].
# A stand is {body, lane, kinds, marks, names, {shared lane, ...}} as positions in KEYS; a lane's counter is the next key.
_WRITES = r"""
local ttl = tonumber(ARGV[2])
local stands = cmsgpack.unpack(ARGV[4])
local entries = cmsgpack.unpack(ARGV[5])

-- A key that is somebody else's stops the script here, before anything is written: Redis does not undo.
local sizes, lasts, fresh = {}, {}, 0
for n = 1, #KEYS do
  sizes[n] = redis.call(string.sub(ARGV[3], n, n) == 'h' and 'HLEN' or 'ZCARD', KEYS[n])
  if ttl > 0 then lasts[n] = redis.call('PTTL', KEYS[n]) end
end
for _, stand in ipairs(stands) do
  if ttl == 0 then lasts[stand[1]] = redis.call('PTTL', KEYS[stand[1]]) end
  if sizes[stand[5]] == 0 then fresh = 1 end
end

local added, removed, counts, touched = {}, {}, {}, {}
local function note(lists, key, value)
  local list = lists[key]
  if not list then list = {}; lists[key] = list end
  list[#list + 1] = value
end
local function count(key, kind, step)
  local kinds = counts[key]
  if not kinds then kinds = {}; counts[key] = kinds end
  kinds[kind] = (kinds[kind] or 0) + step
end
local function move(stand, member, kind, marks, lists, step)
  note(lists, stand[2], member)
  count(stand[3], kind, step)
  note(lists, stand[5], string.sub(member, 30))
  for _, lane in ipairs(stand[6]) do
    note(lists, lane, member)
    count(lane + 1, kind, step)
  end
  for _, mark in ipairs(marks) do note(lists, stand[4], mark .. '\0' .. member) end
end
local function enter(stand, member, kind, marks)
  touched[stand] = true
  move(stand, member, kind, marks, added, 1)
end
local function leave(stand, member, kind, marks)
  touched[stand] = true
  move(stand, member, kind, marks, removed, -1)
end

-- A changed record keeps its order: only its count and its marks can move.
local function turn(stand, before, after)
  touched[stand] = true
  if before[2] ~= after[2] then
    for _, step in ipairs({{before[2], -1}, {after[2], 1}}) do
      count(stand[3], step[1], step[2])
      for _, lane in ipairs(stand[6]) do count(lane + 1, step[1], step[2]) end
    end
  end
  if table.concat(before[4], '\0') ~= table.concat(after[4], '\0') then
    for _, mark in ipairs(before[4]) do note(removed, stand[4], mark .. '\0' .. before[1]) end
    for _, mark in ipairs(after[4]) do note(added, stand[4], mark .. '\0' .. after[1]) end
  end
end

local function write_lanes()
  for key, members in pairs(removed) do
    for n = 1, #members, 1000 do
      redis.call('ZREM', KEYS[key], unpack(members, n, math.min(n + 999, #members)))
    end
  end
  for key, members in pairs(added) do
    local flat = {}
    for n, member in ipairs(members) do flat[2 * n - 1] = 0; flat[2 * n] = member end
    for n = 1, #flat, 2000 do
      redis.call('ZADD', KEYS[key], unpack(flat, n, math.min(n + 1999, #flat)))
    end
  end
  for key, kinds in pairs(counts) do
    local fewer = false
    for kind, step in pairs(kinds) do
      if step ~= 0 and redis.call('HINCRBY', KEYS[key], kind, step) <= 0 then
        redis.call('HDEL', KEYS[key], kind)
        fewer = true
      end
    end
    if fewer and redis.call('ZCARD', KEYS[key - 1]) == 0 then redis.call('DEL', KEYS[key]) end
  end
end

local function expire_own(stand)
  for n = 1, 4 do redis.call('EXPIRE', KEYS[stand[n]], ttl) end
end
-- What other places stand in too may only live longer for this write, never shorter.
local function expire_shared(key)
  local left = lasts[key]
  if left == -2 or (left >= 0 and left < ttl * 1000) then redis.call('EXPIRE', KEYS[key], ttl) end
end
local function keep(stand)
  for n = 1, 5 do redis.call('PERSIST', KEYS[stand[n]]) end
  for _, lane in ipairs(stand[6]) do
    redis.call('PERSIST', KEYS[lane])
    redis.call('PERSIST', KEYS[lane + 1])
  end
end
local function settle()
  local doubt = ttl > 0 and now_ms() + ttl * 1000 - 1000
  for stand in pairs(touched) do
    if ttl > 0 then
      expire_own(stand)
      expire_shared(stand[5])
      for _, lane in ipairs(stand[6]) do
        expire_shared(lane)
        expire_shared(lane + 1)
        local since = redis.call('HGET', KEYS[lane + 1], '\0')
        if redis.call('EXISTS', KEYS[lane]) == 1 and (not since or tonumber(since) > doubt) then
          redis.call('HSET', KEYS[lane + 1], '\0', string.format('%.0f', doubt))
        end
      end
    elseif lasts[stand[1]] ~= -1 then
      -- New, or left by a writer with a ttl: this record is to stay. Where the body stays, all else does already.
      keep(stand)
    end
  end
end
"""

# entries: {stand, member, kind, body, marks}. Answers a digit per entry, 1 when it was added, and whether the tenant's
# collection was empty.
ADD = Script(
    _MEMBERS,
    _WRITES,
    r"""
local answer, mine = {}, {}
for n, entry in ipairs(entries) do
  local stand, member, body = stands[entry[1]], entry[2], entry[4]
  local key, id = KEYS[stand[1]], id_of(member)
  answer[n] = '0'
  if redis.call('HSETNX', key, id, body) == 1 then
    answer[n] = '1'
    enter(stand, member, entry[3], entry[5])
  elseif again and not mine[entry[1] .. id] and redis.call('HGET', key, id) == body then
    answer[n] = '1' -- by the run whose answer was lost
  end
  mine[entry[1] .. id] = true
end
write_lanes()
settle()
return {table.concat(answer), fresh}
""",
)

# entries: {stand, id, before, after}, each {member, kind, body, marks} or false. ARGV goes on with witnesses, {stand, id}
# that must be kept; watched counters, {position in KEYS, version}; and the name of this swap.
# Answers whether it was done, and whether the tenant's collection was empty.
SWAP = Script(
    _MEMBERS,
    _WRITES,
    r"""
local function stands_at(side)
  for _, entry in ipairs(entries) do
    local body = redis.call('HGET', KEYS[stands[entry[1]][1]], entry[2])
    if body ~= (entry[side] and entry[side][3]) then return false end
  end
  return true
end
if not stands_at(3) then
  return {(again and stands_at(4)) and 1 or 0, fresh}
end
for _, witness in ipairs(cmsgpack.unpack(ARGV[6])) do
  if redis.call('HEXISTS', KEYS[stands[witness[1]][1]], witness[2]) == 0 then return {0, fresh} end
end
for _, watched in ipairs(cmsgpack.unpack(ARGV[7])) do
  if version(KEYS[watched[1]]) ~= watched[2] then return {0, fresh} end
end
for _, entry in ipairs(entries) do
  local stand, id, before, after = stands[entry[1]], entry[2], entry[3], entry[4]
  if before and after and before[1] == after[1] then
    turn(stand, before, after)
  else
    if before then leave(stand, before[1], before[2], before[4]) end
    if after then enter(stand, after[1], after[2], after[4]) end
  end
  if after then
    redis.call('HSET', KEYS[stand[1]], id, after[3])
  else
    redis.call('HDEL', KEYS[stand[1]], id)
  end
end
for stand in pairs(touched) do
  redis.call('HSET', KEYS[stand[3]], '\0v', ARGV[8])
  for _, lane in ipairs(stand[6]) do redis.call('HSET', KEYS[lane + 1], '\0v', ARGV[8]) end
end
write_lanes() -- after the names: it drops the counters of lanes that are empty now
settle()
return {1, fresh}
""",
)

# KEYS: lanes, and the counter to watch. ARGV: again, base, command, how many members to look at, how many
# to skip, bytes to stop at, then per lane: from, to, length of the mark in front.
# Answers the version, and per lane: whether there is more, how many were skipped, the last member looked at, {member, body, ...}.
PAGE = Script(
    _MEMBERS,
    _SHARED,
    r"""
local base, command = ARGV[2], ARGV[3]
local most, skip, bytes = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lanes = (#ARGV - 6) / 3
local kinds = KEYS[lanes + 1]
local doubtful = redis.call('HEXISTS', kinds, '\0') == 1
local answer = {}
for lane = 1, lanes do
  local at = 4 + 3 * lane
  local found = redis.call(command, KEYS[lane], ARGV[at], ARGV[at + 1], 'LIMIT', doubtful and 0 or skip, most)
  local cut, left, size = tonumber(ARGV[at + 2]), doubtful and skip or 0, 0
  local more, last, page = #found == most and 1 or 0, '', {}
  for n, entry in ipairs(found) do
    local member = string.sub(entry, cut + 1)
    last = member
    if doubtful and not alive(base, member) then
      bury(base, KEYS[lane], kinds, member)
    elseif left > 0 then
      left = left - 1
    else
      local body = redis.call('HGET', base .. 'body:' .. place_of(member), id_of(member))
      if body then
        page[#page + 1] = member
        page[#page + 1] = body
        size = size + #body
        if size >= bytes and n < #found then
          more = 1
          break
        end
      end
    end
  end
  answer[lane] = {more, skip - left, last, page}
end
return cmsgpack.pack({version(kinds), answer})
""",
)

# KEYS: names, and the counter to watch. ARGV: again, base, ids. Answers the version and the bodies found, in any place.
NAMED = Script(
    _MEMBERS,
    r"""
local base, found = ARGV[2], {}
for _, id in ipairs(cmsgpack.unpack(ARGV[3])) do
  for _, entry in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], '[' .. id .. '\0', '(' .. id .. '\1')) do
    local body = redis.call('HGET', base .. 'body:' .. place_of(entry), id)
    if body then found[#found + 1] = body else redis.call('ZREM', KEYS[1], entry) end
  end
end
return cmsgpack.pack({version(KEYS[#KEYS]), found})
""",
)

# KEYS: bodies, and the counter to watch. ARGV: again, {position in KEYS, id, ...}. Answers the version and the bodies found.
BODIES = Script(
    _MEMBERS,
    r"""
local wanted, found = cmsgpack.unpack(ARGV[2]), {}
for n = 1, #wanted, 2 do
  local body = redis.call('HGET', KEYS[wanted[n]], wanted[n + 1])
  if body then found[#found + 1] = body end
end
return cmsgpack.pack({version(KEYS[#KEYS]), found})
""",
)

# KEYS: a lane and its counter. ARGV: again, base. Answers {kind, count, ...}, the first member and the last.
TALLY = Script(
    _MEMBERS,
    _SHARED,
    r"""
local base, lane, kinds = ARGV[2], KEYS[1], KEYS[2]
local function recount()
  local places, dead = {}, {}
  local size = redis.call('ZCARD', lane)
  for start = 0, size - 1, 1000 do
    for _, member in ipairs(redis.call('ZRANGE', lane, start, start + 999)) do
      if alive(base, member) then places[place_of(member)] = true else dead[#dead + 1] = member end
    end
  end
  for _, member in ipairs(dead) do bury(base, lane, kinds, member) end
  local right, doubt = {}, nil
  for place in pairs(places) do
    local own = redis.call('HGETALL', base .. 'kinds:place:' .. place)
    for n = 1, #own, 2 do
      if own[n] ~= '\0v' then right[own[n]] = (right[own[n]] or 0) + own[n + 1] end
    end
    local left = redis.call('PTTL', base .. 'body:' .. place)
    if left >= 0 and (not doubt or left < doubt) then doubt = left end
  end
  if doubt then right['\0'] = string.format('%.0f', now_ms() + doubt - 1000) end
  if size == #dead then
    redis.call('DEL', kinds)
    return
  end
  local old = redis.call('HKEYS', kinds)
  for kind, number in pairs(right) do redis.call('HSET', kinds, kind, number) end
  for _, kind in ipairs(old) do
    if not right[kind] and kind ~= '\0v' then redis.call('HDEL', kinds, kind) end
  end
end
local doubt = redis.call('HGET', kinds, '\0') -- nothing of a lane without one can have expired apart from the rest
if doubt and tonumber(doubt) <= now_ms() then recount() end
local first, last = redis.call('ZRANGE', lane, 0, 0), redis.call('ZRANGE', lane, -1, -1)
return {redis.call('HGETALL', kinds), first[1] or '', last[1] or ''}
""",
)

# KEYS: the set of tenants. ARGV: again, ttl, tenant, ...
ENROL = Script(
    r"""
local ttl, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
for n = 3, #ARGV do redis.call('SADD', KEYS[1], ARGV[n]) end
if ttl == 0 then
  redis.call('PERSIST', KEYS[1])
elseif left == -2 or (left >= 0 and left < ttl * 1000) then
  redis.call('EXPIRE', KEYS[1], ttl)
end
""",
)
