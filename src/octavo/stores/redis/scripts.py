"""The Lua that runs inside Redis. Each script is one step nobody can come between.

Every script takes as ARGV[1] whether it is asked again because the answer to its first run was lost. Lists travel as
MessagePack: Lua cannot unpack more than some 8000 arguments, and a client reads one long reply far faster than many short.
Lua never compares strings for order here: it would do so by the server's locale, not by bytes.

Expiry: the keys of one place expire together, so they never contradict each other. Lanes that places share live as long
as the longest of them; the field `NUL` of such a lane's counter is the moment (ms) from which it may count the dead, and
a member is alive as long as it stands in its own place's lane.

Swaps: the field `NUL v` of a lane's counter names the last swap that touched the lane. A swap that saw another name there
when it read starts over: something it did not find may be there now.

Ends: what a record's end comes to stands in the sorted set `ends` of its tenant's collection, time first. Who never writes
a record that ends never touches it. The ends of places that have expired are left to whoever reads them.

Search: once a tenant's collection has an index of terms (the hash `terms`, see index_scripts), every record that is
written is put in line there; nothing is indexed on the way of a write.
"""

import hashlib


class Script:
    """A script and the name Redis calls it by once loaded."""

    def __init__(self, *parts: str) -> None:
        self.text = "\n".join(parts).encode()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


MEMBERS = r"""
local again = ARGV[1] == '1'
local function id_of(member) return string.sub(member, 30, -22) end
local function place_of(member) return string.sub(member, -20) end
local function version(kinds) return redis.call('HGET', kinds, '\0v') or '' end
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
"""

# What is derived lives as long as what it was made from: a place's part of the index as its bodies, the rest as the lanes.
FOLLOW = r"""
local function follow(key, model)
  local left = redis.call('PTTL', model)
  if left >= 0 then redis.call('PEXPIRE', key, left) elseif left == -1 then redis.call('PERSIST', key) end
end
local function follow_place(base, place, axes)
  local own, body = base .. 'terms:place:' .. place, base .. 'body:' .. place
  for block in string.gmatch(redis.call('HGET', own, '\0b') or '', '%S+') do
    follow(base .. 'terms:block:' .. block, body)
  end
  follow(own, body)
  for _, axis in ipairs(axes) do follow(base .. 'terms:at:' .. axis, base .. 'lane:' .. axis) end
  for _, key in ipairs({'terms', 'terms:waiting'}) do follow(base .. key, base .. 'lane:tenant') end
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

for _, entry in ipairs(entries) do
  local before, after = entry[3], entry[4]
  if (entry[6] or '') ~= '' or (type(before) == 'table' and before[5] ~= '')
    or (type(after) == 'table' and after[5] ~= '') then
    redis.call('ZCARD', string.sub(KEYS[stands[entry[1]][5]], 1, -6) .. 'ends')
  end
end

-- Which of the tenants' collections have an index of terms, and what waits there from now on.
local indexed, late, noted = {}, {}, 0
for _, stand in ipairs(stands) do
  local names = KEYS[stand[5]]
  if indexed[names] == nil then
    local base = string.sub(names, 1, -6)
    indexed[names] = redis.call('HEXISTS', base .. 'terms', 'id') == 1
      and redis.call('ZCARD', base .. 'terms:waiting') and base
  end
end

local added, removed, counts, touched, ends, ended, emptied = {}, {}, {}, {}, {}, {}, {}
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
local function wait_for_terms(stand, member)
  local base = indexed[KEYS[stand[5]]]
  if base then note(late, base, string.sub(member, 30)) end
end
local function ends_of(stand) return string.sub(KEYS[stand[5]], 1, -6) .. 'ends' end
local function end_at(lists, stand, member, at)
  if at ~= '' then note(lists, ends_of(stand), at .. member) end
end
local function enter(stand, member, kind, marks, at)
  touched[stand] = true
  wait_for_terms(stand, member)
  move(stand, member, kind, marks, added, 1)
  end_at(ends, stand, member, at)
end
local function leave(stand, member, kind, marks, at)
  touched[stand] = true
  wait_for_terms(stand, member)
  move(stand, member, kind, marks, removed, -1)
  end_at(ended, stand, member, at)
  emptied[ends_of(stand)] = KEYS[stand[5]]
end

-- A changed record keeps its order: only its count and its marks can move.
local function turn(stand, before, after)
  touched[stand] = true
  wait_for_terms(stand, after[1])
  if before[5] ~= after[5] then
    end_at(ended, stand, before[1], before[5])
    end_at(ends, stand, after[1], after[5])
  end
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
  for base, names in pairs(late) do
    noted = 1
    local first = redis.call('HINCRBY', base .. 'terms', 'ticket', #names) - #names
    local flat = {}
    for n, name in ipairs(names) do flat[2 * n - 1] = first + n; flat[2 * n] = name end
    for n = 1, #flat, 2000 do -- who waits already keeps the place in line
      redis.call('ZADD', base .. 'terms:waiting', 'NX', unpack(flat, n, math.min(n + 1999, #flat)))
    end
  end
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
  for key, members in pairs(ended) do
    for n = 1, #members, 1000 do
      redis.call('ZREM', key, unpack(members, n, math.min(n + 999, #members)))
    end
  end
  for key, members in pairs(ends) do
    local there, flat = redis.call('EXISTS', key), {}
    for n, member in ipairs(members) do flat[2 * n - 1] = 0; flat[2 * n] = member end
    for n = 1, #flat, 2000 do
      redis.call('ZADD', key, unpack(flat, n, math.min(n + 1999, #flat)))
    end
    if ttl == 0 then redis.call('PERSIST', key) elseif there == 0 then redis.call('EXPIRE', key, ttl) end
  end
  for key, names in pairs(emptied) do
    if redis.call('ZCARD', names) == 0 then redis.call('DEL', key) end
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
  redis.call('PERSIST', ends_of(stand))
  for _, lane in ipairs(stand[6]) do
    redis.call('PERSIST', KEYS[lane])
    redis.call('PERSIST', KEYS[lane + 1])
  end
end
local function settle_terms(stand)
  local base = indexed[KEYS[stand[5]]]
  if not base then return end
  local axes = {}
  for n, lane in ipairs(stand[6]) do axes[n] = string.sub(KEYS[lane], #base + 6) end
  follow_place(base, string.sub(KEYS[stand[1]], #base + 6), axes)
  if ttl > 0 and redis.call('EXISTS', base .. 'lane:tenant') == 0 then -- nothing is left to follow
    for _, key in ipairs({'terms', 'terms:waiting'}) do redis.call('EXPIRE', base .. key, ttl) end
  end
end
local function settle()
  local doubt = ttl > 0 and now_ms() + ttl * 1000 - 1000
  for stand in pairs(touched) do
    if ttl > 0 then
      expire_own(stand)
      expire_shared(stand[5])
      local left = redis.call('PTTL', ends_of(stand))
      if left >= 0 and left < ttl * 1000 then redis.call('EXPIRE', ends_of(stand), ttl) end
      for _, lane in ipairs(stand[6]) do
        expire_shared(lane)
        expire_shared(lane + 1)
        local since = redis.call('HGET', KEYS[lane + 1], '\0')
        if redis.call('EXISTS', KEYS[lane]) == 1 and (not since or tonumber(since) > doubt) then
          redis.call('HSET', KEYS[lane + 1], '\0', string.format('%.0f', doubt))
        end
      end
      settle_terms(stand)
    elseif lasts[stand[1]] ~= -1 then
      -- New, or left by a writer with a ttl: this record is to stay. Where the body stays, all else does already.
      keep(stand)
      settle_terms(stand)
    end
  end
end
"""

# entries: {stand, member, kind, body, marks, end or ''}. Answers a digit per entry, 1 when it was added, whether the tenant's
# collection was empty, and whether anything was put in line for the index.
ADD = Script(
    MEMBERS,
    FOLLOW,
    _WRITES,
    r"""
local answer, mine = {}, {}
for n, entry in ipairs(entries) do
  local stand, member, body = stands[entry[1]], entry[2], entry[4]
  local key, id = KEYS[stand[1]], id_of(member)
  answer[n] = '0'
  if redis.call('HSETNX', key, id, body) == 1 then
    answer[n] = '1'
    enter(stand, member, entry[3], entry[5], entry[6])
  elseif again and not mine[entry[1] .. id] and redis.call('HGET', key, id) == body then
    answer[n] = '1' -- by the run whose answer was lost
  end
  mine[entry[1] .. id] = true
end
write_lanes()
settle()
return {table.concat(answer), fresh, noted}
""",
)

# entries: {stand, id, before, after}, each {member, kind, body, marks, end or ''} or false. ARGV goes on with witnesses, {stand, id}
# that must be kept; watched counters, {position in KEYS, version}; and the name of this swap.
# Answers as ADD does, with whether it was done in front.
SWAP = Script(
    MEMBERS,
    FOLLOW,
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
  return {(again and stands_at(4)) and 1 or 0, fresh, 0}
end
for _, witness in ipairs(cmsgpack.unpack(ARGV[6])) do
  if redis.call('HEXISTS', KEYS[stands[witness[1]][1]], witness[2]) == 0 then return {0, fresh, 0} end
end
for _, watched in ipairs(cmsgpack.unpack(ARGV[7])) do
  if version(KEYS[watched[1]]) ~= watched[2] then return {0, fresh, 0} end
end
for _, entry in ipairs(entries) do
  local stand, id, before, after = stands[entry[1]], entry[2], entry[3], entry[4]
  if before and after and before[1] == after[1] then
    turn(stand, before, after)
  else
    if before then leave(stand, before[1], before[2], before[4], before[5]) end
    if after then enter(stand, after[1], after[2], after[4], after[5]) end
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
return {1, fresh, noted}
""",
)

# No entries: every stand that holds anything lives on as if it had just been written to.
RENEW = Script(
    MEMBERS,
    FOLLOW,
    _WRITES,
    r"""
for _, stand in ipairs(stands) do
  if sizes[stand[1]] > 0 then touched[stand] = true end
end
settle()
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
