"""The Lua that runs inside Redis. Each script is one step nobody can come between.

Keys are declared, but for those of single scopes, which a reader knows only once it has read who stands in an order: their
names are made from `base`, so that all keys of a call have one hash tag. ARGV[1] says whether the script is asked again
because the answer to its first run was lost. A list of texts travels as two: their lengths, and all of them joined; Lua
cannot unpack more than some 8000 arguments, and a client reads one long reply far faster than many short ones. Lua
never compares texts for order here: it would do so by the server's locale, not by bytes.

Expiry: the keys of one scope expire together, so they never contradict each other. What scopes share lives as long as the
longest of them; a counter that scopes with a time to live have shared has the field NUL, and is not to be trusted. A
member is alive as long as it stands in the order of its own scope; whoever meets a dead one removes it.

Terms: the hash `terms` of a scope has for each term {number:count ...}, the records that hold it and how often; `NUL i <id>` says
which number a record has, `NUL r <number>` what a search must know of it, `NUL` which scope it is, `NUL n` which number was the
last, and `NUL l` how many records are known. Nothing of it is wrong: whoever changes or removes a record takes its number
away in the same step, and a number without `NUL r` stands for nothing. What is not known is made by the next search.

Versions: the field `NUL v` of a counter names the last swap that touched what it counts. A swap that saw another name there
when it read starts over: something it did not find may be there now.
"""

import hashlib
from collections.abc import Sequence


class Script:
    """A script and the name Redis calls it by once loaded."""

    def __init__(self, *parts: str) -> None:
        self.text = "\n".join(parts).encode()
        self.sha = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()


def pack(texts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """A list of texts as the scripts take it: their lengths, and all of them joined."""
    return " ".join([str(len(text)) for text in texts]).encode(), b"".join(texts)


def unpack(answer: Sequence[bytes]) -> list[bytes]:
    """A list of texts as the scripts answer it."""
    lengths, joined = answer
    texts, start = [], 0
    for length in map(int, lengths.split()):
        texts.append(joined[start : start + length])
        start += length
    return texts


_SHARED = r"""
local function id_of(member) return string.sub(member, 30, -22) end
local function scope_key_of(member) return string.sub(member, -20) end
local function texts(n)
  local list, at = {}, 1
  for size in string.gmatch(ARGV[n], '%d+') do
    list[#list + 1] = string.sub(ARGV[n + 1], at, at + size - 1)
    at = at + size
  end
  return list
end
local function packed(list)
  local sizes = {}
  for n, text in ipairs(list) do sizes[n] = #text end
  return {table.concat(sizes, ' '), table.concat(list)}
end
local function version(kinds) return redis.call('HGET', kinds, '\0v') or '' end
"""

# Takes records out and puts others in: adds what is not kept yet, or, with the name of a `swap`, replaces `old` by `new` if what
# they were made from still holds. Without either, the scopes live on as if they had been written to.
# KEYS: those of all scopes, and counters to watch. ARGV: again, ttl, swap or '', for each scope where its keys begin, old, new,
# taken, watched. A scope has marks, body, terms, order, kinds, then what it shares: names, ends, parts; and order, kinds and scopes
# of its tenant and of each name in its scope. Those that stand together are named by the number of the first. Old and new are lists of {scope, member, kind and end and marks, body}, taken is one of
# {scope, id} that must be kept, watched one of the versions that the counters must have.
# Answers a digit for each of the new, 1 when it was added, or one for a swap; and whether a tenant's collection was empty.
WRITE = Script(
    _SHARED,
    r"""
local MARKS, BODY, TERMS, ORDER, NAMES, ENDS, PARTS, SHARED = 1, 2, 3, 4, 6, 7, 8, 9
local again, ttl, swap = ARGV[1] == '1', tonumber(ARGV[2]), ARGV[3]
local scopes, size, left, lasting, fresh = {}, {}, {}, {}, 0
local function is_hash(n)
  if n < SHARED then return n == BODY or n == TERMS or n == ORDER + 1 end
  return (n - SHARED) % 3 == 1
end
for starts in string.gmatch(ARGV[4], '[^,]+') do
  local scope, together = {}, NAMES - 1
  for start in string.gmatch(starts, '%d+') do
    for n = tonumber(start), tonumber(start) + together - 1 do scope[#scope + 1] = KEYS[n] end
    together = 3
  end
  -- Redis does not undo: a key that is somebody else's stops the script here, before anything is written.
  for n, key in ipairs(scope) do
    if not size[key] then
      size[key] = redis.call(is_hash(n) and 'HLEN' or 'ZCARD', key)
      if ttl > 0 or n == BODY then left[key] = redis.call('PTTL', key) end
    end
  end
  if size[scope[NAMES]] == 0 then fresh = 1 end
  scopes[#scopes + 1] = scope
end
local function records(n)
  local list, all = {}, texts(n)
  for at = 1, #all, 4 do
    local member = all[at + 1]
    list[#list + 1] =
      {scope = scopes[tonumber(all[at])], member = member, id = id_of(member), about = all[at + 2], body = all[at + 3]}
  end
  return list
end
local old, new, taken, watched = records(5), records(7), texts(9), texts(11)

local function name_of(record) return record.scope[BODY] .. '\0' .. record.id end
local function holds(wanted, others)
  local seen = {}
  for _, record in ipairs(wanted) do
    seen[name_of(record)] = true
    if redis.call('HGET', record.scope[BODY], record.id) ~= record.body then return false end
  end
  for _, record in ipairs(others) do
    if not seen[name_of(record)] and redis.call('HEXISTS', record.scope[BODY], record.id) == 1 then return false end
  end
  return true
end
if swap ~= '' then
  if not holds(old, new) then return {(again and holds(new, old)) and '1' or '0', fresh} end
  for n = 1, #taken, 2 do
    if redis.call('HEXISTS', scopes[tonumber(taken[n])][BODY], taken[n + 1]) == 0 then return {'0', fresh} end
  end
  for n, seen in ipairs(watched) do
    if version(KEYS[#KEYS - #watched + n]) ~= seen then return {'0', fresh} end
  end
end

-- What the writes come to: a member that leaves a sorted set and comes back has not moved.
local moves, counts = {}, {}
local function note(sums, key, field, step)
  local fields = sums[key]
  if not fields then fields = {}; sums[key] = fields end
  fields[field] = (fields[field] or 0) + step
end
local function move(record, step)
  local scope, member = record.scope, record.member
  local kind, ends, marks = string.match(record.about, '^(%Z*)%z(%Z*)%z(.*)$')
  note(moves, scope[ORDER], member, step)
  note(counts, scope[ORDER + 1], kind, step)
  note(moves, scope[NAMES], string.sub(member, 30), step)
  for n = SHARED, #scope, 3 do
    note(moves, scope[n], member, step)
    note(counts, scope[n + 1], kind, step)
  end
  for mark in string.gmatch(marks, '(%Z*)%z') do note(moves, scope[MARKS], mark .. '\0' .. member, step) end
  if ends ~= '' then note(moves, scope[ENDS], ends .. member, step) end
end
local function forget_terms(record)
  local terms = record.scope[TERMS]
  local number = redis.call('HGET', terms, '\0i' .. record.id)
  if not number then return end
  redis.call('HDEL', terms, '\0i' .. record.id, '\0r' .. number)
  local live = redis.call('HINCRBY', terms, '\0l', -1)
  -- Where most of it is about what is gone, it is as quickly made anew.
  if tonumber(redis.call('HGET', terms, '\0n')) > 2 * live + 200 then redis.call('DEL', terms) end
end
local digits, mine = {}, {}
for n, record in ipairs(new) do
  local key, id, body = record.scope[BODY], record.id, record.body
  digits[n] = '1'
  if redis.call(swap ~= '' and 'HSET' or 'HSETNX', key, id, body) == 1 or swap ~= '' then
    move(record, 1)
  elseif not again or mine[name_of(record)] or redis.call('HGET', key, id) ~= body then
    digits[n] = '0' -- it was there, and not from the run whose answer was lost
  end
  if again or swap ~= '' then mine[name_of(record)] = true end
end
for _, record in ipairs(old) do
  move(record, -1)
  forget_terms(record)
  if not mine[name_of(record)] then redis.call('HDEL', record.scope[BODY], record.id) end
end
for _, scope in ipairs(scopes) do
  local name, there = string.sub(scope[BODY], -20), redis.call('EXISTS', scope[BODY])
  if there == 0 then redis.call('DEL', scope[TERMS]) end
  for n = SHARED + 2, #scope, 3 do
    if (size[scope[BODY]] > 0) ~= (there == 1) then note(moves, scope[n], name, 2 * there - 1) end
  end
end
local function call_all(command, key, words)
  for n = 1, #words, 2000 do redis.call(command, key, unpack(words, n, math.min(n + 1999, #words))) end
end
for key, members in pairs(moves) do
  local added, removed = {}, {}
  for member, step in pairs(members) do
    if step > 0 then
      added[#added + 1] = 0
      added[#added + 1] = member
    elseif step < 0 then
      removed[#removed + 1] = member
    end
  end
  call_all('ZADD', key, added) -- first: a key that stays must not be empty in between, and lose its time to live
  call_all('ZREM', key, removed)
end
for key, kinds in pairs(counts) do
  for kind, step in pairs(kinds) do
    if step ~= 0 and redis.call('HINCRBY', key, kind, step) <= 0 then redis.call('HDEL', key, kind) end
  end
end
for _, scope in ipairs(scopes) do
  for n = SHARED + 3, #scope, 3 do
    local had, name = size[scope[n]] > 0, string.sub(scope[n], #scope[SHARED] - 5)
    -- An add leaves an order that was there where it is.
    local has = had and #old == 0 or redis.call('EXISTS', scope[n]) == 1
    if has ~= had then redis.call(has and 'ZADD' or 'ZREM', scope[PARTS], unpack(has and {0, name} or {name})) end
  end
end

local function touch_counter(order, kinds, shared)
  if redis.call('EXISTS', order) == 0 then
    redis.call('DEL', kinds)
  else
    if swap ~= '' then redis.call('HSET', kinds, '\0v', swap) end
    if ttl > 0 and shared then redis.call('HSET', kinds, '\0', 1) end
  end
end
for _, scope in ipairs(scopes) do
  if swap ~= '' or ttl > 0 then
    touch_counter(scope[ORDER], scope[ORDER + 1], false)
    for n = SHARED, #scope, 3 do touch_counter(scope[n], scope[n + 1], true) end
  end
  for n, key in ipairs(scope) do
    local had = left[key]
    if ttl == 0 then
      -- New, or left by a writer with a ttl: this is to stay.
      if left[scope[BODY]] ~= -1 and not lasting[key] then
        redis.call('PERSIST', key)
        lasting[key] = true
      end
    elseif n < NAMES or had == -2 or (had >= 0 and had < ttl * 1000) then
      -- What other scopes stand in too may only live longer for this write, never shorter.
      redis.call('EXPIRE', key, ttl)
    end
  end
end
return {swap ~= '' and '1' or table.concat(digits), fresh}
""",
)

# Reads the records that stand in ranges of a sorted set.
# KEYS: the sorted set, the counter to watch. ARGV: again, base, command, what stands before the id in a member, how many to look
# at and to skip, bytes to stop at, then from and to of each range.
# Answers the version, how many were skipped, the last member looked at if there are more, and the bodies.
READ = Script(
    _SHARED,
    r"""
local base, command, width = ARGV[2], ARGV[3], tonumber(ARGV[4])
local most, skip, bytes = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local unsure = redis.call('HEXISTS', KEYS[2], '\0') == 1
if unsure then skip = '0' end -- the dead must not be counted
local answer, size = {version(KEYS[2]), skip, ''}, 0
local function remove_dead(entry, name)
  -- A replica refuses this and can be read all the same.
  redis.pcall('ZREM', KEYS[1], entry)
  if redis.call('HEXISTS', base .. 'body:' .. scope_key_of(entry), string.sub(name, 1, -22)) == 0 then
    redis.pcall('ZREM', base .. 'names', name)
  end
end
for n = 8, #ARGV, 2 do
  local entries = redis.call(command, KEYS[1], ARGV[n], ARGV[n + 1], 'LIMIT', skip, most)
  for at, entry in ipairs(entries) do
    local name, scope_key = string.sub(entry, width + 1), scope_key_of(entry)
    local dead = (width > 29 or (unsure and width > 0))
      and not redis.call('ZSCORE', base .. 'order:scope:' .. scope_key, string.sub(entry, width - 28))
    local body = not dead and redis.call('HGET', base .. 'body:' .. scope_key, string.sub(name, 1, -22))
    if body then
      answer[#answer + 1] = body
      size = size + #body
    else
      remove_dead(entry, name)
    end
    if at == most or (size >= bytes and at < #entries) then
      answer[3] = entry
      break
    end
  end
end
return packed(answer)
""",
)

# KEYS: an order and its counter. Answers {kind, count, ...}, the first member and the last.
TALLY = Script(
    r"""
local first, last = redis.call('ZRANGE', KEYS[1], 0, 0), redis.call('ZRANGE', KEYS[1], -1, -1)
return {redis.call('HGETALL', KEYS[2]), first[1] or '', last[1] or ''}
""",
)

# Looks for terms in scopes.
# KEYS: the scopes of a tenant, a user, … ARGV: again, base, from and to which scope, how many scopes to look at, bytes to stop at,
# how many unknown records of a scope to read, term, ...
# Answers the last scope looked at if there may be more; then `body` and the body of a record whose terms are unknown; `more` and
# a scope of which not all unknown ones were read, or `broken` and one that knows more than there is; and `known`, a scope,
# its scope, what it has of each term, how many records that is about, and what it knows of each.
SEEK = Script(
    _SHARED,
    r"""
local base, most, bytes, limit = ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local wanted, answer, size = {}, {''}, 0
for n = 8, #ARGV do wanted[n - 7] = ARGV[n] end
local function say(text)
  answer[#answer + 1] = text
  size = size + #text
end
-- Those whose terms are not kept yet; they are most often the newest.
local function unknown_ones(terms, order, body, unknown)
  local start, read = 0, 0
  while read < unknown do
    local members = redis.call('ZREVRANGE', order, start, start + 99)
    for _, member in ipairs(members) do
      if redis.call('HEXISTS', terms, '\0i' .. id_of(member)) == 0 then
        if read == limit or size >= bytes then return false end
        local kept = redis.call('HGET', body, id_of(member))
        if kept then
          say('body')
          say(kept)
        end
        read = read + 1
      end
    end
    if #members == 0 then break end
    start = start + 100
  end
  return true
end
local function known_ones(scope_key, terms, scope)
  local postings, seen, numbers = redis.call('HMGET', terms, unpack(wanted)), {}, {}
  for _, posting in ipairs(postings) do
    for number in string.gmatch(posting or '', '(%d+):') do
      if not seen[number] then
        seen[number] = true
        numbers[#numbers + 1] = '\0r' .. number
      end
    end
  end
  if #numbers == 0 then return end
  for _, text in ipairs({'known', scope_key, scope}) do say(text) end
  for _, posting in ipairs(postings) do say(posting or '') end
  say(tostring(#numbers))
  for start = 1, #numbers, 1000 do
    for _, known in ipairs(redis.call('HMGET', terms, unpack(numbers, start, math.min(start + 999, #numbers)))) do
      say(known or '') -- nothing, if it is gone or says something else now
    end
  end
end
local scope_keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[3], ARGV[4], 'LIMIT', 0, most)
for n, scope_key in ipairs(scope_keys) do
  local terms, order = base .. 'terms:' .. scope_key, base .. 'order:scope:' .. scope_key
  local state, records = redis.call('HMGET', terms, '\0', '\0l'), redis.call('ZCARD', order)
  local unknown = records - (state[2] or 0)
  if records == 0 then -- it has expired, and its terms do in this very moment
    redis.pcall('ZREM', KEYS[1], scope_key)
  elseif unknown < 0 or not unknown_ones(terms, order, base .. 'body:' .. scope_key, unknown) then
    say(unknown < 0 and 'broken' or 'more')
    say(scope_key)
  elseif state[1] and #wanted > 0 then
    known_ones(scope_key, terms, state[1])
  end
  if n == most or (size >= bytes and n < #scope_keys) then
    answer[1] = scope_key
    break
  end
end
return packed(answer)
""",
)

# KEYS: body and terms of a scope. ARGV: again, scope, list of {id, body, what is to be known of it, term:count ...}: the terms are
# kept if they are not yet, and the body is still the one that they were made from.
KEEP_TERMS = Script(
    _SHARED,
    r"""
local body, terms, list, postings = KEYS[1], KEYS[2], texts(3), {}
for n = 1, #list, 4 do
  local id = list[n]
  if redis.call('HGET', body, id) == list[n + 1] and redis.call('HEXISTS', terms, '\0i' .. id) == 0 then
    local number = redis.call('HINCRBY', terms, '\0n', 1)
    redis.call('HINCRBY', terms, '\0l', 1)
    redis.call('HSET', terms, '\0', ARGV[2], '\0i' .. id, number, '\0r' .. number, number .. ' ' .. list[n + 2])
    for term, count in string.gmatch(list[n + 3], '(%S+):(%d+)') do
      postings[term] = (postings[term] or '') .. number .. ':' .. count .. ' '
    end
  end
end
for term, posting in pairs(postings) do
  redis.call('HSET', terms, term, (redis.call('HGET', terms, term) or '') .. posting)
end
local left = redis.call('PTTL', body)
if left >= 0 then redis.call('PEXPIRE', terms, left) end
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

# KEYS: a list, and the orders of a name on it. ARGV: again, the command that takes a name off, the name. Answers whether it stays,
# since it has records. In one step: one that came in between would stay off the list for good if the reader died.
UNLIST = Script(
    r"""
for n = 2, #KEYS do
  if redis.call('EXISTS', KEYS[n]) == 1 then return 1 end
end
redis.call(ARGV[2], KEYS[1], ARGV[3])
return 0
""",
)
