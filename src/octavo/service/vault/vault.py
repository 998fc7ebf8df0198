"""The vault: Markdown files that people edit, kept together with the documents of a store."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from octavo.errors import OctavoError, StoreClosed, StoreError
from octavo.kernel.ids import now
from octavo.kernel.model import Scope
from octavo.kernel.ports import Store
from octavo.service.vault.documents import Document, DocumentVersion, Listed, Shelf, kept, version_of
from octavo.service.vault.folder import Folder, Problem, Unusable
from octavo.service.vault.guard import Guard
from octavo.service.vault.keys import Place, place
from octavo.service.vault.ledger import Ledger
from octavo.service.vault.reading import Found, moment, read
from octavo.service.vault.reports import SyncReport, VaultStatus
from octavo.service.vault.settling import Settling
from octavo.service.vault.syncing import Syncing
from octavo.service.vault.writing import Writing

T = TypeVar("T")
_log = logging.getLogger("octavo.vault")

_ROUNDS = 3
_SOON_SECONDS = 0.5  # what has just changed is looked at again, to see whether it is whole
_RENAMING_SECONDS = 0.05  # an editor that renames a file and writes it anew is faster


class Vault:
    """Documents by key (`system`, `world`, `users/alice`, `experiences/x`, `facts/y`), as files and in a store.

    Reads come from the files and need no store. The file that a person edited wins over the store; every text that gives
    way is kept as a version. The store that is handed in stays open.
    """

    def __init__(
        self,
        root: str | Path,
        store: Store,
        *,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        clock: Callable[[], datetime] = now,
        watch_seconds: float = 2.0,
        patience_seconds: float = 10.0,
    ) -> None:
        self.root = Path(root)
        self._store = store
        self._watch_seconds = watch_seconds
        self._folder = Folder(self.root)
        self._shelf = Shelf(scope)
        ledger = Ledger(self.root)
        self._view = Ledger(self.root)  # for readers, who do not hold the lock
        self._guard = Guard(self.root, patience_seconds)
        settling = Settling(self._folder, ledger, self._shelf, store, clock)
        # Half of the time is for the store: a caller who waits no longer than that is told what became of the other half.
        self._writing = Writing(
            self._folder, ledger, self._shelf, store, settling, clock, patience_seconds / 2
        )
        self._syncing = Syncing(self._folder, ledger, self._view, self._guard, settling)
        self._underway: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._last_error: str | None = None
        self._closed = False

    # Documents.

    async def get(self, key: str) -> Document | None:
        """The document as its file says it now; one that has no file yet, as the store says it."""
        where = self._open(key)
        found = await asyncio.to_thread(self._peek, where)
        if found.content is None and found.entry is not None:
            await asyncio.sleep(_RENAMING_SECONDS)  # deleted, or in the middle of being saved
            found = await asyncio.to_thread(self._peek, where)
        if found.content is not None:
            return found.document
        return await self._stored(where) if found.entry is None else None

    async def put(self, key: str, body: str, front: dict[str, Any] | None = None) -> Document:
        """Keep a text, in the file and in the store; `front=None` keeps the front matter there is.

        When the store is down the file has it all the same, and `status` is "queued".
        """
        where = self._open(key)
        return await self._exclusively(lambda: self._writing.put(where, body, front))

    async def remove(self, key: str) -> bool:
        """Delete the document, record and file; its text stays as a version. False when there was none."""
        where = self._open(key)
        return await self._exclusively(lambda: self._writing.remove(where))

    async def versions(self, key: str) -> list[DocumentVersion]:
        """What the document said before, oldest first, each with the reason why it gave way."""
        where = self._open(key)
        return [version_of(record) for record in await self._store.find(self._shelf.history(where.key))]

    async def list(self, folder: str | None = None) -> list[Listed]:
        """The documents that have files, by key; given a `folder` such as "users", only those below it."""
        self._open()
        scan, entries = await self._syncing.scanned()
        begins = "" if not folder else folder.strip("/") + "/"
        listed = []
        for key, (path, stamp) in sorted(scan.found.items()):
            if not key.startswith(begins):
                continue
            entry = entries.get(key)
            same = entry if entry and entry.stamp == stamp else None
            listed.append(
                Listed(
                    key=key,
                    kind=place(key).kind,
                    path=path,
                    size=stamp.size,
                    version=entry.version if entry else 0,
                    updated_at=same.updated_at if same else moment(stamp),
                    synced=same is not None and same.synced,
                )
            )
        return listed

    # Files and store together.

    async def sync(self) -> SyncReport:
        """Bring all files and the store together; when the store is down, say so, and go on the next time."""
        self._open()
        return await self._finished(self._syncing.sync())

    async def poll(self) -> SyncReport:
        """What the watch does each time: take what was edited, once two polls have seen it the same."""
        self._open()
        return await self._finished(self._syncing.poll())

    async def status(self) -> VaultStatus:
        """How the vault stands; the store is not asked."""
        self._open()
        scan, entries = await self._syncing.scanned()
        changed, _ = await asyncio.to_thread(self._syncing.compared, scan, entries)
        problems = scan.problems
        if self._view.damaged:
            problems = [*problems, Problem("metadata.json", "damaged; the next sync makes it anew")]
        return VaultStatus(
            root=str(self.root),
            documents=dict(sorted(Counter(place(key).kind for key in scan.found).items())),
            unsynced=sorted({*changed, *(key for key, entry in entries.items() if not entry.synced)}),
            problems=problems,
            synced_at=max((entry.synced_at for entry in entries.values() if entry.synced_at), default=None),
            watching=self._watch is not None,
            last_error=self._last_error,
        )

    # Watching.

    def start(self) -> None:
        """Watch for edits from now on, on the running event loop; a second call does nothing."""
        self._open()
        if self._watch is None and self._watch_seconds > 0:
            self._watch = asyncio.get_running_loop().create_task(self._watching(), name="octavo-vault")

    async def stop(self) -> None:
        """Watch no more; a sync under way is finished."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        while self._underway:
            await asyncio.gather(*self._underway, return_exceptions=True)

    async def close(self) -> None:
        """Finish what is under way, watch no more, let go of the lock; a second call does nothing."""
        self._closed = True
        await self.stop()
        self._guard.close()

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _watching(self) -> None:
        look = self.sync
        while True:
            try:
                report = await look()
                look = self.poll
                self._tell(report.store_error)
            except (OctavoError, OSError) as error:
                self._tell(str(error))
            soon = min(self._watch_seconds, _SOON_SECONDS)
            await asyncio.sleep(soon if self._syncing.restless else self._watch_seconds)

    def _tell(self, error: str | None) -> None:
        if error is not None and self._last_error is None:
            _log.warning("the vault %s is not in step with its store: %s", self.root, error)
        elif error is None and self._last_error is not None:
            _log.info("the vault %s is in step with its store again", self.root)
        self._last_error = error

    # How it is done.

    def _open(self, key: str = "system") -> Place:
        if self._closed:
            raise StoreClosed("this Vault was closed; make another one")
        return place(key)

    async def _exclusively(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it while nobody else writes here; once more when a person saved the same file in the same moment."""

        async def alone() -> T:
            for left in reversed(range(_ROUNDS)):
                try:
                    await asyncio.to_thread(self._folder.prepare)
                    async with self._guard.held():
                        return await work()
                except Unusable as error:
                    if not (left and error.passing):
                        raise StoreError(f"nothing was written to the vault {self.root}: {error}") from error
            raise AssertionError  # the last round returns or raises

        return await self._finished(alone())

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it to the end even if the caller is cancelled: half of it would have to be found out and mended."""
        task = asyncio.ensure_future(work)
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        task.add_done_callback(_looked_at)
        return await asyncio.shield(task)

    def _peek(self, where: Place) -> Found:
        self._view.load(aside=False)
        return read(self._folder, where, self._view.entries.get(where.key))

    async def _stored(self, where: Place) -> Document | None:
        for record in await self._store.find(self._shelf.all(where.collection, (where.key,))):
            held = kept(record)
            return Document(
                key=where.key,
                kind=where.kind,
                body=held.content.body,
                front=held.content.front,
                updated_at=record.updated_at or record.created_at,
                version=held.version,
            )
        return None


def _looked_at(task: "asyncio.Task[Any]") -> None:
    """Take the error of a task whose caller was cancelled; or Python complains that nobody did."""
    if not task.cancelled():
        task.exception()
