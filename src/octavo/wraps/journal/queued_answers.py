"""Questions to a store that can be read and takes no write: answered as they will be once what waits for it is done."""

import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from octavo.errors import Conflict
from octavo.kernel.codec import prepare
from octavo.kernel.model import START, Add, Head, Op, Query, Record, Scope, Tally
from octavo.kernel.pages import list_heads, read_page
from octavo.kernel.ports import Store
from octavo.kernel.terms.matches import MOST, Matches
from octavo.kernel.terms.matching import search_records
from octavo.stores.records import Records
from octavo.wraps.journal.delivery import UncountedError
from octavo.wraps.wrap import weigh_and_find

T = TypeVar("T", Record, Head)
_MOST, _MOST_BYTES = 1000, 8 * 2**20  # records that a queued write changes or removes


class QueuedAnswers:
    """Answers as this store will, once these ops are done in their order."""

    def __init__(self, store: Any, ops: Sequence[Op]) -> None:
        self._store = store
        self._ops = ops

    async def find(self, query: Query) -> list[Record]:
        """The records as they will be."""
        return await self._list(query, self._store.find, lambda record: record)

    async def heads(self, query: Query) -> list[Head]:
        """Their heads."""
        return await self._list(query, functools.partial(list_heads, self._store), Head.of)

    async def find_within(self, query: Query, max_bytes: int) -> list[Record] | None:
        """The records as they will be, unless they take more than so many bytes."""
        return await weigh_and_find(cast(Store, self), query, max_bytes)

    async def tally(self, query: Query) -> Tally:
        """How many there will be."""
        before, after = await self._draft(query)
        counted = Counter((await self._store.tally(query)).by_kind)
        if (before, after) != await self._draft(query):  # what was done meanwhile would be counted twice
            return await self.tally(query)
        counted.subtract(Tally.of(query, before).by_kind)
        counted.update(Tally.of(query, after).by_kind)
        end = replace(query.unpaged, limit=1, after=START)
        found = [*await self.heads(end), *await self.heads(replace(end, newest_first=True))]
        ends = {"first": found[0].created_at, "last": found[-1].created_at} if found else {}
        by_kind = {kind: number for kind, number in counted.items() if number}
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, **ends)

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """What holds the terms; where more than MOST records do, what waits stands beside those that the store has chosen."""
        before, after = await self._draft(query)
        stored = await self._store.search(query, terms)
        gone, new = (search_records(query, terms, records) for records in (before, after))
        touched = {record.key for record in before}
        found = [match for match in stored.found if (match.id, match.scope.key) not in touched] + new.found
        counted = zip(stored.held, new.held, gone.held, strict=True)
        held = tuple(min(n + more - less, MOST + 1) if n <= MOST else n for n, more, less in counted)
        return Matches(sorted(found, key=attrgetter("rank"))[-MOST:], held)

    async def _list(
        self, query: Query, ask: Callable[[Query], Awaitable[list[T]]], make: Callable[[Record], T]
    ) -> list[T]:
        before, after = await self._draft(query)
        most = None if query.limit is None else query.offset + query.limit + len(before)
        known = {record.key for record in before + after}
        stored = await ask(replace(query, limit=most, offset=0))
        found = [one for one in stored if (one.id, one.scope.key) not in known]
        found += [make(record) for record in after if query.matches(record)]
        found.sort(key=attrgetter("rank"))
        return query.page(found)  # type: ignore[arg-type, return-value] # a Head stands in the same order

    async def _draft(self, query: Query) -> tuple[list[Record], list[Record]]:
        """Those records of the collection that the ops may touch, as they are and as they will be."""
        named = {id(op): op.records if isinstance(op, Add) else [op.query] for op in self._ops}
        ops = [op for op in self._ops if any(one.collection == query.collection for one in named[id(op)])]
        everything = Query(collection=query.collection, scope=Scope(tenant=query.scope.tenant))
        ids = {record.id for op in ops if isinstance(op, Add) for record in op.records}
        looked_for = [op.query.unpaged for op in ops if not isinstance(op, Add)]
        here = Records()
        for asked in (replace(everything, ids=tuple(ids)), *looked_for):
            page, more = await read_page(self._store, replace(asked, after=START, limit=_MOST), _MOST_BYTES)
            if more is not None:
                raise UncountedError(f"a queued write touches more than {len(page)} records")
            here.apply(prepare([Add(page)]))
        before = [sealed.record for sealed in here.find(everything)]
        try:
            here.apply(prepare(ops))
        except Conflict as error:
            raise UncountedError(f"queued writes may not meet what they expect: {error}") from error
        return before, [sealed.record for sealed in here.find(everything)]
