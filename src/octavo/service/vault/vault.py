"""The vault: Markdown files that people edit, kept together with the documents of a store."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from octavo.errors import Conflict, InvalidRecord, OctavoError, StoreClosed, StoreError, StoreUnavailable
from octavo.kernel.ids import now
from octavo.kernel.model import Scope
from octavo.kernel.pages import count_fitting, walk
from octavo.kernel.ports import Store
from octavo.service.vault.documents import (
    COLLECTIONS,
    Content,
    Document,
    DocumentRecords,
    DocumentVersion,
    Listed,
    SyncReport,
    VaultStatus,
    compose,
    md5_of,
    version_of,
)
from octavo.service.vault.folder import (
    Folder,
    Ledger,
    LedgerEntry,
    Problem,
    Stamp,
    Unusable,
    VaultScan,
    write_error,
)
from octavo.service.vault.names import DocumentAddress, address_of
from octavo.service.vault.settling import DocumentState, Settler, Verdict
from octavo.util.disk import FileLock

T = TypeVar("T")
_log = logging.getLogger("octavo.vault")

_BATCH, _BATCH_BYTES = 32, 4 * 2**20  # documents that are settled at once, and what their files hold together
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
        self._patience_seconds = patience_seconds
        self._folder = Folder(self.root)
        self._ledger = Ledger(self.root)
        self._records = DocumentRecords(scope)
        # Half of the time is for the store: a caller who waits no longer than that is told what became of the other half.
        self._settler = Settler(self._folder, self._records, store, clock, patience_seconds / 2)
        self._lock, self._file_lock = asyncio.Lock(), FileLock(self.root / ".octavo.lock")
        self._underway: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._list_at = 0.0  # when a poll reads the store's documents again
        self._restless: dict[str, Stamp | None] = {}  # changed files, as the last poll saw them
        self._last_error: str | None = None
        self._closed = False

    # Documents.

    async def get(self, key: str) -> Document | None:
        """The document as its file says it now; one that has no file yet, as the store says it."""
        address = self._open(key)
        state = await asyncio.to_thread(self._read, address)
        if state.file is None and state.entry is not None:
            await asyncio.sleep(_RENAMING_SECONDS)  # deleted, or in the middle of being saved
            state = await asyncio.to_thread(self._read, address)
        if state.file is None and state.entry is None:
            state.record = await self._settler.fetch(address)
        return state.document if state.file or state.record else None

    def _read(self, address: DocumentAddress) -> DocumentState:
        """The document's file and what is noted of it; StoreError when it cannot be a document. Blocking."""
        try:
            return self._settler.look(address, self._ledger.load().get(address.key))
        except Unusable as error:
            raise self._failure(address, error) from error

    async def put(self, key: str, body: str, front: dict[str, Any] | None = None) -> Document:
        """Keep a text, in the file and in the store; `front=None` keeps the front matter there is.

        When the store is down the file has it all the same, and `status` is "queued".
        """
        return (await self._settle_one(key, lambda file: compose(body, front, file))).document

    async def remove(self, key: str) -> bool:
        """Delete the document, record and file; its text stays as a version. False when there was none."""
        state = await self._settle_one(key, lambda _: None)
        return state.file is not None or state.record is not None

    async def _settle_one(
        self, key: str, wanted: Callable[[Content | None], Content | None]
    ) -> DocumentState:
        address = self._open(key)
        [outcome] = await self._to_the_end(self._settle([key], {}, wanted))
        if isinstance(outcome, Unusable):
            raise self._failure(address, outcome) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def erase(self, user: str, store: Store | None) -> list[str]:
        """Delete a user's documents for good, files, records and versions; answer what the files said.

        Done under the vault's lock: whoever watches these files would otherwise put back what is half gone. The records are
        removed from this store, which queues nothing. Without one, nothing is deleted.
        """
        self._open()
        return await self._to_the_end(self._erase(user, store))

    async def _erase(self, user: str, store: Store | None) -> list[str]:
        async with self._hold_lock():
            entries = await asyncio.to_thread(self._prepare)
            found = (await asyncio.to_thread(self._folder.scan, {})).found
            keys = [key for key in {*entries, *found} if self._records.scope_of(key).user == user]
            named = {found[key][0] for key in keys if key in found}
            named |= {entries[key].path for key in keys if key in entries}
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
        return [version_of(record) for record in await self._store.find(query)]

    async def list(self, folder: str | None = None) -> list[Listed]:
        """The documents that have files, by key; given a `folder` such as "users", only those below it."""
        self._open()
        scan, entries, unsynced = await asyncio.to_thread(self._compare)
        begins = "" if not folder else folder.strip("/") + "/"
        return [
            Listed(
                key=key,
                kind=address_of(key).kind,
                path=path,
                size=stamp.size,
                version=entries[key].version if key in entries else 0,
                updated_at=stamp.written_at if key in unsynced else entries[key].updated_at,
                synced=key not in unsynced,
            )
            for key, (path, stamp) in sorted(scan.found.items())
            if key.startswith(begins)
        ]

    async def status(self) -> VaultStatus:
        """How the vault stands; the store is not asked."""
        self._open()
        scan, entries, unsynced = await asyncio.to_thread(self._compare)
        problems = scan.problems
        if self._ledger.damaged:
            problems = [*problems, Problem("metadata.json", "damaged; the next sync makes it anew")]
        return VaultStatus(
            root=str(self.root),
            documents=dict(sorted(Counter(address_of(key).kind for key in scan.found).items())),
            unsynced=sorted(unsynced),
            problems=problems,
            synced_at=max((entry.synced_at for entry in entries.values() if entry.synced_at), default=None),
            watching=self._watch is not None,
            last_error=self._last_error,
        )

    def _compare(self) -> tuple[VaultScan, dict[str, LedgerEntry], set[str]]:
        """The files, the entries, and the keys of documents that are not known to be in the store as they are. Blocking."""
        scan, entries, unsynced = self._scan()
        for key in [*unsynced]:
            with suppress(Unusable):
                path = scan.found[key][0] if key in scan.found else None
                state = self._settler.look(address_of(key), entries.get(key), path)
                if (entry := state.settled) and entry.synced:  # it was merely touched
                    unsynced.remove(key)
        return scan, entries, unsynced

    def _scan(self) -> tuple[VaultScan, dict[str, LedgerEntry], set[str]]:
        """The files, unread, the entries, and the keys of documents of which these cannot say that all agree. Blocking."""
        entries = self._ledger.load()
        scan = self._folder.scan({key: entry.path for key, entry in entries.items()})
        same = {
            key
            for key, entry in entries.items()
            if scan.hides(key, entry.path)
            or (entry.synced and scan.found.get(key) == (entry.path, entry.stamp))
        }
        return scan, entries, {*entries, *scan.found} - same

    # Files and store together.

    async def sync(self) -> SyncReport:
        """Bring all files and the store together; when the store is down, say so, and go on the next time."""
        self._open()
        return await self._to_the_end(self._sync())

    async def poll(self) -> SyncReport:
        """What the watch does each time: take what was edited, once two polls have seen it the same."""
        self._open()
        return await self._to_the_end(self._sync(patient=True, listing=time.monotonic() >= self._list_at))

    async def _sync(self, *, patient: bool = False, listing: bool = True) -> SyncReport:
        """Bring files and store together. `patient` leaves alone what is just being changed."""
        report = SyncReport()
        try:
            if self._folder.lost_tops():
                await self._settle([], {})  # which makes them
            scan, entries, keys = await asyncio.to_thread(self._scan)
            report.problems += scan.problems
            if patient:
                report.pending = sorted(self._find_restless(keys, scan))
            if listing:
                listed = await self._list_store(report)
                keys |= {key for key, entry in entries.items() if listed.get(key) != entry.md5}
                keys |= {*listed} - {*scan.found}
            keys -= {key for key in keys if scan.hides(key, address_of(key).path)}
            keys -= {*report.pending}
            report.unchanged = len({*scan.found} - keys - {*report.pending})
            work, paths = sorted(keys), {key: path for key, (path, _) in scan.found.items()}
            sizes = {key: stamp.size for key, (_, stamp) in scan.found.items()}
            while work:
                fits = count_fitting((sizes.get(key, 0) for key in work[:_BATCH]), _BATCH_BYTES)
                batch, work = work[:fits], work[fits:]
                for key, outcome in zip(batch, await self._settle(batch, paths), strict=True):
                    _note(report, key, paths.get(key, address_of(key).path), outcome)
        except StoreUnavailable as error:
            report.store_error = str(error)
            _, _, unsynced = await asyncio.to_thread(self._compare)
            report.pending = sorted(unsynced)
        return report

    async def _settle(
        self,
        keys: Sequence[str],
        paths: Mapping[str, str],
        wanted: Callable[[Content | None], Content | None] | None = None,
    ) -> Sequence[DocumentState | BaseException]:
        """Settle these documents at once, under the lock; how each of them stands then, or why it could not be done."""
        async with self._hold_lock():
            entries = await asyncio.to_thread(self._prepare)
            work = [self._settler.settle(address_of(key), entries, paths.get(key), wanted) for key in keys]
            outcomes = await asyncio.gather(*work, return_exceptions=True)
            try:
                await asyncio.to_thread(self._ledger.save, entries)
            except (
                StoreError
            ) as error:  # the documents are as they should be, and the next sync finds them so
                _log.warning("what was settled was not noted: %s", error)
            return outcomes

    def _prepare(self) -> dict[str, LedgerEntry]:
        """Make the folders that are missing, and read the entries. Blocking; the caller holds the lock.

        A whole tree that is missing was lost, not edited away: it is forgotten, so that it comes back from the store.
        """
        entries = self._ledger.load()
        lost = self._folder.lost_tops()
        kept = {key: entry for key, entry in entries.items() if entry.path.partition("/")[0] not in lost}
        if len(kept) < len(entries):
            _log.warning("%s is missing in %s; it is restored", " and ".join(sorted(lost)), self.root)
            self._ledger.save(kept)
        self._folder.make()
        return kept

    async def _list_store(self, report: SyncReport) -> dict[str, str]:
        """The md5 of every document the store has, by key."""
        listed, begun = dict[str, str](), time.monotonic()
        for collection in COLLECTIONS:
            async for page in walk(self._store, self._records.every(collection), 200):
                for record in filter(self._records.mine, page):
                    try:
                        fits = address_of(record.id).collection == collection
                    except InvalidRecord:
                        fits = False
                    if fits:
                        listed[record.id] = md5_of(record)
                    else:
                        where = f"{collection} {record.id!r:.80}"
                        report.problems.append(Problem(where, "this record's key is that of no file"))
        # The larger the store, the less often a poll reads it: this costs a fiftieth of the time at most.
        ended = time.monotonic()
        self._list_at = ended + 50 * (ended - begun)
        return listed

    def _find_restless(self, changed: set[str], scan: VaultScan) -> set[str]:
        """Those of the changed files that the poll before saw otherwise: an editor may be in the middle of them."""
        seen = {key: scan.found[key][1] if key in scan.found else None for key in changed}
        rested = {key for key in seen if key in self._restless and self._restless[key] == seen[key]}
        self._restless = {key: stamp for key, stamp in seen.items() if key not in rested}
        return changed - rested

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

    def _failure(self, address: DocumentAddress, error: Unusable) -> StoreError:
        return StoreError(f"the document {address.key!r} of the vault {self.root} is left alone: {error}")

    @asynccontextmanager
    async def _hold_lock(self) -> AsyncIterator[None]:
        """Keep other tasks and processes out while files, store and metadata.json are brought together."""
        async with self._lock:
            with ExitStack() as held:
                try:
                    waiting = self._file_lock.hold(self._patience_seconds)
                    await asyncio.to_thread(held.enter_context, waiting)
                except OSError as error:
                    raise write_error(self.root, error) from error
                yield

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it to the end even if the caller is cancelled: half of it would have to be found out and mended."""
        task = asyncio.ensure_future(work)
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)
        task.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )  # nobody may be waiting for it
        return await asyncio.shield(task)


def existing_vault(root: str | Path, store: Store, tenant: str) -> Vault | None:
    """The vault of a folder that is there; None where there is none, and none is made."""
    return Vault(root, store, scope=Scope(tenant=tenant)) if Path(root).is_dir() else None


def _note(report: SyncReport, key: str, path: str, outcome: DocumentState | BaseException) -> None:
    """Note how a document was settled, or why it was not; raise what stops the whole sync."""
    if isinstance(outcome, DocumentState):
        if outcome.verdict is Verdict.SAME:
            report.unchanged += 1
        elif outcome.verdict is not Verdict.FORGET:
            getattr(report, outcome.verdict.value).append(key)
        if not outcome.stored:
            report.pending.append(key)
    elif isinstance(outcome, Conflict):
        report.pending.append(key)
    elif isinstance(outcome, StoreUnavailable) or not isinstance(
        outcome, StoreError | InvalidRecord | Unusable
    ):
        raise outcome
    else:
        report.problems.append(Problem(path, str(outcome)))
