"""What has ended: read off the sorted set `ends`, where every record that ends stands by its time.

What was written before there was such a set is entered by the first who asks; the member `!`, which sorts before every
time, says that this has been done. An end of what is not kept any more is dropped by whoever reads it.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from octavo.kernel.model import Record
from octavo.stores.redis import rows
from octavo.stores.redis.layout import end, member
from octavo.stores.redis.scripts import FOLLOW, MEMBERS, Script
from octavo.stores.redis.wire import Wire

_PAGE = 1000
_PAGE_BYTES = 8 * 1024 * 1024
_NEW, _WIDE, _ALL = 0, 1, 2  # the set has not been filled; it holds more than the lane that is asked for

_pack = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(tuple[str, int, str, list[str]])

# KEYS: ends, the counter to watch, the lane asked for. ARGV: again, base, from, to, how many to look at, bytes to stop at.
# Answers the version; 0 if the set is not filled, 1 if the lane is shorter than what has ended, 2 if this is all and 3 if
# not; the last entry looked at; and {entry, body, ...}.
_ENDED = Script(
    MEMBERS,
    r"""
local base, most, bytes = ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[6])
local function answer(what, last, found)
  return cmsgpack.pack({version(KEYS[2]), what, last, found})
end
if not redis.call('ZSCORE', KEYS[1], '!') then return answer(0, '', {}) end
if redis.call('ZLEXCOUNT', KEYS[1], ARGV[3], ARGV[4]) > redis.call('ZCARD', KEYS[3]) + most then
  return answer(1, '', {})
end
local found, last, size = {}, '', 0
local entries = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[3], ARGV[4], 'LIMIT', 0, most)
for _, entry in ipairs(entries) do
  local member = string.sub(entry, 16)
  local body = redis.call('HGET', base .. 'body:' .. place_of(member), id_of(member))
  last = entry
  if body then
    found[#found + 1] = entry
    found[#found + 1] = body
    size = size + #body
    if size >= bytes then break end
  else
    redis.call('ZREM', KEYS[1], entry)
  end
end
return answer(last ~= '' and (last ~= entries[#entries] or #entries == most) and 3 or 2, last, found)
""",
)

# KEYS: ends. ARGV: again, base, {entry, body, ...}: drops the entries of bodies that are still so.
_DROP = Script(
    MEMBERS,
    r"""
local base, old = ARGV[2], cmsgpack.unpack(ARGV[3])
for n = 1, #old, 2 do
  local member = string.sub(old[n], 16)
  if redis.call('HGET', base .. 'body:' .. place_of(member), id_of(member)) == old[n + 1] then
    redis.call('ZREM', KEYS[1], old[n])
  end
end
""",
)

# KEYS: ends. ARGV: again, base, {entry, ...}, whether these are the last. An entry of what has changed or gone meanwhile
# does no harm: whoever reads it drops it.
_FILL = Script(
    MEMBERS,
    FOLLOW,
    r"""
local base = ARGV[2]
if redis.call('EXISTS', base .. 'lane:tenant') == 0 then return end
for _, entry in ipairs(cmsgpack.unpack(ARGV[3])) do redis.call('ZADD', KEYS[1], 0, entry) end
if ARGV[4] == '1' then redis.call('ZADD', KEYS[1], 0, '!') end
follow(KEYS[1], base .. 'lane:tenant')
""",
)


class Ends:
    """The ends of a tenant's records in one collection."""

    def __init__(self, wire: Wire, base: bytes) -> None:
        self._wire = wire
        self._base = base
        self._key = base + b"ends"

    async def by(self, at: datetime, kinds: bytes, lane: bytes) -> "Ended | None":
        """What has ended by then; None when it is quicker to walk the lane."""
        ended = Ended()
        low, high = b"[0", b"(" + end(at).encode() + b"g"  # past every entry of this time, before the next
        while True:
            words = (low, high, b"%d" % _PAGE, b"%d" % _PAGE_BYTES)
            keys = [self._key, kinds, lane]
            version, what, last, flat = rows.unpacked(
                _read, await self._wire.run(_ENDED, keys, self._base, *words)
            )
            ended.version = ended.version if ended.version is not None else version
            if what == _NEW:
                ended.filled = False
                return ended
            if what == _WIDE:
                return None
            await self._take(flat, ended)
            if what == _ALL:
                return ended
            low = b"(" + last.encode()

    async def fill(self, records: Iterable[Record], *, last: bool) -> None:
        """Enter the ends of these records; after the `last` of a walk over all of them, none is missing."""
        entries = [end(record.expires_at) + member(record.rank) for record in records if record.expires_at]
        await self._wire.run(_FILL, [self._key], self._base, _pack(entries), b"%d" % last)

    async def _take(self, flat: list[str], ended: "Ended") -> None:
        old: list[str] = []
        for entry, body in zip(flat[::2], flat[1::2], strict=True):
            record = rows.record(body)
            if end(record.expires_at) + member(record.rank) == entry:
                ended.found[record.key] = (record, body)
            else:
                old += (entry, body)
        if old:
            await self._wire.run(_DROP, [self._key], self._base, _pack(old))


class Ended:
    """What has ended, and the version the watched counter had when the reading began."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], tuple[Record, str]] = {}
        self.version: str | None = None
        self.filled = True
