"""Whatever fails, no write does; nothing that was written stays without its vector."""

import asyncio
from datetime import timedelta

import pytest
from faults import HOME, SETTLED, FailingEmbedder, FailingIndex, entries, key, left, near, said

from octavo import (
    Add,
    Change,
    ModelError,
    Query,
    Remove,
    StoreClosed,
    StoreUnavailable,
    open_store,
    open_vectors,
)
from octavo.kernel.ids import now
from octavo.kernel.terms.matching import digest
from octavo.testing.embedding import HashEmbedder
from octavo.wraps import Wrap
from octavo.wraps.vectors.waiting import markers

STORES = ["memory", "sqlite", "file", "postgres", "mysql", "redis"]


async def until(holds):
    """Wait for something that is bound to happen."""
    async with asyncio.timeout(SETTLED):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("kind", STORES)
async def test_an_index_that_is_down_for_a_while(kind, place, wrap):
    """Writes go on, the markers stay, and all is there when the index is back."""
    store = open_store(place(kind))
    index, embedder = FailingIndex(open_vectors("memory://")), FailingEmbedder()
    indexed = await wrap(store, index, embedder)
    await indexed.apply([Add([said("before", "before the storm")])])
    await indexed.settle(SETTLED)
    index.down = True
    for number in range(20):
        assert await indexed.apply([Add([said(f"m{number}", f"word{number} of many")])]) == [1]
    assert await indexed.apply([Remove(Query(collection="messages", ids=("before",)))]) == [1]
    await until(lambda: index.refused > 3)
    assert await left(store) == 21
    with pytest.raises(TimeoutError):
        await indexed.settle(0.05)
    status = await indexed.status()
    assert status.waiting == 21
    assert status.failures > 3
    assert status.last_error == "StoreUnavailable: the index is down"
    index.down = False
    await indexed.settle(SETTLED)
    assert not await indexed.verify_vectors()
    assert len(await entries(index, embedder.name)) == 20
    assert await near(indexed, "word7 of many") == ["m7"]


async def test_a_model_that_is_down_for_a_while(wrap):
    """The same; questions say that it is down instead of finding nothing."""
    embedder = FailingEmbedder(1024)
    indexed = await wrap(embedder=embedder)
    await indexed.settle(SETTLED)
    embedder.down = True
    await indexed.apply([Add([said(f"m{number}", f"word{number} of many") for number in range(300)])])
    await until(lambda: embedder.refused > 5)
    with pytest.raises(ModelError, match="the model is down"):
        await near(indexed, "word7 of many")
    embedder.down = False
    await indexed.settle(SETTLED)
    assert await near(indexed, "word7 of many") == ["m7"]
    assert not await indexed.verify_vectors()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_clock_that_was_ahead_delays_no_vector(kind, place, wrap, monkeypatch):
    """What was written while the clock was a year ahead is embedded as soon as the model answers, also by another process."""
    url, index = place(kind), open_vectors("memory://")
    store, embedder = open_store(url), FailingEmbedder()
    for module in ("waiting", "upkeep"):
        monkeypatch.setattr(f"octavo.wraps.vectors.{module}.now", lambda: now() + timedelta(days=365))
    indexed = await wrap(store, index, embedder, owned=False)
    embedder.down = True
    await indexed.apply([Add([said("a", "an early bird")])])
    await until(lambda: embedder.refused > 1)
    monkeypatch.undo()
    embedder.down = False
    await indexed.settle(SETTLED)
    assert await near(indexed, "an early bird") == ["a"]
    future = markers([key("b")], due=now() + timedelta(days=365))  # left by a process that is gone
    await store.apply([Add([said("b", "a late owl"), *future])])
    again = await wrap(store, index, embedder)
    await again.settle(SETTLED)
    assert await near(again, "a late owl") == ["b"]


async def test_a_text_the_model_refuses(wrap):
    """All others are embedded; it is tried again later, and found once the model takes it."""
    embedder = FailingEmbedder(poison="poison")
    indexed = await wrap(embedder=embedder)
    notes = [said(f"m{number}", f"word{number} of many") for number in range(100)]
    await indexed.apply([Add([*notes[:50], said("bad", "poison for a model"), *notes[50:]])])
    await until(lambda: len(embedder.read) >= 100)
    with pytest.raises(TimeoutError):
        await indexed.settle(0.05)
    assert (await indexed.status()).last_error == "ModelError: the model refuses this text"
    assert await left(indexed.inner) == 1
    await indexed.apply([Add([said("new", "a new thing")])])
    await until(lambda: "a new thing" in embedder.read)
    embedder.poison = None
    await indexed.settle(SETTLED)
    assert await near(indexed, "poison for a model") == ["bad"]
    assert not await indexed.verify_vectors()


async def test_a_refused_text_does_not_hold_up_a_new_space(wrap):
    """The space is completed without it, and it is taken care of like any write."""
    store = open_store("memory://")
    await store.apply([Add([said("bad", "poison for a model"), *[said(f"m{n}", f"w{n}") for n in range(9)]])])
    embedder = FailingEmbedder(poison="poison")
    index = open_vectors("memory://")
    indexed = await wrap(store, index, embedder)
    async with asyncio.timeout(SETTLED):
        while not any(space.complete for space in await index.spaces()):
            await asyncio.sleep(0.001)
    assert len(await entries(index, embedder.name)) == 9
    async with asyncio.timeout(SETTLED):  # the task knows, without being told to look
        while (await indexed.status()).waiting != 1:
            await asyncio.sleep(0.001)
    embedder.poison = None
    await indexed.settle(SETTLED)
    assert key("bad") in await entries(index, embedder.name)


class Short(HashEmbedder):
    """Answers one vector too few, or one that is nothing."""

    async def embed(self, texts, *, asking=False):
        found = await super().embed(texts)
        return found[1:] if len(texts) % 2 else [vector[:0] for vector in found]


async def test_a_model_that_answers_nonsense(wrap):
    """It is a failure like any other, not an entry like any other."""
    index = open_vectors("memory://")
    indexed = await wrap(index=index, embedder=Short())
    for count in (1, 2, 5):
        await indexed.apply([Add([said(f"{count}-{n}", "hello") for n in range(count)])])
    with pytest.raises(TimeoutError):
        await indexed.settle(0.1)
    status = await indexed.status()
    assert status.last_error.startswith("ModelError: hash-for-tests:64 answered")
    assert status.waiting
    assert await entries(index, Short().name) == {}


class Broken(HashEmbedder):
    """Fails in a way no embedder may."""

    broken = True

    async def embed(self, texts, *, asking=False):
        if self.broken:
            raise ZeroDivisionError("a bug")
        return await super().embed(texts)


async def test_a_bug_in_a_model_is_told(wrap):
    """Who waits is told of it, the status too; a later write sets the work going again."""
    embedder = Broken()
    indexed = await wrap(embedder=embedder)
    await indexed.apply([Add([said("a", "hello")])])
    with pytest.raises(ZeroDivisionError):
        await indexed.settle(SETTLED)
    assert (await indexed.status()).last_error == "ZeroDivisionError: a bug"
    embedder.broken = False
    await indexed.apply([Add([said("b", "there")])])
    await indexed.settle(SETTLED)
    assert not await indexed.verify_vectors()


class Slow(HashEmbedder):
    """Waits before it answers until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def embed(self, texts, *, asking=False):
        self.asked.set()
        await self.go_on.wait()
        return await super().embed(texts)


async def test_a_newer_text_wins_over_a_slow_model(wrap):
    """While one embeds the old text, another one embeds the new and takes the marker away; the new vector stays."""
    store, index = open_store("memory://"), open_vectors("memory://")
    slow = Slow()
    one = await wrap(store, index, slow, owned=False)
    two = await wrap(store, index, owned=False)
    slow.go_on.set()
    await one.settle(SETTLED)
    slow.go_on.clear()
    slow.asked.clear()
    await one.apply([Add([said("a", "the old text"), said("b", "soon gone")])])
    await slow.asked.wait()
    of_a, of_b = (Query(collection="messages", ids=(id_,)) for id_ in "ab")
    await two.apply([Change(query=of_a, text="a new one"), Remove(of_b)])
    await two.settle(SETTLED)
    assert await left(store) == 0
    slow.go_on.set()
    await one.settle(SETTLED)
    assert await entries(index, slow.name) == {key("a"): digest("a new one")}


async def test_closing_waits_for_the_batch_under_way(wrap):
    """What it was at is finished, what comes after is left in the store, and closing can be given up and done again."""
    store, index, slow = open_store("memory://"), open_vectors("memory://"), Slow()
    indexed = await wrap(store, index, slow, owned=False)
    await indexed.apply([Add([said("a", "hello")])])
    await slow.asked.wait()
    await indexed.apply([Add([said("b", "there")])])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await indexed.close()
    slow.go_on.set()
    await indexed.close()
    assert set(await entries(index, slow.name)) == {key("a")}
    assert await left(store) == 1
    again = await wrap(store, index)
    await again.settle(SETTLED)
    assert set(await entries(index, slow.name)) == {key("a"), key("b")}


class Vanishing(Wrap):
    """Keeps what it is given and then says that it cannot be reached."""

    lies = False

    async def apply(self, ops):
        counts = await self.inner.apply(ops)
        if self.lies:
            raise StoreUnavailable("the connection broke")
        return counts


async def test_a_write_that_seemed_to_fail(wrap):
    """A commit whose answer was lost is embedded all the same."""
    store = Vanishing(open_store("memory://"))
    indexed = await wrap(store)
    store.lies = True
    with pytest.raises(StoreUnavailable):
        await indexed.apply([Add([said("a", "hello")])])
    store.lies = False
    await indexed.settle(SETTLED)
    assert await near(indexed, "hello", HOME) == ["a"]


async def test_a_store_closed_by_its_owner(wrap):
    """The work ends, and whoever waits for it is told."""
    store = open_store("memory://")
    indexed = await wrap(store, owned=False)
    await indexed.settle(SETTLED)
    await store.close()
    with pytest.raises(StoreClosed):
        await indexed.settle(SETTLED)
