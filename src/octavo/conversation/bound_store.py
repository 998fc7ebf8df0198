"""A store and the event loop it lives on: connections belong to the loop that they were made on."""

import asyncio
import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from octavo.kernel.model import Scope
from octavo.kernel.ports import Store
from octavo.stores import open_store
from octavo.util.sync import Closing, Twins, portal, waited

T = TypeVar("T")
P = ParamSpec("P")
_loops: weakref.WeakKeyDictionary[Store, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()
os.register_at_fork(after_in_child=_loops.clear)  # whoever asked a loop of the parent would wait for ever


class BoundStore(Twins, Closing):
    """What works with a store of one user: a class to inherit from. Its coroutines run `on_store_loop`.

    A store that a URL names lives on the thread of all blocking calls, can be reached from anywhere, and is closed with
    this. One that is handed in stays open. It lives on the loop that ran when it was first handed in, or else on the one
    it is first used on, the same for all that share it.
    """

    def __init__(
        self, url_or_store: str | Store, user_id: str, session_id: str | None, tenant: str = ""
    ) -> None:
        for name, value in (("session_id", session_id or ""), ("user_id", user_id), ("tenant", tenant)):
            if not isinstance(value, str):
                raise TypeError(f"{name} is a string; got {value!r}"[:300])
        self._owned = isinstance(url_or_store, str)
        self._store = open_store(url_or_store) if isinstance(url_or_store, str) else url_or_store
        self._scope = Scope(tenant=tenant, user=user_id, agent="", session=session_id)
        # Of this process for good: after a fork, the child must not speak on the connections of its parent.
        self._portal = portal()
        if not self._owned:
            with contextlib.suppress(RuntimeError):  # no loop is running here: the first use decides
                self._loop_of_store(asyncio.get_running_loop())

    def refuse_deadlock(self) -> None:
        """RuntimeError when the store belongs to the very event loop that would be blocked."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if not self._owned and _loops.get(self._store) is here:
            raise RuntimeError(
                "this store belongs to the event loop that runs here, and a blocking call would wait for itself: "
                "await the a… twin, or give the URL instead of the store"
            )

    async def aclose(self) -> None:
        """Close the store, unless it was handed in; called again, it does nothing."""
        if self._owned:
            await self._portal.acall(self._store.close())

    close = waited(aclose)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it where the store lives, and await it here."""
        if self._owned:
            return await self._portal.acall(work)
        here = asyncio.get_running_loop()
        there = self._loop_of_store(here)
        if there is here:
            return await work
        if not there.is_running():  # it would be waited for without end
            work.close()
            raise RuntimeError(
                "the event loop that this store belongs to is not running: use the store on that loop, or give its URL "
                "instead of the store"
            )
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, there))

    def _loop_of_store(self, here: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """The loop the store lives on; this one, if it lives nowhere yet or that one has ended."""
        loop = _loops.get(self._store)
        if loop is None or loop.is_closed():
            loop = _loops[self._store] = here
        return loop


B = TypeVar("B", bound=BoundStore)


def on_store_loop(
    method: Callable[Concatenate[B, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[B, P], Coroutine[Any, Any, T]]:
    """The coroutine, run on the event loop that the store lives on, whichever loop it is awaited on."""

    @functools.wraps(method)
    async def run(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(method(self, *args, **kwargs))

    return run
