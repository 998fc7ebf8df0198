"""What every store does before its own work: check at the edge, open once, refuse after close."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

import msgspec

from octavo.codec import Prepared, answerable, asked, prepare
from octavo.errors import InvalidQuery, StoreClosed
from octavo.lexis.matches import Matches, holdable
from octavo.model import Op, Query, Record, Tally
from octavo.ports import Lexicon

#: Told how many records are done and how many there are in all.
Progress: TypeAlias = Callable[[int, int], None]


class BaseStore:
    """The three verbs with the edge in front; a backend fills in the `_` methods."""

    def __init__(self) -> None:
        self._opened = False
        self._closed = False
        self._gate: asyncio.Lock | None = None

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        prepared = prepare(ops)
        if not self._opened or self._closed:
            await self._ready()
        return await self._apply(prepared) if prepared else []

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        query = asked(query)
        if not self._opened or self._closed:
            await self._ready()
        return await self._find(query) if answerable(query) else []

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        query = asked(query).unpaged
        if not self._opened or self._closed:
            await self._ready()
        return await self._tally(query) if answerable(query) else Tally()

    async def close(self) -> None:
        """Finish what was begun and let go of the backend; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._opened:
            await self._close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _ready(self) -> None:
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another with open_store(url)")
        if self._gate is None:
            self._gate = asyncio.Lock()
        async with self._gate:  # parallel first uses must open once
            if not self._opened:
                await self._open()
                self._opened = True

    async def _open(self) -> None:
        """Connect and prepare; runs once, before the first verb."""

    async def _close(self) -> None:
        """Let go of what `_open` took."""

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        raise NotImplementedError

    async def _find(self, query: Query) -> list[Record]:
        raise NotImplementedError

    async def _tally(self, query: Query) -> Tally:
        raise NotImplementedError


class SearchingStore(BaseStore):
    """A store that is also `octavo.ports.Searches`; a backend fills in `_search`, `_reindex` and `_verify` too.

    The edge is here, once: a backend is asked for distinct terms that some text could hold (at least one, no more than
    `LONGEST_TERM` characters, no white space, no ASCII punctuation, no control characters), with a query that has no
    text and no paging, and can match something. A store that cannot search inherits from BaseStore, so that
    `isinstance(store, Searches)` is the truth.
    """

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `octavo.lexis.matching.matching` would from all records kept."""
        if isinstance(terms, str):
            raise InvalidQuery(
                f"terms must be a list, as octavo.lexis.terms.terms makes it; got {terms[:80]!r}"
            )
        query = msgspec.structs.replace(asked(query).unpaged, text=None)
        if not self._opened or self._closed:
            await self._ready()
        distinct = tuple(term for term in dict.fromkeys(terms) if holdable(term))
        if not distinct or not answerable(query):
            return Matches(held=(0,) * len(terms))
        matches = await self._search(query, distinct)
        return matches if len(distinct) == len(terms) else matches.spread(distinct, terms)

    async def reindex(self, collection: str, progress: Progress | None = None) -> int:
        """Build the index of a collection anew, while searches go on; answer how many records are in it."""
        asked(Query(collection=collection))
        if not self._opened or self._closed:
            await self._ready()
        return await self._reindex(collection, progress or _unheard)

    async def verify(self, collection: str, progress: Progress | None = None) -> Lexicon:
        """Compare the index of a collection with its records, one by one."""
        asked(Query(collection=collection))
        if not self._opened or self._closed:
            await self._ready()
        return await self._verify(collection, progress or _unheard)

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        """What `matching` would find, with one count for each of the terms, in their order."""
        raise NotImplementedError

    async def _reindex(self, collection: str, progress: Progress) -> int:
        raise NotImplementedError

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        raise NotImplementedError


def _unheard(done: int, total: int) -> None:
    """The progress of a caller who did not ask for it."""
