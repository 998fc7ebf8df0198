"""What a backend must be able to do: three verbs, and small separate promises for what only some can."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, Self, runtime_checkable

import msgspec

from octavo.model import START, Op, Query, Record, Tally


@runtime_checkable
class Store(Protocol):
    """Where records live. A store opens on first use, and whoever opened it closes it."""

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        ...

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        ...

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of the backend; a second call does nothing."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...


class Finding(msgspec.Struct, frozen=True):
    """One thing `doctor` has to say: a plain fact, or a warning with its cure."""

    name: str
    value: str
    warning: str = ""


@runtime_checkable
class Describes(Protocol):
    """A store that can say what it is, how durable it is and what is dangerous about it."""

    async def describe(self) -> list[Finding]: ...


@runtime_checkable
class ListsTenants(Protocol):
    """A store that can name every tenant it keeps records of, sorted, so that all of it can be moved or counted."""

    async def tenants(self) -> list[str]: ...


async def walk(store: Store, query: Query, size: int = 1000) -> AsyncIterator[list[Record]]:
    """All answers to a query in pages of `size`, oldest first, at the same cost per page however long it gets."""
    cursor = query.after or START
    while page := await store.find(
        msgspec.structs.replace(query, after=cursor, limit=size, newest_first=False)
    ):
        yield page
        cursor = page[-1].cursor
