"""kill -9 of a writer at random moments: what was acknowledged is there once, and a batch is whole or absent."""

import asyncio
import random
from collections import Counter

import killed_writer
import pytest
from killed_writer import BATCH, BOARD

from octavo import Query, Scope, open_store
from octavo.testing.processes import next_line, start_child, stop_children
from sampled import sampled

PLACES = {
    "sqlite": "sqlite:///{folder}/records.db",
    "sqlite-fast": "sqlite:///{folder}/records.db?durability=fast",
    "file": "file://{folder}/records",
    "single-file": "file://{folder}/records?per_session=false",
    "json-file": "file://{folder}/records?format=json",
}


async def killed_after(url, tenant, acknowledged, pause):
    """The (lane, number) of every batch acknowledged to a writer that was killed at some moment after so many."""
    child = await start_child(killed_writer.__file__, url, tenant)
    try:
        assert await next_line(child) == "ready"
        child.stdin.write(b"go\n")
        lines = [await next_line(child) for _ in range(acknowledged)]
        await asyncio.sleep(pause)  # the moment is random; nothing waits for it
    finally:
        await stop_children([child])
    lines += (await child.stdout.read()).decode().split("\n")[:-1]
    return [(int(lane), int(number)) for lane, number in (line.split() for line in lines)]


@pytest.mark.torture
@pytest.mark.timeout(1200)
@sampled("place", PLACES, share=2)
async def test_killed_writers_lose_nothing(place, tmp_path, size):
    """Every acknowledged batch is kept once, none is half kept, and the next process opens the store as if nothing happened."""
    url = PLACES[place].format(folder=tmp_path)
    chance = random.Random(place)
    for number in range(size(2, 50)):
        tenant = f"round-{number}"
        acknowledged = await killed_after(url, tenant, chance.randint(1, 120), chance.uniform(0, 0.02))
        async with open_store(url) as store:
            found = await store.find(Query(collection="messages", scope=Scope(tenant=tenant)))
            tally = await store.tally(Query(collection="messages", scope=Scope(tenant=tenant)))
        assert max(Counter(record.id for record in found).values()) == 1
        assert tally.total == len(found)
        kept = Counter(tuple(map(int, record.id.split("-")[:2])) for record in found if record.id != BOARD)
        assert {*acknowledged} <= {*kept}
        assert set(kept.values()) == {BATCH}
        # The board was changed in the same call as each batch: it names the last batch of every lane that is kept.
        (board,) = (record.data for record in found if record.id == BOARD)
        last = {str(lane): max(n for one, n in kept if one == lane) for lane in {lane for lane, _ in kept}}
        assert board == last
