"""The index of terms is brought up to date when nobody writes, so that the next search need not wait for it."""

import asyncio
from typing import TYPE_CHECKING

from octavo.errors import StoreError
from octavo.stores.redis.layout import Layout
from octavo.stores.redis.wire import Wire

if TYPE_CHECKING:
    from octavo.stores.redis.indexing import Index

_QUIET_SECONDS = 0.2  # since the last write
_PATIENT_SECONDS = 2.0  # who writes on and on gets a little in between from then on
_REMEMBERED = 1024


class Indexes:
    """The indexes one event loop works on, and the task that keeps them up in idle time."""

    def __init__(self, wire: Wire, layout: Layout) -> None:
        self._wire = wire
        self._layout = layout
        self._known: dict[tuple[str, str], Index] = {}
        self._late: set[tuple[str, str]] = set()
        self._written_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def index(self, collection: str, tenant: str) -> "Index":
        """The index of a tenant's collection; there is one of each, so that its work is not done twice at once."""
        from octavo.stores.redis.indexing import (
            Index,
        )  # with the patterns of terms, which only a search needs

        index = self._known.get((collection, tenant))
        if index is None:
            if len(self._known) >= _REMEMBERED:
                self._known = {key: index for key, index in self._known.items() if index.lock.locked()}
            index = self._known[collection, tenant] = Index(self._wire, self._layout, collection, tenant)
        return index

    def noted(self, late: set[tuple[str, str]]) -> None:
        """Something was put in line in these collections and tenants."""
        loop = asyncio.get_running_loop()
        self._written_at = loop.time()
        self._late |= late
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = loop.create_task(self._keep_up())

    async def stop(self) -> None:
        """Leave what still waits in line; the next search finds it there."""
        self._stopped = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _keep_up(self) -> None:
        while self._late:
            await self._quiet()
            name = self._late.pop()
            try:
                if await self.index(*name).some():
                    self._late.add(name)
            except StoreError:
                # What waits is still in line: the next write tries again, and a search says what is wrong.
                self._late.clear()

    async def _quiet(self) -> None:
        """Wait for a pause in the writing, though not for ever."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + _PATIENT_SECONDS
        until = self._written_at + _QUIET_SECONDS
        while loop.time() < until:
            await asyncio.sleep(until - loop.time())
            until = min(self._written_at + _QUIET_SECONDS, latest)
