"""The vault: Markdown files that people edit, kept together with the documents of a store."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from octavo.errors import OctavoError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ids import now
from octavo.kernel.model import Scope
from octavo.kernel.ports import Store
from octavo.service.vault.documents import (
    Document,
    DocumentRecords,
    DocumentVersion,
    Listed,
    SyncReport,
    VaultStatus,
    version_of,
)
from octavo.service.vault.folder import Folder, Problem, Stamp, Unusable, VaultScan
from octavo.service.vault.ledger import Ledger, LedgerEntry, look
from octavo.service.vault.names import DocumentAddress, address_of
from octavo.service.vault.settling import Settler, look_at_error
from octavo.util.disk import FileLock

T = TypeVar("T")
_log = logging.getLogger("octavo.vault")

_ROUNDS = 3
_BATCH = 200
_BATCH_BYTES = 4 * 2**20
_SOON_SECONDS = 0.5  # what has just changed is looked at again, to see whether it is whole
_RENAMING_SECONDS = 0.05  # an editor that renames a file and writes it anew is faster
_LOCK_SECONDS = 0.01  # between two looks whether another process has let go


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
        self._patience_seconds = patience_seconds
        self._folder = Folder(self.root)
        self._ledger = Ledger(self._folder)
        self._records = DocumentRecords(scope)
        # Half of the time is for the store: a caller who waits no longer than that is told what became of the other half.
        half = patience_seconds / 2
        self._settler = Settler(self._folder, self._ledger, self._records, store, clock, half)
        self._lock, self._file_lock = asyncio.Lock(), FileLock(self.root / ".octavo.lock")
        self._underway: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._swept = False
        self._listed_at, self._listing_seconds = 0.0, 0.0
        self._restless: dict[str, Stamp | None] = {}  # changed files, as the last poll saw them
        self._last_error: str | None = None
        self._closed = False

    # Documents.

    async def get(self, key: str) -> Document | None:
        """The document as its file says it now; one that has no file yet, as the store says it."""
        address = self._open(key)
        found = await asyncio.to_thread(self._settler.read, address)
        if found.content is None and found.entry is not None:
            await asyncio.sleep(_RENAMING_SECONDS)  # deleted, or in the middle of being saved
            found = await asyncio.to_thread(self._settler.read, address)
        if found.content is not None:
            return found.document
        if found.entry is not None:
            return None
        kept = self._records.read_held(await self._store.find(self._records.all(address.collection, (key,))))
        if (held := kept.get(key)) is not None:
            record = held.record
            return Document(
                key=key,
                kind=address.kind,
                body=held.content.body,
                front=held.content.front,
                updated_at=record.updated_at or record.created_at,
                version=held.version,
            )
        return None

    async def put(self, key: str, body: str, front: dict[str, Any] | None = None) -> Document:
        """Keep a text, in the file and in the store; `front=None` keeps the front matter there is.

        When the store is down the file has it all the same, and `status` is "queued".
        """
        address = self._open(key)
        return await self._run_alone(lambda: self._settler.put(address, body, front))

    async def remove(self, key: str) -> bool:
        """Delete the document, record and file; its text stays as a version. False when there was none."""
        address = self._open(key)
        return await self._run_alone(lambda: self._settler.remove(address))

    async def erase(self, user: str, store: Store | None) -> list[str]:
        """Delete a user's documents for good, files, records and versions; answer what the files said.

        Done under the vault's lock: whoever watches these files would otherwise put back what is half gone. The records are
        removed from this store, which queues nothing. Without one, nothing is deleted.
        """
        self._open()
        return await self._run_alone(lambda: self._erase(user, store))

    async def _erase(self, user: str, store: Store | None) -> list[str]:
        entries = dict(self._ledger.load())
        found = (await asyncio.to_thread(self._folder.scan, {})).found
        keys = [key for key in {*entries, *found} if self._records.scope_of(key).user == user]
        named = {found[key][0] for key in keys if key in found} | {
            entries[key].path for key in keys if key in entries
        }
        there = [path for each in sorted(named) if (path := self.root / each).is_file()]
        texts = [path.read_text(errors="replace") for path in there]
        if store is not None and keys:
            await store.apply([op for key in keys for op in self._records.erase_ops(key)])
            for path in there:
                path.unlink(missing_ok=True)
            left = {key: entry for key, entry in entries.items() if key not in keys}
            await asyncio.to_thread(self._ledger.save, left)
            self._ledger.drop_damaged()
        return texts

    async def versions(self, key: str) -> list[DocumentVersion]:
        """What the document said before, oldest first, each with the reason why it gave way."""
        query = self._records.versions(self._open(key).key)
        return [version_of(record) for record in self._records.drop_others(await self._store.find(query))]

    async def list(self, folder: str | None = None) -> list[Listed]:
        """The documents that have files, by key; given a `folder` such as "users", only those below it."""
        self._open()
        scan, entries = await asyncio.to_thread(self._scan)
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
                    kind=address_of(key).kind,
                    path=path,
                    size=stamp.size,
                    version=entry.version if entry else 0,
                    updated_at=same.updated_at if same else stamp.written_at,
                    synced=same is not None and same.synced,
                )
            )
        return listed

    async def status(self) -> VaultStatus:
        """How the vault stands; the store is not asked."""
        self._open()
        scan, entries = await asyncio.to_thread(self._scan)
        changed, _, _ = await asyncio.to_thread(self._compare, scan, entries)
        problems = scan.problems
        if self._ledger.damaged:
            problems = [*problems, Problem("metadata.json", "damaged; the next sync makes it anew")]
        return VaultStatus(
            root=str(self.root),
            documents=dict(sorted(Counter(address_of(key).kind for key in scan.found).items())),
            unsynced=sorted({*changed, *(key for key, entry in entries.items() if not entry.synced)}),
            problems=problems,
            synced_at=max((entry.synced_at for entry in entries.values() if entry.synced_at), default=None),
            watching=self._watch is not None,
            last_error=self._last_error,
        )

    # Files and store together.

    async def sync(self) -> SyncReport:
        """Bring all files and the store together; when the store is down, say so, and go on the next time."""
        self._open()
        return await self._to_the_end(self._sync())

    async def poll(self) -> SyncReport:
        """What the watch does each time: take what was edited, once two polls have seen it the same."""
        self._open()
        # The larger the store, the less often it is read: this costs a fiftieth of the time at most.
        listing = time.monotonic() - self._listed_at >= 50 * self._listing_seconds
        return await self._to_the_end(self._sync(patient=True, listing=listing))

    async def _sync(self, *, patient: bool = False, listing: bool = True) -> SyncReport:
        """Bring files and store together. `patient` leaves alone what is just being changed."""
        report = SyncReport()
        if missing := await asyncio.to_thread(self._folder.prepare):
            await self._restore(missing)
        if not self._swept:
            await asyncio.to_thread(self._folder.sweep)
            self._swept = True
        listed = await self._list_store(report) if listing else None
        scan, entries = await asyncio.to_thread(self._scan)
        report.problems += scan.problems
        changed, same, touched = await asyncio.to_thread(self._compare, scan, entries)
        unsettled = self._find_unsettled(changed, scan) if patient else set[str]()
        keys = changed | {key for key, entry in entries.items() if not entry.synced}
        if listed is not None:
            keys |= {key for key in same if listed.get(key) != entries[key].md5}
            keys |= {key for key in listed if key not in scan.found}
        keys = {key for key in keys - unsettled if not _is_hidden(key, scan, entries)}
        report.unchanged = len(same - keys - touched)
        report.pending = sorted(unsettled)
        if report.store_error is not None:
            report.pending = sorted(keys | unsettled)
        else:
            # Of those that were merely touched, the stamps are noted, so that they need not be read the next time.
            await self._settle_batches(sorted(keys | touched), scan, report)
        return report

    async def _restore(self, tops: set[str]) -> None:
        """A whole tree that is missing was lost, not edited away: what was in it comes back from the store."""
        async with self._hold_lock():
            entries = await asyncio.to_thread(self._ledger.load)
            kept = {key: entry for key, entry in entries.items() if entry.path.partition("/")[0] not in tops}
            if len(kept) < len(entries):
                _log.warning("%s is missing in %s; it is restored", " and ".join(sorted(tops)), self.root)
                await asyncio.to_thread(self._ledger.save, kept)

    async def _list_store(self, report: SyncReport) -> dict[str, str] | None:
        begun = time.monotonic()
        try:
            return await self._settler.list_digests(report)
        except StoreUnavailable as error:
            report.store_error = str(error)
            return None
        finally:
            self._listed_at = time.monotonic()
            self._listing_seconds = self._listed_at - begun if report.store_error is None else 0.0

    def _scan(self) -> tuple[VaultScan, dict[str, LedgerEntry]]:
        """The files there are, and the entries of metadata.json. Blocking."""
        entries = self._ledger.load()
        return self._folder.scan({key: entry.path for key, entry in entries.items()}), entries

    def _compare(
        self, scan: VaultScan, entries: dict[str, LedgerEntry]
    ) -> tuple[set[str], set[str], set[str]]:
        """The keys whose files are not as they were when files and store last agreed, and those that are. Blocking.

        Only files that have another stamp are read. Those that were merely touched, or written in the very moment they
        were read, are among those that are as they were, and answered by themselves too.
        """
        changed, same, touched = set[str](), set[str](), set[str]()
        for key, (path, stamp) in scan.found.items():
            entry = entries.get(key)
            if entry is None or entry.path != path:
                changed.add(key)
                continue
            if not entry.vouches(path, stamp):
                try:
                    found = look(self._folder, address_of(key), entry, path)
                except Unusable:
                    found = None
                if found is None or not found.settled:
                    changed.add(key)
                    continue
                touched.add(key)
            same.add(key)
        gone = {key for key in entries if key not in scan.found and not _is_hidden(key, scan, entries)}
        return changed | gone, same, touched

    def _find_unsettled(self, changed: set[str], scan: VaultScan) -> set[str]:
        """Those of the changed files that the poll before saw otherwise: an editor may be in the middle of them."""
        seen = {key: scan.found[key][1] if key in scan.found else None for key in changed}
        rested = {key for key in seen if key in self._restless and self._restless[key] == seen[key]}
        self._restless = {key: stamp for key, stamp in seen.items() if key not in rested}
        return changed - rested

    async def _settle_batches(self, keys: Sequence[str], scan: VaultScan, report: SyncReport) -> None:
        """Have these documents settled; the lock is held for a batch, not for all of them."""
        paths = {key: path for key, (path, _) in scan.found.items()}
        while keys:
            size, most = 0, 0
            while most < min(len(keys), _BATCH) and size < _BATCH_BYTES:
                size += scan.found[keys[most]][1].size if keys[most] in scan.found else 0
                most += 1
            batch, keys = keys[:most], keys[most:]
            try:
                for _ in range(_ROUNDS):
                    async with self._hold_lock():
                        batch = await self._settler.settle(batch, paths, report)
                    if not batch:
                        break
            except StoreUnavailable as error:
                report.store_error = str(error)
                report.pending += [*batch, *keys]
                return
            report.pending += batch

    # Watching.

    def start(self) -> None:
        """Watch for edits from now on, on the running event loop; a second call does nothing."""
        self._open()
        if self._watch is None and self._watch_seconds > 0:
            self._watch = asyncio.get_running_loop().create_task(self._poll(), name="octavo-vault")

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
        self._file_lock.close()

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _poll(self) -> None:
        look_around = self.sync
        while True:
            try:
                report = await look_around()
                look_around = self.poll
                self._tell(report.store_error)
            except (OctavoError, OSError) as error:
                self._tell(str(error))
            soon = min(self._watch_seconds, _SOON_SECONDS)
            await asyncio.sleep(soon if self._restless else self._watch_seconds)

    def _tell(self, error: str | None) -> None:
        if error is not None and self._last_error is None:
            _log.warning("the vault %s is not in step with its store: %s", self.root, error)
        elif error is None and self._last_error is not None:
            _log.info("the vault %s is in step with its store again", self.root)
        self._last_error = error

    # How it is done.

    def _open(self, key: str = "system") -> DocumentAddress:
        if self._closed:
            raise StoreClosed("this Vault was closed; make another one")
        return address_of(key)

    async def _run_alone(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it while nobody else writes here; once more when a person saved the same file in the same moment."""

        async def alone() -> T:
            for left in reversed(range(_ROUNDS)):
                try:
                    await asyncio.to_thread(self._folder.prepare)
                    async with self._hold_lock():
                        return await work()
                except Unusable as error:
                    if not (left and error.passing):
                        raise StoreError(f"nothing was written to the vault {self.root}: {error}") from error
            raise AssertionError  # the last round returns or raises

        return await self._to_the_end(alone())

    @asynccontextmanager
    async def _hold_lock(self) -> AsyncIterator[None]:
        """Keep other tasks and processes out while files, store and metadata.json are brought together."""
        async with self._lock:
            until = time.monotonic() + self._patience_seconds
            try:
                while not self._file_lock.take():
                    if time.monotonic() > until:
                        raise StoreUnavailable(
                            f"another process is at work on the vault {self.root}; try again"
                        )
                    await asyncio.sleep(_LOCK_SECONDS)
            except OSError as error:
                raise StoreError(f"the vault {self.root} cannot be locked: {error.strerror}") from error
            try:
                yield
            finally:
                self._file_lock.release()

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it to the end even if the caller is cancelled: half of it would have to be found out and mended."""
        task = asyncio.ensure_future(work)
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        task.add_done_callback(look_at_error)
        return await asyncio.shield(task)


def existing_vault(root: str | Path, store: Store, tenant: str) -> Vault | None:
    """The vault of a folder that is there; None where there is none, and none is made."""
    return Vault(root, store, scope=Scope(tenant=tenant)) if Path(root).is_dir() else None


def _is_hidden(key: str, scan: VaultScan, entries: dict[str, LedgerEntry]) -> bool:
    """Whether nothing can be said about the file of this key, which must then not be taken for deleted."""
    entry = entries.get(key)
    return scan.hides(key, entry.path if entry else address_of(key).path)
