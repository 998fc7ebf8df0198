"""The file store: plain JSON lines that people, grep and jq can read, kept in step by many processes."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import apsw

from octavo.errors import ConfigError, StoreClosed, StoreError
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, NameCount, Query, Record, Scope, ScopePart, Tally
from octavo.kernel.ports import Finding, Lexicon, Scrubbed
from octavo.kernel.shapes import SHAPES
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore
from octavo.stores.file.files import ROTATE_BYTES, Files, Layout
from octavo.stores.file.log import LOCK_SECONDS, FileLog
from octavo.stores.sql.drivers import Batch
from octavo.stores.sql.drivers.sqlite import SQLiteDriver, go_over_to_wal
from octavo.stores.sql.statements import Script
from octavo.stores.sql.store import SQLStore
from octavo.util import file_modes

T = TypeVar("T")
_MEMORY = ":memory:"
_log = logging.getLogger(__name__)


class _IndexGone(StoreError):  # noqa: N818 - never leaves the file store
    """This index is not, or no longer, the one of the folder: another must be opened."""


class _FileIndex(SQLStore):
    """The records of a folder, on disk or, as long as nobody has written there, in memory."""

    def __init__(self, root: Path, layout: Layout, *, on_disk: bool) -> None:
        self._on_disk = on_disk
        super().__init__(_Driver(root, layout, on_disk=on_disk))

    async def write(self, ops: list[Prepared]) -> list[int]:
        """Apply a batch of checked writes."""
        if not self._on_disk:
            raise _IndexGone("there is no index on disk yet")
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

    async def _commit_all(self, batches: list[Batch]) -> list[list[int]]:
        def work(_: apsw.Connection) -> list[list[int]]:
            return self._log.commit(batches, self._check)

        return await self._worker().run(work)

    async def scrub(self, tables: Sequence[str], progress: Progress) -> Scrubbed:
        on_disk = self.path != _MEMORY
        if on_disk:
            await self._worker().run(lambda _: self._log.scrub(self._check, progress))
        return await super().scrub(tables, progress) if on_disk else Scrubbed()

    async def read(self, script: Callable[[], Script[T]]) -> T:
        def checked() -> Script[T]:
            self._check()
            return script()

        return await super().read(checked)

    # --- in threads

    def _open_log(self, connection: apsw.Connection) -> None:
        on_disk = self.path != _MEMORY
        if on_disk:
            go_over_to_wal(connection, LOCK_SECONDS)
        self._log.open(connection, on_disk=on_disk)

    def _identify(self) -> None:
        """Remember which file is the index, before a connection to it is opened."""
        if self.path != _MEMORY:
            try:
                file_modes.make_folder(self._place.parent)
                os.close(file_modes.open_file(self._place, os.O_RDWR))
            except OSError as error:
                raise StoreError(f"{error.strerror}: {error.filename}") from error
        self._identity = self._identity_now()

    def _check(self) -> None:
        """Fail if the index was deleted by hand, or one was made where there was none."""
        if self._identity_now() != self._identity:
            raise _IndexGone("the index of this folder is another one now")

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            there = self._place.stat()
        except OSError:
            return None
        return there.st_ino, there.st_dev


class FileStore(SearchingStore):
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
        super().__init__()
        one_of("format", format, ("jsonl", "json"))
        one_of("sync", sync, ("flush", "fsync"))
        if rotate_bytes < 1:
            raise ConfigError(f"rotate_bytes must be 1 or more; got {rotate_bytes}")
        self._path = Path(path).absolute()
        self._layout = Layout(format=format, per_session=per_session, rotate_bytes=rotate_bytes, sync=sync)
        self._files = Files(self._path, self._layout)
        self._index: _FileIndex | None = None
        self._abandon()

    @property
    def path(self) -> Path:
        """The directory, as an absolute path."""
        return self._path

    async def tenants(self) -> list[str]:
        """Every tenant that has a record, sorted."""
        await self._ready()
        return await self._ask(lambda index: index.tenants())

    async def size_bytes(self) -> int:
        """How many bytes the data files take, archives included."""
        await self._ready()
        return (await asyncio.to_thread(self._files.used))[1]

    async def describe(self) -> list[Finding]:
        """What this store is and holds, and what deserves attention."""
        files, size = await asyncio.to_thread(self._files.used)
        damaged = await asyncio.to_thread(self._files.damaged)
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
            Finding("access", *file_modes.access(self._path)),
        ]

    async def scrub(self, progress: Progress | None = None) -> Scrubbed:
        """Write the files anew without their dead lines, and the index beside them without what was removed from it."""
        await self._ready()
        scrubbed = await self._ask(lambda index: index.scrub(progress))
        done = ("dead lines dropped from the files", *(f"the index: {word}" for word in scrubbed.done))
        files = tuple(await asyncio.to_thread(self._files.kept))
        return Scrubbed(done=done, files=files, unreached=scrubbed.unreached)

    # --- the index: opened when it is needed, and another one when it is not the folder's any more

    async def _open(self) -> None:
        self._opened = True  # also when this fails or is cancelled half-way: there may be threads to end
        if self._index is None:
            self._index = await self._opened_index(writing=False)

    async def _opened_index(self, *, writing: bool) -> _FileIndex:
        """An index of the folder; in memory as long as nobody has written there, so that looking makes nothing in it."""

        def used() -> bool:
            return not self._path.is_dir() or (self._path / ".octavo").exists()

        on_disk = writing or await asyncio.to_thread(used)
        index = _FileIndex(self._path, self._layout, on_disk=on_disk)
        try:
            return await index.__aenter__()
        except BaseException as error:
            await index.close()
            if not isinstance(error.__cause__, apsw.NotADBError | apsw.CorruptError):
                raise
        _log.warning("the index of %s is damaged and is made anew", self._path)
        await asyncio.to_thread(delete_index, self._path)
        return await _FileIndex(self._path, self._layout, on_disk=on_disk).__aenter__()

    async def _ask(self, verb: Callable[[_FileIndex], Awaitable[T]], *, writing: bool = False) -> T:
        """Ask the index, or the one that has taken its place."""
        self._calls += 1
        self._quiet.clear()
        try:
            while True:
                index = self._index
                try:
                    if index is not None:
                        return await verb(index)
                except (_IndexGone, StoreClosed):
                    pass
                await self._renew(index, writing=writing)
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    async def _renew(self, old: _FileIndex | None, *, writing: bool) -> None:
        """Open another index in the place of one that is of no use, unless somebody else has."""
        async with self._renewing:
            if self._index is old:
                self._index = None
                if old is not None:
                    await old.close()
                self._index = await self._opened_index(writing=writing)

    async def _leave(self) -> None:
        """Nothing: the index leaves by itself, and its threads work for any event loop, one after the other."""

    def _abandon(self) -> None:
        self._renewing = asyncio.Lock()
        self._calls = 0  # under way
        self._quiet = asyncio.Event()

    async def _close(self) -> None:
        while self._calls:
            await self._quiet.wait()
        if self._index is not None:
            await self._index.close()

    # --- the verbs

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        return await self._ask(lambda index: index.write(ops), writing=True)

    async def _find(self, query: Query) -> list[Record]:
        return await self._ask(lambda index: index.find(query))

    async def _heads(self, query: Query) -> list[Head]:
        return await self._ask(lambda index: index.heads(query))

    async def _tally(self, query: Query) -> Tally:
        return await self._ask(lambda index: index.tally(query))

    async def _names(self, query: Query, part: ScopePart, after: str) -> list[NameCount]:
        asked = query.collection, part, query.scope
        limit = query.limit or 0
        return await self._ask(lambda index: index.names(*asked, after=after, limit=limit))

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        return await self._ask(lambda index: index.search(query, terms))

    async def _reindex(self, collection: str, progress: Progress) -> int:
        return await self._ask(lambda index: index.reindex(collection, progress))

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        return await self._ask(lambda index: index.verify(collection, progress))


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse the value of an option that is none of those known."""
    if value not in known:
        raise ConfigError(f"{name} must be one of {', '.join(known)}; got {value!r}")
