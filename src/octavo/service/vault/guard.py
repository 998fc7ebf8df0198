"""One at a time: the lock of a vault, between the tasks of a process and between processes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from octavo.errors import StoreError, StoreUnavailable
from octavo.util.disk import FileLock

_NAME = ".octavo.lock"
_SOON_SECONDS = 0.01


class Guard:
    """Held while files, store and metadata.json are brought together; the kernel lets go of it when its holder dies."""

    def __init__(self, root: Path, patience_seconds: float) -> None:
        self._root = root
        self._patience = patience_seconds
        self._here = asyncio.Lock()
        self._there = FileLock(root / _NAME)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the lock, but not for ever."""
        async with self._here:
            await self._take()
            try:
                yield
            finally:
                self._there.release()

    async def _take(self) -> None:
        until = time.monotonic() + self._patience
        try:
            while not self._there.take():
                if time.monotonic() > until:
                    raise StoreUnavailable(f"another process is at work on the vault {self._root}; try again")
                await asyncio.sleep(_SOON_SECONDS)
        except OSError as error:
            raise StoreError(f"the vault {self._root} cannot be locked: {error.strerror}") from error

    def close(self) -> None:
        """Let go of the lock's file."""
        self._there.close()
