"""Layered memory over the wraps: a queue for when the database is down, a window of what was stored, vectors."""

import asyncio

import pytest
from layers_kit import Scripted, agree, fact

from octavo import Deduped, Indexed, Journal, NotFound, StoreUnavailable, open_store
from octavo.assemble import assemble
from octavo.config import Database, FailureQueue, Settings
from octavo.layers import LayeredMemory
from octavo.testing.embedding import HashEmbedder
from octavo.vectors import ExactIndex
from serving import Faulty

LIN = {"user_id": "lin"}


@pytest.fixture
async def journaled(store, tenant, tmp_path):
    """A memory behind a queue, and the switch of its store."""
    faulty = Faulty(store)
    journal = Journal(faulty, tmp_path / "queue", timeout=3, backoff=(0.001, 0.01), owned=False)
    extractor = Scripted({"x": [fact("a"), fact("b", layer="event", category="other")]})
    async with journal, LayeredMemory(journal, tenant=tenant, extractor=extractor) as memory:
        yield memory, faulty


# A queue knows nothing of the store behind it: two are enough, and each waits for its time to run out.
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_down_and_up_again(journaled, store):
    """What is remembered while the database is down is queued and arrives; what needs a look at it first says so."""
    memory, faulty = journaled
    before = await memory.remember("before", **LIN, category="other")
    assert before.status == "success"
    faulty.mode = "down"
    made = [await memory.remember(f"m{n}", **LIN, layer="profile", category="value") for n in range(3)]
    assert {one.status for one in made} == {"queued"}
    answers = await asyncio.gather(
        memory.revise(before.id, content="x"),
        memory.forget(before.id),
        memory.undo(f"log_{before.id}_1"),
        memory.profile(**LIN),
        memory.get(before.id),
        memory.extract("x", **LIN),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 6
    faulty.mode = "up"
    await memory.store.replay_now()
    assert {one.content for one in await memory.profile(**LIN)} == {"m0", "m1", "m2"}
    for one in made:
        [entry] = await memory.history(one.id)
        assert entry.after.content == one.content
    assert (await memory.extract("x", **LIN)).inserted == 2
    kept = await agree(store, memory.tenant)
    assert len(kept) == 6


async def test_lost_after_the_commit(journaled, store):
    """An answer that was lost is not a second memory, nor a second change."""
    memory, faulty = journaled
    faulty.mode = "late"
    made = await memory.remember("a", **LIN, category="other")
    assert made.status == "queued"
    faulty.mode = "up"
    await memory.store.replay_now()
    assert (await memory.get(made.id)).content == "a"
    faulty.mode = "late"
    with pytest.raises(StoreUnavailable, match="is queued"):
        await memory.revise(made.id, content="b")
    faulty.mode = "up"
    await memory.store.replay_now()
    assert (await memory.get(made.id)).version == 2
    assert [entry.version for entry in await memory.history(made.id)] == [1, 2]
    await agree(store, memory.tenant)


async def test_removed_by_another_before_it_is_brought_again(journaled, store):
    """The insert was stored and its answer lost; somebody removed the memory since: it does not come back."""
    memory, faulty = journaled
    faulty.mode = "late"
    made = await memory.remember("a", **LIN, category="other")
    assert made.status == "queued"
    await LayeredMemory(store, tenant=memory.tenant).forget(made.id)
    faulty.mode = "up"
    await memory.store.replay_now()
    assert memory.store.status().dead == 0
    with pytest.raises(NotFound):
        await memory.get(made.id)
    assert await agree(store, memory.tenant) == {}


async def test_assembled_while_down(tmp_path, monkeypatch):
    """As assembled from settings, on a database that is down from the start; another life finds what was queued."""
    stores = []

    def opening(url):
        stores.append(Faulty(open_store(url), "up" if stores else "down"))
        return stores[-1]

    monkeypatch.setattr("octavo.assemble.open_store", opening)
    settings = Settings(
        database=Database(dsn=f"sqlite:///{tmp_path}/a.db"),
        failure_queue=FailureQueue(directory=str(tmp_path / "queue"), backoff_min_seconds=0.001),
    )
    async with assemble(settings) as assembled:
        memory = LayeredMemory.from_assembled(assembled)
        made = await memory.remember("a", **LIN, category="other")
        assert made.status == "queued"
        await memory.close()
    async with LayeredMemory.from_settings(settings) as memory:
        await memory.store.replay_now()
        assert (await memory.get(made.id)).content == "a"
        assert len(await memory.history(made.id)) == 1


async def test_a_window_of_what_was_stored(store, tenant):
    """What another process removed comes back by undo, though this one has just stored that id."""
    here = LayeredMemory(Deduped(store, owned=False), tenant=tenant)
    there = LayeredMemory(store, tenant=tenant)
    made = await here.remember("a", **LIN, layer="profile", category="value")
    await there.forget(made.id)
    await here.undo(f"log_{made.id}_2")
    assert (await here.get(made.id)).version == 3
    await here.forget(made.id)
    with pytest.raises(NotFound):
        await here.get(made.id)
    await here.undo(f"log_{made.id}_4")
    await agree(store, tenant)


class Synonyms(HashEmbedder):
    """To it, a physician is a doctor."""

    async def embed(self, texts, *, asking=False):
        return await super().embed([text.replace("physician", "doctor") for text in texts], asking=asking)


async def test_by_meaning(tmp_path):
    """Both layers are found by meaning, and each alone; what is gone is not."""
    store = open_store(f"sqlite:///{tmp_path}/a.db")
    async with Indexed(store, ExactIndex(store), Synonyms()) as indexed:
        memory = LayeredMemory(indexed)
        job = await memory.remember("doctor", **LIN, layer="profile", category="career")
        met = await memory.remember("met doctor", **LIN, category="meeting")
        await memory.remember("likes green tea", **LIN, layer="profile", category="preference")
        await memory.remember("doctor", user_id="ann", layer="profile", category="career")
        await indexed.settle(60)

        async def found(**more):
            return [one.memory.id for one in await memory.recall("physician", **LIN, top_k=1, **more)]

        assert {one.memory.id for one in await memory.recall("physician", **LIN, top_k=2)} == {job.id, met.id}
        assert await found(layer="profile") == [job.id]
        assert await found(layer="event") == [met.id]
        assert (await memory.history(met.id))[0].after.data["embedding_id"] == met.id
        await memory.forget(met.id)
        await indexed.settle(60)
        assert await found(layer="event") == []
        await agree(store, "")
