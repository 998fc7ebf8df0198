"""The one writer: batches, resumed where they stopped; and the look ahead that writes nothing."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from octavo.errors import InvalidRecord
from octavo.importers.values import Items, LeftOut, Unreadable
from octavo.kernel.codec import encode_record, seal
from octavo.kernel.model import Add, Query, Record, Scope
from octavo.kernel.ports import Store
from octavo.layers.records import LOG
from octavo.transfer.copying import PAGE_BYTES, CopyStep, Moved, Progress, Trail, check_size

_SAMPLES = 3  # of each collection
_SAMPLE_CHARACTERS = 100
_MOST_LISTED = 1000  # of what could not be read; all of it is counted

#: Begins to read a source; called again, it begins again.
Read: TypeAlias = Callable[[], Items]


class Brought(Moved, kw_only=True):
    """What an import came to."""

    unreadable: list[Unreadable] = msgspec.field(default_factory=list)  # the first thousand; `bad` counts all
    left_out: dict[str, int] = msgspec.field(default_factory=dict)  # by reason

    async def records(self, read: Read) -> AsyncGenerator[tuple[Record, ...], None]:
        """What is read, in groups that are kept together; the rest is counted here, and what no store would take is unreadable."""
        async with aclosing(read()) as items:  # or a file would stay open when the import is stopped
            async for item in items:
                if isinstance(item, Unreadable | LeftOut):
                    self._note(item)
                    continue
                records = item if isinstance(item, tuple) else (item,)
                try:
                    for record in records:
                        seal(record)
                except InvalidRecord as error:
                    position = f"{records[0].collection} {records[0].id!r}"[:200]
                    self._note(Unreadable(position, str(error)))
                else:
                    yield records

    def _note(self, item: Unreadable | LeftOut) -> None:
        if isinstance(item, LeftOut):
            self.left_out[item.reason] = self.left_out.get(item.reason, 0) + 1
            return
        self.bad += 1
        if len(self.unreadable) < _MOST_LISTED:
            self.unreadable.append(item)


class Sample(msgspec.Struct, frozen=True):
    """One record of a look ahead."""

    collection: str
    kind: str
    user: str | None
    session: str | None
    text: str


class Preview(Brought, kw_only=True):
    """What an import would bring."""

    kinds: dict[str, int] = msgspec.field(default_factory=dict)  # "messages user" → how many
    users: int = 0
    sessions: int = 0
    samples: list[Sample] = msgspec.field(default_factory=list)


async def preview(read: Read, progress: Progress | None = None) -> Preview:
    """Read a source to its end, and say what is in it."""
    told, shown, kinds = Preview(), Counter[str](), Counter[str]()
    users: set[Any] = set()
    sessions: set[Any] = set()
    async with aclosing(told.records(read)) as everything:
        async for found in everything:
            told.count(found, progress, None)
            record, scope = found[0], found[0].scope
            kinds[f"{record.collection} {record.kind}".strip()] += 1
            users.add(scope.user)
            sessions.add((scope.user, scope.session))
            if shown[record.collection] < _SAMPLES:
                shown[record.collection] += 1
                text = " ".join((record.text or str(record.data)).split())
                cut = text if len(text) <= _SAMPLE_CHARACTERS else f"{text[:_SAMPLE_CHARACTERS]}…"
                told.samples.append(Sample(record.collection, record.kind, scope.user, scope.session, cut))
    told.kinds = dict(kinds)
    told.users = len({user for user in users if user})
    told.sessions = len({named for named in sessions if named[1]})
    return told


async def bring(
    read: Read,
    target: Store,
    run: str,
    *,
    batch: int = 1000,
    progress: Progress | None = None,
    resume: Path | str | None = None,
) -> Brought:
    """Add all that is read to the target; what it keeps already is left as it is, and what was forgotten stays forgotten.

    With `resume`, an interrupted import of the same `run` that is called again with the same file goes on where it stopped.
    """
    size = check_size(batch)
    with Trail(resume, run) as trail:
        if trail.last is not None and not await trail.last.holds(target):
            trail.clear()
        brought = await _run(read, target, trail, size, progress)
        if brought is None:  # the source is not what it was
            trail.clear()
            brought = await _run(read, target, trail, size, progress)
        assert brought is not None  # noqa: S101 - there is nothing to go on from now
        trail.clear()
    return brought


async def _run(
    read: Read, target: Store, trail: Trail, size: int, progress: Progress | None
) -> Brought | None:
    """Bring what stands behind the end of the trail; None when the source does not lead there any more."""
    begun, told = trail.last, Brought()
    left = begun.read if begun else 0
    waiting: list[tuple[Record, ...]] = []
    count = waiting_bytes = 0

    async def flush() -> None:
        nonlocal count, waiting_bytes
        records = [record for each in waiting for record in each]
        if not records:
            return
        told.added += await _write(target, waiting)
        last, done = records[-1], told.resumed + told.read + len(records)
        trail.mark(
            CopyStep(tenant=last.scope.tenant, collection=last.collection, cursor=last.cursor, read=done)
        )
        told.count(records, progress, None)
        waiting.clear()
        count = waiting_bytes = 0

    async with aclosing(told.records(read)) as everything:
        async for found in everything:
            if left > 0:
                left -= len(found)
                told.resumed += len(found)
                if left <= 0 and (left < 0 or begun is None or found[-1].id != begun.cursor.id):
                    return None
                continue
            waiting.append(found)
            count += len(found)
            waiting_bytes += sum(len(encode_record(record)) for record in found)
            if count >= size or waiting_bytes >= PAGE_BYTES:
                await flush()
    await flush()
    return None if left > 0 else told


async def _write(target: Store, items: list[tuple[Record, ...]]) -> int:
    """Add records; a fact whose log says that it was here before is not brought back."""
    rows = [record for item in items for record in item if record.collection == LOG and len(item) > 1]
    known: set[tuple[str, str]] = set()
    for tenant in {record.scope.tenant for record in rows}:
        ids = tuple(dict.fromkeys(record.id for record in rows if record.scope.tenant == tenant))
        found = await target.find(Query(collection=LOG, ids=ids, scope=Scope(tenant=tenant)))
        known |= {(record.scope.key, record.id) for record in found}
    new = [
        record
        for item in items
        if not any(record.collection == LOG and (record.scope.key, record.id) in known for record in item)
        for record in item
    ]
    if not new:
        return 0
    [added] = await target.apply([Add(new)])
    return added
