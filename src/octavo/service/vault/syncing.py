"""Bringing a whole vault together: which documents differ, without reading every file each time."""

import asyncio
import logging
import time
from collections.abc import Mapping

import msgspec

from octavo.errors import StoreUnavailable
from octavo.service.vault.folder import Folder, Scan, Stamp, Unusable
from octavo.service.vault.guard import Guard
from octavo.service.vault.keys import place
from octavo.service.vault.ledger import Entry, Ledger
from octavo.service.vault.reading import look
from octavo.service.vault.reports import SyncReport
from octavo.service.vault.settling import Settling

_log = logging.getLogger("octavo.vault")
_BATCH = 200
_BATCH_BYTES = 4 * 2**20
_ROUNDS = 3


class Syncing:
    """Finds what differs, and has it settled in batches; the lock is held for a batch, not for all of them."""

    def __init__(
        self, folder: Folder, ledger: Ledger, view: Ledger, guard: Guard, settling: Settling
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._view = view
        self._guard = guard
        self._settling = settling
        self._sure: dict[str, tuple[Stamp, str, int]] = {}  # files read since: stamp, md5 and when
        self._swept = False
        self._listed_at, self._listing_seconds = 0.0, 0.0
        self.restless: dict[str, Stamp | None] = {}  # changed files, as the last poll saw them

    async def poll(self) -> SyncReport:
        """Look for files that have come to rest since they were changed, and now and then at the whole store."""
        # The larger the store, the less often it is read: this costs a fiftieth of the time at most.
        listing = time.monotonic() - self._listed_at >= 50 * self._listing_seconds
        return await self.sync(patient=True, listing=listing)

    async def sync(self, *, patient: bool = False, listing: bool = True) -> SyncReport:
        """Bring files and store together. `patient` leaves alone what is just being changed."""
        report = SyncReport()
        if missing := await asyncio.to_thread(self._folder.prepare):
            await self._restore(missing)
        if not self._swept:
            await asyncio.to_thread(self._folder.sweep)
            self._swept = True
        listed = await self._listed(report) if listing else None
        scan, entries = await self.scanned()
        report.problems += scan.problems
        changed, same = await asyncio.to_thread(self.compared, scan, entries)
        unsettled = self._unsettled(changed, scan) if patient else set[str]()
        keys = changed | {key for key, entry in entries.items() if not entry.synced}
        if listed is not None:
            keys |= {key for key in same if listed.get(key) != entries[key].md5}
            keys |= {key for key in listed if key not in scan.found}
        keys = {key for key in keys - unsettled if not _hidden(key, scan, entries)}
        report.unchanged = len(same - keys)
        report.pending = sorted(unsettled)
        if report.store_error is not None:
            report.pending = sorted(keys | unsettled)
        else:
            await self._batches(sorted(keys), scan, report)
        return report

    async def scanned(self) -> tuple[Scan, dict[str, Entry]]:
        """The files there are, and the entries of metadata.json."""
        await asyncio.to_thread(self._view.load, aside=False)
        entries = self._view.entries
        paths = {key: entry.path for key, entry in entries.items()}
        return await asyncio.to_thread(self._folder.scan, paths), entries

    def compared(self, scan: Scan, entries: Mapping[str, Entry]) -> tuple[set[str], set[str]]:
        """The keys whose files are not as they were when files and store last agreed, and those that are. Blocking."""
        changed, same = set[str](), set[str]()
        for key, (path, stamp) in scan.found.items():
            entry = entries.get(key)
            if entry is not None and (entry.vouches(path, stamp) or self._reread(entry, key, path, stamp)):
                same.add(key)
            else:
                changed.add(key)
        gone = {key for key in entries if key not in scan.found and not _hidden(key, scan, entries)}
        return changed | gone, same

    def _reread(self, entry: Entry, key: str, path: str, stamp: Stamp) -> bool:
        """Whether a file that was touched, or written in the very moment it was read, still says the same."""
        then, md5, checked = self._sure.get(key, (None, "", 0))
        trial = msgspec.structs.replace(entry, stamp=then, checked_ns=checked)
        if md5 != entry.md5 or not trial.vouches(path, stamp):
            try:
                found = look(self._folder, place(key), entry, path)
            except Unusable:
                return False
            if found.content is None or found.stamp is None:
                return False
            md5 = found.content.md5
            self._sure[key] = (found.stamp, md5, found.checked_ns)
        return md5 == entry.md5 and entry.path == path

    def _unsettled(self, changed: set[str], scan: Scan) -> set[str]:
        """Those of the changed files that the poll before saw otherwise: an editor may be in the middle of them."""
        seen = {key: scan.found[key][1] if key in scan.found else None for key in changed}
        rested = {key for key in seen if key in self.restless and self.restless[key] == seen[key]}
        self.restless = {key: stamp for key, stamp in seen.items() if key not in rested}
        return changed - rested

    async def _listed(self, report: SyncReport) -> dict[str, str] | None:
        begun = time.monotonic()
        try:
            return await self._settling.listing(report)
        except StoreUnavailable as error:
            report.store_error = str(error)
            return None
        finally:
            self._listed_at = time.monotonic()
            self._listing_seconds = self._listed_at - begun if report.store_error is None else 0.0

    async def _batches(self, keys: list[str], scan: Scan, report: SyncReport) -> None:
        paths = {key: path for key, (path, _) in scan.found.items()}
        while keys:
            size, most = 0, 0
            while most < min(len(keys), _BATCH) and size < _BATCH_BYTES:
                size += scan.found[keys[most]][1].size if keys[most] in scan.found else 0
                most += 1
            batch, keys = keys[:most], keys[most:]
            try:
                for _ in range(_ROUNDS):
                    async with self._guard.held():
                        batch = await self._settling.settle(batch, report, paths=paths)
                    if not batch:
                        break
            except StoreUnavailable as error:
                report.store_error = str(error)
                report.pending += [*batch, *keys]
                return
            report.pending += batch

    async def _restore(self, tops: set[str]) -> None:
        """A whole tree that is missing was lost, not edited away: what was in it comes back from the store."""
        async with self._guard.held():
            await asyncio.to_thread(self._ledger.load)
            lost = [key for key, e in self._ledger.entries.items() if e.path.partition("/")[0] in tops]
            if not lost:
                return
            _log.warning("%s is missing in %s; it is restored", " and ".join(sorted(tops)), self._folder.root)
            for key in lost:
                del self._ledger.entries[key]
            await asyncio.to_thread(self._ledger.save)


def _hidden(key: str, scan: Scan, entries: Mapping[str, Entry]) -> bool:
    """Whether nothing can be said about the file of this key, which must then not be taken for deleted."""
    entry = entries.get(key)
    return scan.hides(key, entry.path if entry else "/".join(place(key).names))
