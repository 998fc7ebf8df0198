"""Forgetting somebody: everything that belongs to them goes, and a second time finds what a first one left.

The order is what makes it safe to repeat: the certificate with the digests first, then what waits in queues, documents,
vectors, what is found by means of other records, and last the records that name their owner.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from octavo.erasing.certificate import WINDOW, Certificate, Digester, Digests, keep, texts_of
from octavo.erasing.parts import Documents, Progress, StoreParts, scrub_parts
from octavo.erasing.subject import Belongings, Subject
from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Add, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import EntryKey, Store
from octavo.util.cache import clear_caches
from octavo.util.secrets import DigestKey
from octavo.vectors.base import remove_version
from octavo.wraps.vectors.waiting import keys_in, markers, markers_query, remove_markers

_AT_ONCE = 1000
_NAMED = 5  # users by whom a dry run says whose it is
_NO_KEY = bytes(32)  # of a dry run, which makes and keeps nothing
_ROUNDS = 3  # others may write meanwhile, or bring what they had queued
_PATIENCE_SECONDS = 5.0  # for other processes to bring what they have queued


async def forget(
    store: Store,
    subject: Subject,
    key: DigestKey | None = None,
    *,
    vault: Documents | None = None,
    queue: str | Path | None = None,
    keep_rejected: bool = False,
    dry_run: bool = False,
    scrub: bool = False,
    progress: Progress = None,
) -> Certificate:
    """Erase all that belongs to the subject, and answer the certificate, which the store keeps.

    `queue` is the folder of a failure queue, where the store has none of its own. `keep_rejected` keeps
    the digests of what was rejected, so that it stays so. A dry run only counts.
    """
    parts = StoreParts(store, queue=queue, vault=vault)
    secret = _NO_KEY if dry_run else await asyncio.to_thread((key or DigestKey()).read)
    erasure = _Erasure(parts, subject, Digester(secret), keep_rejected)
    await erasure.look()
    if dry_run:
        return await erasure.count()
    certificate = await erasure.erase()
    if not scrub:
        return certificate
    done = await scrub_parts(parts, erasure.digester, progress)
    return next(each for each in done if each.id == certificate.id)


class _Erasure:
    """One erasure, from the first look to its certificate."""

    def __init__(self, parts: StoreParts, subject: Subject, digester: Digester, keep_rejected: bool) -> None:
        self.parts = parts
        self.subject = subject
        self.digester = digester
        self.belongings = Belongings(subject, keep_rejected)
        self._keep_rejected = keep_rejected
        self._removed: Counter[str] = Counter()
        self._digests: set[int] = set()
        self._keys: dict[EntryKey, None] = {}
        self._users: set[str] = set()

    async def look(self) -> None:
        """Find what is there now, and make the digests of it."""
        self.belongings = await Belongings.of(self.parts.store, self.subject, self._keep_rejected)
        self._digests.update(self.digester.digests([self.subject.name]))
        async for page in self.belongings.pages(self.parts.store):
            said = [record for record in page if record.collection not in ("vectors", "pending")]
            self._digests |= await asyncio.to_thread(self._make_digests, said)  # a second for a long text
            self._keys.update(dict.fromkeys(map(EntryKey.of, said)))
            self._users.update(record.scope.user for record in page if record.scope.user)
        await self._erase_documents(dry_run=True)

    def _make_digests(self, records: Iterable[Record]) -> set[int]:
        return {digest for record in records for digest in self.digester.digests(texts_of(record))}

    async def count(self) -> Certificate:
        """What would be removed."""
        self._removed += await self._tally()
        self._removed["vector markers"] += len(await self._find_markers())
        waiting_ops, dead_ops = await asyncio.to_thread(self.parts.read_queued)
        self._removed["queued writes"] += sum(self._drop_owned(ops) != ops for ops in waiting_ops)
        self._removed["dead letters"] += sum(self._drop_owned(ops) != ops for ops in dead_ops)
        named = tuple(sorted(self._users)[:_NAMED])
        return msgspec.structs.replace(self._certificate(), dry_run=True, subject="", named=named)

    def _certificate(self) -> Certificate:
        subject, removed = self.subject, {where: n for where, n in self._removed.items() if n}
        parts = (subject.tenant, subject.part, subject.name, *([subject.user] if subject.user else []))
        name = self.digester.name(*parts)
        return Certificate(
            id=new_id("ers_"), what=subject.part, subject=name, tenant=subject.tenant, asked_at=now(),
            removed=dict(sorted(removed.items())), users=len(self._users),
        )  # fmt: skip

    async def erase(self) -> Certificate:
        """Remove everything."""
        store = self.parts.store
        self._removed.clear()
        begun = self._certificate()
        await keep(store, begun, await asyncio.to_thread(Digests, self._digests))
        elsewhere = await self._erase_queues()
        await self._erase_documents(dry_run=False)
        left = 0
        for attempt in range(_ROUNDS):
            if attempt:
                await self.look()
            await self._erase_vectors()
            await self._erase_records()
            await self._erase_version()
            left = (await self._tally()).total()
            if not left:
                break
        clear_caches()
        unreached = begun.unreached
        if elsewhere:
            unreached += (
                f"{elsewhere} writes that running processes have queued: forget again when they are stored",
            )
        if left:
            unreached += (f"{left} records that others wrote meanwhile: forget again",)
        digests = Digests(self._digests)
        certificate = msgspec.structs.replace(
            self._certificate(), id=begun.id, asked_at=begun.asked_at, erased_at=now(), digests=digests.total,
            unreached=unreached,
        )  # fmt: skip
        await keep(store, certificate, digests)
        return certificate

    async def _erase_queues(self) -> int:
        """Take the subject's writes out of the queue; answer how many of them other processes hold."""
        subject, clock = self.subject, asyncio.get_running_loop().time
        names = [msgspec.json.encode(subject.name) if subject.part == "user" else subject.name.encode()]
        until = clock() + _PATIENCE_SECONDS
        while True:
            erased = await self.parts.erase_queued(self._drop_owned, names)
            self._removed["queued writes"] += erased.waiting
            self._removed["dead letters"] += erased.dead
            self._removed["damaged lines"] += erased.damaged
            if not erased.elsewhere or clock() > until:
                return erased.elsewhere
            await asyncio.sleep(_PATIENCE_SECONDS / 20)

    def _drop_owned(self, ops: list[Op]) -> list[Op]:
        """What is left of a write; what it loses is looked for too."""
        left = self.belongings.drop_owned(ops)
        if left != ops:
            gone = [
                record
                for op in ops
                if isinstance(op, Add)
                for record in op.records
                if self.belongings.holds(record)
            ]
            self._digests.update(self.digester.digests(text for record in gone for text in texts_of(record)))
        return left

    async def _erase_documents(self, *, dry_run: bool) -> None:
        vault = self.parts.vault
        if vault is None or self.subject.part != "user":
            return
        before = {} if dry_run else await self._tally()
        texts = await vault.erase(self.subject.name, None if dry_run else self.parts.store)
        lines = [line for text in texts for line in text.splitlines() if len(line) >= WINDOW]
        self._digests.update(self.digester.digests(lines))
        self._removed["vault files"] = len(texts)
        if not dry_run:
            after = await self._tally()
            self._removed.update({name: count - after[name] for name, count in before.items()})

    async def _tally(self) -> Counter[str]:
        """How many records there are of each collection."""
        found: Counter[str] = Counter()
        for query in self.belongings.queries:
            found[query.collection] += (await self.parts.store.tally(query)).total
        return found

    async def _erase_vectors(self) -> None:
        """Drop the vectors of what is found, and the markers that would have them made again."""
        store, index, entries = self.parts.store, self.parts.index, list(self._keys)
        if index is not None:
            for space in await index.spaces():
                for start in range(0, len(entries), _AT_ONCE):
                    await index.drop(space.name, entries[start : start + _AT_ONCE])
        for marker in await self._find_markers():
            others = [key for key in keys_in(marker) if not self._owns(key)]
            await store.apply([remove_markers([marker]), Add(markers(others))])
            self._removed["vector markers"] += 1

    def _owns(self, key: EntryKey) -> bool:
        return self.subject.owns(key.scope) or key in self._keys

    async def _find_markers(self) -> list[Record]:
        found = await self.parts.store.find(markers_query(self.subject.tenant))
        return [marker for marker in found if any(self._owns(key) for key in keys_in(marker))]

    async def _erase_version(self) -> None:
        """Take away what an exact index notes of a user."""
        store, subject = self.parts.store, self.subject
        if subject.part != "user":
            return
        for kept_in in {
            id(each): each for each in (store, getattr(self.parts.index, "store", store))
        }.values():
            everything = Query(collection="vectors", scope=Scope(tenant=subject.tenant))
            if (await kept_in.tally(everything)).total:
                await kept_in.apply([remove_version(subject.tenant, subject.name)])

    async def _erase_records(self) -> None:
        store = self.parts.store
        for query in self.belongings.queries:
            if not (
                await store.tally(query)
            ).total:  # a removal would make the table of a collection that nobody uses
                continue
            some = msgspec.structs.replace(query, newest_first=True, limit=_AT_ONCE)
            while count := sum(await store.apply([Remove(some)])):
                self._removed[query.collection] += count
