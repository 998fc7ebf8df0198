"""The scrub: what removed records leave behind in files is written over, and looked for, once for many erasures."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from octavo.erasing.certificate import BEYOND, Certificate, keep, read_certificates
from octavo.erasing.digests import Digester, Digests, everything_of
from octavo.erasing.places import Documents, Places, Progress
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Op, Query, Record, Scope
from octavo.kernel.ports import ListsTenants, Scrubbed, Scrubs, Store, VectorIndex, walk
from octavo.kernel.shapes import SHAPES
from octavo.util.secrets import DigestKey

_PAGE, _PAGE_BYTES = 500, 4 * 2**20


async def scrub(
    store: Store,
    key: DigestKey | None = None,
    *,
    vault: Documents | None = None,
    queue: str | Path | None = None,
    progress: Progress = None,
) -> list[Certificate]:
    """Finish the erasures whose scrub is pending, and answer their certificates."""
    return await scrub_places(
        Places(store, queue=queue, vault=vault),
        Digester(await asyncio.to_thread((key or DigestKey()).read)),
        progress,
    )


async def scrub_places(places: Places, digester: Digester, progress: Progress) -> list[Certificate]:
    """Write anew, look through the bytes, and say what was found."""
    tell = progress or (lambda _what, _done, _total: None)
    told = [await _scrub_one(places.store, lambda done, total: tell("scrubbed", done, total))]
    if places.index is not None:
        told.append(await _scrub_one(places.index, lambda _done, _total: None))
    await _rewrite_queue(places)
    pending = await read_certificates(places.store, pending=True)
    digests = Digests({each for _, own in pending for each in own.all})
    files = list(dict.fromkeys([*(file for one in told for file in one.files), *places.files()]))
    found: Counter[int] = Counter()
    size = 0
    for done, file in enumerate(files):
        tell("looked through", done, len(files))
        here, read = await asyncio.to_thread(digester.find_in_file, file, digests)
        found, size = found + here, size + read
    tell("looked through", len(files), len(files))
    if found:
        others = await _held_by_others(places, digester, Digests(found))
        found = Counter({each: count for each, count in found.items() if each not in others})
    at = now()
    finished = []
    for certificate, own in pending:
        hits = sum(count for each, count in found.items() if each in own.all)
        done_words = tuple(dict.fromkeys(word for one in told for word in one.done))
        after = msgspec.structs.replace(
            certificate,
            scrub="found" if hits else "done",
            scrubbed_at=at,
            scrubbed=done_words,
            scanned={"files": len(files), "bytes": size},
            found=hits,
            unreached=tuple(
                dict.fromkeys(
                    [*certificate.unreached, *BEYOND, *(word for one in told for word in one.unreached)]
                )
            ),
        )
        await keep(places.store, after, own if hits else None)
        finished.append(after)
    return finished


async def _scrub_one(store: Store | VectorIndex, progress: Callable[[int, int], None]) -> Scrubbed:
    if isinstance(store, Scrubs):
        return await store.scrub(progress)
    return Scrubbed(unreached=(f"the bytes that {type(store).__name__} leaves behind: it cannot scrub",))


async def _rewrite_queue(places: Places) -> None:
    def as_it_is(ops: list[Op]) -> list[Op]:
        return ops

    if places.journal is not None:
        await places.journal.erase(as_it_is)
    elif places.queue is not None:

        def work() -> None:
            with places.spool() as spool:
                spool.erase(as_it_is)

        await asyncio.to_thread(work)


async def _held_by_others(places: Places, digester: Digester, digests: Digests) -> set[int]:
    """Those of the digests that are of something a record still says, stored or queued."""
    held: set[int] = set()

    def look(records: list[Record]) -> None:
        for record in records:
            held.update(digester.find(everything_of(record), digests))

    tenants = await places.store.tenants() if isinstance(places.store, ListsTenants) else [""]
    for tenant in {"", *tenants}:
        for collection in SHAPES:
            query = Query(collection=collection, scope=Scope(tenant=tenant))
            async for page in walk(places.store, query, _PAGE, _PAGE_BYTES):
                await asyncio.to_thread(look, page)
    for written in await asyncio.to_thread(places.queued):
        look([record for ops in written for op in ops if isinstance(op, Add) for record in op.records])
    return held
