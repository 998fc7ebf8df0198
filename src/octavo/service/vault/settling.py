"""Bringing single documents together: the file, the record and the entry in metadata.json. The caller holds the lock.

The order is always store, then file, then metadata.json. Whoever is killed in between leaves a state that the rule of
`verdict` reads rightly: what was done already is found to be the same on both sides.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

import msgspec

from octavo.errors import InvalidRecord, StoreError, StoreUnavailable
from octavo.kernel.codec import seal
from octavo.kernel.model import Add, Op
from octavo.kernel.ports import Store, Written, walk, written
from octavo.service.vault.documents import (
    COLLECTIONS,
    Kept,
    Reason,
    Shelf,
    fingerprint,
    kept,
)
from octavo.service.vault.folder import Folder, Problem, Taken, Unusable
from octavo.service.vault.front import Content
from octavo.service.vault.keys import Place, place
from octavo.service.vault.ledger import Entry, Ledger
from octavo.service.vault.reading import Found, look
from octavo.service.vault.reports import SyncReport
from octavo.service.vault.verdict import Verdict, decide

_MOST_EARLIER = 50  # a document that is put again and again while the store is down


class Case(msgspec.Struct, frozen=True):
    """One document, what is to be done about it, and the ops that do it."""

    found: Found
    held: Kept | None
    verdict: Verdict
    version: int  # which it has afterwards
    ops: list[Op]
    deciding: bool  # whether the count of the last op says if somebody else was faster


class Settling:
    """Settles documents of one vault."""

    def __init__(
        self, folder: Folder, ledger: Ledger, shelf: Shelf, store: Store, clock: Callable[[], datetime]
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._shelf = shelf
        self._store = store
        self._clock = clock

    async def settle(
        self,
        keys: Sequence[str],
        report: SyncReport,
        *,
        paths: Mapping[str, str] | None = None,
        above: int = 0,
    ) -> list[str]:
        """Bring these documents together, and answer the keys of those that somebody else changed meanwhile.

        `paths` are files that are known to be theirs; versions get numbers `above` that one.
        """
        found, problems = await asyncio.to_thread(self._read, keys, paths or {})
        report.problems += problems
        held = await self._held([each.place for each in found])
        graves = await self._graves(found, held)
        cases = [self._case(each, held.get(each.place.key), above, graves) for each in found]
        cases = [case for case in cases if _storable(case, report)]
        lost: list[str] = []
        outcomes = await self._applied(cases, report)
        await asyncio.to_thread(self._finished, outcomes, report, lost)
        return lost

    def _read(self, keys: Sequence[str], paths: Mapping[str, str]) -> tuple[list[Found], list[Problem]]:
        self._ledger.load()
        found, problems = [], []
        for key in keys:
            where = place(key)
            try:
                found.append(look(self._folder, where, self._ledger.entries.get(key), paths.get(key)))
            except Unusable as error:
                problems.append(Problem(paths.get(key) or "/".join(where.names), str(error)))
        return found, problems

    async def _held(self, places: Sequence[Place]) -> dict[str, Kept]:
        held: dict[str, Kept] = {}
        for collection in COLLECTIONS:
            ids = [each.key for each in places if each.collection == collection]
            if ids:
                for record in await self._store.find(self._shelf.all(collection, ids)):
                    held[record.id] = kept(record)
        return held

    def _case(self, found: Found, held: Kept | None, above: int, graves: Collection[str]) -> Case:
        entry, content, key = found.entry, found.content, found.place.key
        file = content.md5 if content else None
        known = entry.known if entry else None
        verdict = decide(
            file,
            held.content.md5 if held else None,
            known,
            unconfirmed=entry is not None and not entry.synced,
            buried=key in graves,
        )
        ours, theirs = (entry.version if entry else 0), (held.version if held else 0)
        version, ops, at = max(theirs, 1), list[Op](), self._clock()
        if verdict in (Verdict.PUSH, Verdict.CONFLICT) and content is not None:
            again = entry is not None and file == entry.md5  # sent before, and not known to have arrived
            version = max(ours, theirs + 1, 1) if again else max(ours, theirs, above) + 1
            reason: Reason = "conflict" if verdict is Verdict.CONFLICT else "replaced" if again else "edited"
            if held is not None:
                ops.append(self._shelf.version(key, held.content, theirs, reason, at))
            ops += self._swap(found.place, content, version, held, entry)
        elif verdict is Verdict.REMOVE and held is not None:
            ops.append(self._shelf.version(key, held.content, theirs, "deleted", at))
            ops.append(self._shelf.removed(found.place.collection, key, held))
        elif verdict in (Verdict.PULL, Verdict.UNLINK) and content is not None:
            reason = "replaced" if verdict is Verdict.PULL else "deleted"
            ops.append(self._shelf.version(key, content, ours, reason, at))
        if verdict in (Verdict.PULL, Verdict.SAME) and held is not None and not held.sound:
            # Somebody else wrote this record, or changed its text: from now on it says what it is.
            version = max(ours + (verdict is Verdict.PULL), theirs, 1)
            ops += self._swap(found.place, held.content, version, held, entry)
        deciding = verdict in (Verdict.PUSH, Verdict.CONFLICT, Verdict.REMOVE)
        return Case(found, held, verdict, version, ops, deciding)

    def _swap(
        self, place: Place, content: Content, version: int, held: Kept | None, entry: Entry | None
    ) -> list[Op]:
        at = self._clock()
        created_at = held.record.created_at if held else entry.created_at if entry else at
        return self._shelf.swapped(self._shelf.record(place, content, version, created_at, at), held)

    async def _graves(self, found: Sequence[Found], held: Mapping[str, Kept]) -> set[str]:
        """Of the documents the store does not have, those whose text it remembers deleting."""
        graves: set[str] = set()
        missing = [each for each in found if each.content and each.entry and each.place.key not in held]
        last = msgspec.structs.replace(self._shelf.history(None, "deleted"), limit=1)
        if not missing or not await self._store.find(last):
            return graves
        for each in missing:
            key, md5 = each.place.key, each.content.md5 if each.content else ""
            query = msgspec.structs.replace(self._shelf.history(key, "deleted"), limit=1)
            if any(record.metadata.get("md5") == md5 for record in await self._store.find(query)):
                graves.add(key)
        return graves

    async def _applied(self, cases: Sequence[Case], report: SyncReport) -> list[tuple[Case, Written]]:
        """Write what the cases say, all in one go if that is possible."""
        if not any(case.ops for case in cases):
            return [(case, Written("stored", [])) for case in cases]
        try:
            answer = await written(self._store, [op for case in cases for op in case.ops])
        except StoreUnavailable:
            raise
        except (StoreError, InvalidRecord) as error:
            if len(cases) == 1:
                report.problems.append(Problem("/".join(cases[0].found.place.names), str(error)))
                return []
            return [each for case in cases for each in await self._applied([case], report)]
        outcomes, at = [], 0
        for case in cases:
            outcomes.append((case, Written(answer.status, answer.counts[at : at + len(case.ops)])))
            at += len(case.ops)
        return outcomes

    def _finished(
        self, outcomes: Sequence[tuple[Case, Written]], report: SyncReport, lost: list[str]
    ) -> None:
        """Bring the files and metadata.json up to what was written. Blocking."""
        taken: Taken = {}
        before = dict(self._ledger.entries)
        try:
            for case, answer in outcomes:
                try:
                    if case.deciding and answer.stored and not answer.counts[-1]:
                        lost.append(case.found.place.key)
                    else:
                        self._finish(case, answer.stored, report, taken)
                except Unusable:
                    lost.append(case.found.place.key)
                except StoreError as error:  # one folder that may not be written must not hold up all others
                    where = case.found.path or case.found.place.key
                    report.problems.append(Problem(where, str(error)))
        finally:
            if self._ledger.entries != before:
                self._ledger.save()

    def _finish(self, case: Case, stored: bool, report: SyncReport, taken: Taken) -> None:
        found, key, verdict = case.found, case.found.place.key, case.verdict
        if verdict is Verdict.FORGET:
            self._ledger.entries.pop(key, None)
        elif verdict is Verdict.SAME:
            report.unchanged += 1
            self.note(found, case.version, stored=True, held=case.held)
        elif verdict in (Verdict.PUSH, Verdict.CONFLICT):
            self.note(found, case.version, stored=stored, held=case.held)
            (report.pushed if verdict is Verdict.PUSH else report.conflicts).append(key)
        elif verdict is Verdict.REMOVE:
            if stored:
                self._ledger.entries.pop(key, None)
            report.removed.append(key)
        elif verdict is Verdict.UNLINK and found.path is not None and found.stamp is not None:
            self._folder.unlink(found.path, found.stamp)
            self._ledger.entries.pop(key, None)
            report.unlinked.append(key)
        elif verdict is Verdict.PULL and case.held is not None:
            path = found.path or self._folder.vacant(found.place, taken)
            checked = time.time_ns()
            stamp = self._folder.write(path, case.held.content.raw, found.stamp)
            new = Found(found.place, found.entry, path, case.held.content, stamp, checked)
            self.note(new, case.version, stored=True, held=case.held)
            report.pulled.append(key)
        if not stored and case.deciding:
            report.pending.append(key)

    def note(self, found: Found, version: int, *, stored: bool, held: Kept | None = None) -> None:
        """Remember the file as it was read, and whether the store is known to have it."""
        content, old, at = found.content, found.entry, self._clock()
        if content is None or found.path is None:
            return
        new = old is None or old.md5 != content.md5
        earlier: tuple[str, ...] = ()
        if not stored:
            known = [*((old.md5, *old.earlier) if old else ()), *((held.content.md5,) if held else ())]
            earlier = tuple(md5 for md5 in dict.fromkeys(known) if md5 != content.md5)[:_MOST_EARLIER]
        kept_at = held.record.updated_at if held and held.content.md5 == content.md5 else None
        created_at = held.record.created_at if held else old.created_at if old else at
        self._ledger.entries[found.place.key] = Entry(
            md5=content.md5,
            version=version,
            size=len(content.raw),
            file_type=found.place.kind,
            synced_at=at if stored else None,
            path=found.path,
            created_at=created_at,
            updated_at=(kept_at or at) if new or old is None else old.updated_at,
            earlier=earlier,
            stamp=found.stamp,
            checked_ns=found.checked_ns,
        )

    async def listing(self, report: SyncReport) -> dict[str, str]:
        """The md5 of every document the store has, by key."""
        listed: dict[str, str] = {}
        for collection in COLLECTIONS:
            async for page in walk(self._store, self._shelf.all(collection), 200):
                for record in page:
                    try:
                        fits = place(record.id).collection == collection
                    except InvalidRecord:
                        fits = False
                    if fits:
                        listed[record.id] = fingerprint(record)
                    else:
                        where = f"{collection} {record.id!r:.80}"
                        report.problems.append(Problem(where, "this record's key is that of no file"))
        return listed


def _storable(case: Case, report: SyncReport) -> bool:
    """Whether a store may keep it; if not, the file stays as it is, and is named."""
    try:
        for op in case.ops:
            if isinstance(op, Add):
                for record in op.records:
                    seal(record)
    except InvalidRecord as error:
        report.problems.append(Problem(case.found.path or case.found.place.key, str(error)))
        return False
    return True
