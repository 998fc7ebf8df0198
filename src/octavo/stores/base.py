"""What every store does before its own work: check at the edge, open once, refuse after close."""

import asyncio
from collections.abc import Sequence
from typing import Self

from octavo.codec import Prepared, answerable, asked, prepare
from octavo.errors import StoreClosed
from octavo.model import Op, Query, Record, Tally


class BaseStore:
    """The three verbs with the edge in front; a backend fills in the `_` methods."""

    def __init__(self) -> None:
        self._opened = False
        self._closed = False
        self._gate: asyncio.Lock | None = None

    async def apply(self, ops: Sequence[Op]) -> list[int]:
        """Apply all of the ops in order, or none; answer how many records each one added, changed or removed."""
        prepared = prepare(ops)
        if not self._opened or self._closed:
            await self._ready()
        return await self._apply(prepared) if prepared else []

    async def find(self, query: Query) -> list[Record]:
        """Answer the query as `Query.over` would from all records kept."""
        query = asked(query)
        if not self._opened or self._closed:
            await self._ready()
        return await self._find(query) if answerable(query) else []

    async def tally(self, query: Query) -> Tally:
        """Count as `Tally.of` would from all records kept."""
        query = asked(query).unpaged
        if not self._opened or self._closed:
            await self._ready()
        return await self._tally(query) if answerable(query) else Tally()

    async def close(self) -> None:
        """Finish what was begun and let go of the backend; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._opened:
            await self._close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _ready(self) -> None:
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another with open_store(url)")
        if self._gate is None:
            self._gate = asyncio.Lock()
        async with self._gate:  # parallel first uses must open once
            if not self._opened:
                await self._open()
                self._opened = True

    async def _open(self) -> None:
        """Connect and prepare; runs once, before the first verb."""

    async def _close(self) -> None:
        """Let go of what `_open` took."""

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        raise NotImplementedError

    async def _find(self, query: Query) -> list[Record]:
        raise NotImplementedError

    async def _tally(self, query: Query) -> Tally:
        raise NotImplementedError
