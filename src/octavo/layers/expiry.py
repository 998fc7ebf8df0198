"""What has expired is removed and logged, now and then; unseen it is at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from octavo.errors import OctavoError, StoreClosed
from octavo.kernel.model import Query, Scope
from octavo.kernel.ports import ListsTenants
from octavo.layers import reasons
from octavo.layers.ledger import Ledger, removal
from octavo.layers.records import COLLECTIONS

_log = logging.getLogger("octavo.layers")
_BATCH = 200


async def sweep(ledger: Ledger, tenants: set[str]) -> int:
    """Remove and log all that has expired, of all tenants there are; answer how many memories that were."""
    store = ledger.store
    named = {*await store.tenants(), *tenants} if isinstance(store, ListsTenants) else tenants
    total = 0
    for tenant in sorted(named):
        for collection in COLLECTIONS.values():
            total += await _swept(ledger, collection, tenant)
    return total


async def _swept(ledger: Ledger, collection: str, tenant: str) -> int:
    total = 0
    seen: set[tuple[str, object]] = set()
    while True:
        found = await ledger.store.find(
            Query(collection=collection, scope=Scope(tenant=tenant), expired_at=ledger.clock(), limit=_BATCH)
        )
        # What was tried already and is still there belongs to another sweeper's next moment, or to the next sweep.
        new = [record for record in found if (record.id, record.updated_at) not in seen]
        if not new:
            return total
        seen.update((record.id, record.updated_at) for record in new)
        steps = [
            removal(
                record,
                "expire",
                reasons.expired(record.text, record.expires_at or record.created_at),
                ledger.after(record.updated_at),
            )
            for record in new
        ]
        status, won = await ledger.take(steps)
        if status == "queued":  # they will be removed when the store is back, and counted by nobody
            return total
        total += sum(won)


class Sweeper:
    """Sweeps every so often in the background, from the first use until it is stopped."""

    def __init__(self, sweep: Callable[[], Awaitable[int]], seconds: float | None) -> None:
        self._sweep = sweep
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin, unless it was begun or is not wanted."""
        if self._seconds and self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._run(self._seconds))

    async def stop(self) -> None:
        """End, and wait until it has ended."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._sweep()
            except StoreClosed:
                return
            except OctavoError as error:  # a store that is down is swept when it is back
                _log.warning("expired memories could not be swept, and will be later: %s", error)
