"""What is kept no longer than asked: expired memories, and of each collection what is too old or more than enough."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from octavo.assemble import queue_folder
from octavo.config import Settings
from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.ids import now
from octavo.kernel.model import START, Cursor, Query, Remove, Scope
from octavo.kernel.pages import list_heads, walk
from octavo.kernel.ports import ListsTenants, write_ops
from octavo.layers import LayeredMemory
from octavo.layers.records import COLLECTIONS
from octavo.memory.pending import FACTS, PENDING
from octavo.transfer import Progress
from octavo.util.ages import subtract_age

#: What a setting can limit, by its collection. Dead letters are files of the queue, which has no collection.
LIMITED = ("messages", "observations", "events", "turns", "log", "versions")
DEAD_LETTERS = "dead_letters"
EXPIRED = "expired"
_AT_ONCE = 500  # records that one transaction removes
_TICK = timedelta(microseconds=1)
_log = logging.getLogger("octavo.memory")


class RetentionSweep:
    """Removes what the settings do not keep, of all tenants of the store; what waits in a queue is never removed.

    A message whose facts are still to be found stays until they are.
    """

    def __init__(
        self, layers: LayeredMemory, settings: Settings, clock: Callable[[], datetime] = now
    ) -> None:
        self._layers = layers
        self._store = layers.store
        self._kept = settings.retention
        self._clock = clock
        self._settings = settings
        self._tenant = settings.service.tenant

    @property
    def limits(self) -> bool:
        """Whether the settings limit anything."""
        return any(self._limit(name) != (None, None) for name in (*LIMITED, DEAD_LETTERS))

    async def prune(self, *, dry_run: bool = False, progress: Progress | None = None) -> dict[str, int]:
        """Remove, or with a dry run count, what is not kept any longer; answer how many, by what they are."""
        removed = {EXPIRED: await self._sweep_expired(dry_run=dry_run)}

        def tell(name: str, more: int) -> None:
            removed[name] = removed.get(name, 0) + more
            if progress is not None and more:
                progress(sum(removed.values()), None)

        for tenant in await self._tenants():
            for collection in LIMITED:
                tell(collection, 0)
                await self._prune_collection(collection, tenant, tell, dry_run=dry_run)
        tell(DEAD_LETTERS, await asyncio.to_thread(self._prune_letters, dry_run=dry_run))
        if not dry_run and any(removed.values()):
            told = ", ".join(f"{count:,} {name}" for name, count in removed.items() if count)
            _log.info("retention removed %s", told)
        return removed

    async def run(self) -> None:
        """Prune now and then, until this is cancelled or the store is closed."""
        while True:
            try:
                await self.prune()
            except StoreClosed:
                return
            except OctavoError as error:  # a store that is down is pruned when it is back
                _log.warning("retention could not go on, and will later: %s", error)
            await asyncio.sleep(self._kept.every_seconds)

    def _limit(self, name: str) -> tuple[float | None, int | None]:
        """For how many days it is kept, and how many of it."""
        return getattr(self._kept, f"{name}_days"), getattr(self._kept, f"{name}_most")

    async def _tenants(self) -> list[str]:
        return await self._store.tenants() if isinstance(self._store, ListsTenants) else [self._tenant]

    async def _sweep_expired(self, *, dry_run: bool) -> int:
        if not dry_run:
            return await self._layers.sweep()
        counts = [
            await self._store.tally(
                Query(collection=each, scope=Scope(tenant=tenant), expired_at=self._clock())
            )
            for tenant in await self._tenants()
            for each in COLLECTIONS.values()
        ]
        return sum(count.total for count in counts)

    async def _prune_collection(self, collection: str, tenant: str, tell: Any, *, dry_run: bool) -> None:
        days, most = self._limit(collection)
        if days is None and most is None:
            return
        all_of_it = Query(collection=collection, scope=Scope(tenant=tenant))
        until = None if days is None else subtract_age(timedelta(days=days), self._clock())
        waiting = await self._find_waiting(tenant) if collection == "messages" else set()
        cursor: Cursor = START
        stay = 0  # records that were passed by
        while page := await list_heads(
            self._store, msgspec.structs.replace(all_of_it, after=cursor, limit=_AT_ONCE)
        ):
            # Counted after the page was read: another server that prunes removes the same records first, and then there are
            # fewer too many, and of those that are chosen here none is left.
            more = 0 if most is None else (await self._store.tally(all_of_it)).total - most - stay
            old = 0 if until is None else sum(head.created_at < until for head in page)
            chosen = page[: max(more, old, 0)]
            if not chosen:
                return
            gone = [head.id for head in chosen if head.id not in waiting]
            if dry_run:
                tell(collection, len(gone))
            elif gone:
                # Of the same ids in other scopes those that are newer stay.
                end = chosen[-1].created_at + _TICK
                query = msgspec.structs.replace(all_of_it, ids=tuple(dict.fromkeys(gone)), until=end)
                tell(collection, sum((await write_ops(self._store, [Remove(query)], queue=False)).counts))
            stay += len(chosen) if dry_run else len(chosen) - len(gone)
            cursor = chosen[-1].cursor

    async def _find_waiting(self, tenant: str) -> set[str]:
        """The messages whose facts are still to be found."""
        notes = Query(collection=PENDING, kinds=(FACTS,), scope=Scope(tenant=tenant))
        return {note.data["message"] async for page in walk(self._store, notes) for note in page}

    def _prune_letters(self, *, dry_run: bool) -> int:
        days, most = self._limit(DEAD_LETTERS)
        if days is None and most is None:
            return 0
        from octavo.wraps.journal import Spool

        dead = Spool(queue_folder(self._settings)).dead
        died = [(letter.id, letter.died_at) for letter in dead]  # the oldest death first
        more = 0 if most is None else max(len(died) - most, 0)
        old = self._clock() if days is None else subtract_age(timedelta(days=days), self._clock())
        ids = [
            name for number, (name, at) in enumerate(died) if number < more or (days is not None and at < old)
        ]
        return len(ids) if dry_run else dead.discard(ids)
