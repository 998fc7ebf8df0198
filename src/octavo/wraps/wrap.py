"""A store around a store: what it does not do itself, the one inside does."""

import inspect
from collections.abc import Sequence
from typing import Any, Self

from octavo.kernel.model import Head, Op, Query, Record, Tally
from octavo.kernel.pages import list_heads
from octavo.kernel.ports import Store


class Wrap:
    """Hands every verb, and whatever else the store inside can do, on to it.

    A wrap has the capabilities of the store inside, no more and no fewer: `isinstance(wrap, Searches)` is true exactly
    when it is true of that store. What is handed to a wrap is the wrap's, which closes it; `owned=False` says that
    somebody else does.
    """

    def __init__(self, store: Store, *, owned: bool = True) -> None:
        self.inner = store
        self._owned = owned
        # Protocols look at an object without asking its __getattr__ (from Python 3.12 on), so a capability that were
        # only forwarded there would be missed.
        for name in dir(store):
            if name.startswith("_") or hasattr(type(self), name) or name in self.__dict__:
                continue
            if callable(inspect.getattr_static(store, name)):
                self.__dict__[name] = getattr(store, name)
        if type(self).find is not Wrap.find:  # which would be passed by
            own = {"heads": self._find_heads, "find_within": self._find_within}
            self.__dict__.update({name: verb for name, verb in own.items() if name in self.__dict__})

    def __getattr__(self, name: str) -> Any:
        # `inner` is missing only before __init__, as in copy.copy.
        if name.startswith("_") or name == "inner":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner, name)

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        return await self.inner.apply(ops)

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        return await self.inner.find(query)

    async def _find_heads(self, query: Query) -> list[Head]:
        return [Head.of(record) for record in await self.find(query)]

    async def _find_within(self, query: Query, max_bytes: int) -> list[Record] | None:
        return await weigh_and_find(self, query, max_bytes)

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        return await self.inner.tally(query)

    async def close(self) -> None:
        """Let go of what the wrap holds, and close the store inside if it is owned."""
        if self._owned:
            await self.inner.close()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


async def weigh_and_find(store: Store, query: Query, max_bytes: int) -> list[Record] | None:
    """What the store finds, by whose heads it takes no more than so many bytes; else None."""
    taken = sum(head.size_bytes for head in await list_heads(store, query))
    return await store.find(query) if taken <= max_bytes else None
