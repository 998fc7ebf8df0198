"""The file store: plain JSON lines that people, grep and jq can read, kept in step by many processes."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from octavo.errors import ConfigError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Query, Scope
from octavo.kernel.ports import Finding, Scrubbed
from octavo.kernel.shapes import SHAPES
from octavo.stores.base import Progress
from octavo.stores.file.files import ROTATE_BYTES, DataFiles, FileLayout
from octavo.stores.file.log import LOCK_SECONDS, FileLog
from octavo.stores.sql.drivers import Batch
from octavo.stores.sql.drivers.sqlite import SQLiteDriver, Worker, go_over_to_wal
from octavo.stores.sql.statements import Script
from octavo.stores.sql.store import SQLStore
from octavo.util import disk

T = TypeVar("T")
_MEMORY = ":memory:"
_log = logging.getLogger(__name__)


class _IndexGone(StoreError):  # noqa: N818 - never leaves the file store
    """This index is not, or no longer, the one of the folder: another must be opened."""


def delete_index(root: Path) -> None:
    """Delete the index of a folder, and what SQLite keeps beside it; the next to open the folder makes another."""
    for path in (root / ".octavo").glob("index.db*"):
        path.unlink(missing_ok=True)


class _FolderDriver(SQLiteDriver):
    """SQLite's driver for the index of a folder, whose commits are the log's.

    The index is in memory as long as nobody has written to the folder, so that looking makes nothing in it, and where it
    cannot be written to. When it is not the folder's any more, another one is opened, and what was asked of it is asked again.
    """

    def __init__(self, root: Path, layout: FileLayout) -> None:
        self._root = root
        self._file = root / ".octavo" / "index.db"
        self._identity: tuple[int, ...] | None = None
        self._log = FileLog(root, layout)
        self._usable: Worker | None = None  # the writer, once its index is open
        self._finished = False
        self._made: dict[str, Callable[[], Script[bool]]] = {}  # tables that each index must have
        super().__init__(_MEMORY, "fast", LOCK_SECONDS)

    async def open(self) -> None:
        if self._usable is None:
            await self._open_index(writing=False)

    async def close(self) -> None:
        self._usable = None
        await super().close()
        self._log.close()

    async def finish(self) -> None:
        """Open no other index any more, once whoever opens one now has done so."""
        self._finished = True
        async with self._renewing:
            pass

    def abandon(self) -> None:
        super().abandon()
        self._renewing = asyncio.Lock()

    async def make(self, name: str, script: Callable[[], Script[bool]]) -> bool:
        self._made[name] = script
        make = super().make
        return await self._with_index(lambda: make(name, script))

    async def read(self, script: Callable[[], Script[T]]) -> T:
        def check_first() -> Script[T]:
            self._check_file()
            return script()

        read = super().read
        return await self._with_index(lambda: read(check_first))

    async def write(self, script: Callable[[], Script[T]]) -> T:
        write = super().write
        return await self._with_index(lambda: write(script))

    async def commit(self, batch: Batch) -> list[int]:
        commit = super().commit
        return await self._with_index(lambda: commit(batch), writing=True)

    async def _commit_all(self, batches: list[Batch]) -> list[list[int]]:
        if self.path == _MEMORY:
            raise _IndexGone("there is no index on disk yet")
        return await self._worker().run(lambda _: self._log.commit(batches, self._check_file))

    async def scrub(self, tables: Sequence[str], progress: Progress) -> Scrubbed:
        if self.path == _MEMORY:
            return Scrubbed()
        await self._with_index(
            lambda: self._worker().run(lambda _: self._log.scrub(self._check_file, progress))
        )
        return await super().scrub(tables, progress)

    # --- one index after the other

    async def _with_index(self, ask: Callable[[], Awaitable[T]], *, writing: bool = False) -> T:
        """Ask the folder's index, or the one that has taken its place."""
        while True:
            if self._usable is None:
                async with self._renewing:
                    if self._usable is None:  # else somebody has opened one meanwhile
                        if self._finished:
                            raise StoreClosed("the file store was closed")
                        await self._open_index(writing=writing)
            opened = self._usable
            try:
                return await ask()
            except _IndexGone:
                async with self._renewing:
                    if self._usable is opened:  # else somebody has opened another
                        await self.close()

    async def _open_index(self, *, writing: bool) -> None:
        try:
            on_disk = writing or await asyncio.to_thread(self._is_used)
            self.path = str(self._file) if on_disk else _MEMORY
            await asyncio.to_thread(self._identify)
            await super().open()
            await self._worker().run(self._open_log)
            for script in self._made.values():
                await super().write(script)
            self._usable = self._writer
        except BaseException as error:
            await self.close()
            if not isinstance(error.__cause__, apsw.NotADBError | apsw.CorruptError):
                raise
            _log.warning("the index of %s is damaged and is made anew", self._root)
            await asyncio.to_thread(delete_index, self._root)
            await self._open_index(writing=writing)

    # --- in threads

    def _is_used(self) -> bool:
        if not self._root.is_dir():
            return True
        return self._file.parent.exists() and not disk.write_obstacle(str(self._file))

    def _open_log(self, connection: apsw.Connection) -> None:
        on_disk = self.path != _MEMORY
        if on_disk:
            go_over_to_wal(connection, LOCK_SECONDS)
        self._log.open(connection, on_disk=on_disk)

    def _identify(self) -> None:
        """Remember which file is the index, before a connection to it is opened."""
        if self.path != _MEMORY:
            if why := disk.write_obstacle(str(self._file)):
                raise StoreUnavailable(f"{self._file}: {why}")
            try:
                disk.make_folder(self._file.parent)
                os.close(disk.open_file(self._file, os.O_RDWR))
            except OSError as error:
                raise StoreError(f"{error.strerror}: {error.filename}") from error
        self._identity = self._identity_now()

    def _check_file(self, _: object = None) -> None:
        """Fail if the index was deleted by hand, or one was made where there was none."""
        if self._identity_now() != self._identity:
            raise _IndexGone("the index of this folder is another one now")

    def _identity_now(self) -> tuple[int, ...] | None:
        """Which file the index is; beside one in memory also when others have last written to it."""
        try:
            there = self._file.stat()
            if self.path == _MEMORY and (log := Path(f"{self._file}-wal")).exists():
                return there.st_ino, there.st_dev, log.stat().st_mtime_ns
        except OSError:
            return None
        return there.st_ino, there.st_dev


class FileStore(SQLStore):
    """Records as lines of JSON in a directory, one file per session.

    An acknowledgement means that the record survives `kill -9` (`sync="flush"`) or a power cut (`sync="fsync"`).
    Questions are answered by an index beside the files, `.octavo/index.db`, which may be deleted at any time. A file that
    a person edits is read again when the store is opened, or next writes to that file.
    `format="json"` rewrites the session's file with every write, so that it always loads whole: for small files.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",  # noqa: A002 - the documented name
        per_session: bool = True,
        rotate_bytes: int = ROTATE_BYTES,
        sync: str = "flush",
    ) -> None:
        check_option("format", format, ("jsonl", "json"))
        check_option("sync", sync, ("flush", "fsync"))
        if rotate_bytes < 1:
            raise ConfigError(f"rotate_bytes must be 1 or more; got {rotate_bytes}")
        self._path = Path(path).absolute()
        self._layout = FileLayout(
            format=format, per_session=per_session, rotate_bytes=rotate_bytes, sync=sync
        )
        self._files = DataFiles(self._path, self._layout)
        self._index = _FolderDriver(self._path, self._layout)
        super().__init__(self._index)

    @property
    def path(self) -> Path:
        """The directory, as an absolute path."""
        return self._path

    async def size_bytes(self) -> int:
        """How many bytes the data files take, archives included."""
        await self._ensure_open()
        return (await asyncio.to_thread(self._files.measure))[1]

    async def describe(self) -> list[Finding]:
        """What this store is and holds, and what deserves attention."""
        files, size = await asyncio.to_thread(self._files.measure)
        damaged = await asyncio.to_thread(self._files.count_damaged)
        records = 0
        for tenant in await self.tenants():
            for collection in SHAPES:
                records += (await self.tally(Query(collection=collection, scope=Scope(tenant=tenant)))).total
        durability = {"flush": "survives kill -9", "fsync": "survives power loss"}[self._layout.sync]
        warning = "unreadable lines were set aside; look into .octavo/damaged" if damaged else ""
        return [
            Finding("store", "file"),
            Finding("path", str(self._path)),
            Finding("format", self._layout.format),
            Finding("files", str(files)),
            Finding("records", str(records)),
            Finding("bytes", str(size)),
            Finding("durability", f"{self._layout.sync}: {durability}"),
            Finding("damaged lines", str(damaged), warning),
            Finding("access", *disk.describe_access(self._path)),
        ]

    async def scrub(self, progress: Progress | None = None) -> Scrubbed:
        """Write the files anew without their dead lines, and the index beside them without what was removed from it."""
        scrubbed = await super().scrub(progress)
        done = ("dead lines dropped from the files", *(f"the index: {word}" for word in scrubbed.done))
        files = tuple(await asyncio.to_thread(self._files.list_files))
        return Scrubbed(done=done, files=files, unreached=scrubbed.unreached)

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        self._writes += 1
        try:
            return await super()._apply(ops)
        finally:
            self._writes -= 1
            self._written.set()

    def _begin(self) -> None:
        super()._begin()
        self._writes = 0  # under way
        self._written = asyncio.Event()

    async def _close(self) -> None:
        while self._writes > 0:
            self._written.clear()
            await self._written.wait()
        await self._index.finish()
        await super()._close()


def check_option(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse the value of an option that is none of those known."""
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}; got {value!r}")
