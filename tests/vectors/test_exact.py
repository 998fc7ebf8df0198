"""Exact search over a store: what it costs, what it keeps in memory, and how it notices what others write."""

import asyncio
import random

import pytest

from octavo import Add, Query, Record, Remove, Scope
from octavo.errors import StoreClosed, StoreUnavailable
from octavo.kernel.ports import Entry
from octavo.stores.memory import MemoryStore
from octavo.testing.vector_subject import agree, direction, rightly
from octavo.vectors import ExactIndex
from octavo.vectors.clocks import MOST_CLOCKS, clocks_query

SPACE, ALL = "model", Scope(tenant="t")


class Watched(MemoryStore):
    """A store that counts the records it hands out, and may be away."""

    def __init__(self):
        super().__init__()
        self.read, self.finds, self.away = 0, 0, False

    async def find(self, query):
        found = await super().find(query)
        self.read += len(found)
        self.finds += 1
        return found

    async def apply(self, ops):
        if self.away:
            raise StoreUnavailable("away")
        return await super().apply(ops)


def entries(count, start=0, **scope):
    source = random.Random(start)
    return [
        Entry(
            collection="messages",
            id=str(n),
            scope=Scope(tenant="t", **scope),
            digest=f"d{n}",
            vector=direction(source),
        )
        for n in range(start, start + count)
    ]


async def reading(store, index, scope=ALL):
    """How many records one question makes the store hand out."""
    before = store.read
    await index.nearest(SPACE, direction(random.Random(0)), scope, ["messages"], 5)
    return store.read - before


async def test_nothing_is_read_twice():
    """When nothing has changed, a question reads one clock; after a write, what was written; never all of it again."""
    store = Watched()
    async with ExactIndex(store) as index, ExactIndex(store) as other:
        await index.put(SPACE, entries(3000))
        assert await reading(store, index) > 3000
        assert await reading(store, other) > 3000
        for reader in (index, other):
            assert await reading(store, reader) == 1
        for start, look in ((3000, 1), (3003, 0)):  # once, the other looks up whose the place is
            await index.put(SPACE, entries(3, start=start))
            assert await reading(store, index) == 1 + 3
            assert await reading(store, other) == 1 + 3 + look
            assert await reading(store, index) == await reading(store, other) == 1
        await index.put(SPACE, entries(3, start=3000, user="another"))
        mine = Scope(tenant="t", user="")
        for reader in (index, other):
            await reading(store, reader, mine)
            await reading(store, reader)
        await index.put(SPACE, entries(30, start=3000, user="another"))
        for reader in (index, other):
            assert await reading(store, reader, mine) == 1  # written elsewhere
            assert await reading(store, reader) == 1 + 30
        await other.drop(SPACE, [entry.key for entry in entries(100)])
        for reader in (index, other):
            assert (
                await reading(store, reader) == 2
            )  # two writers, two clocks, nothing left of what was dropped
        await index.put(SPACE, entries(500, start=4000))
        assert await reading(store, index) == 2 + 500  # a writer knows what it wrote, however much
        before = store.finds
        assert await reading(store, other) > 3400  # too much for a clock to tell
        assert store.finds - before < 10


async def test_scopes_are_let_go():
    """The memory is bounded: the scopes used last are held, and an answer is the same from either."""
    store = Watched()
    users = [Scope(tenant="t", user=f"u{n}") for n in range(10)]
    room = 3 * (100 * (32 * 4 + 400) + 10_000)
    async with ExactIndex(store, cache_bytes=room) as index:
        for n in range(10):
            await index.put(SPACE, entries(100, start=100 * n, user=f"u{n}"))
        for scope in users:
            assert await reading(store, index, scope) > 100
        for scope in reversed(users[-2:]):
            assert await reading(store, index, scope) == 1
        assert await reading(store, index, users[0]) > 100
        assert sum(held.sheet.size_bytes for held in index._held.values()) <= room


async def test_many_writers_come_and_go():
    """However many short-lived processes have written, there are few clocks to read, and no write is overlooked."""
    store = Watched()
    kept = {}
    source = random.Random(1)
    async with ExactIndex(store) as reader, ExactIndex(store) as steady:
        for number in range(3 * MOST_CLOCKS):
            async with ExactIndex(store) as writer:
                new = entries(2, start=2 * number)
                await writer.put(SPACE, new)
                kept |= {entry.key: entry for entry in new}
                if number % 5 == 0:
                    gone = kept.pop(min(kept))
                    await steady.drop(SPACE, [gone.key])
            if number % 3 == 0:
                asked = direction(source)
                found = await reader.nearest(SPACE, asked, ALL, ["messages"], 1000)
                agree(found, rightly(kept.values(), asked, ALL, ["messages"], 1000))
        assert len(await store.find(clocks_query("t", SPACE))) <= MOST_CLOCKS + 2


async def test_a_store_without_its_lists():
    """When all of a tenant was removed from the store, lists and clocks included, putting makes the index anew."""
    store = MemoryStore()
    async with ExactIndex(store) as index:
        old = [
            Entry(
                collection="messages", id=str(n), scope=Scope(), digest="", vector=direction(random.Random(n))
            )
            for n in range(20)
        ]
        await index.put(SPACE, old)
        assert len(await index.nearest(SPACE, old[0].vector, Scope(), ["messages"], 50)) == 20
        await store.apply([Remove(Query(collection="vectors"))])
        assert await index.nearest(SPACE, old[0].vector, Scope(), ["messages"], 50) == []
        assert await index.spaces() == []
        await index.put(SPACE, old[:3])
        await index.drop(SPACE, [old[0].key])
        found = await index.nearest(SPACE, old[0].vector, Scope(), ["messages"], 50)
        assert {near.key.id for near in found} == {"1", "2"}
        assert [space.entries for space in await index.spaces()] == [2]


async def test_a_store_that_is_away():
    """A write that the store could not take is the store's error, and the next one goes through."""
    store = Watched()
    async with ExactIndex(store) as index:
        await index.put(SPACE, entries(5))
        assert await reading(store, index) > 5
        store.away = True
        with pytest.raises(StoreUnavailable):
            await index.put(SPACE, entries(5, start=5))
        with pytest.raises(StoreUnavailable):
            await index.drop(SPACE, [entries(1)[0].key])
        store.away = False
        await index.put(SPACE, entries(2, start=8))
        found = await index.nearest(SPACE, direction(random.Random(0)), ALL, ["messages"], 50)
        assert {near.key.id for near in found} == {"0", "1", "2", "3", "4", "8", "9"}


async def test_a_cancelled_put_stands():
    """Cancelling a caller neither stops its own write nor anybody else's."""
    store = MemoryStore()
    async with ExactIndex(store) as index:
        tasks = [asyncio.create_task(index.put(SPACE, entries(10, start=10 * n))) for n in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert tasks[0].cancelled()
        held = {key.id async for page in index.walk(SPACE) for key, _ in page}
        assert {str(n) for n in range(10, 100)} <= held


async def test_the_store_stays_open_and_unspoilt():
    """A store handed in is not closed, an owned one is; text search does not look through vectors."""
    store = MemoryStore()
    async with ExactIndex(store) as index:
        await index.put(SPACE, entries(5))
        kept = await store.find(Query(collection="vectors", scope=ALL, kinds=(SPACE,)))
        assert len(kept) == 5
        needle = kept[0].data["vector"][:12]
        assert await store.find(Query(collection="vectors", scope=ALL, text=needle)) == []
        assert kept[0].scope == ALL
        assert kept[0].metadata == {"collection": "messages", "id": "0", "digest": "d0"}
    assert await store.apply([Add([Record(collection="events")])]) == [1]
    async with ExactIndex(store, owned=True):
        pass
    with pytest.raises(StoreClosed):
        await store.find(Query(collection="events"))
