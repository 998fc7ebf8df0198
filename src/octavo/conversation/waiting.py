"""Where the work of conversations is done: on the event loop their store lives on, for callers who block and for those who await."""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from octavo.kernel.ports import Store
from octavo.stores import open_store
from octavo.util.sync import Portal

T = TypeVar("T")
_NAME = "octavo-conversation"
_shared = Portal(_NAME)  # its thread starts with the first call
_homes: weakref.WeakKeyDictionary[Store, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()


def portal() -> Portal:
    """The thread on which blocking calls of all conversations run; it ends with the process."""
    return _shared


def _after_fork() -> None:
    global _shared  # noqa: PLW0603 - one for the process is the point
    _shared = Portal(_NAME)  # a thread does not outlive a fork
    _homes.clear()  # nor do loops: whoever asked one would wait for ever


os.register_at_fork(after_in_child=_after_fork)


class Housed:
    """A store and the event loop it lives on: connections belong to the loop they were made on.

    A store that a URL names lives on the conversations' own thread, can be reached from anywhere, and is closed with this.
    One that is handed in stays open. It lives on the loop that ran when it was first handed in, or else on the one it is first
    used on, the same for all that share it.
    """

    def __init__(self, url_or_store: str | Store) -> None:
        self.owned = isinstance(url_or_store, str)
        self.store: Store = open_store(url_or_store) if isinstance(url_or_store, str) else url_or_store
        # Of this process for good: after a fork, the child must not speak on the connections of its parent.
        self._portal = portal()
        if not self.owned:
            with contextlib.suppress(RuntimeError):  # no loop is running here: the first use decides
                self._settle(asyncio.get_running_loop())

    def block(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it over there, and wait."""
        try:
            self.refuse_deadlock()
        except RuntimeError:
            work.close()  # or Python warns that it was never awaited
            raise
        return portal().call(self.run(work))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it over there, and await it here."""
        if self.owned:
            return await self._portal.acall(work)
        here = asyncio.get_running_loop()
        home = self._settle(here)
        if home is here:
            return await work
        if not home.is_running():  # it would be waited for without end
            work.close()
            raise RuntimeError(
                "the event loop that this store belongs to is not running: use the store on that loop, or give its URL "
                "instead of the store"
            )
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, home))

    def refuse_deadlock(self) -> None:
        """RuntimeError when the store belongs to the very event loop that would be blocked."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if not self.owned and _homes.get(self.store) is here:
            raise RuntimeError(
                "this store belongs to the event loop that runs here, and a blocking call would wait for itself: "
                "await the a… twin, or give the URL instead of the store"
            )

    def close(self) -> None:
        """Close the store, unless it was handed in."""
        if self.owned:
            self.block(self.store.close())

    async def aclose(self) -> None:
        """`close`, awaited."""
        if self.owned:
            await self.run(self.store.close())

    def _settle(self, here: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """The loop the store lives on; this one, if it lives nowhere yet or that one has ended."""
        home = _homes.get(self.store)
        if home is None or home.is_closed():
            home = _homes[self.store] = here
        return home
