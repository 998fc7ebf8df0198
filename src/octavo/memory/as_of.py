"""A store as it was at a moment, for whoever reads it: the facts of then from their log, and what had been said by then."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.model import Add, Head, Op, Query, Record, Scope, Tally
from octavo.kernel.ports import Searches, Store, heads
from octavo.kernel.terms.matches import Matches
from octavo.layers.reading import records_as_of
from octavo.layers.records import COLLECTIONS
from octavo.stores.memory import MemoryStore
from octavo.wraps.wrap import Wrap

#: What is written over when it changes: nobody can say any more what it was, so it is left out if it changed since.
_REWRITTEN = ("summaries", "entities", "configs", "knowledge")
_TICK = timedelta(microseconds=1)


class StoreAsOf(Wrap):
    """Answers questions about somebody as they would have been answered then; it cannot be written to.

    What was removed since is not there, unless it was a fact: only facts have a log. By its meaning a fact that changed
    since is not found, only by its words of then.
    """

    def __init__(self, store: Store, at: datetime, facts: Store) -> None:
        super().__init__(store, owned=False)
        self._at = at
        self._facts = facts

    @classmethod
    async def of(cls, store: Store, at: datetime, queries: Sequence[Query]) -> "StoreAsOf":
        """The store at that moment, as far as these queries look into facts."""
        if any(query.scope == Scope(tenant=query.scope.tenant) for query in queries):
            raise InvalidQuery("as_of is asked about somebody: name a user or an agent in place of everyone")
        facts = MemoryStore()
        asked = {(q.collection, q.scope): q for q in queries if q.collection in COLLECTIONS.values()}
        for collection, scope in asked:
            found = await records_as_of(store, Query(collection=collection, scope=scope), at)
            await facts.apply([Add(found)])
        return cls(store, at, facts)

    async def apply(self, ops: Sequence[Op]) -> list[int]:  # noqa: ARG002 - none of them is done
        """Refused: what was is past."""
        raise InvalidQuery(f"what was at {self._at.isoformat()} can be read, not changed")

    async def find(self, query: Query) -> list[Record]:
        """What answers the query, as it was."""
        store, asked = self._translate(query)
        return [record for record in await store.find(asked) if self._was_there(query, record)]

    async def heads(self, query: Query) -> list[Head]:
        """The same without texts and bodies."""
        store, asked = self._translate(query)
        return [head for head in await heads(store, asked) if self._was_there(query, head)]

    async def tally(self, query: Query) -> Tally:
        """How many there were."""
        return Tally.of(query, await self.find(query.unpaged))

    async def search(self, query: Query, terms: Sequence[str]) -> Matches:
        """What has these terms; what has changed since is left out when it is read."""
        store, asked = self._translate(query)
        return await cast(Searches, store).search(asked, terms)

    def _translate(self, query: Query) -> tuple[Store, Query]:
        """Which store knows it, and what it is asked."""
        until = self._at + _TICK if query.until is None else min(query.until, self._at + _TICK)
        store = self._facts if query.collection in COLLECTIONS.values() else self.inner
        return store, msgspec.structs.replace(query, until=until)

    def _was_there(self, query: Query, found: Record | Head) -> bool:
        changed_at = found.updated_at or found.created_at
        return query.collection not in _REWRITTEN or changed_at <= self._at
