"""Reading: pages of an order, each page one script call and therefore one moment."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from octavo.errors import StoreError
from octavo.kernel.model import START, Head, NameCount, Query, Record, Scope, ScopePart, Tally
from octavo.stores.redis.connection import LoopClient
from octavo.stores.redis.layout import ORDER_WIDTH, TIME_WIDTH, KeyLayout, RankRange, decode_body, end, moment
from octavo.stores.redis.scripts import READ, TALLY, UNLIST, unpack

T = TypeVar("T")
#: A page ends at so many members or bytes: Redis serves nobody else while it is put together.
_PAGE = 2000
_PAGE_BYTES = 2 * 1024 * 1024
_FEW = 20
_IDS = 500
_ALL = -1  # members of a range; or bytes enough for any number of them
_ANY_BYTES = 2**53

#: A record and the JSON that Redis keeps of it.
Found: TypeAlias = tuple[Record, bytes]


class ScriptPage(NamedTuple):
    """What one script call read."""

    version: bytes
    skipped: int
    last: bytes  # the last member looked at, if there are more
    found: list[Found]


class RedisReader:
    """Answers questions as the memory store does."""

    def __init__(self, connection: LoopClient, layout: KeyLayout) -> None:
        self._connection = connection
        self._layout = layout

    async def heads(self, query: Query) -> list[Head]:
        """The heads of the records a query finds."""
        return (await self._collect(query, lambda found: Head.of(found[0])))[0]

    async def find(self, query: Query) -> tuple[list[Found], bytes]:
        """The records a query finds, and the version that the counter beside them had; no more is read than the page needs."""
        return await self._collect(query, lambda found: found)

    async def _collect(self, query: Query, make: Callable[[Found], T]) -> tuple[list[T], bytes]:
        """What is made of each record that a query finds, and the version: no more than a few of them are held at once."""
        if query.ids is not None or query.expired_at is not None:
            looked_up, version = await self._look_up(query)
            return list(map(make, looked_up)), version
        found: list[T] = []
        version = b""
        end_at = None if query.limit is None else query.offset + query.limit
        skipped = -1
        async with aclosing(self._pages(query)) as pages:
            async for page in pages:
                if skipped < 0:
                    skipped, version = page.skipped, page.version
                found += map(make, page.found)
                if end_at is not None and skipped + len(found) >= end_at:
                    break
        found = found[query.offset - skipped : None if end_at is None else end_at - skipped]
        if not query.newest_first and query.after is None:
            found.reverse()  # they were read from the newest back
        return found, version

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would; from counters when only the scope and kinds are asked about."""
        asked = self._layout.plan_read(query)
        if not (query.plain and asked.alone):
            return await self._count(query)
        flat, first, last = await self._connection.run(TALLY, [asked.order, asked.kinds])
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        if b"\0" in fields:  # some of what was counted may have expired
            return await self._count(query)
        counts = {kind.decode(): int(number) for kind, number in fields.items() if kind[:1] != b"\0"}
        by_kind = {kind: n for kind, n in counts.items() if query.kinds is None or kind in query.kinds}
        if not by_kind:
            return Tally()
        total = sum(by_kind.values())
        if len(by_kind) == len(counts):
            return Tally(total=total, by_kind=by_kind, first=moment(first), last=moment(last))
        ends = [
            (await self.find(msgspec.structs.replace(query, limit=1, newest_first=newest, after=START)))[0]
            for newest in (False, True)
        ]
        if not all(ends):  # removed since they were counted
            return await self._count(query)
        oldest, newest = (found[0][0].created_at for found in ends)
        return Tally(total=total, by_kind=by_kind, first=oldest, last=newest)

    async def names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        """Who is named within the query's scope, behind that name and in order, no more than its limit."""
        if query.scope != Scope(tenant=query.scope.tenant):
            counted = await self._count_names(query, part)
            return [one for one in counted if one.name > after][: query.limit]
        base, most = self._layout.base(query.collection, query.scope.tenant), query.limit or 0
        low, high = f"({part}:{after}".encode(), f"({part};".encode()
        found: list[NameCount] = []
        while low and len(found) < most:
            wanted = min(most - len(found), _PAGE)
            page = await self._connection.ask(
                "ZRANGEBYLEX", base + b"parts", low, high, "LIMIT", "0", str(wanted)
            )
            tallied = await asyncio.gather(*[self._count_name(query, base, part, entry) for entry in page])
            found += [one for one in tallied if one is not None]
            low = b"(" + page[-1] if len(page) == wanted else b""
        return found

    async def _count_name(self, query: Query, base: bytes, part: ScopePart, entry: bytes) -> NameCount | None:
        """How many records a listed name has; one that has none any more is taken off the list."""
        name = entry.decode().partition(":")[2]
        scope = msgspec.structs.replace(query.scope, **{part: name})
        tally = await self.tally(Query(collection=query.collection, scope=scope))
        if tally.first and tally.last:
            return NameCount(name=name, total=tally.total, first=tally.first, last=tally.last)
        with contextlib.suppress(StoreError):  # a replica refuses this and can be read all the same
            await self._connection.run(UNLIST, [base + b"parts", base + b"order:" + entry], b"ZREM", entry)
        return None

    async def _count_names(self, query: Query, part: ScopePart) -> list[NameCount]:
        """Who is named within a scope, from its records."""
        everything = Query(collection=query.collection, scope=query.scope)
        counted: dict[str, NameCount] = {}
        async with aclosing(self._pages(everything)) as pages:
            async for page in pages:
                for one in NameCount.of(part, [record for record, _ in page.found]):
                    newer = counted.get(one.name, one)  # they are read from the newest back
                    total = one.total + (newer.total if one.name in counted else 0)
                    counted[one.name] = NameCount(
                        name=one.name, total=total, first=one.first, last=newer.last
                    )
        return [counted[name] for name in sorted(counted)]

    async def read_named(self, base: bytes, names: Sequence[bytes]) -> list[bytes]:
        """The JSON kept under these names (id, NUL, scope key), leaving out what is not kept."""
        found = []
        for start in range(0, len(names), _IDS):
            ranges = [(b"[" + name, b"[" + name) for name in names[start : start + _IDS]]
            page = await self._read([base + b"names", base + b"kinds:tenant"], base, ranges, width=0)
            found += [body for _, body in page.found]
        return found

    async def _count(self, query: Query) -> Tally:
        if query.ids is not None or query.expired_at is not None:
            return Tally.of(query, [record for record, _ in (await self.find(query))[0]])
        by_kind: dict[str, int] = {}
        first = last = None
        async with aclosing(self._pages(query)) as pages:
            async for page in pages:
                for record, _ in page.found:  # from the newest back
                    by_kind[record.kind] = by_kind.get(record.kind, 0) + 1
                    last = last or record.created_at
                    first = record.created_at
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first, last=last)

    async def _look_up(self, query: Query) -> tuple[list[Found], bytes]:
        """The answer where all that may be in it is known by its id or by its end."""
        asked = self._layout.plan_read(query)
        pages = []
        if query.ids is not None:
            keys, scope_key = [asked.base + b"names", asked.kinds], query.scope.key.encode()
            names = [name.encode() + b"\0" for name in dict.fromkeys(query.ids)]
            exact = [(b"[" + name + scope_key, b"[" + name + scope_key) for name in names]
            ranges = (
                exact if query.scope.exact else [(b"[" + name, b"(" + name[:-1] + b"\1") for name in names]
            )
            for start in range(0, max(len(ranges), 1), _IDS):
                part = ranges[start : start + _IDS]
                pages.append(await self._read(keys, asked.base, part, width=0))
        else:
            keys, high = [asked.base + b"ends", asked.kinds], f"({end(query.expired_at)}g".encode()
            width, low = TIME_WIDTH + ORDER_WIDTH, b"-"
            while low:
                page = await self._read(
                    keys, asked.base, [(low, high)], width=width, most=_PAGE, most_bytes=_PAGE_BYTES
                )
                pages.append(page)
                low = b"(" + page.last if page.last else b""
        kept = {found[0].key: found for page in pages for found in page.found}
        found = [kept[record.key] for record in query.over(record for record, _ in kept.values())]
        return found, pages[0].version

    async def _pages(self, query: Query) -> AsyncGenerator[ScriptPage, None]:
        """What matches, page by page in reading order; where everything in the order does, from the offset on."""
        asked, span = self._layout.plan_read(query), RankRange.of(query)
        spoken_for = {"since": None, "until": None, **({"marks": None} if asked.mark else {})}
        sure = asked.alone and query.kinds is None and msgspec.structs.replace(query, **spoken_for).plain
        skip = query.offset if sure else 0
        size = _PAGE
        if query.limit is not None:
            few = query.limit if sure else query.limit + query.offset
            # Where only the scope is looser than the order, most of it will match; of any other clause nothing is known.
            size = min(few if sure or (query.plain and query.kinds is None) else max(_FEW, 2 * few), _PAGE)
        while True:
            width = len(asked.mark) + ORDER_WIDTH
            page = await self._read(
                [asked.order, asked.kinds],
                asked.base,
                [span.bounds(asked.mark)],
                width=width,
                most=size,
                skip=skip,
                most_bytes=_PAGE_BYTES,
                forward=span.forward,
            )
            yield page._replace(found=[found for found in page.found if sure or query.matches(found[0])])
            if not page.last:
                return
            span = span.rest_after(page.last[len(asked.mark) :])
            size, skip = min(2 * size, _PAGE), 0

    async def _read(
        self,
        keys: Sequence[bytes],
        base: bytes,
        ranges: Sequence[tuple[bytes, bytes]],
        *,
        width: int,
        most: int = _ALL,
        skip: int = 0,
        most_bytes: int = _ANY_BYTES,
        forward: bool = True,
    ) -> ScriptPage:
        """What stands in these ranges of the first key, read at one moment."""
        command = b"ZRANGEBYLEX" if forward else b"ZREVRANGEBYLEX"
        numbers = [b"%d" % number for number in (width, most, skip, most_bytes)]
        bounds = [bound for both in ranges for bound in both]
        answer = await self._connection.run(READ, keys, base, command, *numbers, *bounds)
        version, skipped, last, *bodies = unpack(answer)
        return ScriptPage(version, int(skipped), last, [(decode_body(body), body) for body in bodies])
