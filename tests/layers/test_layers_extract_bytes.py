"""What a text is compared with is read within a number of bytes, however large the memories are."""

import pytest
from layers_kit import Scripted, fact

from octavo import open_store
from octavo.kernel.model import Head
from octavo.layers import LayeredMemory
from octavo.wraps import Wrap

LIN = {"user_id": "lin"}
MEGA = 2**20


class Watched(Wrap):
    """A store that notes how many bytes each reading of memories answers."""

    def __init__(self, store):
        super().__init__(store, owned=False)
        self.read = []
        self.__dict__["heads"] = store.heads

    async def find(self, query):
        found = await self.inner.find(query)
        if query.collection in ("profile", "episodes"):
            self.read.append(sum(Head.of(record).size_bytes for record in found))
        return found


@pytest.fixture
async def watched(store):
    return Watched(store)


async def test_large_memories_are_compared_within_bytes(watched, tenant, clock):
    """Ten megabytes are known, and beside them a small fact that is told again: it is found, and little is read."""
    scripted = Scripted()
    async with LayeredMemory(watched, tenant=tenant, clock=clock, extractor=scripted) as memory:
        small = await memory.remember("likes tea", layer="profile", category="preference", **LIN)
        met = await memory.remember("met Ann", layer="event", category="meeting", **LIN)
        for n in range(5):
            for layer in ("profile", "event"):
                await memory.remember(f"tea {n} " + "x" * MEGA, layer=layer, **LIN)
        watched.read.clear()
        scripted.script["tea"] = [fact("likes tea", "ignore", target=small.id)]
        told = await memory.extract("tea", **LIN)
        assert (told.ignored, told.memories[0].id) == (1, small.id)
        assert {small.content, met.content} <= set(scripted.shown[-1])
        assert max(watched.read) <= 4 * MEGA


async def test_many_middling_memories_are_compared_within_bytes(tenant, clock):
    """Each is small enough to be compared, all of them are not: the newest are."""
    scripted, watched = Scripted(), Watched(open_store("memory://"))
    async with LayeredMemory(watched, tenant=tenant, clock=clock, extractor=scripted) as memory:
        for n in range(100):
            await memory.remember(f"{n} " + "x" * 60_000, layer="profile", **LIN)
        watched.read.clear()
        scripted.script["hello"] = []
        await memory.extract("hello", **LIN)
        assert max(watched.read) <= 4 * MEGA
        shown = [int(content.split()[0]) for content in scripted.shown[-1]]
        assert shown == list(range(99, 99 - len(shown), -1))
        assert len(shown) > 15  # as many as a megabyte holds
