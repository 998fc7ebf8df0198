"""The failure queue as the event loop sees it: on a thread of its own, so that nobody waits for a disk but who has to."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

from octavo.errors import OctavoError
from octavo.stores.gather import Gathering
from octavo.wraps.journal.lines import Waiting
from octavo.wraps.journal.spool import Spool

T = TypeVar("T")
_log = logging.getLogger("octavo.journal")
_MOST_OPS = 2000  # written together


class Queue:
    """A spool and its thread. Writes that come at the same time share one write to the disk."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self._thread: ThreadPoolExecutor | None = None
        self._puts: Gathering[Waiting, None] = Gathering(
            self._put_all, _MOST_OPS, lambda entry: len(entry.ops)
        )
        self.error: str | None = None  # why nothing could be put when that was last tried
        self.dead = self.bad_lines = 0  # how many there were when somebody last looked
        self.oldest_at: datetime | None = None

    @property
    def waiting(self) -> int:
        """How many writes wait on disk."""
        return self.spool.waiting if self._thread is not None else 0

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way to the disk."""
        return self._puts.idle

    async def open(self) -> None:
        """Read what is there. A folder that cannot be used is told of and tried again later: the store may be well."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="octavo-journal")
        try:
            await self.run(self.spool.open)
        except OctavoError as error:
            self.failed(str(error))
        await self.look()

    async def check(self) -> None:
        """Find out whether something can be put, without keeping anything."""
        try:
            await self.run(self.spool.check)
        except OctavoError as error:
            self.failed(str(error))
        else:
            self.error = None

    def failed(self, error: str) -> None:
        """Nothing can be put, for this reason."""
        if self.error is None:
            _log.warning(
                "the failure queue cannot be written to; what the store does not take is refused: %s", error
            )
        self.error = error

    async def put(self, entry: Waiting) -> None:
        """Have it written behind all that were put before; durable when this returns."""
        await self._puts.submit(entry)
        self.error = None
        self.oldest_at = self.oldest_at or entry.queued_at

    async def settle(self) -> None:
        """Wait until nothing is on its way to the disk."""
        await self._puts.settle()

    async def look(self) -> None:
        """Count the dead letters and the bad lines, and see how long the oldest write has waited."""
        spool = self.spool
        found = await self.run(lambda: (spool.dead.count, spool.bad_lines, spool.oldest_at))
        self.dead, self.bad_lines, self.oldest_at = found

    async def run(self, work: Callable[[], T]) -> T:
        """Do this in the thread, after what it was given before."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        """Have everything on the disk, and let go of it."""
        if self._thread is None:
            return
        await self._puts.settle()
        thread, self._thread = self._thread, None
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self.spool.close)
        finally:
            thread.shutdown(wait=False)

    async def _put_all(self, entries: list[Waiting]) -> list[None]:
        await self.run(lambda: self.spool.put(entries))
        return [None] * len(entries)
