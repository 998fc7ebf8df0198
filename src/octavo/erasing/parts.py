"""Where somebody's data can be: the parts that a store was put together of, and what stands beside it; and the scrub of them.

The scrub writes over what removed records leave behind in files, and looks for it, once for many erasures.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from octavo.erasing.certificate import (
    BEYOND,
    Certificate,
    Digester,
    Digests,
    everything_of,
    keep,
    read_certificates,
)
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Op, Query, Record, Scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import ListsTenants, Scrubbed, Scrubs, Store, VectorIndex
from octavo.kernel.shapes import SHAPES
from octavo.util.secrets import DigestKey
from octavo.wraps import Wrap
from octavo.wraps.journal import Erased, Journal, Spool, peek
from octavo.wraps.vectors import Indexed

#: Told what is done, how far it is, and how far it goes.
Progress: TypeAlias = Callable[[str, int, int], None] | None
_PAGE, _PAGE_BYTES = 500, 4 * 2**20


class Documents(Protocol):
    """A vault: documents as files beside the store."""

    root: Path

    async def erase(self, user: str, store: Store | None) -> list[str]: ...


class StoreParts:
    """A store without its wraps, and these wraps: what is erased must not be queued, nor leave a marker behind."""

    def __init__(
        self, store: Store, *, queue: str | Path | None = None, vault: Documents | None = None
    ) -> None:
        self.journal: Journal | None = None
        self.index: VectorIndex | None = None
        while isinstance(store, Wrap):
            if isinstance(store, Journal):
                self.journal = store
            elif isinstance(store, Indexed):
                self.index = store.index
            store = store.inner
        self.store = store
        self.vault = vault
        self.queue = None if self.journal or queue is None or not Path(queue).is_dir() else Path(queue)

    @property
    def queue_folder(self) -> Path | None:
        """Where writes wait."""
        return self.queue if self.journal is None else Path(self.journal.status().directory)

    async def erase_queued(self, left: Callable[[list[Op]], list[Op]], names: Sequence[bytes] = ()) -> Erased:
        """Write the queue anew with what is `left` of each write; of damaged lines, with those that hold none of the names."""
        if self.journal is not None:
            return await self.journal.erase(left, names)
        folder = self.queue
        if folder is None:
            return Erased()

        def work() -> Erased:
            with Spool(folder) as spool:
                return spool.erase(left, names)

        return await asyncio.to_thread(work)

    def read_queued(self) -> tuple[list[list[Op]], list[list[Op]]]:
        """The ops of all writes that wait, and of those that were given up."""
        folder = self.queue_folder
        if folder is None:
            return [], []
        return [entry.ops for entry in peek(folder)], [letter.ops for letter in Spool(folder).dead]

    def files(self) -> list[str]:
        """Every file beside the store."""
        folders = [self.queue_folder, None if self.vault is None else Path(self.vault.root)]
        return [
            str(path)
            for folder in folders
            if folder is not None and folder.is_dir()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ]


async def scrub(
    store: Store,
    key: DigestKey | None = None,
    *,
    vault: Documents | None = None,
    queue: str | Path | None = None,
    progress: Progress = None,
) -> list[Certificate]:
    """Finish the erasures whose scrub is pending, and answer their certificates."""
    return await scrub_parts(
        StoreParts(store, queue=queue, vault=vault),
        Digester(await asyncio.to_thread((key or DigestKey()).read)),
        progress,
    )


async def scrub_parts(parts: StoreParts, digester: Digester, progress: Progress) -> list[Certificate]:
    """Write anew, look through the bytes, and say what was found."""
    tell = progress or (lambda _what, _done, _total: None)
    told = [await _scrub_one(parts.store, lambda done, total: tell("scrubbed", done, total))]
    if parts.index is not None:
        told.append(await _scrub_one(parts.index, lambda _done, _total: None))
    await parts.erase_queued(lambda ops: ops)
    pending = await read_certificates(parts.store, pending=True)
    digests = Digests({each for _, own in pending for each in own.all})
    files = list(dict.fromkeys([*(file for one in told for file in one.files), *parts.files()]))
    found: Counter[int] = Counter()
    size = 0
    for done, file in enumerate(files):
        tell("looked through", done, len(files))
        here, read = await asyncio.to_thread(digester.find_in_file, file, digests)
        found, size = found + here, size + read
    tell("looked through", len(files), len(files))
    if found:
        others = await _find_held_by_others(parts, digester, Digests(found))
        found = Counter({each: count for each, count in found.items() if each not in others})
    at = now()
    finished = []
    for certificate, own in pending:
        hits = sum(count for each, count in found.items() if each in own.all)
        unreached = [*certificate.unreached, *BEYOND, *(word for one in told for word in one.unreached)]
        after = msgspec.structs.replace(
            certificate,
            scrub="found" if hits else "done",
            scrubbed_at=at,
            scrubbed=tuple(dict.fromkeys(word for one in told for word in one.done)),
            scanned={"files": len(files), "bytes": size},
            found=hits,
            unreached=tuple(dict.fromkeys(unreached)),
        )
        await keep(parts.store, after, own if hits else None)
        finished.append(after)
    return finished


async def _scrub_one(store: Store | VectorIndex, progress: Callable[[int, int], None]) -> Scrubbed:
    if isinstance(store, Scrubs):
        return await store.scrub(progress)
    return Scrubbed(unreached=(f"the bytes that {type(store).__name__} leaves behind: it cannot scrub",))


async def _find_held_by_others(parts: StoreParts, digester: Digester, digests: Digests) -> set[int]:
    """Those of the digests that are of something a record still says, stored or queued."""
    held: set[int] = set()

    def look(records: list[Record]) -> None:
        for record in records:
            held.update(digester.find(everything_of(record), digests))

    tenants = await parts.store.tenants() if isinstance(parts.store, ListsTenants) else [""]
    for tenant in {"", *tenants}:
        for collection in SHAPES:
            query = Query(collection=collection, scope=Scope(tenant=tenant))
            async for page in walk(parts.store, query, _PAGE, _PAGE_BYTES):
                await asyncio.to_thread(look, page)
    for written in await asyncio.to_thread(parts.read_queued):
        look([record for ops in written for op in ops if isinstance(op, Add) for record in op.records])
    return held
