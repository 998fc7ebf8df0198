"""The Lua that answers questions; what `scripts` says of all scripts holds here too."""

from octavo.stores.redis.scripts import MEMBERS, Script

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

# KEYS: lanes, and the counter to watch. ARGV: again, base, command, how many members to look at, how many
# to skip, bytes to stop at, whether to leave out texts and bodies, then per lane: from, to, length of the mark in front.
# Of a body that is cut, what stands before its text and after its metadata is left, with its size in front.
# Answers the version, and per lane: whether there is more, how many were skipped, the last member looked at, {member, body, ...}.
PAGE = Script(
    MEMBERS,
    _SHARED,
    r"""
local base, command = ARGV[2], ARGV[3]
local most, skip, bytes, cuts = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local lanes = (#ARGV - 7) / 3
-- Inside of a JSON string a quote has a backslash before it, so neither a name nor a mark can look like one of these keys.
local function head(body)
  local text, data = string.find(body, ',"text":', 1, true), string.find(body, ',"data":', 1, true)
  local _, _, rest = string.find(body, '.*(),"created_at":"')
  if not data or not rest then return #body .. ' ' .. body end
  local front = string.sub(body, 1, math.min(text or data, data) - 1)
  return #body .. ' ' .. front .. ',"data":{},"metadata":{}' .. string.sub(body, rest)
end
local kinds = KEYS[lanes + 1]
local doubtful = redis.call('HEXISTS', kinds, '\0') == 1
local answer = {}
for lane = 1, lanes do
  local at = 5 + 3 * lane
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
        if cuts then body = head(body) end
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
    MEMBERS,
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
    MEMBERS,
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
    MEMBERS,
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
