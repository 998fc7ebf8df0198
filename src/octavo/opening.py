"""What opens on first use, once, and is closed by whoever opened it: stores and vector indexes alike."""

import asyncio
import copy
from typing import ClassVar, Self

from octavo.errors import StoreClosed, StoreUnavailable


class Opening:
    """A backend with `_open` and `_close` around its use; parallel first uses open it once."""

    opener: ClassVar[str]  # the call that makes another one, for an error to name

    def __init__(self) -> None:
        self._opened = False
        self._closed = False
        self._gate: asyncio.Lock | None = None
        self._refusal: StoreUnavailable | None = None  # what the last attempt to open it came to

    async def close(self) -> None:
        """Finish what was begun and let go of the backend; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._opened:
            await self._close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _ready(self) -> None:
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another with {self.opener}")
        if self._opened:
            return
        if self._gate is None:
            self._gate = asyncio.Lock()
        refusal = self._refusal
        async with self._gate:
            if not self._opened:
                if self._refusal is not None and self._refusal is not refusal:
                    # Whoever came while it was tried has had a try: one after the other, the last would wait for all.
                    raise copy.copy(self._refusal) from self._refusal.__cause__
                try:
                    await self._open()
                except StoreUnavailable as error:
                    self._refusal = error
                    raise
                self._opened, self._refusal = True, None
                if self._closed:  # closed while it was opening: nobody else would let go of what was opened
                    await self._close()
                    raise StoreClosed(f"this {type(self).__name__} was closed while it was opened")

    async def _open(self) -> None:
        """Connect and prepare; runs once, before the first verb."""

    async def _close(self) -> None:
        """Let go of what `_open` took."""
