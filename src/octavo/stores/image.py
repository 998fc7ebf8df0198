"""Records in memory, indexed by what readers ask for: the engine of the memory store and of the file store."""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from octavo.codec import Kept, Prepared, Sealed
from octavo.model import Query, Rank, Scope, Tally
from octavo.stores.draft import Effect, Key, Lookup, draft

Lane: TypeAlias = tuple[str, ...]
_CHUNK = 1024


class Ranks:
    """Ranks in order: adding at the end costs the same at any size, adding or removing elsewhere one chunk's length."""

    __slots__ = ("_chunks", "by_kind", "total")

    def __init__(self) -> None:
        self._chunks: list[list[Rank]] = [[]]
        self.by_kind: dict[str, int] = {}
        self.total = 0

    def add(self, rank: Rank, kind: str) -> None:
        by_kind = self.by_kind
        by_kind[kind] = by_kind.get(kind, 0) + 1
        self.total += 1
        last = self._chunks[-1]
        if not last or rank > last[-1]:
            if len(last) < _CHUNK:
                last.append(rank)
            else:
                self._chunks.append([rank])
            return
        index = self._chunk_of(rank)
        chunk = self._chunks[index]
        chunk.insert(bisect_left(chunk, rank), rank)
        if len(chunk) > 2 * _CHUNK:
            self._chunks[index : index + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]

    def discard(self, rank: Rank, kind: str) -> None:
        self.recount(kind, None)
        self.total -= 1
        index = self._chunk_of(rank)
        chunk = self._chunks[index]
        del chunk[bisect_left(chunk, rank)]
        if not chunk and len(self._chunks) > 1:
            del self._chunks[index]

    def recount(self, old: str, new: str | None) -> None:
        """Move one record from a kind to another, or to none."""
        self.by_kind[old] -= 1
        if not self.by_kind[old]:
            del self.by_kind[old]
        if new is not None:
            self.by_kind[new] = self.by_kind.get(new, 0) + 1

    def between(self, low: Any, high: Any, *, past_low: bool, newest_first: bool) -> Iterator[Rank]:
        """Ranks from low (or just past it) up to but not including high, in either direction; None has no bound."""
        chunks = self._chunks
        start = self._chunk_of(low) if low is not None else 0
        stop = self._chunk_of(high) if high is not None else len(chunks) - 1
        order = range(stop, start - 1, -1) if newest_first else range(start, stop + 1)
        for index in order:
            chunk = chunks[index]
            left = (
                0 if low is None or index > start else (bisect_right if past_low else bisect_left)(chunk, low)
            )
            right = len(chunk) if high is None or index < stop else bisect_left(chunk, high)
            yield from reversed(chunk[left:right]) if newest_first else chunk[left:right]

    def _chunk_of(self, rank: Any) -> int:
        """The first chunk that ends at or after the rank, or the last one."""
        index = bisect_left(self._chunks, rank, key=lambda chunk: chunk[-1] if chunk else ())
        return min(index, len(self._chunks) - 1)


def _lanes(scope: Scope, place: str) -> list[Lane]:
    """The orders a record of this scope stands in: its tenant's, its exact place's, and each named part's."""
    tenant = scope.tenant
    named = [
        (part, value) for part in ("user", "agent", "session") if (value := getattr(scope, part)) is not None
    ]
    return [("tenant", tenant), ("place", place), *((part, tenant, value) for part, value in named)]


def _lane_asked(scope: Scope) -> tuple[Lane, bool]:
    """The narrowest order that holds all a scope covers, and whether it holds nothing else."""
    if scope.exact:
        return ("place", scope.place), True
    named = [(part, value) for part in ("session", "user", "agent") if (value := getattr(scope, part))]
    alone = sum(getattr(scope, part) is not None for part in ("session", "user", "agent")) == len(named) <= 1
    if not named:
        return ("tenant", scope.tenant), alone
    return (named[0][0], scope.tenant, named[0][1]), alone


class Shelf:
    """The records of one collection."""

    def __init__(self) -> None:
        self._rows: dict[Key, Sealed] = {}
        self._places: dict[str, tuple[str, ...]] = {}  # where an id is kept
        self._lanes: dict[Lane, Ranks] = {}
        self._routes: dict[
            str, tuple[Ranks, ...]
        ] = {}  # the orders a place stands in, so that an append looks up one
        self.tenants: set[str] = set()

    def get(self, key: Key) -> Sealed | None:
        return self._rows.get(key)

    def put(self, sealed: Sealed) -> None:
        """Keep a record whose key is free."""
        name, place = key = sealed.key
        self._rows[key] = sealed
        known = self._places.get(name)
        self._places[name] = (place,) if known is None else (*known, place)
        rank, kind = sealed.rank, sealed.kind
        for ranks in self._routes.get(place) or self._route(sealed.scope, place):
            ranks.add(rank, kind)
        for mark in sealed.marks:
            self._lane(("mark", place, mark)).add(rank, kind)

    def drop(self, sealed: Sealed) -> None:
        name, place = sealed.key
        del self._rows[sealed.key]
        rest = tuple(other for other in self._places[name] if other != place)
        if rest:
            self._places[name] = rest
        else:
            del self._places[name]
        for lane in _lanes(sealed.scope, place):
            self._leave(lane, sealed)
        for mark in sealed.marks:
            self._leave(("mark", place, mark), sealed)

    def swap(self, old: Sealed, new: Sealed) -> None:
        """Put a changed record where it stood; its rank is the same, so only marks and counts move."""
        place = new.place
        self._rows[new.key] = new
        if old.kind != new.kind:
            for ranks in self._routes.get(place) or self._route(new.scope, place):
                ranks.recount(old.kind, new.kind)
        if old.marks != new.marks or (old.marks and old.kind != new.kind):
            for mark in old.marks:
                self._leave(("mark", place, mark), old)
            for mark in new.marks:
                self._lane(("mark", place, mark)).add(new.rank, new.kind)

    def _lane(self, lane: Lane) -> Ranks:
        ranks = self._lanes.get(lane)
        if ranks is None:
            ranks = self._lanes[lane] = Ranks()
        return ranks

    def _route(self, scope: Scope, place: str) -> tuple[Ranks, ...]:
        self.tenants.add(scope.tenant)
        route = self._routes[place] = tuple(self._lane(lane) for lane in _lanes(scope, place))
        return route

    def _leave(self, lane: Lane, sealed: Sealed) -> None:
        ranks = self._lanes[lane]
        ranks.discard(sealed.rank, sealed.kind)
        if ranks.total:
            return
        del self._lanes[lane]  # or sessions that were cleared would be remembered for ever
        if lane[0] != "mark":
            self._routes.clear()  # any of them may lead through the lane that is gone
        if lane[0] == "tenant":
            self.tenants.discard(lane[1])

    def find(self, query: Query) -> list[Sealed]:
        """Answer as `Query.over` would, reading no further than the page asked for."""
        if query.ids is not None:
            return query.over(self._named(query))  # type: ignore[arg-type, return-value]
        forward = query.after is not None and not query.newest_first
        matching: Iterable[Sealed] = (
            sealed
            for rank in self._candidates(query, newest_first=not forward)
            if query.matches(sealed := self._rows[rank[2], rank[3]])  # type: ignore[arg-type]
        )
        end = None if query.limit is None else query.offset + query.limit
        page = list(itertools.islice(matching, query.offset, end))
        return page if forward or query.newest_first else page[::-1]

    def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would; from counters when only the scope and kinds are asked about."""
        lane, alone = _lane_asked(query.scope)
        if not (query.plain and alone):
            return Tally.of(query, self.find(query))  # type: ignore[arg-type]
        ranks = self._lanes.get(lane)
        if ranks is None:
            return Tally()
        kinds = ranks.by_kind if query.kinds is None else set(query.kinds) & set(ranks.by_kind)
        by_kind = {kind: ranks.by_kind[kind] for kind in kinds}
        if not by_kind:
            return Tally()
        first, last = (self._end(ranks, by_kind, newest_first=newest) for newest in (False, True))
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first[0], last=last[0])

    def _end(self, ranks: Ranks, kinds: dict[str, int], *, newest_first: bool) -> Rank:
        walked = ranks.between(None, None, past_low=False, newest_first=newest_first)
        return next(rank for rank in walked if self._rows[rank[2], rank[3]].kind in kinds)

    def _named(self, query: Query) -> Iterator[Sealed]:
        places = (query.scope.place,) if query.scope.exact else None
        for name in dict.fromkeys(query.ids or ()):
            for place in places or self._places.get(name, ()):
                if (sealed := self._rows.get((name, place))) is not None:
                    yield sealed

    def _candidates(self, query: Query, *, newest_first: bool) -> Iterator[Rank]:
        low: Any = None if query.since is None else (query.since,)
        high: Any = None if query.until is None else (query.until,)
        past_low = False
        if query.after is not None and (rank := query.after.rank) is not None:
            if query.newest_first:
                high = rank if high is None else min(high, rank)
            elif low is None or rank >= low:
                low, past_low = rank, True
        lane, _ = _lane_asked(query.scope)
        lanes = (
            [("mark", lane[1], m) for m in query.marks]
            if query.marks is not None and lane[0] == "place"
            else [lane]
        )
        if len(lanes) > 1:
            union = {
                r
                for each in lanes
                if (ranks := self._lanes.get(each))
                for r in ranks.between(None, None, past_low=False, newest_first=False)
            }
            merged = Ranks()
            for rank in sorted(union):
                merged.add(rank, "")
            return merged.between(low, high, past_low=past_low, newest_first=newest_first)
        ranks = self._lanes.get(lanes[0]) if lanes else None
        return ranks.between(low, high, past_low=past_low, newest_first=newest_first) if ranks else iter(())


class Image:
    """All records of a store, by collection."""

    def __init__(self) -> None:
        self.shelves: dict[str, Shelf] = {}

    def shelf(self, collection: str) -> Shelf:
        shelf = self.shelves.get(collection)
        if shelf is None:
            shelf = self.shelves[collection] = Shelf()
        return shelf

    def tenants(self) -> list[str]:
        """Every tenant that has a record, sorted."""
        return sorted(set().union(*(shelf.tenants for shelf in self.shelves.values())))

    def answer(self, question: Lookup | Query) -> list[Sealed]:
        """Answer a draft's question."""
        if isinstance(question, Query):
            return self.shelf(question.collection).find(question)
        shelf = self.shelf(question.collection)
        return [sealed for key in question.keys if (sealed := shelf.get(key)) is not None]

    def apply(self, ops: list[Prepared]) -> list[int]:
        """Apply a batch, all of it or nothing."""
        if len(ops) == 1 and isinstance(ops[0], Kept):  # nearly every batch: nothing in it can fail half-way
            return [sum(self._keep(sealed) for sealed in ops[0].records)]
        asking = draft(ops)
        try:
            question = next(asking)
            while True:
                question = asking.send(self.answer(question))
        except StopIteration as done:
            effects, counts = done.value
        self.commit(effects)
        return cast("list[int]", counts)

    def _keep(self, sealed: Sealed) -> bool:
        shelf = self.shelf(sealed.collection)
        if shelf.get(sealed.key) is not None:
            return False
        shelf.put(sealed)
        return True

    def commit(self, effects: Iterable[Effect]) -> None:
        for before, after in ((effect.before, effect.after) for effect in effects):
            if after is None:
                if before is not None:
                    self.shelf(before.collection).drop(before)
            elif before is None:
                self.shelf(after.collection).put(after)
            elif before.rank == after.rank:
                self.shelf(after.collection).swap(before, after)
            else:  # removed and added again with another time
                self.shelf(before.collection).drop(before)
                self.shelf(after.collection).put(after)
