"""Records in memory, indexed by what readers ask for: the engine of the memory store and of the file store."""

import heapq
import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from octavo.kernel.codec import Kept, Prepared, Sealed
from octavo.kernel.model import Query, Rank, Scope, Tally
from octavo.kernel.text import fold
from octavo.stores.draft import Effect, Key, Lookup, draft
from octavo.stores.endings import Endings
from octavo.stores.ranks import CHUNK, Ranks

if TYPE_CHECKING:
    from octavo.stores.term_index import TermIndex  # only a search needs it

Lane: TypeAlias = tuple[str, ...]


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
        # By id, and by place as well where several have the same one.
        self._kept: dict[str, Sealed | dict[str, Sealed]] = {}
        self._routes: dict[str, tuple[Ranks, ...]] = {}  # the orders that the records of a place stand in
        self._lanes: dict[Lane, Ranks] = {}
        self._endings: dict[str, Endings] = {}  # by tenant
        self.tenants: set[str] = set()
        self.indexes: list[TermIndex] = []  # the one that serves, and the one that is to take its place

    def get(self, key: Key) -> Sealed | None:
        kept = self._kept.get(key[0])
        if isinstance(kept, dict):
            return kept.get(key[1])
        return kept if kept is not None and kept.place == key[1] else None

    def put(self, sealed: Sealed) -> bool:
        """Keep a record, unless one with its key is kept; answer whether it was new."""
        place = sealed.place
        kept = self._kept.get(sealed.id)
        if kept is None:
            self._kept[sealed.id] = sealed
        elif not self._put_beside(kept, sealed):
            return False
        for ranks in self._routes.get(place) or self._route(sealed.scope, place):
            recent = ranks.recent
            recent.append(sealed)
            if len(recent) >= CHUNK:
                ranks.settle()
        for mark in sealed.marks:
            self._lane(("mark", place, mark)).add(sealed)
        if sealed.expires_at is not None:
            self._end(sealed)
        for index in self.indexes:
            index.waiting[sealed.rank] = None
        return True

    def _put_beside(self, kept: Sealed | dict[str, Sealed], sealed: Sealed) -> bool:
        """Keep a record whose id others have, unless one of them has its place too."""
        if not isinstance(kept, dict):
            kept = {kept.place: kept}
        if sealed.place in kept:
            return False
        kept[sealed.place] = sealed
        self._kept[sealed.id] = kept
        return True

    def drop(self, sealed: Sealed) -> None:
        name, place = sealed.id, sealed.place
        kept = self._kept[name]
        if isinstance(kept, dict):
            del kept[place]
            if len(kept) == 1:
                [self._kept[name]] = kept.values()
        else:
            del self._kept[name]
        for lane in _lanes(sealed.scope, place):
            self._leave(lane, sealed)
        if ("place", place) not in self._lanes:  # or sessions that were cleared would be remembered for ever
            del self._routes[place]
        for mark in sealed.marks:
            self._leave(("mark", place, mark), sealed)
        if sealed.expires_at is not None and sealed.scope.tenant in self._endings:
            self._endings[sealed.scope.tenant].discard()
        for index in self.indexes:
            index.forget(sealed.rank)
        if not self._kept:
            self.indexes.clear()

    def swap(self, old: Sealed, new: Sealed) -> None:
        """Put a changed record where it stood; its rank is the same, so only marks and counts move."""
        place = new.place
        kept = self._kept[new.id]
        if isinstance(kept, dict):
            kept[place] = new
        else:
            self._kept[new.id] = new
        if old.kind != new.kind:
            for ranks in self._routes[place]:
                ranks.recount(old.kind, new.kind)
        if old.marks != new.marks or (old.marks and old.kind != new.kind):
            for mark in old.marks:
                self._leave(("mark", place, mark), old)
            for mark in new.marks:
                self._lane(("mark", place, mark)).add(new)
        if old.expires_at != new.expires_at:
            if new.expires_at is not None:
                self._end(new)
            if old.expires_at is not None:
                self._endings[new.scope.tenant].discard()
        if old.text != new.text or (not new.text and old.data_json != new.data_json):
            for index in self.indexes:
                index.forget(old.rank)
                index.waiting[new.rank] = None

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
        del self._lanes[lane]  # no route leads through it any more: each of them would have a record in it
        if lane[0] == "tenant":
            self.tenants.discard(lane[1])
            self._endings.pop(lane[1], None)

    def _end(self, sealed: Sealed) -> None:
        tenant = sealed.scope.tenant
        endings = self._endings.get(tenant)
        if endings is None:
            endings = self._endings[tenant] = Endings(self._at)
        endings.add(cast("datetime", sealed.expires_at), sealed.rank)

    def _at(self, rank: Rank) -> Sealed | None:
        """What is kept under this rank, if anything is."""
        sealed = self.get((rank[2], rank[3]))
        return sealed if sealed is not None and sealed.rank == rank else None

    def find(self, query: Query) -> list[Sealed]:
        """Answer as `Query.over` would, reading no further than the page asked for."""
        if query.ids is not None:
            return query.over(self.named(query))  # type: ignore[arg-type, return-value]
        if query.expired_at is not None and (ended := self._ended(query, query.expired_at)) is not None:
            return query.over(ended)  # type: ignore[arg-type, return-value]
        forward = query.after is not None and not query.newest_first
        rows = (self.row(rank) for rank in self.walk(query, newest_first=not forward))
        asked = query
        if query.text:  # first, and off what was folded once: `matches` would fold each record again
            needle, asked = fold(query.text), msgspec.structs.replace(query, text=None)
            rows = (sealed for sealed in rows if needle in sealed.search)
        matching = (sealed for sealed in rows if asked.matches(sealed))  # type: ignore[arg-type]
        end = None if query.limit is None else query.offset + query.limit
        page = list(itertools.islice(matching, query.offset, end))
        return page if forward or query.newest_first else page[::-1]

    def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would; from counters when only the scope and kinds are asked about."""
        lane, alone = _lane_asked(query.scope)
        if not (query.plain and alone):
            return Tally.of(msgspec.structs.replace(query, text=None), self.find(query))  # type: ignore[arg-type]
        ranks = self._lanes.get(lane)
        if ranks is None:
            return Tally()
        kinds = ranks.by_kind if query.kinds is None else set(query.kinds) & set(ranks.by_kind)
        by_kind = {kind: ranks.by_kind[kind] for kind in kinds}
        if not by_kind:
            return Tally()
        first, last = (self._edge(ranks, by_kind, newest_first=newest) for newest in (False, True))
        return Tally(total=sum(by_kind.values()), by_kind=by_kind, first=first[0], last=last[0])

    def _ended(self, query: Query, at: datetime) -> list[Sealed] | None:
        """What has ended in the tenant by then; None when that is more than what the walk of the query looks at."""
        endings = self._endings.get(query.scope.tenant)
        if endings is None:
            return []
        most = self.breadth(query)
        ended = list(itertools.islice(endings.by(at), most + 1))
        return ended if len(ended) <= most else None

    def _edge(self, ranks: Ranks, kinds: dict[str, int], *, newest_first: bool) -> Rank:
        walked = ranks.between(None, None, past_low=False, newest_first=newest_first)
        return next(rank for rank in walked if self.row(rank).kind in kinds)

    def row(self, rank: Rank) -> Sealed:
        """The record of this rank, which is kept."""
        kept = self._kept[rank[2]]
        return kept[rank[3]] if isinstance(kept, dict) else kept

    def ranks(self) -> Iterator[Rank]:
        """The ranks of all records, in no order."""
        for kept in self._kept.values():
            yield from (sealed.rank for sealed in _each(kept))

    def total(self) -> int:
        """How many records there are."""
        return sum(ranks.total for lane, ranks in self._lanes.items() if lane[0] == "tenant")

    def named(self, query: Query) -> Iterator[Sealed]:
        """The records that have one of the ids asked for, inside the scope or not."""
        place = query.scope.place if query.scope.exact else None
        for name in dict.fromkeys(query.ids or ()):
            if place is not None:
                if (sealed := self.get((name, place))) is not None:
                    yield sealed
            elif (kept := self._kept.get(name)) is not None:
                yield from _each(kept)

    def breadth(self, query: Query) -> int:
        """At most so many ranks are on the walk of a query that has no ids."""
        return sum(ranks.total for lane in self._lanes_asked(query) if (ranks := self._lanes.get(lane)))

    def settles(self, query: Query) -> bool:
        """Whether all that are on the walk of a query match it."""
        plain = msgspec.structs.replace(query, since=None, until=None).plain and query.kinds is None
        return plain and _lane_asked(query.scope)[1]

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
        lanes = self._lanes_asked(query)
        if len(lanes) > 1:
            return self._merged(lanes, low, high, past_low=past_low, newest_first=newest_first)
        ranks = self._lanes.get(lanes[0]) if lanes else None
        return ranks.between(low, high, past_low=past_low, newest_first=newest_first) if ranks else iter(())

    def _lanes_asked(self, query: Query) -> list[Lane]:
        lane, _ = _lane_asked(query.scope)
        if query.marks is not None and lane[0] == "place":
            return [("mark", lane[1], mark) for mark in query.marks]
        return [lane]

    def _merged(self, lanes: list[Lane], low: Any, high: Any, **how: bool) -> Iterator[Rank]:
        """Several lanes as one, each rank once."""
        known = [ranks for lane in lanes if (ranks := self._lanes.get(lane)) is not None]
        walks = [ranks.between(low, high, **how) for ranks in known]
        merged = heapq.merge(*walks, reverse=how["newest_first"])
        return (rank for rank, _ in itertools.groupby(merged))


def _each(kept: Sealed | dict[str, Sealed]) -> Iterable[Sealed]:
    """The records that have one id."""
    return kept.values() if isinstance(kept, dict) else (kept,)


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
            added, shelves = 0, self.shelves
            for sealed in ops[0].records:
                added += (shelves.get(sealed.collection) or self.shelf(sealed.collection)).put(sealed)
            return [added]
        asking = draft(ops)
        try:
            question = next(asking)
            while True:
                question = asking.send(self.answer(question))
        except StopIteration as done:
            effects, counts = done.value
        self.commit(effects)
        return cast("list[int]", counts)

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
