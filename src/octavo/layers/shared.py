"""What the memories of all tenants share: the store, the extractor, the sweeper, and who waits for whom."""

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from octavo.config import Settings
from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.model import Query, Scope
from octavo.kernel.ports import ListsTenants, Resembles, Store
from octavo.layers import reasons
from octavo.layers.changes import MemoryWriter, removal
from octavo.layers.deciding import Extractor
from octavo.layers.records import COLLECTIONS
from octavo.search.recall import Recall

_log = logging.getLogger("octavo.layers")
_SWEPT_AT_ONCE = 200


class Shared:
    """The parts of a layered memory, opened for the first tenant and closed with it."""

    def __init__(
        self,
        store: Store,
        extractor: Extractor | None,
        *,
        event_ttl: timedelta | None,
        sweep_seconds: float | None,
        known_memories: int,
        clock: Callable[[], datetime],
    ) -> None:
        self.store = store
        self.writer = MemoryWriter(store, clock)
        self.recall = Recall(store, clock)
        self.event_ttl = event_ttl
        self.known_memories = known_memories
        self.embeds = isinstance(store, Resembles)
        self.closing: list[Any] = []
        self.closed = False
        self._extractor = extractor
        # Asked once: looking through a protocol costs as much as a small read.
        self._lists_tenants = isinstance(store, ListsTenants)
        self._tenants: set[str] = set()
        self._locks: weakref.WeakValueDictionary[Any, asyncio.Lock] = weakref.WeakValueDictionary()
        self._sweep_seconds = sweep_seconds
        self._sweeping: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def serve(self, tenant: str) -> None:
        """Remember to sweep for this tenant, where the store cannot name its tenants itself."""
        if not self._lists_tenants:
            self._tenants.add(tenant)

    def use_model(self, settings: Settings) -> None:
        """Let a model extract, with the rules behind it."""
        from octavo.layers.llm_extractor import ModelExtractor
        from octavo.layers.rules import RuleExtractor

        asked, rules = settings.extraction, RuleExtractor()
        self._extractor = ModelExtractor(
            asked.model, base_url=asked.base_url or None, api_key=asked.api_key or None,
            timeout_seconds=asked.timeout_seconds, attempts=asked.attempts, known_memories=asked.known_memories,
            fallback=rules,
        )  # fmt: skip
        self.closing[:0] = [self._extractor, rules]

    def extractor(self) -> Extractor:
        """What was given, or else rules."""
        if self._extractor is None:
            from octavo.layers.rules import RuleExtractor

            self._extractor = RuleExtractor()
            self.closing.insert(0, self._extractor)
        return self._extractor

    def lock(self, *of: Any) -> asyncio.Lock:
        """The one lock of this process for that owner or memory."""
        return self._locks.setdefault(of, asyncio.Lock())

    def start(self) -> None:
        """Begin to sweep in the background, unless that was begun or is not wanted."""
        if self.closed:
            raise StoreClosed("this LayeredMemory was closed; make another one")
        if self._sweep_seconds and self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_every(self._sweep_seconds))

    async def sweep(self) -> int:
        """Remove and log all that has expired, of all tenants there are; answer how many memories that were."""
        tenants = self._tenants
        if isinstance(self.store, ListsTenants):
            tenants = tenants.union(await self.store.tenants())
        total = 0
        for tenant in sorted(tenants):
            for collection in COLLECTIONS.values():
                total += await self._sweep_collection(collection, tenant)
        return total

    async def close(self) -> None:
        """End the sweeping and close what was opened; given up by one caller, it still comes to its end."""
        self.closed = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        async with contextlib.AsyncExitStack() as stack:
            # Whatever goes wrong with one of them, the others are closed too.
            for opened in reversed(self.closing):
                stack.push_async_callback(opened.close)

    async def _sweep_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.sweep()
            except StoreClosed:
                return
            except OctavoError as error:  # a store that is down is swept when it is back
                _log.warning("expired memories could not be swept, and will be later: %s", error)

    async def _sweep_collection(self, collection: str, tenant: str) -> int:
        total = 0
        seen: set[tuple[str, object]] = set()
        scope, writer = Scope(tenant=tenant), self.writer
        while True:
            found = await self.store.find(
                Query(collection=collection, scope=scope, expired_at=writer.clock(), limit=_SWEPT_AT_ONCE)
            )
            # What was tried already and is still there belongs to another sweeper's next moment, or to the next sweep.
            new = [record for record in found if (record.id, record.updated_at) not in seen]
            if not new:
                return total
            seen.update((record.id, record.updated_at) for record in new)
            steps = []
            for record in new:
                reason = reasons.expired(record.text, record.expires_at or record.created_at)
                steps.append(removal(record, "expire", reason, writer.after(record.updated_at)))
            status, won = await writer.take(steps)
            if status == "queued":  # they will be removed when the store is back, and counted by nobody
                return total
            total += sum(won)
