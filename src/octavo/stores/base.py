"""What every store does before its own work: check at the edge, open once, refuse after close."""

from asyncio import _get_running_loop
from collections.abc import Callable, Sequence
from typing import TypeAlias, get_args

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.codec import Prepared, check_query, is_answerable, prepare
from octavo.kernel.model import Head, NameCount, Op, Query, Record, Scope, ScopePart, Tally
from octavo.kernel.ports import Lexicon
from octavo.kernel.terms import topics
from octavo.kernel.terms.matches import Matches, holdable
from octavo.util.opening import Opening

#: Told how many records are done and how many there are in all.
Progress: TypeAlias = Callable[[int, int], None]


class BaseStore(Opening):
    """The three verbs with the edge in front; a backend fills in the `_` methods."""

    opener = "open_store(url)"

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        prepared = prepare(ops)
        await self._ensure_open()
        return await self._apply(prepared) if prepared else []

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        query = check_query(query)
        await self._ensure_open()
        return await self._find(query) if is_answerable(query) else []

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        query = check_query(query).unpaged
        await self._ensure_open()
        return await self._tally(query) if is_answerable(query) else Tally()

    async def heads(self, query: Query) -> list[Head]:
        """The `Head.of` each record that `find` would answer, in the same order."""
        query = check_query(query)
        await self._ensure_open()
        return await self._heads(query) if is_answerable(query) else []

    async def names(
        self,
        collection: str,
        part: ScopePart,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        *,
        after: str = "",
        limit: int = 100,
    ) -> list[NameCount]:
        """Everybody named within the scope, in the order of their names' characters, those behind `after`."""
        query = check_query(Query(collection=collection, scope=scope, limit=limit))
        if part not in (parts := get_args(ScopePart)):
            raise InvalidQuery(f"part must be one of {', '.join(parts)}; got {part!r}")
        if not is_answerable(Query(collection=collection, scope=Scope(user=after))):
            raise InvalidQuery(f"after is a name that nobody can have: {after!r}")
        await self._ensure_open()
        nobody = getattr(scope, part) == "" or not is_answerable(query)
        return [] if nobody else await self._names(query, part, after)

    async def _ensure_open(self) -> None:
        # Without an event loop a store that waits for nothing, as one in memory, works all the same.
        if self._open_on is not _get_running_loop():
            await super()._ensure_open()

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        raise NotImplementedError

    async def _find(self, query: Query) -> list[Record]:
        raise NotImplementedError

    async def _tally(self, query: Query) -> Tally:
        raise NotImplementedError

    async def _names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        """No more than the query's limit, of the query's collection and scope."""
        counted = NameCount.of(part, await self._find(msgspec.structs.replace(query, limit=None)))
        return [one for one in counted if one.name > after][: query.limit]

    async def _heads(self, query: Query) -> list[Head]:
        return [Head.of(record) for record in await self._find(query)]


class SearchingStore(BaseStore):
    """A store that is also `octavo.kernel.ports.Searches`; a backend fills in `_search`, `_reindex` and `_verify` too.

    The edge is here, once: a backend is asked for distinct terms that some text could hold (at least one, no more than
    `LONGEST_TERM` characters, no white space, no ASCII punctuation, no control characters), with a query that has no
    text and no paging, and can match something. A store that cannot search inherits from BaseStore, so that
    `isinstance(store, Searches)` is the truth.
    """

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """Answer as `octavo.kernel.terms.matching.search_records` would from all records kept."""
        if isinstance(terms, str):
            raise InvalidQuery(
                f"terms must be a list, as octavo.kernel.terms.terms.terms makes it; got {terms[:80]!r}"
            )
        query = msgspec.structs.replace(check_query(query).unpaged, text=None)
        await self._ensure_open()
        distinct = tuple(term for term in dict.fromkeys(terms) if holdable(term))
        if not distinct or not is_answerable(query):
            return Matches(held=(0,) * len(terms))
        await topics.load()
        matches = await self._search(query, distinct)
        return matches if len(distinct) == len(terms) else matches.spread(distinct, terms)

    async def reindex(self, collection: str, progress: Progress | None = None) -> int:
        """Build the index of a collection anew, while searches go on; answer how many records are in it."""
        check_query(Query(collection=collection))
        await self._ensure_open()
        return await self._reindex(collection, progress or ignore_progress)

    async def verify(self, collection: str, progress: Progress | None = None) -> Lexicon:
        """Compare the index of a collection with its records, one by one."""
        check_query(Query(collection=collection))
        await self._ensure_open()
        return await self._verify(collection, progress or ignore_progress)

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        """What `search_records` would find, with one count for each of the terms, in their order."""
        raise NotImplementedError

    async def _reindex(self, collection: str, progress: Progress) -> int:
        raise NotImplementedError

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        raise NotImplementedError


def ignore_progress(done: int, total: int) -> None:
    """The progress of a caller who did not ask for it."""
