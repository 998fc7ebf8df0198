"""How readers of one store notice, at the cost of one small read, which vectors others have written.

Each writer keeps a clock in each tenant and space it writes to: a record, replaced in the same transaction as the vectors,
that says how many changes the writer has made there and which vectors the latest ones touched, each by id and place. A
reader remembers the clocks it has seen. Where a clock has moved on, it reads again what was touched since; where that is no
longer told, or a clock has gone, it reads everything again.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from octavo.kernel.model import Query, Record, Remove, Scope
from octavo.vectors.names import COLLECTION, short

Touched: TypeAlias = tuple[str, str]  # the id of a vector and its place
_TOLD = 200  # vectors a clock tells of; more would make every single write heavy
_REMEMBERED = 50_000  # vectors this process remembers of its own changes
MOST_CLOCKS = 16  # past so many, a new writer clears away those of writers that are probably gone


class Clock:
    """What one writer has changed in one tenant and space."""

    def __init__(self, writer: str, tenant: str, space: str) -> None:
        self.writer = writer
        self.count = 0
        self._scope = clock_scope(tenant, space)
        self._id = f"{writer}:{short(space)}"
        self._changes: deque[tuple[int, tuple[Touched, ...]]] = deque()
        self._size = 0

    def touch(self, vectors: Sequence[Touched]) -> None:
        """Note a change before it is made: should its fate remain unknown, readers look at it once too often."""
        self.count += 1
        self._changes.append((self.count, tuple(vectors)))
        self._size += len(vectors)
        while self._size > _REMEMBERED:
            self._size -= len(self._changes.popleft()[1])

    def touch_all(self) -> None:
        """Note a change that nobody can follow one by one."""
        self.count += 1
        self._changes.clear()
        self._size = 0

    def since(self, count: int) -> set[Touched] | None:
        """What was touched after that many changes, or None when that is no longer known."""
        return _since(count, self.count, self._changes)

    def removal(self) -> Remove:
        """What makes room for the clock as it is now."""
        return Remove(Query(collection=COLLECTION, ids=(self._id,), scope=self._scope))

    def record(self) -> Record:
        """The clock as it is kept."""
        told: list[list[object]] = []
        room = _TOLD
        for count, vectors in reversed(self._changes):
            room -= len(vectors)
            if room < 0:
                break
            told.append([count, [list(touched) for touched in vectors]])
        data = {"writer": self.writer, "count": self.count, "changes": told[::-1]}
        return Record(collection=COLLECTION, id=self._id, scope=self._scope, text="clock", data=data)


def clock_scope(tenant: str, space: str) -> Scope:
    """Where the clocks of a tenant's space are kept."""
    return Scope(tenant=tenant, user="", agent="", session=f"octavo:clocks:{short(space)}")


def clocks_query(tenant: str, space: str, limit: int | None = None) -> Query:
    return Query(collection=COLLECTION, scope=clock_scope(tenant, space), limit=limit)


def clear_clocks(tenant: str, space: str) -> Remove:
    """Remove every clock; whoever does must `touch_all` its own, or readers would miss what the others had done."""
    return Remove(clocks_query(tenant, space))


class Seen:
    """The clocks of a tenant's space as a reader found them."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._data = {r.data["writer"]: r.data for r in records if not r.kind and "writer" in r.data}

    @property
    def counts(self) -> dict[str, int]:
        return {writer: data["count"] for writer, data in self._data.items()}

    def since(self, counts: Mapping[str, int], own: Clock | None) -> set[Touched] | None:
        """What was touched since these counts were seen, or None when everything has to be read again."""
        if counts.keys() - self._data.keys():
            return None
        touched: set[Touched] = set()
        for writer, data in self._data.items():
            before, now = counts.get(writer, 0), data["count"]
            if before == now:
                continue
            if own is not None and writer == own.writer and now <= own.count:
                more = own.since(before)
            else:
                more = _since(before, now, data["changes"])
            if more is None:
                return None
            touched |= more
        return touched


def _since(before: int, now: int, changes: Iterable[Sequence[Any]]) -> set[Touched] | None:
    later = [vectors for count, vectors in changes if count > before]
    if now < before or len(later) != now - before:
        return None
    return {(id_, place) for vectors in later for id_, place in vectors}
