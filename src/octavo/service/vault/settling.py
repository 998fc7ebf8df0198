"""Bringing a document together: its file, its record and its entry in metadata.json. The caller holds the lock.

`decide` is the table of docs/vault.md ("Which text wins"); all else here carries out what it says. A sync settles what file
and store say. A put and a removal settle what the caller asks for, as if the file said it. The order is always store, then
file, then entry. Whoever is killed in between leaves a state that `decide` reads rightly: what was done already is found to
be the same on both sides.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from octavo.errors import Conflict, StoreUnavailable
from octavo.kernel.model import Add, Op, Record
from octavo.kernel.ports import Queues, Store, WriteStatus, write_ops
from octavo.service.vault.documents import (
    Content,
    Document,
    DocumentRecords,
    Reason,
    content_of,
    md5_of,
    number_of,
    parse,
    version_id,
)
from octavo.service.vault.folder import (
    ROUNDS,
    SAVING_SECONDS,
    Changed,
    Folder,
    FoundFile,
    LedgerEntry,
    Stamp,
    Unusable,
)
from octavo.service.vault.names import DocumentAddress, key_of
from octavo.wraps.attempts import Attempts

T = TypeVar("T")


class Verdict(Enum):
    """What is done about one document."""

    FORGET = "forget"  # it is nowhere: nothing to remember
    SAME = "same"
    PUSH = "pushed"  # the file's text goes to the store
    PULL = "pulled"  # the store's text goes to the file
    CONFLICT = "conflicts"  # both changed: the file's text wins, the store's is kept as a version
    REMOVE = "removed"  # the file was deleted: so is the record
    UNLINK = "unlinked"  # the document was deleted elsewhere: so is the file


_WRITES = (Verdict.PUSH, Verdict.CONFLICT, Verdict.REMOVE)  # the record changes


def decide(
    file: str | None,
    store: str | None,
    known: Collection[str | None] | None,
    *,
    unconfirmed: bool = False,
    buried: bool = False,
    asked: bool = False,
) -> Verdict:
    """What to do, given the md5 of the file's text and of the store's, None where there is none.

    `known` are the texts this vault has had in both, None when it never had the document. `unconfirmed` says that the
    newest of them is not known to have reached the store, `buried` that the store remembers deleting the file's text.
    A record that is merely missing was lost with its database, and comes back from the file. `asked` says that a caller
    wants the file's text, or wants it gone, whatever the store says.
    """
    if file == store:
        return Verdict.FORGET if file is None else Verdict.SAME
    if store is None:
        gone = known is not None and file in known and not unconfirmed and buried
        return Verdict.UNLINK if gone else Verdict.PUSH
    if file is None:
        # Somebody changed what somebody else deleted: a text that nobody here has seen is not deleted unseen.
        return Verdict.REMOVE if asked or (known is not None and store in known) else Verdict.PULL
    if known is None:
        return Verdict.CONFLICT
    if store in known:
        return Verdict.PUSH
    return Verdict.PULL if file in known and not (unconfirmed or asked) else Verdict.CONFLICT


class DocumentState(msgspec.Struct):
    """A document on its three sides: its file, its record, and what metadata.json remembers of both."""

    address: DocumentAddress
    path: str  # where the file is, or would be
    entry: LedgerEntry | None
    file: Content | None = None
    stamp: Stamp | None = None  # of the file
    sure: bool = False  # whether an edit since it was read shows in the stamp
    record: Record | None = None
    verdict: Verdict = Verdict.SAME  # how it was settled
    stored: bool = True  # whether the store is known to have taken that

    @property
    def settled(self) -> LedgerEntry | None:
        """The entry, if the file says what this vault last sent to the store or had from it."""
        return self.entry if self.file and self.entry and self.file.md5 == self.entry.md5 else None

    @property
    def found(self) -> FoundFile | None:
        """The file as it was read."""
        return (self.file.raw, self.stamp) if self.file and self.stamp else None

    @property
    def document(self) -> Document:
        """The document as its file says it, or else the record; one of them must be there."""
        content, entry, record = self.file, self.settled, self.record
        status: WriteStatus = "stored"
        if content and entry:
            version, updated_at = entry.version, entry.updated_at
            status = "stored" if entry.synced else "queued"
        elif content and self.stamp:
            version = (self.entry.version if self.entry else 0) + 1
            updated_at, status = self.stamp.written_at, "queued"
        elif record:
            content, version = content_of(record), number_of(record)
            updated_at = record.updated_at or record.created_at
        else:
            raise LookupError(self.address.key)
        return Document(
            key=self.address.key,
            kind=self.address.kind,
            body=content.body,
            front=content.front,
            updated_at=updated_at,
            version=version,
            status=status,
        )


class Plan(msgspec.Struct, frozen=True):
    """What is done about one document, and the ops that do it."""

    verdict: Verdict
    after: Content | None  # what the file says then
    record: Record | None  # what the store has then
    ops: list[Op]


class Settler(msgspec.Struct, frozen=True):
    """Settles documents of one vault, one at a time or many at once."""

    folder: Folder
    records: DocumentRecords
    store: Store
    clock: Callable[[], datetime]
    patience_seconds: float

    def look(
        self, address: DocumentAddress, entry: LedgerEntry | None, path: str | None = None
    ) -> DocumentState:
        """Read the document's file; Unusable when it cannot be a document. Blocking."""
        if path is None:
            # A damaged metadata.json may name any file: only one that has this key is believed.
            mine = entry is not None and key_of(entry.path) == address.key
            there = entry if mine and entry and (self.folder.root / entry.path).exists() else None
            path = there.path if there else self.folder.locate(address)
        read_ns, read = time.time_ns(), self.folder.read(path)
        if read is None:
            return DocumentState(address, path, entry)
        raw, stamp = read
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise Unusable(f"byte {error.start} is not UTF-8; save the file as UTF-8") from None
        if "\0" in text:
            raise Unusable("it holds a NUL character")
        return DocumentState(address, path, entry, parse(text), stamp, stamp.is_sure(read_ns))

    async def _look_once_saved(
        self, address: DocumentAddress, entry: LedgerEntry | None, path: str | None
    ) -> DocumentState:
        """Read the document's file; one that somebody is just saving, when it has not changed for a moment."""
        state = await asyncio.to_thread(self.look, address, entry, path)
        for _ in range(ROUNDS):
            if state.settled or state.stamp is None or not state.stamp.is_fresh:
                break
            await asyncio.sleep(SAVING_SECONDS)
            state = await asyncio.to_thread(self.look, address, entry, path)
        return state

    async def settle(
        self,
        address: DocumentAddress,
        entries: dict[str, LedgerEntry],
        path: str | None = None,
        wanted: Callable[[Content | None], Content | None] | None = None,
    ) -> DocumentState:
        """Bring one document together, and note in the entries what it has come to.

        What is `wanted` is made of what the file says, None being nothing; else it is what file and store say. A wanted
        text is made ready beside the file before the store is asked, and takes the file's place after: whichever of the
        two refuses it, the other does not have it.
        """
        for round_ in range(ROUNDS):
            staged = None
            try:
                state = await self._look_once_saved(address, entries.get(address.key), path)
                after = state.file if wanted is None else wanted(state.file)
                if wanted is not None and after is not None:
                    if state.settled and after == state.file:
                        return state
                    staged = await asyncio.to_thread(self.folder.stage, state.path, after.raw)
                try:
                    plan = await self._send(state, after, asked=wanted is not None, blindly=round_ == 0)
                except StoreUnavailable:
                    if after is None or staged is None:
                        raise
                    await self._keep_edit(state, after)  # and the next sync sends the file
                    return await asyncio.to_thread(self._put_file, state, after, staged)
                if plan is not None:
                    return await asyncio.to_thread(self._finish, state, plan, entries, staged)
            except Changed:
                continue
            finally:
                if staged is not None:
                    await asyncio.to_thread(staged.unlink, missing_ok=True)
        raise Conflict(f"the document {address.key!r} is changed again and again by somebody else; try again")

    async def _send(
        self, state: DocumentState, after: Content | None, *, asked: bool, blindly: bool
    ) -> Plan | None:
        """Have the store say this, or decide to take what it says: what was done. None when somebody else was faster.

        What is asked for is sent `blindly` where the file tells what the store has: such a write can wait in a queue, and
        replaces no other text than that. Where it does not, or the store turned out to have another one, that is read.
        """
        buried = False
        if asked and blindly and state.file and (entry := state.settled):
            times = (entry.created_at, entry.updated_at)
            state.record = self.records.document(state.address, state.file, entry.version, times)
        elif state.file or state.entry or after is None or not blindly:
            state.record = await self._wait(self.fetch(state.address), asked=asked)
            buried = not asked and state.record is None and await self._is_buried(state)
        plan = self._plan(state, after, asked=asked, buried=buried)
        state.verdict = plan.verdict
        if plan.ops:
            answer = await self._wait(write_ops(self.store, plan.ops), asked=asked)
            state.stored = answer.stored or plan.verdict not in _WRITES
            if plan.verdict in _WRITES and answer.stored and not answer.counts[-1]:
                return None
        return plan

    async def _wait(self, work: Coroutine[Any, Any, T], *, asked: bool) -> T:
        """The store's answer. Where a caller waits for it there is an end to that; a store with a queue has one of its own."""
        bounded = asked and not isinstance(self.store, Queues)
        return await (Attempts().read(work, self.patience_seconds) if bounded else work)

    async def fetch(self, address: DocumentAddress) -> Record | None:
        """The document as the store has it."""
        found = await self.store.find(self.records.one(address.collection, address.key))
        return found[0] if found else None

    async def _is_buried(self, state: DocumentState) -> bool:
        """Whether the store remembers deleting what the file says."""
        if (entry := state.settled) is None:
            return False
        grave = version_id(entry.version, entry.md5, deleted=True)
        versions = self.records.versions(state.address.key)
        return bool(await self.store.find(msgspec.structs.replace(versions, ids=(grave,))))

    async def _keep_edit(self, state: DocumentState, after: Content) -> None:
        """Before a text goes to the file alone: an edit that is nowhere else must wait in a queue at least, or nothing is done."""
        if state.file is not None and not state.settled and state.file.md5 != after.md5:
            version = (state.entry.version if state.entry else 0) + 1
            kept = self.records.version(state.address.key, state.file, version, "replaced", self.clock())
            await self._wait(write_ops(self.store, [kept]), asked=True)

    def _plan(self, state: DocumentState, after: Content | None, *, asked: bool, buried: bool) -> Plan:
        """How the document comes to say this, or what the store says; every text that gives way is kept as a version before."""
        entry, record, key, at = state.entry, state.record, state.address.key, self.clock()
        theirs = md5_of(record) if record else None
        verdict = decide(
            after.md5 if after else None,
            theirs,
            entry.known if entry else None,
            unconfirmed=entry is not None and not entry.synced,
            buried=buried,
            asked=asked,
        )
        if verdict is Verdict.PULL and record:
            after = content_of(record)
        elif verdict is Verdict.UNLINK:
            after = None
        wanted, ops, ours = (after.md5 if after else None), list[Op](), (entry.version if entry else 0)
        newest = max(ours, number_of(record))
        if state.file is not None and state.file.md5 not in (wanted, theirs):
            newest += not state.settled  # an edit that was never sent has a number of its own
            reason: Reason = "deleted" if after is None else "replaced"
            number = ours if state.settled else newest
            ops.append(self.records.version(key, state.file, number, reason, at))
        if verdict not in _WRITES:
            return Plan(verdict, after, record, ops)
        again = entry is not None and wanted == entry.md5  # sent before, and not known to have arrived
        if record is not None:
            reason = "conflict" if verdict is Verdict.CONFLICT else "deleted" if after is None else "edited"
            if verdict is Verdict.PUSH and (asked or again):
                reason = "replaced"
            ops.append(self.records.version(key, content_of(record), number_of(record), reason, at))
        # The removal also tells a store that remembers what it was given that the addition may not be a repetition.
        ops.append(self.records.remove_op(state.address.collection, key, record))
        if after is None:
            return Plan(verdict, None, None, ops)
        version = max(ours, number_of(record) + 1) if again else newest + 1
        created_at = record.created_at if record else entry.created_at if entry else at
        new = self.records.document(state.address, after, version, (created_at, at))
        return Plan(verdict, after, new, [*ops, Add([new])])

    def _finish(
        self, state: DocumentState, plan: Plan, entries: dict[str, LedgerEntry], staged: Path | None
    ) -> DocumentState:
        """Bring the file and these entries up to what was written. Blocking."""
        after, record, entry, key = plan.after, plan.record, state.entry, state.address.key
        if after is None or record is None:
            if state.found is not None:
                self.folder.unlink(state.path, state.found)
            if state.stored:  # until then the entry says that the file was deleted
                entries.pop(key, None)
            return state
        if staged or state.file is None or after.md5 != state.file.md5:
            state = self._put_file(state, after, staged)
        before = None
        if not state.stored:
            unsent = entry is not None and not entry.synced
            before = entry.before if entry and unsent else md5_of(state.record) if state.record else None
        state.entry = entries[key] = LedgerEntry(
            md5=after.md5,
            version=number_of(record),
            size=len(after.raw),
            file_type=state.address.kind,
            synced_at=self.clock() if state.stored else None,
            path=state.path,
            created_at=record.created_at,
            updated_at=record.updated_at or record.created_at,
            before=before,
            stamp=state.stamp if state.sure else None,
        )
        return state

    def _put_file(self, state: DocumentState, content: Content, staged: Path | None) -> DocumentState:
        """Put a text in the place of the file's. Blocking."""
        staged = staged or self.folder.stage(state.path, content.raw)
        stamp = self.folder.replace(state.path, staged, state.found)
        return msgspec.structs.replace(state, file=content, stamp=stamp, sure=False)
