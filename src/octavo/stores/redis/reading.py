"""Reading: pages of a lane, each page one script call and therefore one moment."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from octavo.kernel.model import START, Head, Query, Record, Scope, Tally
from octavo.stores.draft import Key
from octavo.stores.redis import rows
from octavo.stores.redis.ends import Ends
from octavo.stores.redis.layout import Layout, Span, moment
from octavo.stores.redis.read_scripts import BODIES, NAMED, PAGE, TALLY
from octavo.stores.redis.wire import Wire

#: A page ends at so many members or bytes: Redis serves nobody else while it is put together.
_PAGE = 2000
_PAGE_BYTES = 8 * 1024 * 1024
_FEW = 20
_IDS = 500

_pack = msgspec.msgpack.Encoder().encode

Found: TypeAlias = tuple[Record, str]
Gathered: TypeAlias = tuple[str, list[Found]]  # behind the version of the lane that is watched


class Look(msgspec.Struct):
    """What was found, and the version its lane's counter had when the reading began."""

    found: list[Found] = []
    watched: bytes = b""
    version: str | None = None


class Reader:
    """Answers questions as the memory store does."""

    def __init__(self, wire: Wire, layout: Layout) -> None:
        self._wire = wire
        self._layout = layout

    async def heads(self, query: Query) -> list[Head]:
        """The heads of the records a query finds; Redis leaves out the rest, unless the query asks about it."""
        kept = (query.text, query.where, query.without, query.marks, query.ids, query.expired_at)
        if any(kept) or query.marks == () or query.ids == ():
            return [Head.of(record) for record, _ in (await self.find(query)).found]
        found = (await self.find(query, cut=True)).found
        return [msgspec.structs.replace(Head.of(record), size_bytes=int(size)) for record, size in found]

    async def find(self, query: Query, *, cut: bool = False) -> Look:
        """The records a query finds, each with the text Redis keeps; no more is read than the page needs.

        With `cut`, they are without text and bodies, and in place of the text Redis keeps stands its size.
        """
        if query.limit == 0:
            return Look()
        look = Look(watched=self._layout.asked(query).kinds)
        if (gathered := await self._gathered(query)) is not None:
            look.version, look.found = gathered
            return look
        skip = 0 if self._sure(query) else query.offset
        end = None if query.limit is None else skip + query.limit
        async with aclosing(self._matching(query, cut=cut)) as pages:
            async for version, page in pages:
                look.version = version if look.version is None else look.version
                look.found += page
                if end is not None and len(look.found) >= end:
                    break
        look.found = look.found[skip:end]
        if not query.newest_first and query.after is None:
            look.found.reverse()  # they were read from the newest back
        return look

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would; from counters when only the scope and kinds are asked about."""
        asked = self._layout.asked(query)
        if not (query.plain and asked.alone):
            return await self._counted(query)
        lane, _ = asked.lanes[0]
        flat, first, last = await self._wire.run(TALLY, [lane, asked.kinds], asked.base)
        fields = zip(flat[::2], flat[1::2], strict=True)
        counts = {name.decode(): int(number) for name, number in fields if name[:1] != b"\0"}
        by_kind = {kind: n for kind, n in counts.items() if query.kinds is None or kind in query.kinds}
        if not by_kind:
            return Tally()
        if len(by_kind) == len(counts):
            return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=moment(first), last=moment(last))
        ends = [
            (await self.find(msgspec.structs.replace(query, limit=1, newest_first=newest, after=START))).found
            for newest in (False, True)
        ]
        if not all(ends):  # removed since they were counted
            return await self._counted(query)
        oldest, newest = (found[0][0].created_at for found in ends)
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=oldest, last=newest)

    async def bodies(
        self, collection: str, keys: Sequence[Key], scopes: Mapping[str, Scope]
    ) -> tuple[str, list[str]]:
        """The text kept under these keys, leaving out what is not; `scopes` says whose place each is.

        In front stands the version of the first one's place.
        """
        first = ""
        found: list[str] = []
        for start in range(0, len(keys), _IDS):
            part = keys[start : start + _IDS]
            places = {place: n for n, place in enumerate(dict.fromkeys(place for _, place in part), 1)}
            names = [self._layout.keys(collection, scopes[place]) for place in places]
            wanted = [word for name, place in part for word in (places[place], name)]
            read = [*(name.body for name in names), names[0].kinds]
            version, bodies = rows.bodies(await self._wire.run(BODIES, read, _pack(wanted)))
            first = version if start == 0 else first
            found += bodies
        return first, found

    async def _counted(self, query: Query) -> Tally:
        by_kind: dict[str, int] = {}
        first = last = None
        query = msgspec.structs.replace(query, after=START)
        gathered = await self._gathered(query)
        async for _, page in self._matching(query) if gathered is None else _alone(gathered):
            for record, _ in page:
                by_kind[record.kind] = by_kind.get(record.kind, 0) + 1
                first = first or record.created_at
                last = record.created_at
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first, last=last)

    async def _gathered(self, query: Query) -> Gathered | None:
        """The answer where all that may be in it is looked up; None where it is read off a lane."""
        if query.ids is not None:
            return await self._named(query)
        if query.expired_at is None:
            return None
        asked = self._layout.asked(query)
        ends = Ends(self._wire, asked.base)
        ended = await ends.by(query.expired_at, asked.kinds, asked.lanes[0][0])
        if ended is None or not ended.filled:
            if ended is not None:
                await self._fill(ends, query)
            return None
        found = ended.found
        return ended.version or "", [found[record.key] for record in query.over(r for r, _ in found.values())]

    async def _fill(self, ends: Ends, query: Query) -> None:
        """Enter the ends of what was written before they were kept."""
        everything = Query(collection=query.collection, scope=Scope(tenant=query.scope.tenant), after=START)
        async with aclosing(self._matching(everything)) as pages:
            async for _, page in pages:
                await ends.fill((record for record, _ in page), last=False)
        await ends.fill((), last=True)

    async def _named(self, query: Query) -> Gathered:
        ids = list(dict.fromkeys(query.ids or ()))
        scope, asked = query.scope, self._layout.asked(query)
        version = ""
        bodies: list[str] = []
        if scope.exact:
            keys = [(name, scope.place) for name in ids]
            version, bodies = await self.bodies(query.collection, keys, {scope.place: scope})
        else:
            for start in range(0, len(ids), _IDS):
                part = _pack(ids[start : start + _IDS])
                names = [asked.base + b"names", asked.kinds]
                seen, more = rows.bodies(await self._wire.run(NAMED, names, asked.base, part))
                version = seen if start == 0 else version
                bodies += more
        kept = {record.key: (record, body) for body in bodies for record in (rows.record(body),)}
        return version, [kept[record.key] for record in query.over(record for record, _ in kept.values())]

    def _sure(self, query: Query) -> bool:
        """Whether everything in the lanes within the span matches, so that the offset may be skipped unread."""
        asked = self._layout.asked(query)
        spoken_for = {"since": None, "until": None, **({"marks": None} if query.scope.exact else {})}
        rest = msgspec.structs.replace(query, **spoken_for)
        return asked.alone and len(asked.lanes) == 1 and rest.plain and query.kinds is None

    async def _matching(
        self, query: Query, *, cut: bool = False
    ) -> AsyncGenerator[tuple[str, list[Found]], None]:
        """What matches, page by page in reading order, each with the version of the lane when it was read.

        Where all in the lane matches, the pages begin at the offset.
        """
        asked, span, sure = self._layout.asked(query), Span.of(query), self._sure(query)
        skip = query.offset if sure else 0
        size = _PAGE
        if query.limit is not None:
            few = query.limit if sure else query.limit + query.offset
            # Where only the scope is looser than the lane, most of it will match; of any other clause nothing is known.
            size = min(few if sure or (query.plain and query.kinds is None) else max(_FEW, 2 * few), _PAGE)
        keys = [*(lane for lane, _ in asked.lanes), asked.kinds]
        command = b"ZRANGEBYLEX" if span.forward else b"ZREVRANGEBYLEX"
        while True:
            bounds = [word for _, mark in asked.lanes for word in (*span.bounds(mark), b"%d" % len(mark))]
            numbers = [b"%d" % number for number in (size, skip, _PAGE_BYTES, cut)]
            packed = await self._wire.run(PAGE, keys, asked.base, command, *numbers, *bounds)
            version, answers = rows.pages(packed)
            skip -= answers[0][1]
            bodies, last = _merged(answers, forward=span.forward)
            records = [rows.sized(body) if cut else (rows.record(body), body) for body in bodies]
            yield version, [found for found in records if sure or query.matches(found[0])]
            if last is None:
                return
            span = span.beyond(last.encode())
            size = min(2 * size, _PAGE)


async def _alone(page: Gathered) -> AsyncGenerator[Gathered, None]:
    yield page


def _merged(
    answers: Iterable[tuple[int, int, str, list[str]]], *, forward: bool
) -> tuple[list[str], str | None]:
    """The bodies of several lanes in order, once each, as far as all lanes were read; and where that is, if not at the end."""
    bodies: dict[str, str] = {}
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
