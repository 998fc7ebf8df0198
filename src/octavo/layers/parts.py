"""What the memories of all tenants share: the store, the extractor, the sweeper, and who waits for whom."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from octavo.config import Settings
from octavo.kernel.ports import ListsTenants, Resembles, Store
from octavo.layers.deciding import Extractor
from octavo.layers.expiry import Sweeper, sweep
from octavo.layers.ledger import Ledger
from octavo.search.recall import Recall


class Parts:
    """The parts of a layered memory; the first one that is closed closes what was opened for it."""

    def __init__(
        self,
        store: Store,
        extractor: Extractor | None,
        *,
        event_ttl: timedelta | None,
        sweep_seconds: float | None,
        recalled: int,
        clock: Callable[[], datetime],
    ) -> None:
        self.store = store
        self.ledger = Ledger(store, clock)
        self.recall = Recall(store, clock)
        self.event_ttl = event_ttl
        self.recalled = recalled
        self.embeds = isinstance(store, Resembles)
        self.tenants: set[str] = set()
        # Asked once: looking through a protocol costs as much as a small read.
        self._lists_tenants = isinstance(store, ListsTenants)
        self.sweeper = Sweeper(self.sweep, sweep_seconds)
        self.closing: list[Any] = []
        self.closed = False
        self._extractor = extractor
        self._locks: weakref.WeakValueDictionary[Any, asyncio.Lock] = weakref.WeakValueDictionary()
        self._closing: asyncio.Task[None] | None = None

    def serve(self, tenant: str) -> None:
        """Remember to sweep for this tenant, where the store cannot name its tenants itself."""
        if not self._lists_tenants:
            self.tenants.add(tenant)

    def ask(self, settings: Settings) -> None:
        """Let a model extract, with the rules behind it."""
        from octavo.layers.asking import ModelExtractor
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

    async def sweep(self) -> int:
        return await sweep(self.ledger, self.tenants)

    async def close(self) -> None:
        self.closed = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)  # given up by one caller, it still comes to its end

    async def _close(self) -> None:
        await self.sweeper.stop()
        async with contextlib.AsyncExitStack() as stack:
            for opened in reversed(
                self.closing
            ):  # whatever goes wrong with one of them, the others are closed too
                stack.push_async_callback(opened.close)
