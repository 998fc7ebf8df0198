"""The index of a folder: a SQLite store whose writes go into the files as well."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from octavo.errors import StoreError
from octavo.kernel.codec import Prepared
from octavo.stores.file.files import Layout
from octavo.stores.file.log import LOCK_SECONDS, FileLog
from octavo.stores.sql.drivers.port import ApplyAll, Batch
from octavo.stores.sql.drivers.sqlite import SQLiteDriver, go_over_to_wal
from octavo.stores.sql.statements import Script
from octavo.stores.sql.store import SQLStore
from octavo.util.file_modes import make_folder, open_file

T = TypeVar("T")
_MEMORY = ":memory:"


class IndexGone(StoreError):  # noqa: N818 - never leaves the file store
    """This index is not, or no longer, the one of the folder: another must be opened."""


class FileIndex(SQLStore):
    """The records of a folder, on disk or, as long as nobody has written there, in memory."""

    def __init__(self, root: Path, layout: Layout, *, on_disk: bool) -> None:
        self._on_disk = on_disk
        super().__init__(_Driver(root, layout, on_disk=on_disk))

    async def write(self, ops: list[Prepared]) -> list[int]:
        """Apply a batch of checked writes."""
        if not self._on_disk:
            raise IndexGone("there is no index on disk yet")
        await self._ready()
        return await self._apply(ops)


def delete_index(root: Path) -> None:
    """Delete the index of a folder, and what SQLite keeps beside it; the next to open the folder makes another."""
    for path in (root / ".octavo").glob("index.db*"):
        path.unlink(missing_ok=True)


class _Driver(SQLiteDriver):
    """SQLite's driver, whose commits are the log's."""

    def __init__(self, root: Path, layout: Layout, *, on_disk: bool) -> None:
        self._place = root / ".octavo" / "index.db"
        self._identity: tuple[int, int] | None = None
        self._log = FileLog(root, layout)
        super().__init__(str(self._place) if on_disk else _MEMORY, "fast", LOCK_SECONDS)

    async def open(self) -> None:
        if self._writer is not None:
            return
        await asyncio.to_thread(self._identify)
        await super().open()
        try:
            await self._worker().run(self._open_log)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await super().close()
        self._log.close()

    async def _commit_all(self, group: list[tuple[Batch, ApplyAll]]) -> list[list[int]]:
        batches = [batch for batch, _ in group]  # what is to be entered is worked out by the log

        def work(_: apsw.Connection) -> list[list[int]]:
            return self._log.commit(batches, self._check)

        return await self._worker().run(work)

    async def read(self, script: Callable[[], Script[T]]) -> T:
        def checked() -> Script[T]:
            self._check()
            return script()

        return await super().read(checked)

    # --- in threads

    def _open_log(self, connection: apsw.Connection) -> None:
        if self.path == _MEMORY:
            self._log.look(connection)
        else:
            go_over_to_wal(connection, LOCK_SECONDS)
            self._log.open(connection)

    def _identify(self) -> None:
        """Remember which file is the index, before a connection to it is opened."""
        if self.path != _MEMORY:
            try:
                make_folder(self._place.parent)
                os.close(open_file(self._place, os.O_RDWR))
            except OSError as error:
                raise StoreError(f"{error.strerror}: {error.filename}") from error
        self._identity = self._identity_now()

    def _check(self) -> None:
        """Fail if the index was deleted by hand, or one was made where there was none."""
        if self._identity_now() != self._identity:
            raise IndexGone("the index of this folder is another one now")

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            there = self._place.stat()
        except OSError:
            return None
        return there.st_ino, there.st_dev
