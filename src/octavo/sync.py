"""One implementation, two faces: coroutines run on a thread with an event loop of its own, for callers who block.

A face is written once, as coroutines. `blocking` makes of each a method that waits for the answer, `awaiting` one that
can be awaited on any event loop. Connections belong to the loop they were made on, so both run in the same place.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from octavo.errors import StoreClosed

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")
B_co = TypeVar("B_co", covariant=True)


class Portal:
    """A thread with an event loop; it starts with the first call and ends with `close`."""

    def __init__(self, name: str = "octavo") -> None:
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it over there, and block until it is done."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "a blocking call from inside the event loop would wait for itself; await its twin"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._running(work))
        try:
            return future.result()
        except BaseException:  # Ctrl-C in the waiting thread must not leave the work going on
            future.cancel()
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it over there, and await it here; cancelling the waiter cancels the work."""
        loop = self._running(work)
        if asyncio.get_running_loop() is loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        with self._starting:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = None
        if loop is None or thread is None:
            return
        with contextlib.suppress(RuntimeError):  # its loop has ended already
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def _running(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._closed:
                work.close()  # or Python warns that it was never awaited
                raise StoreClosed("this memory was closed; open another")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon: a program that forgets to close must still be able to end.
                self._thread = threading.Thread(
                    target=_live, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


def _live(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


class Faced(Protocol[B_co]):
    """What has a portal and, behind it, the coroutines it shows."""

    @property
    def portal(self) -> Portal: ...

    @property
    def behind(self) -> B_co: ...


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Faced[S], P], T]:
    """The method of the face that waits for this one."""

    @functools.wraps(method)
    def wait(self: Faced[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.portal.call(method(self.behind, *args, **kwargs))

    return wait


def awaiting(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Faced[S], P], Coroutine[Any, Any, T]]:
    """The method of the face that can be awaited on any event loop."""

    @functools.wraps(method)
    async def wait(self: Faced[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.portal.acall(method(self.behind, *args, **kwargs))

    wait.__name__, wait.__qualname__ = f"a{method.__name__}", f"a{method.__qualname__}"
    return wait
