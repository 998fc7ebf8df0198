"""Records in memory, in order along every axis that readers ask by: the engine of the memory store."""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from sortedcontainers import SortedList, SortedSet

from octavo.kernel.codec import CheckedAdd, Prepared
from octavo.kernel.model import NameCount, Query, Rank, Scope, ScopePart, Tally
from octavo.kernel.shapes import StoredRecord
from octavo.kernel.text import fold
from octavo.stores.draft import Key, Lookup, draft_effects

if TYPE_CHECKING:
    from octavo.stores.memory import TermIndex

#: What an order is kept for: a tenant, an exact scope, one named part of a scope, or a mark within an exact scope.
Axis: TypeAlias = tuple[str, ...]
_PARTS = ("session", "user", "agent")
_MOST_RECENT = 4096  # records that wait to be put in order: a few milliseconds


def _axes(scope: Scope, scope_key: str) -> list[Axis]:
    """The axes that all records of this scope stand in."""
    parts = [(part, scope.tenant, value) for part in _PARTS if (value := getattr(scope, part)) is not None]
    return [("tenant", scope.tenant), ("scope_key", scope_key), *parts]


def _find_axis(scope: Scope) -> tuple[Axis, bool]:
    """The narrowest axis that holds all a scope covers, and whether it holds nothing else."""
    if scope.exact:
        return ("scope_key", scope.key), True
    given = [(part, value) for part in _PARTS if (value := getattr(scope, part)) is not None]
    named = [(part, scope.tenant, value) for part, value in given if value]
    return (named[0] if named else ("tenant", scope.tenant)), len(given) == len(named) <= 1


class _Order:
    """The ranks of some records, in order, and how many of them have each kind.

    What is added gathers and is put in order before anybody looks: that takes half the time that adding one by one does.
    """

    __slots__ = ("_by_kind", "_ranks", "recent")

    def __init__(self) -> None:
        self._ranks: SortedList[Rank] = SortedList()
        self._by_kind: Counter[str] = Counter()
        self.recent: list[StoredRecord] = []  # added, and not in order yet

    @property
    def ranks(self) -> "SortedList[Rank]":
        self.settle()
        return self._ranks

    @property
    def by_kind(self) -> dict[str, int]:
        self.settle()
        return self._by_kind

    def remove(self, sealed: StoredRecord) -> None:
        self.ranks.remove(sealed.rank)
        self._by_kind[sealed.kind] -= 1
        if not self._by_kind[sealed.kind]:
            del self._by_kind[sealed.kind]

    def settle(self) -> None:
        """Put in order what was added."""
        if self.recent:
            self._ranks.update([sealed.rank for sealed in self.recent])
            self._by_kind.update([sealed.kind for sealed in self.recent])
            self.recent.clear()


class CollectionIndex:
    """The records of one collection."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, StoredRecord]] = {}  # by id, then by scope key
        self._orders: dict[Axis, _Order] = {}
        # By scope key, of its axes: found once, not for every record.
        self._orders_of: dict[str, list[_Order]] = {}
        self._names: dict[tuple[str, str], SortedSet[str]] = {}  # by part and tenant: who has an order
        self._ends: dict[str, SortedList[tuple[datetime, Rank]]] = {}  # by tenant: when records end
        self.terms: TermIndex | None = None  # from the first search on

    # --- what comes and goes

    def get(self, key: Key) -> StoredRecord | None:
        return self._kept.get(key[0], {}).get(key[1])

    def put(self, sealed: StoredRecord) -> bool:
        """Keep a record, unless one with its key is kept; answer whether it was new."""
        scope_key = sealed.scope_key
        named = self._kept.setdefault(sealed.id, {})
        if scope_key in named:
            return False
        named[scope_key] = sealed
        orders = self._orders_of.get(scope_key)
        if orders is None:
            orders = self._orders_of[scope_key] = [
                self._order(axis) for axis in _axes(sealed.scope, scope_key)
            ]
        if sealed.marks:
            orders = orders + [self._order(("mark", scope_key, mark)) for mark in sealed.marks]
        for order in orders:
            recent = order.recent
            recent.append(sealed)
            if len(recent) >= _MOST_RECENT:
                order.settle()
        if sealed.expires_at is not None:
            ends = self._ends.setdefault(sealed.scope.tenant, SortedList())
            ends.add((sealed.expires_at, sealed.rank))
        if self.terms is not None:
            self.terms.waiting[sealed.rank] = None
        return True

    def drop(self, sealed: StoredRecord) -> None:
        """Forget a record that is kept, and all that was made of it."""
        named = self._kept[sealed.id]
        del named[sealed.scope_key]
        if not named:
            del self._kept[sealed.id]
        marks = (("mark", sealed.scope_key, mark) for mark in sealed.marks)
        for axis in (*_axes(sealed.scope, sealed.scope_key), *marks):
            order = self._orders[axis]
            order.remove(sealed)
            if not order.ranks:
                del self._orders[axis]
                if axis[0] in _PARTS:
                    names = self._names[axis[0], axis[1]]
                    names.remove(axis[2])
                    if not names:
                        del self._names[axis[0], axis[1]]
                if axis[0] == "scope_key":
                    del self._orders_of[sealed.scope_key]
        if sealed.expires_at is not None:
            ends = self._ends[sealed.scope.tenant]
            ends.remove((sealed.expires_at, sealed.rank))
            if not ends:
                del self._ends[sealed.scope.tenant]
        if self.terms is not None:
            self.terms.forget(sealed.rank)
            if not self._kept:
                self.terms = None

    def swap(self, old: StoredRecord, new: StoredRecord) -> None:
        """Put a changed record in the place of what it was; one that says the same as before stays indexed."""
        terms, self.terms = self.terms, None
        self.drop(old)
        self.put(new)
        self.terms = terms
        says = (old.rank, old.text, old.text or old.data_json)
        if terms is not None and says != (new.rank, new.text, new.text or new.data_json):
            terms.forget(old.rank)
            terms.waiting[new.rank] = None

    def _order(self, axis: Axis) -> _Order:
        order = self._orders.get(axis)
        if order is None:
            order = self._orders[axis] = _Order()
            if axis[0] in _PARTS:
                names: SortedSet[str] = self._names.setdefault((axis[0], axis[1]), SortedSet())
                names.add(axis[2])
        return order

    # --- answers

    def find(self, query: Query) -> list[StoredRecord]:
        """Answer as `Query.over` would, reading no further than the page asked for."""
        if query.ids is not None:
            return query.over(self.find_named(query))  # type: ignore[arg-type, return-value]
        at = query.expired_at
        if at is not None and (ended := self._find_expired(query, at)) is not None:
            return query.over(ended)  # type: ignore[arg-type, return-value]
        forward = query.after is not None and not query.newest_first
        rows = map(self.row, self.walk(query, newest_first=not forward))
        asked = query
        if query.text:  # first, and off what was folded once: `matches` would fold each record again
            needle, asked = fold(query.text), msgspec.structs.replace(query, text=None)
            rows = (sealed for sealed in rows if needle in sealed.search)  # type: ignore[assignment]
        matching = (sealed for sealed in rows if asked.matches(sealed))  # type: ignore[arg-type]
        end = None if query.limit is None else query.offset + query.limit
        page = list(itertools.islice(matching, query.offset, end))
        return page if forward or query.newest_first else page[::-1]

    def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would; from counters when only the scope and kinds are asked about."""
        axis, alone = _find_axis(query.scope)
        if not (query.plain and alone):
            return Tally.of(msgspec.structs.replace(query, text=None), self.find(query))  # type: ignore[arg-type]
        order = self._orders.get(axis) or _Order()
        counted = order.by_kind.items()
        by_kind = {kind: n for kind, n in counted if query.kinds is None or kind in query.kinds}
        if not by_kind:
            return Tally()
        first, last = (
            next(rank[0] for rank in ranks if self.row(rank).kind in by_kind)
            for ranks in (order.ranks, reversed(order.ranks))
        )
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first, last=last)

    def names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        """Who is named within a scope, from a name on; from the orders when the scope is all of a tenant."""
        scope = query.scope
        if scope != Scope(tenant=scope.tenant):
            found = self.find(msgspec.structs.replace(query, limit=None))
            counted = NameCount.of(part, found)  # type: ignore[arg-type]
            return [one for one in counted if one.name > after][: query.limit]
        known = self._names.get((part, scope.tenant), SortedSet()).irange(after, inclusive=(False, False))
        counted = []
        for name in itertools.islice(known, query.limit):
            ranks = self._orders[part, scope.tenant, name].ranks
            counted.append(NameCount(name=name, total=len(ranks), first=ranks[0][0], last=ranks[-1][0]))
        return counted

    def row(self, rank: Rank) -> StoredRecord:
        """The record of this rank, which is kept."""
        return self._kept[rank[2]][rank[3]]

    def ranks(self) -> Iterator[Rank]:
        """The ranks of all records, in no order."""
        return (sealed.rank for named in self._kept.values() for sealed in named.values())

    def tenants(self) -> set[str]:
        return {axis[1] for axis in self._orders if axis[0] == "tenant"}

    def find_named(self, query: Query) -> Iterator[StoredRecord]:
        """The records that have one of the ids asked for, inside the scope or not."""
        scope_key = query.scope.key if query.scope.exact else None
        for name in dict.fromkeys(query.ids or ()):
            named = self._kept.get(name, {})
            if scope_key is None:
                yield from named.values()
            elif scope_key in named:
                yield named[scope_key]

    def count_walked(self, query: Query) -> int:
        """At most so many ranks are on the walk of a query that has no ids."""
        return sum(len(order.ranks) for order in self._find_orders(query))

    def walk(self, query: Query, *, newest_first: bool) -> Iterator[Rank]:
        """The ranks among which all that match the query are, in order, within its times and past its cursor."""
        low: Any = None if query.since is None else (query.since,)
        high: Any = None if query.until is None else (query.until,)
        past_low = False
        if query.after is not None and (rank := query.after.rank) is not None:
            if query.newest_first:
                high = rank if high is None else min(high, rank)
            elif low is None or rank >= low:
                low, past_low = rank, True
        if low is not None and high is not None and low > high:
            return iter(())
        walks = [
            order.ranks.irange(low, high, inclusive=(not past_low, False), reverse=newest_first)
            for order in self._find_orders(query)
        ]
        if len(walks) == 1:
            return iter(walks[0])
        merged = heapq.merge(*walks, reverse=newest_first)
        return (rank for rank, _ in itertools.groupby(merged))

    def _find_orders(self, query: Query) -> list[_Order]:
        """The orders among which all that match the query are."""
        axes = [_find_axis(query.scope)[0]]
        if query.marks is not None and axes[0][0] == "scope_key":
            axes = [("mark", axes[0][1], mark) for mark in query.marks]
        return [order for axis in axes if (order := self._orders.get(axis)) is not None]

    def _find_expired(self, query: Query, at: datetime) -> list[StoredRecord] | None:
        """What has ended in the tenant by then; None when that is more than what the walk of the query looks at."""
        ends = itertools.takewhile(lambda end: end[0] <= at, self._ends.get(query.scope.tenant, ()))
        most = self.count_walked(query)
        ended = [self.row(rank) for _, rank in itertools.islice(ends, most + 1)]
        return ended if len(ended) <= most else None


class Records:
    """All records of a store, by collection."""

    def __init__(self) -> None:
        self._collections: dict[str, CollectionIndex] = {}

    def collection(self, name: str) -> CollectionIndex:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = CollectionIndex()
        return found

    def tenants(self) -> list[str]:
        """Every tenant that has a record, sorted."""
        return sorted(set().union(*(collection.tenants() for collection in self._collections.values())))

    def find(self, query: Query) -> list[StoredRecord]:
        return self.collection(query.collection).find(query)

    def apply(self, ops: list[Prepared]) -> list[int]:
        """Apply a batch, all of it or nothing."""
        # Nearly every batch: nothing in it can fail half-way.
        if len(ops) == 1 and isinstance(ops[0], CheckedAdd) and ops[0].expect is None:
            return [sum([self.collection(sealed.collection).put(sealed) for sealed in ops[0].records])]
        effects, counts = draft_effects(ops, self._answer)
        for before, after in ((effect.before, effect.after) for effect in effects):
            if before is None and after is not None:
                self.collection(after.collection).put(after)
            elif before is not None and after is not None:
                self.collection(after.collection).swap(before, after)
            elif before is not None:
                self.collection(before.collection).drop(before)
        return counts

    def _answer(self, question: Lookup | Query) -> Sequence[StoredRecord | Key]:
        if isinstance(question, Query):
            return self.find(question)
        collection = self.collection(question.collection)
        return [key for key in question.keys if collection.get(key) is not None]
