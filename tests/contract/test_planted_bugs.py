"""The contract is worth something: each of these stores has one bug, and the named test sees it."""

import asyncio
import contextlib

import msgspec
import pytest

from octavo import InvalidRecord, Record
from octavo.stores.memory import MemoryStore
from octavo.testing import StoreContract


class IgnoresOffset(MemoryStore):
    async def _find(self, query):
        return await super()._find(msgspec.structs.replace(query, offset=0))


class IgnoresWithout(MemoryStore):
    async def _tally(self, query):
        return await super()._tally(msgspec.structs.replace(query, without=()))


class KeepsTheOldest(MemoryStore):
    async def _find(self, query):
        found = await super()._find(query.unpaged)
        return found[: query.limit]


class OpByOp(MemoryStore):
    async def apply(self, ops):
        return [(await super(OpByOp, self).apply([op]))[0] for op in ops]


class ReadsThenWrites(MemoryStore):
    async def _apply(self, ops):
        before = {shelf: list(kept._rows.values()) for shelf, kept in self._image.shelves.items()}
        counts = await super()._apply(ops)
        after = self._image
        self._image = type(after)()
        for rows in before.values():
            for row in rows:
                self._image.shelf(row.collection).put(row)
        await asyncio.sleep(0)
        self._image = after
        return counts


class FoldsNames(MemoryStore):
    async def apply(self, ops):
        folded = [
            msgspec.structs.replace(
                op, records=[msgspec.structs.replace(r, id=r.id.strip()) for r in op.records]
            )
            if hasattr(op, "records")
            else op
            for op in ops
        ]
        return await super().apply(folded)


class Shares(MemoryStore):
    def __init__(self):
        super().__init__()
        self._seen = {}

    async def _find(self, query):
        return [self._seen.setdefault(record.rank, record) for record in await super()._find(query)]


class Rounds(MemoryStore):
    async def _find(self, query):
        return [rounded(record) for record in await super()._find(query)]


def rounded(record: Record) -> Record:
    at = record.created_at
    return msgspec.structs.replace(record, created_at=at.replace(microsecond=at.microsecond // 1000 * 1000))


class SortsKeys(MemoryStore):
    async def _find(self, query):
        found = await super()._find(query)
        return [msgspec.structs.replace(record, data=dict(sorted(record.data.items()))) for record in found]


class SaysItItsOwnWay(MemoryStore):
    async def apply(self, ops):
        try:
            return await super().apply(ops)
        except InvalidRecord as error:
            raise InvalidRecord(str(error).upper()) from None


class OpenForEver(MemoryStore):
    async def close(self):
        pass


class GivesUpForAll(MemoryStore):
    """One cancelled caller ends the calls that wait beside it."""

    waiting = None

    async def _apply(self, ops):
        self.waiting = self.waiting or asyncio.get_running_loop().create_future()
        shared = self.waiting
        asyncio.get_running_loop().call_soon(lambda: shared.done() or shared.set_result(None))
        await shared
        self.waiting = None
        return await super()._apply(ops)


PLANTED = [
    (IgnoresOffset, "test_programs_agree"),
    (IgnoresOffset, "test_limits"),
    (IgnoresWithout, "test_programs_agree"),
    (KeepsTheOldest, "test_limits"),
    (KeepsTheOldest, "test_pages_are_complete"),
    (OpByOp, "test_one_call_is_one_transaction"),
    (OpByOp, "test_hostile_records"),
    (ReadsThenWrites, "test_the_same_ids_at_once"),
    (ReadsThenWrites, "test_merges_at_once"),
    (FoldsNames, "test_ids_are_bytes"),
    (Shares, "test_readers_get_copies"),
    (Rounds, "test_times"),
    (Rounds, "test_programs_agree"),
    (SortsKeys, "test_bodies_come_back"),
    (SaysItItsOwnWay, "test_hostile_records"),
    (OpenForEver, "test_use_after_close"),
    (GivesUpForAll, "test_cancelled_callers"),
]


@pytest.mark.parametrize(("store", "test"), PLANTED, ids=lambda value: getattr(value, "__name__", value))
def test_the_bug_is_seen(store, test, monkeypatch):
    """The named test of the contract fails on the store with the bug, and passes on the one without."""
    monkeypatch.setenv("OCTAVO_PROGRAMS", "100")

    class Contract(StoreContract):
        shrink_seconds = 0

        async def open(self):
            return store()

    with pytest.raises(BaseException) as failure:
        getattr(Contract(), test)()
    assert not isinstance(failure.value, pytest.skip.Exception | KeyboardInterrupt)


@pytest.mark.parametrize("test", sorted({test for _, test in PLANTED} - {"test_programs_agree"}))
def test_no_bug_is_seen_where_there_is_none(test):
    """The same tests pass on the memory store as it is."""

    class Contract(StoreContract):
        async def open(self):
            return MemoryStore()

    with contextlib.suppress(pytest.skip.Exception):
        getattr(Contract(), test)()
