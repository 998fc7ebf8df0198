"""One implementation, two faces: coroutines run on a thread with an event loop of its own, for callers who block.

A face is written once, as coroutines. `blocking` makes of each a method that waits for the answer, `awaiting` one that
can be awaited on any event loop. Connections belong to the loop they were made on, so both run in the same thread.

Work that is long is done on an event loop `run_in_turns`: others are served between two steps of it.
"""

import asyncio
import contextlib
import functools
import importlib
import inspect
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Generator
from concurrent import futures
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from octavo.errors import StoreClosed
from octavo.util.system import call_after_fork

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")
B_co = TypeVar("B_co", covariant=True)

_TURN_SECONDS = 0.01
_LONG = 2**18
_imported: set[str] = set()  # by `import_aside`
_locks: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = weakref.WeakKeyDictionary()
_ENDED = "this memory was closed before the call was done"


class Portal:
    """A thread with an event loop; it starts with the first call and ends with `close`."""

    def __init__(self, name: str = "octavo") -> None:
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process = os.getpid()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it over there, and block until it is done."""
        if self.is_here:
            work.close()
            raise RuntimeError(
                "a blocking call from inside the event loop would wait for itself; await its twin"
            )
        try:
            return self.begin(work).result()
        except BaseException as error:
            # Ctrl-C in the waiting thread, at whatever moment, must not leave the work going on.
            self._abandon(work)
            if self._closed and isinstance(error, futures.CancelledError):
                raise StoreClosed(_ENDED) from None
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it over there, and await it here; cancelling the waiter cancels the work."""
        if self.is_here:
            return await work
        future = self.begin(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            # A cancellation that nobody asked for would end the caller's task without a word.
            if self._closed and not (waiter is not None and waiter.cancelling()):
                raise StoreClosed(_ENDED) from None
            raise

    def close(self) -> None:
        """End the thread; what is under way is cancelled, and a second call does nothing but wait for the first."""
        if self._process != os.getpid():  # the thread is the parent's
            return
        with self._starting:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = None
            if loop is not None and thread is not None and thread.is_alive():
                # Under the lock, as all work is begun: what was begun before is there to be cancelled.
                with contextlib.suppress(RuntimeError):  # its loop has ended already
                    loop.call_soon_threadsafe(loop.stop)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    @property
    def is_here(self) -> bool:
        """Whether this is the thread that everything runs on."""
        return threading.current_thread() is self._thread and self._process == os.getpid()

    def begin(self, work: Coroutine[Any, Any, T]) -> "futures.Future[T]":
        """Run it over there, and wait for nothing; cancelling the future cancels the work."""
        # Before the lock, which another thread may have held when the process forked.
        if self._process != os.getpid():
            if self._thread is None:
                self._starting, self._process = threading.Lock(), os.getpid()
            else:
                work.close()
                raise StoreClosed(
                    "this memory was opened before the process was forked; open another in the new one"
                )
        with self._starting:
            try:
                loop = self._start_loop()
            except BaseException:
                work.close()  # or Python warns that it was never awaited
                raise
            return asyncio.run_coroutine_threadsafe(work, loop)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise StoreClosed("this memory was closed; open another")
        if self._loop is None:
            loop = asyncio.new_event_loop()
            _outlive_thread_pools(loop)
            # A daemon: a program that forgets to close must still be able to end.
            thread = threading.Thread(target=_run_loop, args=(loop,), name=self._name, daemon=True)
            thread.start()
            self._loop, self._thread = loop, thread
        return self._loop

    def _abandon(self, work: Coroutine[Any, Any, Any]) -> None:
        """Cancel work that is not done, whether or not its task is known to be there yet."""

        def cancel() -> None:
            tasks = [task for task in asyncio.all_tasks() if task.get_coro() is work]
            for task in tasks:
                task.cancel()
            if not tasks:
                work.close()

        loop = self._loop
        if loop is not None and getattr(work, "cr_frame", work) is not None:  # without a frame it has ended
            with contextlib.suppress(RuntimeError):  # the loop has, and all work with it
                loop.call_soon_threadsafe(cancel)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
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


def _outlive_thread_pools(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop do blocking work itself when Python gives none to thread pools any more: other threads may still call."""
    submit = loop.run_in_executor

    async def run_here(work: Callable[..., T], *args: Any) -> T:
        return work(*args)

    def run_in_executor(
        pool: futures.Executor | None, work: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        try:
            return submit(pool, work, *args)
        except RuntimeError as refused:
            # Any other, such as for want of a thread, may come with the work in the queue: it would be done twice.
            if not str(refused).startswith("cannot schedule new futures"):
                raise
            return loop.create_task(run_here(work, *args))

    loop.run_in_executor = run_in_executor  # type: ignore[method-assign, assignment]


_shared = Portal()  # its thread starts with the first call


def shared_portal() -> Portal:
    """The thread on which blocking calls of all `Twins` run; it ends with the process."""
    return _shared


def _reset_after_fork() -> None:
    global _shared  # noqa: PLW0603 - one for the process is the point
    _shared = Portal()  # a thread does not outlive a fork


call_after_fork(_reset_after_fork)


class Faced(Protocol[B_co]):
    """What has a portal and, behind it, the coroutines it shows."""

    @property
    def portal(self) -> Portal: ...

    @property
    def behind(self) -> B_co: ...


class Closes(Protocol):
    """What can be closed by who blocks and by who awaits."""

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


class Closing:
    """`with` and `async with` for what has `close` and `aclose`: at the end of the block it is closed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self: Closes, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self: Closes, *exc: object) -> None:
        await self.aclose()


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


class Twins:
    """A class whose methods come in two forms, `verb` and `averb` to await: whichever a subclass writes, the other is made.

    A verb written plainly is awaited on another thread; one written as a coroutine is waited for when called plainly.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for verb in dir(cls):
            twin = f"a{verb}"
            if not all(inspect.isfunction(getattr(cls, name, None)) for name in (verb, twin)):
                continue
            # Where in the `__mro__` each is defined first; 0 is the class itself.
            plain, awaited = (
                next(at for at, base in enumerate(cls.__mro__) if name in vars(base)) for name in (verb, twin)
            )
            # Of the very method that is written: through `self`, each of the two would end up in the other.
            if plain < awaited:
                setattr(cls, twin, as_async(getattr(cls, verb)))
            elif awaited < plain:
                setattr(cls, verb, as_plain(getattr(cls, twin)))

    def refuse_deadlock(self) -> None:
        """RuntimeError when a blocking call from here would wait for itself."""

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until a coroutine of this object is done."""
        try:
            self.refuse_deadlock()
        except RuntimeError:
            work.close()  # or Python warns that it was never awaited
            raise
        return shared_portal().call(work)

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work on a thread, so that the event loop goes on."""
        return await asyncio.to_thread(work)


W = TypeVar("W", bound=Twins)


def as_plain(method: Callable[Concatenate[W, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[W, P], T]:
    """The plain form of a coroutine of `Twins`: it blocks until the answer is there."""

    @functools.wraps(method)
    def plain(self: W, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self, *args, **kwargs))

    return _rename(plain, method.__name__.replace("a", "", 1))


def as_async(method: Callable[Concatenate[W, P], T]) -> Callable[Concatenate[W, P], Coroutine[Any, Any, T]]:
    """The awaited form of a plain method of `Twins`: it runs on another thread."""

    @functools.wraps(method)
    async def awaited(self: W, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run_in_thread(functools.partial(method, self, *args, **kwargs))

    return _rename(awaited, f"a{method.__name__}")


def _rename(function: T, name: str) -> T:
    """Give a function the name that tracebacks and `help` show; return it."""
    function.__qualname__ = function.__qualname__.removesuffix(function.__name__) + name  # type: ignore[attr-defined]
    function.__name__ = name  # type: ignore[attr-defined]
    return function


async def run_in_turns(work: Generator[Any, None, T]) -> T:
    """Run a generator to its end in turns with other tasks, which wait no longer than one step and a hundredth of a second.

    A step must be short by itself: while a regular expression runs, neither a task nor a thread gets a turn.
    """
    # One work at a time: of fifty at once, each would take a turn before anybody else is served.
    turn = _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    while True:
        await asyncio.sleep(0)  # before the first one, too: what is long to work on was long to read
        async with turn:
            until = time.perf_counter() + _TURN_SECONDS
            try:
                next(work)
                while time.perf_counter() < until:
                    next(work)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


async def import_aside(name: str) -> None:
    """Import in a thread, once, what takes long to import: no event loop should stand still for it."""
    if name not in _imported:
        await asyncio.to_thread(importlib.import_module, name)
        _imported.add(name)


async def let_others(size: int) -> None:
    """After work on that many bytes or characters, let others have their turn if it may have been long."""
    if size > _LONG:
        await asyncio.sleep(0)


def run_steps(work: Generator[Any, None, T]) -> T:
    """Run a generator to its end in one go; return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
