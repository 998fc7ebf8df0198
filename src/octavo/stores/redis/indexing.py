"""The index of terms kept up: what waits is read, its terms are made, and they are entered."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from octavo.errors import StoreError
from octavo.kernel.model import Scope
from octavo.kernel.terms.matching import content, count_terms
from octavo.stores.redis import rows
from octavo.stores.redis.index_rows import MOST_COUNTED, Kept, facts, kept, note, noted, scope_text
from octavo.stores.redis.index_scripts import ABSENT, BEGIN, BLOCK, CLOSE, FETCH, FINISH, INDEX
from octavo.stores.redis.layout import Layout, axes
from octavo.stores.redis.wire import Wire

PAGE = 500  # records read at once
_LANE_PAGE = 2000  # and when all are read anyway: the more, the more of a place come together
_PAGE_BYTES = 4 * 1024 * 1024
#: What one call enters at most, some milliseconds' work: Redis serves nobody else meanwhile.
_RECORDS, _TERMS = 64, 2000
_BREATH = 20  # records whose terms are made before others get a turn
_TRIES = 200  # at records that others keep removing and adding

_pack = msgspec.msgpack.Encoder().encode
_fetched = msgspec.msgpack.Decoder(tuple[int, int, str, list[str | bool]])
_entered = msgspec.msgpack.Decoder(tuple[int, list[int], list[tuple[str, int]]])
_absent = msgspec.msgpack.Decoder(tuple[str, int, list[str]])


class Gone(Exception):  # noqa: N818
    """The index that was worked on is no more; there may be another."""


class State(NamedTuple):
    """How an index stands; one without a name is not there, since there is nothing to index."""

    id: str
    built: bool
    cursor: str
    ticket: str
    waiting: int


class Page(NamedTuple):
    """Records read at one moment, by name: id, NUL, place."""

    fetch: int
    more: bool
    last: str
    bodies: list[tuple[str, str | None]]


class Made(NamedTuple):
    """One record as INDEX takes it, without its place."""

    name: str
    scope: Scope | None
    entry: tuple[Any, ...]
    terms: int


class Index:
    """The index of one tenant's collection. Whoever works on it in this process does so one after another."""

    def __init__(self, wire: Wire, layout: Layout, collection: str, tenant: str) -> None:
        self.wire = wire
        self.layout = layout
        self.collection = collection
        self.tenant = tenant
        self.base = layout.base(collection, tenant)
        self.keys = [self.base + b"terms"]
        self.lock = asyncio.Lock()

    async def begin(self) -> State:
        """How the index stands; where there is something to index and no index, one is begun."""
        answer = await self.wire.run(BEGIN, self.keys, self.base, uuid4().hex[:12].encode())
        name, built, cursor, ticket, waiting = answer
        return State(name.decode(), bool(built), cursor.decode(), ticket.decode(), waiting)

    async def freshen(self) -> None:
        """Enter everything that was written before this call."""
        async with self.lock:
            done = False
            while not done:
                with contextlib.suppress(Gone):
                    state = await self.begin()
                    if not state.built:
                        await self._build(state)
                    if state.waiting:
                        await self._drain(state)
                    done = True

    async def some(self) -> bool:
        """Enter a little of what waits; whether there is more."""
        async with self.lock:
            try:
                state = await self.begin()
                if not state.built or not state.waiting:
                    return False
                page = await self.fetch(state.id, b"waiting", b"0", state.ticket.encode())
                await self._enter(state.id, page)
            except Gone:
                return False
            else:
                return page.more

    async def enter_all(self, state: State, past: int) -> AsyncGenerator[int, None]:
        """Enter every record anew, into blocks after `past`; how many, page by page."""
        last = b""
        while True:
            page = await self.fetch(state.id, b"lane", last, b"", _LANE_PAGE)
            await self._enter(state.id, page, anew=True, past=past)
            yield sum(body is not None for _, body in page.bodies)
            if not page.more:
                return
            last = page.last.encode()

    async def enter_named(self, state: State, names: Sequence[str], past: int) -> None:
        """Enter these records anew, into blocks after `past`; what is not kept any more is taken out."""
        done = 0
        while done < len(names):
            packed = _pack(names[done : done + PAGE])
            page = await self.fetch(state.id, b"names", packed, b"")
            await self._enter(state.id, page, anew=True, past=past)
            done += len(page.bodies)

    async def records(self) -> int:
        """About how many records there are to index."""
        return int(await self.wire.ask("ZCARD", self.base + b"lane:tenant"))

    async def standing(self) -> tuple[bool, int]:
        """Whether there is an index that has been built, and how many wait in line."""
        built = await self.wire.ask("HEXISTS", self.keys[0], "built")
        return bool(built), int(await self.wire.ask("ZCARD", self.keys[0] + b":waiting"))

    async def last_block(self) -> int:
        """The number of the newest block."""
        return int(await self.wire.ask("HGET", self.keys[0], "blocks") or 0)

    async def finish(self, state: State) -> None:
        """Note that all records have been entered, so that no search need build the index."""
        await self.wire.run(FINISH, self.keys, state.id.encode())

    async def close(self, state: State, place: str, block: int, *, out: bool) -> None:
        """See to it that nothing more is entered into a block, or take it `out` with whatever has no record."""
        words = (state.id.encode(), place.encode(), b"%d" % block, b"%d" % out)
        await self.wire.run(CLOSE, self.keys, *words)

    async def block(self, number: int) -> Kept:
        """All that a block holds of its living records."""
        flat = await self.wire.run(BLOCK, self.keys, b"%d" % number)
        return kept(dict(zip(flat[::2], flat[1::2], strict=True)))

    async def absent(self, last: str) -> tuple[str, int, list[str]]:
        """A page of the records: where it ends if there may be more, how many, and the names of those not in the index."""
        return rows.unpacked(
            _absent, await self.wire.run(ABSENT, self.keys, self.base, last.encode(), b"%d" % _LANE_PAGE)
        )

    async def fetch(self, own: str, where: bytes, start: bytes, end: bytes, most: int = PAGE) -> Page:
        """Read records, with the number of this reading."""
        numbers = (b"%d" % most, b"%d" % _PAGE_BYTES)
        packed = await self.wire.run(FETCH, self.keys, self.base, own.encode(), where, start, end, *numbers)
        number, more, last, flat = rows.unpacked(_fetched, packed)
        if not number:
            raise Gone
        pairs = zip(flat[::2], flat[1::2], strict=True)
        bodies = [(str(name), body if isinstance(body, str) else None) for name, body in pairs]
        return Page(number, bool(more), last, bodies)

    async def _build(self, state: State) -> None:
        """Enter what was written before there was an index; others may be at it too, and whoever is first moves the cursor."""
        while not state.built:
            page = await self.fetch(state.id, b"lane", state.cursor.encode(), b"", _LANE_PAGE)
            await self._enter(state.id, page, moved=(state.cursor, page.last, "01"[not page.more]))
            now = await self.begin()
            if now.id != state.id:
                raise Gone
            state = now

    async def _drain(self, state: State) -> None:
        """Enter all who are in line up to a ticket. Nobody loses the place in line, so one pass meets them all."""
        last = b"0"
        while True:
            page = await self.fetch(state.id, b"waiting", last, state.ticket.encode())
            await self._enter(state.id, page)
            if not page.more:
                return
            last = page.last.encode()

    async def _enter(
        self,
        own: str,
        page: Page,
        *,
        anew: bool = False,
        past: int = 0,
        moved: tuple[str, str, str] | None = None,
    ) -> None:
        """Enter a page; blocks that turn out mostly dead are emptied into others."""
        thin: set[tuple[str, int]] = set()
        again = await self._entered(own, page, thin, anew=anew, past=past, moved=moved)
        for attempt in range(_TRIES):
            if not again:
                break
            await asyncio.sleep(0.001 * min(attempt, 10))
            page = await self.fetch(own, b"names", _pack(again), b"")
            rest = again[len(page.bodies) :]
            again = rest + await self._entered(own, page, thin, anew=anew, past=past, moved=None)
        else:
            raise StoreError(
                f"others removed and added the same records {_TRIES} times while they were indexed"
            )
        if not past:
            await self._empty(own, thin)

    async def _entered(
        self,
        own: str,
        page: Page,
        thin: set[tuple[str, int]],
        *,
        anew: bool,
        past: int,
        moved: tuple[str, str, str] | None,
    ) -> list[str]:
        """Enter a page in several calls; the names of those that must be read again."""
        again: list[str] = []

        async def send(batch: list[Made], *rest: str) -> None:
            numbers = (b"%d" % page.fetch, b"%d" % past)
            words = (*numbers, *self._packed(batch), *(word.encode() for word in rest))
            same, missed, dead = rows.unpacked(
                _entered, await self.wire.run(INDEX, self.keys, self.base, own.encode(), *words)
            )
            if not same:
                raise Gone
            again.extend(batch[n - 1].name for n in missed)
            thin.update(dead)

        sending: asyncio.Task[None] | None = None
        try:
            async with contextlib.aclosing(_batches(page, anew=anew)) as batches:
                async for batch in batches:
                    if sending is not None:
                        await sending
                    sending = asyncio.create_task(send(batch))  # Redis is at these while the next are made
            if sending is not None:
                await sending
            if moved is not None:
                await send([], *moved)
        finally:
            if sending is not None and not sending.done():
                sending.cancel()
                await asyncio.wait([sending])
        return again

    async def _empty(self, own: str, thin: Iterable[tuple[str, int]]) -> None:
        state = State(own, built=True, cursor="", ticket="", waiting=0)
        for place, block in sorted(thin):
            living = (await self.block(block)).notes.values()
            names = [f"{noted(text).id}\0{place}" for text in living]
            await self.enter_named(state, names, past=block)

    def _packed(self, batch: list[Made]) -> tuple[bytes, bytes]:
        places: dict[str, int] = {}
        stands: list[tuple[str, str, list[str]]] = []
        entries = []
        for name, scope, entry, _ in batch:
            place = name[-20:]
            number = places.get(place)
            if number is None:
                number = places[place] = len(places) + 1
                stands.append((place, *_spelled(scope)))
            elif (
                scope is not None and not stands[number - 1][1]
            ):  # a removed one came first and told no scope
                stands[number - 1] = (place, *_spelled(scope))
            entries.append((number, *entry))
        return _pack(stands), _pack(entries)


async def _batches(page: Page, *, anew: bool) -> AsyncGenerator[list[Made], None]:
    """What INDEX takes, as much as one call should; those of a place together, since they share its lists."""
    batch: list[Made] = []
    weight = 0
    for n, (name, body) in enumerate(sorted(page.bodies, key=_place), 1):
        made = _made(name, body, anew=anew)
        if batch and (weight + made.terms > _TERMS or len(batch) == _RECORDS):
            yield batch
            batch, weight = [], 0
        batch.append(made)
        weight += made.terms
        if n % _BREATH == 0:
            await asyncio.sleep(0)
    if batch:
        yield batch


def _place(named: tuple[str, str | None]) -> str:
    return named[0][-20:]


def _spelled(scope: Scope | None) -> tuple[str, list[str]]:
    if scope is None:
        return "", []
    return scope_text(scope), [axis.decode() for axis in axes(scope)]


def _made(name: str, body: str | None, *, anew: bool) -> Made:
    own = name[:-21]
    if body is None:
        return Made(name, None, (own, "", "", "", "", 0, anew, ()), 1)
    sealed = rows.sealed(body)
    text = content(sealed.text, None if sealed.text else sealed.data)
    counted, length = count_terms(text)
    by_count: dict[int, list[str]] = {}
    for term, count in counted.items():
        by_count.setdefault(min(count, MOST_COUNTED), []).append(term)
    flat = [part for pair in by_count.items() for part in pair]
    digest = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()[:16]
    # Never empty in front of a record without text: it has a digest too.
    of_text = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    entry = (
        own,
        digest,
        of_text,
        note(sealed, length),
        facts(sealed),
        int(sealed.expires_at is not None),
        anew,
        flat,
    )
    return Made(name, sealed.scope, entry, len(counted) + 1)
