"""The Lua that searches the index of terms; `index_scripts` says what it looks like."""

from octavo.stores.redis.scripts import MEMBERS, Script

# KEYS: terms. ARGV: again, base, whether what waits may wait on, the last place looked at, how many places, bytes to stop at,
# a place or '', lanes, terms.
# Answers whether the index is ready, the last place looked at if there are more, {place, scope, {block, {n, length, ...}, ...}}
# of what was found, places that are gone; and behind it the bytes: n is 1 for the dead, 2 for what may end, then the terms.
SEEK = Script(
    r"""
local base, terms, from = ARGV[2], KEYS[1], ARGV[4]
local most, bytes, place = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local axes, wanted = cmsgpack.unpack(ARGV[8]), cmsgpack.unpack(ARGV[9])
local state = redis.call('HMGET', terms, 'id', 'built')
if not state[1] and redis.call('EXISTS', base .. 'lane:tenant') == 0 then
  return {cmsgpack.pack({1, '', {}, {}}), ''}
end
if not state[2] or (ARGV[3] == '0' and redis.call('EXISTS', terms .. ':waiting') == 1) then
  return {cmsgpack.pack({0, '', {}, {}}), ''}
end
local places, others = {place}, {}
if place == '' then
  local least, narrow
  for n, axis in ipairs(axes) do
    local size = redis.call('ZCARD', terms .. ':at:' .. axis)
    if not least or size < least then least, narrow = size, n end
  end
  for n, axis in ipairs(axes) do
    if n ~= narrow then others[#others + 1] = terms .. ':at:' .. axis end
  end
  local low = from == '' and '-' or '(' .. from
  places = redis.call('ZRANGEBYLEX', terms .. ':at:' .. axes[narrow], low, '+', 'LIMIT', 0, most)
end
local fields = {'\0x', '\0e'}
for n, term in ipairs(wanted) do fields[n + 2] = term end
local found, gone, parts, size, last, seen = {}, {}, {}, 0, '', 0
for _, one in ipairs(places) do
  local inside = true
  for _, other in ipairs(others) do inside = inside and redis.call('ZSCORE', other, one) end
  local head = inside and redis.call('HMGET', terms .. ':place:' .. one, '\0g', '\0b', '\0s', '\0t') or {}
  if head[1] ~= state[1] or (head[4] and redis.call('EXISTS', base .. 'body:' .. one) == 0) then
    if inside and place == '' then gone[#gone + 1] = one end
  else
    local blocks = {}
    for block in string.gmatch(head[2], '%S+') do
      local got, lengths = redis.call('HMGET', terms .. ':block:' .. block, unpack(fields)), {}
      local held = false
      for n = 3, #fields do
        if got[n] then held = true break end
      end
      if held then
        for n = 1, #fields do
          if got[n] then
            lengths[#lengths + 1] = n
            lengths[#lengths + 1] = #got[n]
            parts[#parts + 1] = got[n]
            size = size + #got[n]
          end
        end
        blocks[#blocks + 1] = {tonumber(block), lengths}
      end
    end
    if #blocks > 0 then found[#found + 1] = {one, head[3], blocks} end
  end
  seen, last = seen + 1, one
  if size >= bytes then break end
end
if place ~= '' or (seen == #places and #places < most) then last = '' end
return {cmsgpack.pack({1, last, found, gone}), table.concat(parts)}
""",
)

# KEYS: terms. ARGV: again, {block, {number, ...}, ...}, whether facts are asked for.
# Answers the records in order, then their facts; false where there is none.
RECORDS = Script(
    r"""
local found, facts = {}, {}
for _, asked in ipairs(cmsgpack.unpack(ARGV[2])) do
  local key = KEYS[1] .. ':block:' .. asked[1]
  for _, kind in ipairs(ARGV[3] == '1' and {'\0', '\0f'} or {'\0'}) do
    local fields, list = {}, kind == '\0' and found or facts
    for n, number in ipairs(asked[2]) do fields[n] = kind .. number end
    for _, value in ipairs(redis.call('HMGET', key, unpack(fields))) do list[#list + 1] = value end
  end
end
return cmsgpack.pack({found, facts})
""",
)

# KEYS: terms. ARGV: again, base, lane, below which member ('' for the newest), how many.
# Answers the last member looked at if there may be more, {block, number, ...} from the newest back; 0 where one is not indexed.
NEWEST = Script(
    MEMBERS,
    r"""
local high, most = ARGV[4] == '' and '+' or '(' .. ARGV[4], tonumber(ARGV[5])
local found, members = {}, redis.call('ZREVRANGEBYLEX', ARGV[3], high, '-', 'LIMIT', 0, most)
for _, member in ipairs(members) do
  local kept = redis.call('HGET', KEYS[1] .. ':place:' .. place_of(member), id_of(member)) or '0 0'
  local block, number = string.match(kept, '^(%d+) (%d+)')
  found[#found + 1] = tonumber(block)
  found[#found + 1] = tonumber(number)
end
return cmsgpack.pack({#members == most and members[#members] or '', found})
""",
)

# KEYS: terms. ARGV: again, lanes, places. Takes places out of lanes they are met in although nothing of them is left.
CLEAN = Script(
    r"""
for _, place in ipairs(cmsgpack.unpack(ARGV[3])) do
  local own = KEYS[1] .. ':place:' .. place
  if redis.call('HGET', own, '\0g') ~= redis.call('HGET', KEYS[1], 'id') then
    for _, axis in ipairs(cmsgpack.unpack(ARGV[2])) do redis.call('ZREM', KEYS[1] .. ':at:' .. axis, place) end
  end
end
""",
)
