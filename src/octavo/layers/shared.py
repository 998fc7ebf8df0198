"""What the memories of all tenants share: the store and how it is written, the extractor, and the sweeper."""

import asyncio
import contextlib
import logging
import random
import weakref
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from octavo.config import Settings
from octavo.errors import Conflict, InvalidQuery, NotFound, OctavoError, StoreClosed, StoreUnavailable
from octavo.kernel.model import Op, Query, Record, Scope
from octavo.kernel.ports import ListsTenants, Resembles, Store, write_ops
from octavo.layers import reasons
from octavo.layers.changes import ChangeStep, remove_step
from octavo.layers.records import COLLECTIONS, LOG, log_id, owner_of
from octavo.layers.values import LAYERS, Action, Extractor, Layer, Status
from octavo.search.recall import Recall
from octavo.util.secrets import DigestKey
from octavo.util.sync import import_aside

#: How often a change is tried that others come before; each time one of them got through.
TRIES = 50
CHANGES: tuple[Action, ...] = ("insert", "update", "delete", "expire")
_PAUSE_SECONDS = 0.05
_TICK = timedelta(microseconds=1)
_SWEPT_AT_ONCE = 200
MOST_OWNERS = 4  # of one id that are named, when nobody says which of them is meant
_log = logging.getLogger("octavo.layers")


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
        digest_key: str | Path,
    ) -> None:
        self.store = store
        self.clock = clock
        self.recall = Recall(store, clock)
        self.event_ttl = event_ttl
        self.digest_key = DigestKey(digest_key)
        self.known_memories = known_memories
        self.embeds = isinstance(store, Resembles)
        self.closing: list[Any] = []
        self.tenants: set[str] = set()  # that were asked for, in case the store cannot name its tenants
        self._closed = False
        self._extractor = extractor
        self._locks: weakref.WeakValueDictionary[Any, asyncio.Lock] = weakref.WeakValueDictionary()
        self._sweep_seconds = sweep_seconds
        self._sweeping: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def use_model(self, settings: Settings) -> None:
        """Let a model extract, with the rules behind it."""
        from octavo.layers.llm_extractor import ModelExtractor
        from octavo.layers.rules import RuleExtractor

        asked = settings.extraction
        self._extractor = ModelExtractor(
            asked.model, base_url=asked.base_url or None, api_key=asked.api_key or None,
            timeout_seconds=asked.timeout_seconds, attempts=asked.attempts, known_memories=asked.known_memories,
            fallback=RuleExtractor(),
        )  # fmt: skip
        self.closing.insert(0, self._extractor)

    async def extractor(self) -> Extractor:
        """What was given, or else rules."""
        if self._extractor is None:
            await import_aside("octavo.layers.rules")
            from octavo.layers.rules import RuleExtractor

            self._extractor = RuleExtractor()
        return self._extractor

    # --- reading and writing

    def lock(self, *of: Any) -> asyncio.Lock:
        """The one lock of this process for that owner or memory."""
        return self._locks.setdefault(of, asyncio.Lock())

    def now_after(self, earlier: datetime | None) -> datetime:
        """Now, and in any case after that: a clock that is set back must not turn a history around."""
        at = self.clock()
        return at if earlier is None else max(at, earlier + _TICK)

    async def find(
        self, memory: str, scope: Scope, layer: Layer | None = None, *, alive_at: datetime | None = None
    ) -> Record:
        """The record of a memory in this scope, or NotFound; InvalidQuery if several owners there have one of that id."""
        queries = [
            Query(
                collection=COLLECTIONS[each], ids=(memory,), scope=scope, alive_at=alive_at, limit=MOST_OWNERS
            )
            for each in (LAYERS if layer is None else (layer,))
        ]
        found = [record for page in await asyncio.gather(*map(self.store.find, queries)) for record in page]
        if not found:
            raise NotFound(f"there is no memory {memory!r}")
        check_one_owner(memory, found)
        return found[0]

    async def check_log(self, memory: str, tenant: str) -> None:
        """InvalidQuery if several owners have or had a memory of that id, and so each a row of its beginning."""
        query = Query(collection=LOG, ids=(log_id(memory, 1),), scope=Scope(tenant=tenant), limit=MOST_OWNERS)
        check_one_owner(memory, await self.store.find(query))

    async def last_change(self, memory: str, scope: Scope) -> Record | None:
        """The log row of the last change of a memory."""
        scope = replace(scope, session=memory)
        query = Query(collection=LOG, scope=scope, kinds=CHANGES, newest_first=True, limit=1)
        return next(iter(await self.store.find(query)), None)

    async def write(self, ops: Sequence[Op]) -> Status:
        """Write the ops; answer where they are now."""
        return "success" if (await write_ops(self.store, ops)).stored else "queued"

    async def take(self, steps: Sequence[ChangeStep]) -> tuple[Status, list[bool]]:
        """Write the steps in one go; answer which of them nobody came before."""
        try:
            # What several of them rely on stands there once.
            status = await self.write(list({id(op): op for step in steps for op in step.ops}.values()))
        except Conflict:
            if len(steps) == 1:
                return "success", [False]
            taken = [await self.take([step]) for step in steps]  # each by itself, to see which of them it was
            any_queued = any(status == "queued" for status, _ in taken)
            return "queued" if any_queued else "success", [won for _, [won] in taken]
        return status, [True] * len(steps)

    async def change(
        self, tenant: str, memory: str, attempt: Callable[[], Awaitable[ChangeStep]]
    ) -> ChangeStep:
        """Take the step that `attempt` makes of what is there now, as often as others come before it."""
        # Within a process changes of one memory queue up here: racing each other, most would only be tried again.
        async with self.lock(tenant, memory):
            for tried in range(TRIES):
                step = await attempt()
                status, [won] = await self.take([step])
                if status == "queued" and not step.certain:
                    raise StoreUnavailable(
                        f"the change of {memory!r} is queued: it will be made when the store is back, "
                        f"unless somebody else changes the memory before"
                    )
                if won:
                    return step
                await asyncio.sleep(random.random() * _PAUSE_SECONDS * (tried > 1))  # noqa: S311 - to be out of step
        raise Conflict(f"others changed {memory!r} {TRIES} times while this change was tried; try again")

    # --- sweeping and closing

    def start(self) -> None:
        """Begin to sweep in the background, unless that was begun or is not wanted."""
        if self._closed:
            raise StoreClosed("this LayeredMemory was closed; make another one")
        if self._sweep_seconds and self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_every(self._sweep_seconds))

    async def sweep(self) -> int:
        """Remove and log all that has expired, of all tenants there are; answer how many memories that were."""
        tenants = self.tenants
        if isinstance(self.store, ListsTenants):
            tenants = tenants.union(await self.store.tenants())
        total = 0
        for tenant in sorted(tenants):
            for collection in COLLECTIONS.values():
                total += await self._sweep_collection(collection, tenant)
        return total

    async def close(self) -> None:
        """End the sweeping and close what was opened; given up by one caller, it still comes to its end."""
        self._closed = True
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._sweeping is not None and not self._sweeping.done():
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
        while True:
            query = Query(
                collection=collection,
                scope=Scope(tenant=tenant),
                expired_at=self.clock(),
                limit=_SWEPT_AT_ONCE,
            )
            found = await self.store.find(query)
            # What was tried already and is still there belongs to another sweeper's next moment, or to the next sweep.
            new = [record for record in found if (record.id, record.updated_at) not in seen]
            if not new:
                return total
            seen.update((record.id, record.updated_at) for record in new)
            steps = []
            for record in new:
                reason = reasons.describe_expiry(record.text, record.expires_at or record.created_at)
                steps.append(remove_step(record, "expire", reason, self.now_after(record.updated_at)))
            status, won = await self.take(steps)
            if status == "queued":  # they will be removed when the store is back, and counted by nobody
                return total
            total += sum(won)


def check_one_owner(memory: str, found: Sequence[Record]) -> None:
    """InvalidQuery if these are of several owners: ids that came with an import are unique only within each."""
    owners = sorted({(owner.type, owner.id) for owner in (owner_of(record.scope) for record in found)})
    if len(owners) > 1:
        named = " and ".join(f"{kind} {name!r}" for kind, name in owners)
        raise InvalidQuery(f"the id {memory!r} belongs to {named}: give the user or agent that is meant")
