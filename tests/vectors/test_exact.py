"""Exact search over a store: what it costs, what it keeps in memory, and how it notices what others write."""

import asyncio
import random

import pytest

from octavo import Add, Query, Record, Remove, Scope
from octavo.errors import StoreClosed, StoreUnavailable
from octavo.kernel.ports import Entry
from octavo.stores.memory import MemoryStore
from octavo.testing.vectors import assert_agree, direction, nearest_exactly
from octavo.vectors import ExactIndex

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
    """When nothing has changed, a question reads one version; after a write of the same user, his vectors; whoever wrote."""
    store = Watched()
    ann, ben = Scope(tenant="t", user="ann"), Scope(tenant="t", user="ben")
    async with ExactIndex(store) as index, ExactIndex(store) as other:
        await index.put(SPACE, [*entries(300, user="ann"), *entries(20, start=300, user="ben")])
        for reader in (index, other):
            for scope, count in ((ann, 300), (ben, 20), (ALL, 320)):
                assert await reading(store, reader, scope) > count
                assert await reading(store, reader, scope) == 1
        await index.put(SPACE, entries(3, start=300, user="ben"))
        for reader in (index, other):
            assert await reading(store, reader, ann) == 1  # written elsewhere
            for scope, count in ((ben, 20), (ALL, 320)):
                assert await reading(store, reader, scope) > count
                assert await reading(store, reader, scope) == 1
        await other.drop(SPACE, [entry.key for entry in entries(10, start=300, user="ben")])
        await index.drop(SPACE, [entry.key for entry in entries(1, user="nobody")])
        for reader in (index, other):
            assert await reading(store, reader, ann) == 1
            assert 10 < await reading(store, reader, ben) < 20


async def test_writers_at_the_same_moment():
    """Whoever reads between two writes of one moment notices the second one too."""
    store = MemoryStore()
    async with ExactIndex(store) as one, ExactIndex(store) as two, ExactIndex(store) as reader:
        for start in range(0, 200, 20):
            puts = [index.put(SPACE, entries(10, start=start + at)) for index, at in ((one, 0), (two, 10))]
            look = reader.nearest(SPACE, direction(random.Random(0)), ALL, ["messages"], 1)
            await asyncio.gather(*puts, look)
            found = await reader.nearest(SPACE, direction(random.Random(0)), ALL, ["messages"], 1000)
            assert len(found) == start + 20


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
        assert sum(held.matrix.size_bytes for held in index._held.values()) <= room


async def test_many_writers_come_and_go():
    """However many short-lived processes have written, no write is overlooked."""
    store = MemoryStore()
    kept = {}
    source = random.Random(1)
    async with ExactIndex(store) as reader, ExactIndex(store) as steady:
        for number in range(40):
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
                assert_agree(found, nearest_exactly(kept.values(), asked, ALL, ["messages"], 1000))


async def test_a_store_without_its_lists():
    """When all of a tenant was removed from the store, lists and versions included, putting makes the index anew."""
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


class Waiting(MemoryStore):
    """A store whose writers wait for each other."""

    async def apply(self, ops):
        await asyncio.sleep(0.001)
        return await super().apply(ops)


async def test_a_cancelled_put():
    """Cancelling one caller stops nobody else's write, and leaves all of its own or nothing."""
    async with ExactIndex(Waiting()) as index:
        tasks = [asyncio.create_task(index.put(SPACE, entries(10, start=10 * n))) for n in range(10)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert tasks[0].cancelled()
        held = {key.id async for page in index.walk(SPACE) for key, _ in page}
        assert held - {str(n) for n in range(10)} == {str(n) for n in range(10, 100)}
        assert len(held) in {90, 100}


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
