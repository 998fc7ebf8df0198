"""What has been acknowledged is found by the very next recall, however busy the store."""

import asyncio

import pytest

from memories import Recall, ids, inside, keep, note
from octavo import Query, Remove

pytestmark = pytest.mark.every_store

WRITERS, EACH = 20, 8


async def test_each_recall_finds_what_was_just_acknowledged(store, home):
    """20 tasks append and each asks at once for what it wrote, by a word of its own and by one that all share."""
    recall = Recall(store)

    async def write(writer: int) -> int:
        mine = inside(home, user=f"u{writer % 4}", session=f"s{writer}")
        missed = 0
        for n in range(EACH):
            name = f"w{writer}n{n}"
            await keep(store, note(mine, name, f"harvest report zq{name} 收成", minutes=n, seq=n))
            by_own, by_shared = await asyncio.gather(
                recall.recall(f"zq{name}", home), recall.recall("收成 harvest", mine, EACH)
            )
            missed += ids(by_own) != [name]
            missed += name not in ids(by_shared)
        return missed

    assert sum(await asyncio.gather(*(write(n) for n in range(WRITERS)))) == 0
    assert len(await recall.recall("harvest", home, 1000)) == WRITERS * EACH


async def test_each_recall_misses_what_was_just_removed(store, home):
    """The same the other way round: after the acknowledgement of a removal nobody finds the record."""
    recall = Recall(store)
    names = [f"n{n}" for n in range(40)]
    await keep(store, *(note(home, name, f"old news zq{name}") for name in names))

    async def remove(name: str) -> int:
        await store.apply([Remove(Query(collection="messages", scope=home, ids=(name,)))])
        found = await asyncio.gather(recall.recall(f"zq{name}", home), recall.recall("old news", home, 100))
        return sum(name in ids(hits) for hits in found)

    assert sum(await asyncio.gather(*map(remove, names))) == 0
    assert await recall.recall("old news", home) == []
