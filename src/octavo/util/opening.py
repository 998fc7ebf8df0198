"""What opens on first use, once, and is closed by whoever opened it: stores and vector indexes alike.

Connections, tasks and locks belong to the event loop they were made on, and threads and connections to their process. So what
was opened is used by one loop, until that has ended, and the next one opens it anew; and never by the child of a fork.
"""

import asyncio
import copy
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any, ClassVar, Self, SupportsIndex

from octavo.errors import StoreClosed, StoreError, StoreUnavailable
from octavo.util.system import call_after_fork

# Where something is open that was closed, or is the parent's: in no loop, nor without one.
_NOWHERE = object()


class Opening:
    """A backend with `_open` and `_close` around its use; parallel first uses open it once."""

    opener: ClassVar[str]  # the call that makes another one, for an error to name

    def __init__(self) -> None:
        #: None while it has to be opened. Without a loop a store that waits for nothing, as one in memory, works all the same.
        self._open_on: asyncio.AbstractEventLoop | object | None = None
        self._home: asyncio.AbstractEventLoop | None = None  # whose it is, from the first use on
        self._opened = False  # whether it ever was, so that there is something to close
        self._closed = False
        self._forked = False
        self._gate: asyncio.Lock | None = None
        self._stay: AsyncGenerator[None, None] | None = None
        self._refusal: StoreUnavailable | None = None  # what the last attempt to open it came to

    async def close(self) -> None:
        """Finish what was begun and let go of the backend; a second call does nothing."""
        if self._closed:
            return
        if self._home is not None:
            self._settle(asyncio.get_running_loop())
        self._closed, self._open_on = True, _NOWHERE
        if self._forked:  # all that is open is the parent's
            return
        if self._opened:
            await self._close()
        if self._stay is not None:
            await self._stay.aclose()

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._home is None:
            return super().__reduce_ex__(protocol)
        # A copy of a lock or a connection would take the original's along when it goes.
        raise TypeError(
            f"a {type(self).__name__} in use holds connections and cannot be copied or pickled; "
            f"share it, or open another with {self.opener}"
        )

    async def __aenter__(self) -> Self:
        await self._ensure_open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _ensure_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another with {self.opener}")
        if self._forked:
            raise StoreClosed(
                f"this {type(self).__name__} was opened before the process was forked, and its connections are the parent's; "
                f"open another in the child with {self.opener}"
            )
        loop = asyncio.get_running_loop()
        if self._open_on is loop:
            return
        refusal = self._refusal
        async with self._settle(loop):
            if self._open_on is not loop:
                if self._refusal is not None and self._refusal is not refusal:
                    # Whoever came while it was tried has had a try: one after the other, the last would wait for all.
                    raise copy.copy(self._refusal)
                try:
                    await self._open()
                except StoreUnavailable as error:
                    # Without its traceback, which holds all that failed to open.
                    self._refusal = copy.copy(error)
                    raise
                self._opened, self._refusal = True, None
                if self._closed:  # closed while it was opening: nobody else would let go of what was opened
                    await self._close()
                    raise StoreClosed(f"this {type(self).__name__} was closed while it was opened")
                self._stay = self._leave_with_loop()
                await anext(self._stay)
                self._open_on = loop

    def _settle(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        """Bind this to the running event loop; return the lock around opening. StoreError when another loop uses it."""
        with _settling:
            if self._home is not loop and not self._forked:
                if self._home is not None and not self._home.is_closed():
                    raise StoreError(
                        f"this {type(self).__name__} is in use in another event loop; open one store for each event loop "
                        f"with {self.opener}"
                    )
                if self._home is not None:
                    self._abandon()
                self._home, self._open_on = loop, None
                self._gate = self._stay = None
                _settled.add(self)
            self._gate = self._gate or asyncio.Lock()
            return self._gate

    async def _leave_with_loop(self) -> AsyncGenerator[None, None]:
        """Wait for the end of the event loop, which closes its generators, then leave: no connection outlives its loop."""
        try:
            yield
        finally:
            if not self._closed and not self._forked:
                self._open_on = None
                await self._leave()

    async def _open(self) -> None:
        """Connect and prepare; runs once in each event loop, before the first verb."""

    async def _leave(self) -> None:
        """Let go of what belongs to the event loop, which is ending; the next one opens it again."""
        await self._close()

    def _abandon(self) -> None:
        """Forget what belonged to an event loop that has ended."""

    async def _close(self) -> None:
        """Let go of what `_open` took."""


_settling = threading.Lock()  # several threads may come to one store at the same time
_settled: "weakref.WeakSet[Opening]" = weakref.WeakSet()
_inherited: list[Opening] = []


def _reset_after_fork() -> None:
    """In the child: what was opened is neither used nor collected, which would close the parent's connections."""
    global _settling  # noqa: PLW0603 - another thread may have held it
    _settling = threading.Lock()
    for opened in list(_settled):
        opened._forked, opened._open_on = True, _NOWHERE  # noqa: SLF001 - its own class
        _inherited.append(opened)


call_after_fork(_reset_after_fork)
