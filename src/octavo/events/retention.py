"""How long events are kept: a policy that runs beside the store, as long as the store is open."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Self

from octavo.errors import StoreError
from octavo.events.records import BaseMemoryStore
from octavo.kernel.ids import now
from octavo.kernel.text import pluralize
from octavo.util.ages import parse_age, subtract_age

_log = logging.getLogger("octavo.events")
_SELDOM, _OFTEN = timedelta(hours=1), timedelta(seconds=1)


class Retention:
    """Clears what is older than `keep`, at once and then now and then, from any memory store.

    A store that cannot be reached is tried again next time. Whoever starts it stops it; `async with` does both.
    """

    def __init__(
        self,
        store: BaseMemoryStore,
        keep: timedelta | str,
        *,
        every: timedelta | None = None,
        clock: Callable[[], datetime] = now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.keep = parse_age(keep)
        # A tenth of what is kept, so that nothing outlives it by much; never oftener than a second.
        self.every = every or min(_SELDOM, max(_OFTEN, self.keep / 10))
        self.cleared = 0
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None

    async def prune(self) -> int:
        """Clear what is too old now; answer how many events that were."""
        cleared = await self._store.clear(end_time=subtract_age(self.keep, self._clock())) or 0
        self.cleared += cleared
        return cleared

    def start(self) -> None:
        """Begin, in the loop that runs now; called again, it does nothing while that goes on."""
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._run())

    async def stop(self) -> None:
        """End it and wait until it has ended; called again, it does nothing."""
        task, self._task = self._task, None
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                if cleared := await self.prune():
                    _log.info("cleared what is older than %s: %s", self.keep, pluralize(cleared, "event"))
            except (StoreError, OSError) as error:
                _log.warning("events older than %s could not be cleared: %s", self.keep, error)
            await self._sleep(self.every.total_seconds())

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
