"""Reading: pages of a lane, each page one script call and therefore one moment."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from octavo.model import START, Query, Record, Scope, Tally
from octavo.stores.draft import Key
from octavo.stores.redis import rows
from octavo.stores.redis.layout import Layout, Span, moment
from octavo.stores.redis.scripts import BODIES, NAMED, PAGE, TALLY
from octavo.stores.redis.wire import Wire

#: A page ends at so many members or bytes: Redis serves nobody else while it is put together.
_PAGE = 2000
_PAGE_BYTES = 8 * 1024 * 1024
_FEW = 100
_IDS = 500

Found: TypeAlias = tuple[Record, bytes]

_pack = msgspec.msgpack.Encoder().encode


class Reader:
    """Answers questions as the memory store does."""

    def __init__(self, wire: Wire, layout: Layout) -> None:
        self._wire = wire
        self._layout = layout

    async def find(self, query: Query) -> list[Found]:
        """The records a query finds, each with the bytes Redis keeps; no more is read than the page needs."""
        if query.limit == 0:
            return []
        if query.ids is not None:
            return await self._named(query)
        found: list[Found] = []
        skip = 0 if self._sure(query) else query.offset
        end = None if query.limit is None else skip + query.limit
        async with aclosing(self._matching(query)) as pages:
            async for page in pages:
                found += page
                if end is not None and len(found) >= end:
                    break
        found = found[skip:end]
        forward = query.after is not None and not query.newest_first
        return found if forward or query.newest_first else found[::-1]

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would; from counters when only the scope and kinds are asked about."""
        asked = self._layout.asked(query)
        if not (query.plain and asked.alone):
            return await self._counted(query)
        lane, _ = asked.lanes[0]
        flat, first, last = await self._wire.run(TALLY, [lane, asked.kinds], asked.base)
        counts = {
            kind.decode(): int(n) for kind, n in zip(flat[::2], flat[1::2], strict=True) if kind != b"\0"
        }
        by_kind = {kind: n for kind, n in counts.items() if query.kinds is None or kind in query.kinds}
        if not by_kind:
            return Tally()
        if len(by_kind) == len(counts):
            return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=moment(first), last=moment(last))
        ends = [
            await self.find(msgspec.structs.replace(query, limit=1, newest_first=newest, after=START))
            for newest in (False, True)
        ]
        if not all(ends):  # removed since they were counted
            return await self._counted(query)
        oldest, newest = (found[0][0].created_at for found in ends)
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=oldest, last=newest)

    async def bodies(self, collection: str, keys: Sequence[Key], scopes: dict[str, Scope]) -> list[bytes]:
        """The bytes kept under these keys, leaving out what is not; `scopes` says whose place each is."""
        found: list[bytes] = []
        for start in range(0, len(keys), _IDS):
            part = keys[start : start + _IDS]
            places = {place: n for n, place in enumerate(dict.fromkeys(place for _, place in part), 1)}
            names = [self._layout.keys(collection, scopes[place]).body for place in places]
            wanted = [word for name, place in part for word in (places[place], name)]
            found += await self._wire.run(BODIES, names, _pack(wanted))
        return found

    async def _counted(self, query: Query) -> Tally:
        by_kind: dict[str, int] = {}
        first = last = None
        async for page in self._matching(msgspec.structs.replace(query, after=START)):
            for record, _ in page:
                by_kind[record.kind] = by_kind.get(record.kind, 0) + 1
                first = first or record.created_at
                last = record.created_at
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first, last=last)

    async def _named(self, query: Query) -> list[Found]:
        ids = list(dict.fromkeys(query.ids or ()))
        scope = query.scope
        if scope.exact:
            bodies = await self.bodies(
                query.collection, [(name, scope.place) for name in ids], {scope.place: scope}
            )
        else:
            base = self._layout.base(query.collection, scope.tenant)
            bodies = []
            for start in range(0, len(ids), _IDS):
                bodies += await self._wire.run(
                    NAMED, [base + b"names"], base, _pack(ids[start : start + _IDS])
                )
        kept = {record.key: (record, body) for body in bodies for record in (rows.record(body),)}
        return [kept[record.key] for record in query.over(record for record, _ in kept.values())]

    def _sure(self, query: Query) -> bool:
        """Whether everything in the lanes within the span matches, so that the offset may be skipped unread."""
        asked = self._layout.asked(query)
        unasked = msgspec.structs.replace(query, since=None, until=None, marks=None)
        return asked.alone and len(asked.lanes) == 1 and unasked.plain and query.kinds is None

    async def _matching(self, query: Query) -> AsyncGenerator[list[Found], None]:
        """What matches, in reading order, page by page; when nothing else can stand there, from the offset on."""
        if query.ids is not None:
            found = await self._named(query)
            yield found
            return
        asked, span, sure = self._layout.asked(query), Span.of(query), self._sure(query)
        skip = query.offset if sure else 0
        size = (
            _PAGE if query.limit is None else min(query.limit if sure else max(_FEW, 2 * query.limit), _PAGE)
        )
        keys = [lane for lane, _ in asked.lanes] + ([asked.kinds] if asked.shared else [])
        command = b"ZRANGEBYLEX" if span.forward else b"ZREVRANGEBYLEX"
        while True:
            bounds = [word for _, mark in asked.lanes for word in (*span.bounds(mark), b"%d" % len(mark))]
            numbers = [b"%d" % number for number in (size, skip, _PAGE_BYTES)]
            answers = await self._wire.run(PAGE, keys, asked.base, command, *numbers, *bounds)
            skip -= answers[0][1]
            bodies, last = _merged(answers, forward=span.forward)
            records = [(rows.record(body), body) for body in bodies]
            yield [found for found in records if sure or query.matches(found[0])]
            if last is None:
                return
            span = span.beyond(last)
            size = min(2 * size, _PAGE)


def _merged(
    answers: Iterable[tuple[int, int, bytes, list[bytes]]], *, forward: bool
) -> tuple[list[bytes], bytes | None]:
    """The bodies of several lanes in order, once each, as far as all lanes were read; and where that is, if not at the end."""
    bodies: dict[bytes, bytes] = {}
    open_ends = []
    for more, _, last, flat in answers:
        bodies.update(zip(flat[::2], flat[1::2], strict=True))
        if more:
            open_ends.append(last)
    order = sorted(bodies, reverse=not forward)
    if not open_ends:
        return [bodies[entry] for entry in order], None
    end = min(open_ends) if forward else max(open_ends)
    return [bodies[entry] for entry in order if (entry <= end if forward else entry >= end)], end
