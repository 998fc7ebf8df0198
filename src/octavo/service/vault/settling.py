"""Bringing single documents together: the file, the record and the entry in metadata.json. The caller holds the lock.

A sync settles what files and store say; a put or a removal settles one document on what the caller wants. The order is
always store, then file, then metadata.json. Whoever is killed in between leaves a state that `decide` reads rightly: what
was done already is found to be the same on both sides.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from octavo.errors import Conflict, InvalidRecord, StoreError, StoreUnavailable
from octavo.kernel.codec import seal
from octavo.kernel.model import Op
from octavo.kernel.ports import Queues, Store, Written, walk, write_ops
from octavo.service.vault.documents import (
    COLLECTIONS,
    Content,
    Document,
    DocumentRecords,
    Held,
    Reason,
    SyncReport,
    compose,
    version_id,
)
from octavo.service.vault.folder import Folder, Problem, Unusable
from octavo.service.vault.ledger import FoundFile, Ledger, LedgerEntry, Verdict, decide, look, read_document
from octavo.service.vault.names import DocumentAddress, address_of

T = TypeVar("T")
_log = logging.getLogger("octavo.vault")
_MOST_EARLIER = 50  # a document that is put again and again while the store is down
_ROUNDS = 3


class Plan(msgspec.Struct, frozen=True):
    """One document, what is to be done about it, and the ops that do it."""

    found: FoundFile
    held: Held | None
    verdict: Verdict
    after: Content | None  # what the file says then
    version: int  # and which version that is
    ops: list[Op]

    @property
    def writes(self) -> bool:
        """Whether the record changes; the count of the last op then says if somebody else was faster."""
        return self.verdict in (Verdict.PUSH, Verdict.CONFLICT, Verdict.REMOVE)

    def has_lost(self, answer: Written) -> bool:
        """Whether somebody else was faster."""
        return self.writes and answer.stored and not answer.counts[-1]


class Settler:
    """Settles documents of one vault."""

    def __init__(
        self,
        folder: Folder,
        ledger: Ledger,
        records: DocumentRecords,
        store: Store,
        clock: Callable[[], datetime],
        patience_seconds: float,
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._records = records
        self._store = store
        self._clock = clock
        self._patience_seconds = patience_seconds

    # One document, as a caller wants it.

    async def put(self, address: DocumentAddress, body: str, front: dict[str, Any] | None) -> Document:
        """Keep a text in the file, and in the store now or later.

        The file is made ready before the store is asked and takes its place after: whichever of the two refuses a text,
        the other does not have it.
        """
        found = await asyncio.to_thread(self.read, address)
        content, at = compose(body, front, found.content), self._clock()
        seal(self._records.document(address, content, 1, (at, at)))  # or refused before anything is changed
        if found.settled and found.md5 == content.md5:
            return found.document
        staged = await asyncio.to_thread(self._folder.stage, found.path, content.raw)
        try:
            done = await self._send_or_keep(found, content)
        except BaseException:
            await asyncio.to_thread(staged.unlink, missing_ok=True)
            raise
        new = await asyncio.to_thread(self._put_file, found, content, staged)
        if done is None:
            return new.document
        plan, stored = done
        entry = self._entry(new, plan, stored=stored)
        try:
            await asyncio.to_thread(self._ledger.save, {**self._ledger.entries, address.key: entry})
        except StoreError as error:  # the document is where it should be, and the next sync finds it there
            _log.warning("the document %r was put, and not noted: %s", address.key, error)
        return msgspec.structs.replace(new, entry=entry).document

    async def remove(self, address: DocumentAddress) -> bool:
        """Delete the record and the file; the text is kept as a version first."""
        found = await asyncio.to_thread(self.read, address)
        plan, stored = await self._send(found, None)
        entries = dict(self._ledger.entries)
        await asyncio.to_thread(self._finish, plan, stored, entries)
        await asyncio.to_thread(self._ledger.save, entries)
        return plan.verdict is not Verdict.FORGET

    async def _send_or_keep(self, found: FoundFile, content: Content) -> tuple[Plan, bool] | None:
        """What was sent, and whether it arrived. None while the store is away: the file will have the text for both."""
        try:
            return await self._send(found, content)
        except StoreUnavailable as error:
            if found.content is not None and not found.settled and found.md5 != content.md5:
                # The edited text is nowhere else: it must wait in a queue at least, or nothing is done.
                version = (found.entry.version if found.entry else 0) + 1
                kept = self._records.version(found.key, found.content, version, "replaced", self._clock())
                await self._with_timeout(write_ops(self._store, [kept]))
            _log.debug("the document %r waits for the next sync: %s", found.key, error)
            return None

    async def _send(self, found: FoundFile, after: Content | None) -> tuple[Plan, bool]:
        """Have the store say this, None being nothing: what was done, and whether it arrived or waits in a queue.

        At first blindly, where the file tells what the store has: such a write can wait in a queue, and replaces no other
        text than that. Where it does not, or the store turns out to have another one, that is read.
        """
        nothing = after is not None and found.content is None and found.entry is None
        blindly = found.settled or nothing
        for _ in range(_ROUNDS):
            if blindly:
                held = None if found.content is None else self._as_noted(found)
            else:
                held = (await self._with_timeout(self._find_held([found.address]))).get(found.key)
            plan = self._plan(found, held, _decide_wanted(found, held, after), after)
            answer = Written("stored", [])
            if plan.ops:
                answer = await self._with_timeout(write_ops(self._store, plan.ops))
            if not plan.has_lost(answer):
                return plan, answer.stored
            blindly = False
        raise Conflict(f"the document {found.key!r} is changed again and again by somebody else; try again")

    async def _with_timeout(self, work: Coroutine[Any, Any, T]) -> T:
        """The store's answer; one without a queue, which bounds its own waiting, is not waited for without end."""
        return await (
            work if isinstance(self._store, Queues) else answer_within(self._patience_seconds, work)
        )

    def _as_noted(self, found: FoundFile) -> Held | None:
        """The document as the store has it if nobody else has changed it since the file was last settled."""
        entry, content = found.entry, found.content
        if entry is None or content is None:
            return None
        times = (entry.created_at, entry.updated_at)
        return Held(self._records.document(found.address, content, entry.version, times))

    def read(self, address: DocumentAddress) -> FoundFile:
        """The document's file and what is noted of it. Blocking."""
        return read_document(self._folder, address, self._ledger.load().get(address.key))

    # Many documents, as files and store say.

    async def settle(self, keys: Sequence[str], paths: Mapping[str, str], report: SyncReport) -> list[str]:
        """Bring these documents together, and answer the keys of those that somebody else changed meanwhile.

        `paths` are files that are known to be theirs.
        """
        found = await asyncio.to_thread(self._look, keys, paths, report)
        held = await self._find_held([each.address for each in found])
        buried = await self._find_deleted(found, held)
        plans = []
        for each in found:
            theirs, entry = held.get(each.key), each.entry
            verdict = decide(
                each.md5,
                theirs.md5 if theirs else None,
                entry.known if entry else None,
                unconfirmed=entry is not None and not entry.synced,
                buried=each.key in buried,
            )
            pulled = theirs is not None and verdict is Verdict.PULL
            after = theirs.content if theirs and pulled else each.content
            plans.append(self._plan(each, theirs, verdict, None if verdict is Verdict.UNLINK else after))
        outcomes = await self._apply(plans, report)
        return await asyncio.to_thread(self._finish_all, outcomes, report)

    def _look(self, keys: Iterable[str], paths: Mapping[str, str], report: SyncReport) -> list[FoundFile]:
        entries, found = self._ledger.load(), []
        for address in map(address_of, keys):
            path = paths.get(address.key)
            try:
                found.append(look(self._folder, address, entries.get(address.key), path))
            except Unusable as error:
                report.problems.append(Problem(path or address.path, str(error)))
        return found

    async def _find_held(self, addresses: Sequence[DocumentAddress]) -> dict[str, Held]:
        """What the store has of these documents, by key."""
        held: dict[str, Held] = {}
        for collection in COLLECTIONS:
            ids = [each.key for each in addresses if each.collection == collection]
            if ids:
                held |= self._records.read_held(await self._store.find(self._records.all(collection, ids)))
        return held

    async def _find_deleted(self, found: Sequence[FoundFile], held: Mapping[str, Held]) -> set[str]:
        """Of the documents the store does not have, those whose text it remembers deleting."""
        missing = {
            each.key: version_id(each.entry.version, each.entry.md5, deleted=True)
            for each in found
            if each.settled and each.entry is not None and each.key not in held
        }
        if not missing:
            return set()
        query = self._records.versions(None, set(missing.values()))
        graves = self._records.drop_others(await self._store.find(query))
        return {
            str(grave.scope.session) for grave in graves if missing.get(grave.scope.session or "") == grave.id
        }

    async def _apply(self, plans: Sequence[Plan], report: SyncReport) -> list[tuple[Plan, Written]]:
        """Write what the plans say, all in one go if that is possible."""
        ops = [op for plan in plans for op in plan.ops]
        try:
            answer = await write_ops(self._store, ops) if ops else Written("stored", [])
        except StoreUnavailable:
            raise
        except (StoreError, InvalidRecord) as error:
            if len(plans) == 1:
                report.problems.append(Problem(plans[0].found.path, str(error)))
                return []
            return [each for plan in plans for each in await self._apply([plan], report)]
        outcomes, at = [], 0
        for plan in plans:
            outcomes.append((plan, Written(answer.status, answer.counts[at : at + len(plan.ops)])))
            at += len(plan.ops)
        return outcomes

    def _finish_all(self, outcomes: Sequence[tuple[Plan, Written]], report: SyncReport) -> list[str]:
        """Bring the files and metadata.json up to what was written; which of them somebody else was faster with. Blocking."""
        lost, entries = [], dict(self._ledger.entries)
        try:
            for plan, answer in outcomes:
                key, verdict = plan.found.key, plan.verdict
                if plan.has_lost(answer):
                    lost.append(key)
                    continue
                try:
                    self._finish(plan, answer.stored, entries)
                except Unusable:
                    lost.append(key)
                    continue
                except StoreError as error:  # one folder that may not be written must not hold up all others
                    report.problems.append(Problem(plan.found.path, str(error)))
                    continue
                if verdict is Verdict.SAME:
                    report.unchanged += 1
                elif verdict is not Verdict.FORGET:
                    getattr(report, verdict.value).append(key)
                if plan.writes and not answer.stored:
                    report.pending.append(key)
        finally:
            self._ledger.save(entries)
        return lost

    async def list_digests(self, report: SyncReport) -> dict[str, str]:
        """The md5 of every document the store has, by key."""
        listed: dict[str, str] = {}
        for collection in COLLECTIONS:
            async for page in walk(self._store, self._records.all(collection), 200):
                for record in self._records.drop_others(page):
                    try:
                        fits = address_of(record.id).collection == collection
                    except InvalidRecord:
                        fits = False
                    if fits:
                        listed[record.id] = Held(record).md5
                    else:
                        where = f"{collection} {record.id!r:.80}"
                        report.problems.append(Problem(where, "this record's key is that of no file"))
        return listed

    # What both have in common.

    def _plan(self, found: FoundFile, held: Held | None, verdict: Verdict, after: Content | None) -> Plan:
        """The ops that settle a document, every text that gives way kept as a version before."""
        entry, key, at = found.entry, found.key, self._clock()
        ours, theirs = (entry.version if entry else 0), (held.version if held else 0)
        wanted, newest, ops = (after.md5 if after else None), max(ours, theirs), list[Op]()
        if found.content is not None and found.md5 not in (wanted, held.md5 if held else None):
            newest += not found.settled  # an edit that was never sent has a number of its own
            reason: Reason = "deleted" if after is None else "replaced"
            number = ours if found.settled else newest
            ops.append(self._records.version(key, found.content, number, reason, at))
        plan = Plan(found, held, verdict, after, max(theirs, 1), ops)
        if not plan.writes:
            return plan
        again = entry is not None and wanted == entry.md5  # sent before, and not known to have arrived
        if held is not None:
            reason = "conflict" if verdict is Verdict.CONFLICT else "edited"
            if verdict is Verdict.REMOVE:
                reason = "deleted"
            elif verdict is Verdict.PUSH and (again or wanted != found.md5):
                reason = "replaced"
            ops.append(self._records.version(key, held.content, theirs, reason, at))
        if after is None:
            ops.append(self._records.remove_op(found.address.collection, key, held))
            return plan
        version = max(ours, theirs + 1) if again else newest + 1
        created_at = held.record.created_at if held else entry.created_at if entry else at
        record = self._records.document(found.address, after, version, (created_at, at))
        ops += self._records.swap_ops(record, held)
        return msgspec.structs.replace(plan, version=version)

    def _finish(self, plan: Plan, stored: bool, entries: dict[str, LedgerEntry]) -> None:
        """Bring the file and these entries up to what was written. Blocking."""
        found = plan.found
        if plan.after is not None:
            new = found if plan.after.md5 == found.md5 else self._put_file(found, plan.after)
            entries[found.key] = self._entry(new, plan, stored=stored)
            return
        if found.stamp is not None:
            self._folder.unlink(found.path, found.stamp)
        if stored or not plan.writes:  # until then the entry says that the file was deleted
            entries.pop(found.key, None)

    def _put_file(self, found: FoundFile, content: Content, staged: Path | None = None) -> FoundFile:
        """Put a text in the place of the file's. Blocking."""
        staged = staged or self._folder.stage(found.path, content.raw)
        checked = time.time_ns()
        stamp = self._folder.replace(found.path, staged, found.stamp)
        return FoundFile(found.address, found.entry, found.path, content, stamp, checked)

    def _entry(self, found: FoundFile, plan: Plan, *, stored: bool) -> LedgerEntry:
        """What is noted of the file as it is now, and whether the store is known to have it."""
        content, old, held, at = plan.after or Content("", "", {}), found.entry, plan.held, self._clock()
        stored = stored or not plan.writes
        earlier: tuple[str, ...] = ()
        if not stored:
            known = [*((old.md5, *old.earlier) if old else ()), *((held.md5,) if held else ())]
            earlier = tuple(md5 for md5 in dict.fromkeys(known) if md5 != content.md5)[:_MOST_EARLIER]
        kept_at = held.record.updated_at if held and held.md5 == content.md5 else None
        updated_at = old.updated_at if old and old.md5 == content.md5 else kept_at or at
        return LedgerEntry(
            md5=content.md5,
            version=plan.version,
            size=len(content.raw),
            file_type=found.address.kind,
            synced_at=at if stored else None,
            path=found.path,
            created_at=held.record.created_at if held else old.created_at if old else at,
            updated_at=updated_at,
            earlier=earlier,
            stamp=found.stamp,
            checked_ns=found.checked_ns,
        )


def _decide_wanted(found: FoundFile, held: Held | None, after: Content | None) -> Verdict:
    """What is done so that the document says this, whatever file and store say; None being nothing."""
    if after is None:
        return Verdict.REMOVE if held else Verdict.FORGET if found.content is None else Verdict.UNLINK
    if held is None:
        return Verdict.PUSH
    if held.md5 == after.md5:
        return Verdict.SAME
    return Verdict.PUSH if found.entry and held.md5 in found.entry.known else Verdict.CONFLICT


async def answer_within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The answer, or StoreUnavailable when there is none after so many seconds."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(look_at_error)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()  # and not awaited: a driver may hang while it lets go, too
    if not task.done():
        raise StoreUnavailable(f"the store gave no answer within {seconds:g} s")
    return task.result()


def look_at_error(task: "asyncio.Future[Any]") -> None:
    """Take the error of a task that nobody waits for any more; or Python complains that nobody did."""
    if not task.cancelled():
        task.exception()
