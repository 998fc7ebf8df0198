"""Another model: all is embedded anew in the background, and the old vectors serve until the new are complete."""

import asyncio

import pytest
from faults import SETTLED, FailingEmbedder, FailingIndex, entries, key, left, near, said

from octavo import Add, Change, Indexed, Query, Remove, Scope, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder

STORES = ["memory", "sqlite", "file", "postgres", "mysql", "redis"]
OLD, NEW = 64, 32
COUNT = 300


class Gated(FailingEmbedder):
    """Embeds so many texts and then waits for the gate."""

    def __init__(self, dimensions, most):
        super().__init__(dimensions)
        self.most, self.gate, self.stuck = most, asyncio.Event(), asyncio.Event()

    async def embed(self, texts, *, asking=False):
        if not asking and len(self.read) + len(texts) > self.most and not self.gate.is_set():
            self.stuck.set()
            await self.gate.wait()
        return await super().embed(texts, asking=asking)


async def names(index):
    return {space.name: space.complete for space in await index.spaces()}


async def with_old(wrap, store, index, **more):
    old = await wrap(store, index, HashEmbedder(OLD), owned=False)
    notes = [said(f"m{n}", f"word{n} of many", Scope(tenant=("", "acme")[n % 2])) for n in range(COUNT)]
    await old.apply([Add(notes)])
    await old.settle(SETTLED)
    await old.close()


@pytest.mark.parametrize("kind", STORES)
async def test_the_old_space_serves_until_the_new_one_is_complete(kind, place, wrap):
    """Writes go to both meanwhile; then the new one serves and the old one is gone."""
    store, index = open_store(place(kind)), open_vectors("memory://")
    await with_old(wrap, store, index)
    new, old = Gated(NEW, 128), FailingEmbedder(OLD)
    indexed = await wrap(store, index, new, previous=old)
    await new.stuck.wait()
    assert await names(index) == {old.name: True, new.name: False}
    assert await near(indexed, "word10 of many", Scope()) == ["m10"]
    assert (new.asked, old.asked) == ([], ["word10 of many"])
    status = await indexed.status()
    assert (status.serving, status.building, status.done, status.total) == (old.name, new.name, 128, COUNT)
    assert 0 < status.progress < 1
    await indexed.apply([Add([said("late", "brand new", Scope())])])
    await indexed.apply([Remove(Query(collection="messages", ids=("m0",)))])

    new.gate.set()
    await indexed.settle(SETTLED)
    assert "brand new" in old.read  # it went to both
    assert await names(index) == {new.name: True}
    assert await near(indexed, "word10 of many", Scope()) == ["m10"]
    assert await near(indexed, "brand new", Scope()) == ["late"]
    assert new.asked == ["word10 of many", "brand new"]
    assert not await indexed.verify_vectors()
    assert len(await entries(index, new.name)) == COUNT
    status = await indexed.status()
    assert (status.serving, status.building, status.progress) == (new.name, None, None)


async def test_interrupted_and_taken_up_again(wrap):
    """The next process embeds only what is not there yet, or was changed; the old one serves all the time."""
    store, index = open_store("memory://"), open_vectors("memory://")
    await with_old(wrap, store, index)
    first = Gated(NEW, 128)
    indexed = await wrap(store, index, first, previous=HashEmbedder(OLD), owned=False)
    await first.stuck.wait()
    done = await entries(index, first.name)
    assert len(done) == 128
    closing = asyncio.create_task(indexed.close())
    indexed._upkeep._task.cancel()  # as if the process had been killed in the middle of a batch
    await closing
    [changed, gone] = [entry.id for entry in sorted(done)[:2]]
    await store.apply([Change(query=Query(collection="messages", ids=(changed,), scope=Scope()), text="odd")])
    await store.apply([Remove(Query(collection="messages", ids=(gone,), scope=Scope()))])

    second = FailingEmbedder(NEW)
    resumed = await wrap(store, index, second, previous=HashEmbedder(OLD))
    await resumed.settle(SETTLED)
    left_over = COUNT - 128
    missed = {changed, gone} & {f"m{n}" for n in range(0, COUNT, 2)}  # those of the tenant ""
    assert len(second.read) == left_over + len(missed & {changed})
    assert await names(index) == {second.name: True}
    assert not await resumed.verify_vectors()


async def test_without_the_previous_model_the_new_space_serves_when_it_is_whole(wrap):
    """Nobody can ask the old one; it is left alone, since it may be somebody else's. Half a space would rank what it has first."""
    store, index = open_store("memory://"), open_vectors("memory://")
    await with_old(wrap, store, index)
    new = Gated(NEW, 128)
    indexed = await wrap(store, index, new)
    await new.stuck.wait()
    [first, *_] = [entry.id for entry in sorted(await entries(index, new.name))]
    tenant = Scope(tenant="acme" if int(first[1:]) % 2 else "")
    while_building = await near(indexed, f"word{first[1:]} of many", tenant)
    new.gate.set()
    await indexed.settle(SETTLED)
    assert while_building == []
    assert await near(indexed, f"word{first[1:]} of many", tenant) == [first]
    assert await names(index) == {HashEmbedder(OLD).name: True, new.name: True}


async def test_a_space_that_is_kept_is_kept_up_to_date(wrap):
    """So that one can go back to the old model at once."""
    store, index = open_store("memory://"), open_vectors("memory://")
    await with_old(wrap, store, index)
    indexed = await wrap(store, index, HashEmbedder(NEW), previous=HashEmbedder(OLD), keep=True, owned=False)
    await indexed.settle(SETTLED)
    await indexed.apply([Add([said("late", "brand new", Scope())])])
    await indexed.settle(SETTLED)
    assert await names(index) == {HashEmbedder(OLD).name: True, HashEmbedder(NEW).name: True}
    await indexed.close()
    embedder = FailingEmbedder(OLD)
    back = await wrap(store, index, embedder)
    await back.settle(SETTLED)
    assert await near(back, "brand new", Scope()) == ["late"]
    assert embedder.read == []
    assert not await back.verify_vectors()


async def test_a_process_killed_before_the_old_space_was_forgotten(wrap):
    """The next one forgets it."""
    store, index = open_store("memory://"), open_vectors("memory://")
    await with_old(wrap, store, index)
    await (await wrap(store, index, HashEmbedder(NEW), owned=False)).settle(SETTLED)
    assert len(await names(index)) == 2
    again = await wrap(store, index, HashEmbedder(NEW), previous=HashEmbedder(OLD))
    await again.settle(SETTLED)
    assert await names(index) == {HashEmbedder(NEW).name: True}


async def test_the_same_model_twice_is_no_change(wrap):
    store, index = open_store("memory://"), open_vectors("memory://")
    await with_old(wrap, store, index)
    embedder = FailingEmbedder(OLD)
    indexed = await wrap(store, index, embedder, previous=HashEmbedder(OLD))
    await indexed.settle(SETTLED)
    assert (embedder.read, await names(index)) == ([], {embedder.name: True})


async def test_an_index_that_fails_while_a_space_is_filled(wrap):
    store, index = open_store("memory://"), FailingIndex(open_vectors("memory://"))
    await with_old(wrap, store, index)
    index.down = True
    indexed = await wrap(store, index, HashEmbedder(NEW), previous=HashEmbedder(OLD))
    async with asyncio.timeout(SETTLED):
        while index.refused < 5:
            await asyncio.sleep(0.001)
    assert await near(indexed, "word10 of many", Scope()) == ["m10"]
    index.down = False
    await indexed.settle(SETTLED)
    assert await names(index) == {HashEmbedder(NEW).name: True}
    assert not await indexed.verify_vectors()


async def test_two_at_once(wrap):
    """Both fill the same space, both write, both finish; nothing is wrong afterwards."""
    store, index = open_store("memory://"), open_vectors("memory://")
    await with_old(wrap, store, index)
    both = [
        await wrap(store, index, HashEmbedder(NEW), previous=HashEmbedder(OLD), owned=False) for _ in range(2)
    ]
    await asyncio.gather(
        *(one.apply([Add([said(f"{at}-{n}", f"{at} {n}", Scope())])]) for at, one in enumerate(both) for n in range(50)),
        *(one.settle(SETTLED) for one in both),
    )  # fmt: skip
    for one in both:
        await one.settle(SETTLED)
    assert await names(index) == {HashEmbedder(NEW).name: True}
    assert await left(store, "", "acme") == 0
    assert not await both[0].verify_vectors()


@pytest.mark.parametrize("steps", [0, 5, 20, 60])
def test_an_event_loop_that_ends_while_a_space_is_filled(steps):
    """However far the comparison or the embedding has come, the next loop leaves nothing out."""
    store, index = open_store("memory://"), open_vectors("memory://")
    indexed = Indexed(store, index, HashEmbedder())

    async def begin():
        await store.apply([Add([said(f"m{n}", f"word{n}") for n in range(500)])])
        await indexed.find(Query(collection="messages", limit=1))
        for _ in range(steps):
            await asyncio.sleep(0)

    async def finish():
        await indexed.settle(SETTLED)
        assert len(await entries(index, HashEmbedder().name)) == 500
        assert not await indexed.verify_vectors()
        await indexed.close()

    asyncio.run(begin())
    asyncio.run(finish())


async def test_a_store_filled_before_it_had_an_index(wrap):
    """All that is there already is embedded, and the new tenants that arrive meanwhile are not taken for strays."""
    store, index = open_store("memory://"), open_vectors("memory://")
    await store.apply([Add([said(f"m{n}", f"word{n}", Scope(tenant=f"t{n % 7}")) for n in range(500)])])
    embedder = Gated(OLD, 200)
    indexed = await wrap(store, index, embedder)
    await embedder.stuck.wait()
    await indexed.apply([Add([said("new", "fresh", Scope(tenant="later"))])])
    embedder.gate.set()
    await indexed.settle(SETTLED)
    assert len(await entries(index, embedder.name)) == 501
    assert key("new", Scope(tenant="later")) in await entries(index, embedder.name)
    assert not await indexed.verify_vectors()


@pytest.mark.parametrize("kind", STORES)
async def test_no_vote_before_all_are_covered(kind, place, wrap):
    """The first model of a store that has records: until all of them have vectors, none is found by meaning."""
    store, index = open_store(place(kind)), open_vectors("memory://")
    notes = [said(f"m{n}", f"word{n} of many", Scope()) for n in range(COUNT)]
    await store.apply([Add(notes)])
    new = Gated(NEW, 128)
    indexed = await wrap(store, index, new)
    await new.stuck.wait()
    assert await near(indexed, "word10 of many", Scope()) == []
    coverage = await indexed.coverage()
    assert (coverage.vectors, coverage.records, coverage.complete) == (128, COUNT, False)
    new.gate.set()
    await indexed.settle(SETTLED)
    assert await near(indexed, "word10 of many", Scope()) == ["m10"]
    coverage = await indexed.coverage()
    assert (coverage.vectors, coverage.records, coverage.complete) == (COUNT, COUNT, True)
