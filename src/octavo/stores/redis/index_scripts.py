"""The Lua of the index of terms; what `scripts` says of all scripts holds here too.

Per tenant and collection, behind the same hash tag as the records:

    …:terms                 hash: id of this index, ticket (how many have been put in line), fetches, blocks, floor,
                            cursor (how far the first building is), built
    …:terms:waiting         sorted set: who waits to be indexed (id, NUL, place), by ticket
    …:terms:at:user:<name>  sorted set: the places with something in them, for each lane that several places share
    …:terms:place:<place>   hash: id → block, number, fetch, digest of the body, digest of the content; and of the place
                            itself NUL g (the index it belongs to), s (scope), a (lanes), b (blocks), o (open block),
                            n (next number), t (it may expire)
    …:terms:block:<number>  hash: term → four bytes per record that holds it: its number * 2**20 + how often;
                            NUL number → the record, NUL f number → what filters ask about,
                            NUL x → numbers of records that are gone, NUL e → numbers of those that may end, NUL n → how many live

A block holds up to 4096 records of one place, so that a search reads only what its scope covers, a place expires whole,
and no posting list is long. A record that changes its content gets a new number; the old one is dead, and a block that
is mostly dead is emptied into another.

No index: nothing is in line, nothing is kept. The first search makes one (BEGIN), and from then on writers put what they
write in line. FETCH reads records together with the number of the fetch; INDEX enters what was read. It may come too
late: a record that has changed since stays in line. What was read is entered all the same, so that a record others change
all the time cannot keep a search waiting, unless it was fetched later by somebody who is done already.
"""

from octavo.stores.redis.scripts import FOLLOW, MEMBERS, Script

# KEYS: terms. ARGV: again, base, id for a new index. Answers id (empty where nothing is kept), built, cursor, ticket, waiting.
BEGIN = Script(
    FOLLOW,
    r"""
local base, terms, tenant = ARGV[2], KEYS[1], ARGV[2] .. 'lane:tenant'
if redis.call('HEXISTS', terms, 'id') == 0 then
  if redis.call('EXISTS', tenant) == 0 then return {'', 1, '', '0', 0} end
  redis.call('DEL', terms .. ':waiting', terms .. ':at:tenant')
  redis.call('HSET', terms, 'id', ARGV[3], 'ticket', 0, 'cursor', '')
  follow(terms, tenant)
end
local state = redis.call('HMGET', terms, 'id', 'built', 'cursor', 'ticket')
return {state[1], state[2] and 1 or 0, state[3], state[4], redis.call('ZCARD', terms .. ':waiting')}
""",
)

# KEYS: terms. ARGV: again, base, id, where to look: 'waiting' from a ticket (not included) up to a ticket, 'lane' from a member
# on, or 'names' for these names; how many, bytes to stop at.
# Answers the number of the fetch (0 when the index is another), whether there is more, the last one looked at, {name, body, ...}.
FETCH = Script(
    r"""
local base, terms, from, to = ARGV[2], KEYS[1], ARGV[5], ARGV[6]
local most, bytes = tonumber(ARGV[7]), tonumber(ARGV[8])
if redis.call('HGET', terms, 'id') ~= ARGV[3] then return cmsgpack.pack({0, 0, '', {}}) end
local names, marks = {}, {}
if ARGV[4] == 'waiting' then
  local got = redis.call('ZRANGEBYSCORE', terms .. ':waiting', '(' .. from, to, 'WITHSCORES', 'LIMIT', 0, most)
  for n = 1, #got, 2 do names[#names + 1] = got[n]; marks[#marks + 1] = got[n + 1] end
elseif ARGV[4] == 'lane' then
  local low = from == '' and '-' or '(' .. from
  marks = redis.call('ZRANGEBYLEX', base .. 'lane:tenant', low, '+', 'LIMIT', 0, most)
  for n, member in ipairs(marks) do names[n] = string.sub(member, 30) end
else
  names = cmsgpack.unpack(from)
end
local more, last, size, found = #names == most and 1 or 0, '', 0, {}
for n, name in ipairs(names) do
  local body = redis.call('HGET', base .. 'body:' .. string.sub(name, -20), string.sub(name, 1, -22))
  found[2 * n - 1] = name
  found[2 * n] = body
  last = marks[n] or name
  size = size + (body and #body or 0)
  if size >= bytes and n < #names then
    more = 1
    break
  end
end
return cmsgpack.pack({redis.call('HINCRBY', terms, 'fetches', 1), more, last, found})
""",
)

# KEYS: terms. ARGV: again, base, id, number of the fetch, block to leave (and all before it), places, entries, and where the
# building stood and stands now, if it moves on.
# places: {place, scope, {lane, ...}}. entries: {place, id, digest of the body or '', digest of the content, record, facts,
# may end, enter anyway, {count, {term, ...}, ...}}.
# Answers whether it is this index, {n, ...} of entries that must be fetched again, {place, block, ...} mostly dead.
INDEX = Script(
    FOLLOW,
    r"""
local base, terms, id = ARGV[2], KEYS[1], ARGV[3]
local fetch, past = tonumber(ARGV[4]), tonumber(ARGV[5])
local places, entries = cmsgpack.unpack(ARGV[6]), cmsgpack.unpack(ARGV[7])
local waiting = terms .. ':waiting'
if redis.call('HGET', terms, 'id') ~= id then return cmsgpack.pack({0, {}, {}}) end
local floor = tonumber(redis.call('HGET', terms, 'floor') or '0')
local fetches = tonumber(redis.call('HGET', terms, 'fetches'))
local pending, fields, heads, again, thin, done = {}, {}, {}, {}, {}, {}

local function block_key(block) return terms .. ':block:' .. block end
local function head_of(n)
  local head = heads[n]
  if head then return head end
  local key = terms .. ':place:' .. places[n][1]
  local got = redis.call('HMGET', key, '\0g', '\0b', '\0o', '\0n')
  if got[1] and got[1] ~= id then -- left by an index that is no more
    redis.call('DEL', key)
    got = {}
  end
  head = {key = key, new = not got[1], blocks = got[2] or ' ', open = tonumber(got[3] or '0'), next = tonumber(got[4] or '0')}
  heads[n] = head
  return head
end
local function has(head, block) return string.find(head.blocks, ' ' .. block .. ' ', 1, true) end
local function set(block, field, value)
  local flat = fields[block]
  if not flat then flat = {}; fields[block] = flat end
  flat[#flat + 1] = field
  flat[#flat + 1] = value
end
local function add_number(block, field, number)
  local key = block_key(block)
  local numbers = (redis.call('HGET', key, field) or '') .. struct.pack('<I2', number)
  redis.call('HSET', key, field, numbers)
  return #numbers / 2
end
local function bury(head, place, block, number)
  if not has(head, block) then return end
  head.dirty = true
  local dead, live = add_number(block, '\0x', number), redis.call('HINCRBY', block_key(block), '\0n', -1)
  if live <= 0 then
    redis.call('DEL', block_key(block))
    pending[block], fields[block] = nil, nil
    head.blocks = string.gsub(head.blocks, ' ' .. block .. ' ', ' ', 1)
    if head.open == tonumber(block) then head.open = 0 end
  elseif dead >= 256 and dead > live then
    thin[#thin + 1] = {place, tonumber(block)}
  end
end
local function post(head, entry)
  if head.open <= past or head.next >= 4096 then
    head.open, head.next = redis.call('HINCRBY', terms, 'blocks', 1), 0
    redis.call('DEL', block_key(head.open))
    head.blocks = head.blocks .. head.open .. ' '
  end
  local block, number = head.open, head.next
  head.next, head.dirty = number + 1, true
  redis.call('HINCRBY', block_key(block), '\0n', 1)
  local lists = pending[block]
  if not lists then lists = {}; pending[block] = lists end
  local counted = entry[9]
  for n = 1, #counted, 2 do
    local posting = struct.pack('<I4', number * 1048576 + counted[n])
    for _, term in ipairs(counted[n + 1]) do
      local list = lists[term]
      lists[term] = list and list .. posting or posting
    end
  end
  return block, number
end

for n, entry in ipairs(entries) do
  local place, name, digest, content = places[entry[1]][1], entry[2], entry[3], entry[4]
  local line = name .. '\0' .. place
  local body = redis.call('HGET', base .. 'body:' .. place, name)
  local current = (body and string.sub(redis.sha1hex(body), 1, 16) or '') == digest
  local head = head_of(entry[1])
  local block, number, seen, was, held =
    string.match(redis.call('HGET', head.key, name) or '', '^(%d+) (%d+) (%d+) (%x*) (%x*)$')
  local known, stamp, enter = block and has(head, block), fetch, true
  local fresh = known and tonumber(seen) >= fetch
  if current then
    -- What is kept now is as new as anything fetched so far, by whomever.
    stamp = fetches
    enter = not (known and was == digest and (fresh or not entry[8]))
    done[#done + 1] = line
  else
    -- Too late. Who is not in line any more has been entered by somebody who read more than we did.
    local late = redis.call('ZSCORE', waiting, line)
    enter = late and not fresh and fetch > floor
    if late and not fresh and not enter then again[#again + 1] = n end
  end
  if enter and digest == '' then
    if known then bury(head, place, block, tonumber(number)) end
    if block then redis.call('HDEL', head.key, name) end
    floor = math.max(floor, stamp)
  elseif enter then
    if not known or held ~= content or entry[8] then
      local before, old = known and block, tonumber(number)
      block, number = post(head, entry)
      if before then bury(head, place, before, old) end
    end
    set(tonumber(block), '\0' .. number, entry[5])
    set(tonumber(block), '\0f' .. number, entry[6])
    if entry[7] == 1 then add_number(block, '\0e', tonumber(number)) end
    redis.call('HSET', head.key, name, string.format('%s %s %d %s %s', block, number, stamp, digest, content))
  end
end

for block, lists in pairs(pending) do
  local key, names = block_key(block), {}
  for term in pairs(lists) do names[#names + 1] = term end
  for start = 1, #names, 1000 do
    local last = math.min(start + 999, #names)
    local had, flat = redis.call('HMGET', key, unpack(names, start, last)), {}
    for n = start, last do
      flat[#flat + 1] = names[n]
      flat[#flat + 1] = (had[n - start + 1] or '') .. lists[names[n]]
    end
    redis.call('HSET', key, unpack(flat))
  end
end
for block, flat in pairs(fields) do
  for start = 1, #flat, 2000 do redis.call('HSET', block_key(block), unpack(flat, start, math.min(start + 1999, #flat))) end
end
for n, head in pairs(heads) do
  local place, axes = places[n][1], places[n][3]
  if head.dirty and head.blocks == ' ' then
    for axis in string.gmatch(redis.call('HGET', head.key, '\0a') or '', '%Z+') do
      redis.call('ZREM', terms .. ':at:' .. axis, place)
    end
    redis.call('DEL', head.key)
  elseif head.dirty then
    redis.call('HSET', head.key, '\0b', head.blocks, '\0o', head.open, '\0n', head.next)
    if head.new then
      redis.call('HSET', head.key, '\0g', id, '\0s', places[n][2], '\0a', table.concat(axes, '\0'))
      for _, axis in ipairs(axes) do redis.call('ZADD', terms .. ':at:' .. axis, 0, place) end
    end
    if redis.call('PTTL', base .. 'body:' .. place) >= 0 then
      redis.call('HSET', head.key, '\0t', 1)
      follow_place(base, place, axes)
    end
  end
end
for start = 1, #done, 1000 do redis.call('ZREM', waiting, unpack(done, start, math.min(start + 999, #done))) end
redis.call('HSET', terms, 'floor', floor)
if ARGV[8] and redis.call('HGET', terms, 'cursor') == ARGV[8] then
  redis.call('HSET', terms, 'cursor', ARGV[9])
  if ARGV[10] == '1' then redis.call('HSET', terms, 'built', 1) end
end
-- Nothing is kept any more, so nothing need be known about it.
if redis.call('EXISTS', base .. 'lane:tenant', waiting, terms .. ':at:tenant') == 0 then redis.call('DEL', terms) end
return cmsgpack.pack({1, again, thin})
""",
)

# KEYS: terms. ARGV: again, id.
FINISH = Script(
    "if redis.call('HGET', KEYS[1], 'id') == ARGV[2] then redis.call('HSET', KEYS[1], 'built', 1) end"
)

# KEYS: terms. ARGV: again, id, place, block, whether to take it out. Nothing is entered into a closed block any more; taken
# out, it is gone with whatever is in it that has no record.
CLOSE = Script(
    r"""
local own, block = KEYS[1] .. ':place:' .. ARGV[3], ARGV[4]
local head = redis.call('HMGET', own, '\0g', '\0b', '\0o', '\0a')
if head[1] ~= ARGV[2] then return end
if head[3] == block then redis.call('HSET', own, '\0o', 0) end
if ARGV[5] == '0' then return end
local rest = string.gsub(head[2], ' ' .. block .. ' ', ' ', 1)
redis.call('DEL', KEYS[1] .. ':block:' .. block)
redis.call('HSET', own, '\0b', rest)
if rest == ' ' then
  for axis in string.gmatch(head[4], '%Z+') do redis.call('ZREM', KEYS[1] .. ':at:' .. axis, ARGV[3]) end
  redis.call('DEL', own)
end
""",
)

# KEYS: terms. ARGV: again, the last place looked at, how many. Answers {place, blocks, ...}.
PLACES = Script(
    r"""
local low, answer = ARGV[2] == '' and '-' or '(' .. ARGV[2], {}
for _, place in ipairs(redis.call('ZRANGEBYLEX', KEYS[1] .. ':at:tenant', low, '+', 'LIMIT', 0, ARGV[3])) do
  answer[#answer + 1] = place
  answer[#answer + 1] = redis.call('HGET', KEYS[1] .. ':place:' .. place, '\0b') or ''
end
return answer
""",
)

# KEYS: terms. ARGV: again, block. Answers all there is in a block, {field, value, ...}.
BLOCK = Script("return redis.call('HGETALL', KEYS[1] .. ':block:' .. ARGV[2])")

# KEYS: terms. ARGV: again, base, names. Answers for each: the body or false, where it is indexed or '', whether it waits.
COMPARE = Script(
    r"""
local answer = {}
for _, name in ipairs(cmsgpack.unpack(ARGV[3])) do
  local place, id = string.sub(name, -20), string.sub(name, 1, -22)
  answer[#answer + 1] = {
    redis.call('HGET', ARGV[2] .. 'body:' .. place, id),
    redis.call('HGET', KEYS[1] .. ':place:' .. place, id) or '',
    redis.call('ZSCORE', KEYS[1] .. ':waiting', name) and 1 or 0,
  }
end
return cmsgpack.pack(answer)
""",
)

# KEYS: terms. ARGV: again, base, the last member looked at, how many.
# Answers the last member looked at if there may be more, how many records, and the names of those that are neither indexed nor wait.
ABSENT = Script(
    MEMBERS,
    r"""
local low, most = ARGV[3] == '' and '-' or '(' .. ARGV[3], tonumber(ARGV[4])
local members, names, records = redis.call('ZRANGEBYLEX', ARGV[2] .. 'lane:tenant', low, '+', 'LIMIT', 0, most), {}, 0
for _, member in ipairs(members) do
  local name, own = string.sub(member, 30), KEYS[1] .. ':place:' .. place_of(member)
  if redis.call('HEXISTS', ARGV[2] .. 'body:' .. place_of(member), id_of(member)) == 1 then
    records = records + 1
    local block = string.match(redis.call('HGET', own, id_of(member)) or '', '^%d+')
    local kept = block and string.find(redis.call('HGET', own, '\0b') or '', ' ' .. block .. ' ', 1, true)
    if not kept and not redis.call('ZSCORE', KEYS[1] .. ':waiting', name) then names[#names + 1] = name end
  end
end
return cmsgpack.pack({#members == most and members[#members] or '', records, names})
""",
)
