"""Questions to a store that can be read and takes no write: answered as they will be once what waits for it is done."""

import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from octavo.errors import Conflict, StoreUnavailable
from octavo.kernel.codec import CheckedAdd, prepare, seal
from octavo.kernel.model import START, Head, Op, Query, Record, Scope, Tally
from octavo.kernel.ports import list_heads, read_page
from octavo.kernel.terms.matches import MOST, Matches
from octavo.kernel.terms.matching import search_records
from octavo.stores.draft import Key, Lookup, draft_awaited

T = TypeVar("T", Record, Head)
_MOST_TOUCHED, _MOST_BYTES = 1000, 8 * 2**20  # records that a queued write changes or removes


class UncountedError(StoreUnavailable):
    """The store can be read, but what waits for it cannot be counted in."""


class QueuedAnswers:
    """Answers as this store will, once these ops are done in their order."""

    def __init__(self, store: Any, ops: Sequence[Op]) -> None:
        self._store = store
        self._ops = prepare(ops)

    async def find(self, query: Query) -> list[Record]:
        """The records as they will be."""
        return await self._list(query, self._store.find, lambda record: record)

    async def heads(self, query: Query) -> list[Head]:
        """Their heads."""
        return await self._list(query, functools.partial(list_heads, self._store), Head.of)

    async def tally(self, query: Query) -> Tally:
        """How many there will be."""
        before, after = await self._draft(query)
        counted = Counter((await self._store.tally(query)).by_kind)
        if (before, after) != await self._draft(query):  # or what was done meanwhile would be counted twice
            return await self.tally(query)
        counted.subtract(record.kind for record in before.values() if query.matches(record))
        counted.update(record.kind for record in after if query.matches(record))
        end = replace(query.unpaged, limit=1, after=START)
        found = [*await self.find(end), *await self.find(replace(end, newest_first=True))]
        first, last = (one.created_at for one in found) if found else (None, None)
        by_kind = {kind: number for kind, number in counted.items() if number}
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first, last=last)

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """What holds the terms; where more than MOST records do, what waits stands beside those that the store has chosen."""
        before, after = await self._draft(query)
        stored = await self._store.search(query, terms)
        gone, new = (search_records(query, terms, records) for records in (before.values(), after))
        found = [match for match in stored.found if (match.id, match.scope.key) not in before] + new.found
        held = [min(sum(n), MOST + 1) for n in zip(stored.held, new.held, strict=True)]
        held = [n - less * (n <= MOST) for n, less in zip(held, gone.held, strict=True)]
        return Matches(sorted(found, key=attrgetter("rank"))[-MOST:], tuple(held))

    async def _list(
        self, query: Query, ask: Callable[[Query], Awaitable[list[T]]], make: Callable[[Record], T]
    ) -> list[T]:
        before, after = await self._draft(query)
        most = None if query.limit is None else query.offset + query.limit + len(before)
        known = before.keys() | {(record.id, record.scope.key) for record in after}
        stored = await ask(replace(query, limit=most, offset=0))
        found = [one for one in stored if (one.id, one.scope.key) not in known]
        found += [make(record) for record in after if query.matches(record)]
        found.sort(key=attrgetter("rank"))
        return query.page(found)  # type: ignore[arg-type, return-value] # a Head stands in the same order

    async def _draft(self, query: Query) -> tuple[dict[Key, Record], list[Record]]:
        """What the ops will change or remove of the collection, as it is now, and what they will leave of that, or add."""
        touched = ((op, op.records if isinstance(op, CheckedAdd) else [op.query]) for op in self._ops)
        ops = [op for op, each in touched if any(one.collection == query.collection for one in each)]
        try:
            effects, _ = await draft_awaited(ops, functools.partial(self._look_up, query.scope.tenant))
        except Conflict as error:
            raise UncountedError(f"queued writes may not meet what they expect: {error}") from error
        was = [one.before.record for one in effects if one.before is not None]
        becomes = [one.after.record for one in effects if one.after is not None]
        before = {one.key: one for one in was if one.collection == query.collection}
        return before, [one for one in becomes if one.collection == query.collection]

    async def _look_up(self, tenant: str, question: Lookup | Query) -> list[Any]:
        if isinstance(question, Lookup):
            ids, home = tuple({id_ for id_, _ in question.keys}), Scope(tenant=tenant)
            named = Query(collection=question.collection, ids=ids, scope=home, newest_first=True)
            return [(head.id, head.scope.key) for head in await list_heads(self._store, named)]
        most = _MOST_TOUCHED if question.limit is None else question.limit
        asked = replace(question, after=question.after or START, limit=most)
        page, more = await read_page(self._store, asked, _MOST_BYTES)
        if more is not None:
            raise UncountedError(f"a queued write touches more than {len(page)} records")
        return list(map(seal, page))
