"""Other processes: killed at any moment, or at work on the same store and index."""

import asyncio
import random
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from faults import SETTLED, entries, left, near
from writers import SCOPE

from octavo import Query, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder

PROGRAM = Path(__file__).with_name("writers.py")


@asynccontextmanager
async def child(*words):
    """A writer that is ready to begin; killed with the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(PROGRAM), *words, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        assert await line(process) == "ready"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process.stdin.close()


async def line(process):
    said = (await process.stdout.readline()).decode()
    assert said.endswith("\n"), (await process.stderr.read()).decode()
    return said.strip()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_killed_between_acknowledgement_and_embedding(kind, place, tmp_path, wrap):
    """What was acknowledged and never embedded is embedded by the next process, of itself."""
    url, vectors = place(kind), f"sqlite:///{tmp_path}/vectors.db"
    async with child("never", url, vectors) as process:
        process.stdin.write(b"go\n")
        acknowledged = [int(await line(process)) for _ in range(10)]
    store, index = open_store(url), open_vectors(vectors)
    assert await entries(index, HashEmbedder().name) == {}
    assert await left(store) >= 10
    indexed = await wrap(store, index)
    await indexed.settle(SETTLED)
    assert acknowledged == list(range(1, 11))
    assert await near(indexed, "note 7", SCOPE) == ["n7"]
    assert await left(store) == 0
    assert not await indexed.verify_vectors()


@pytest.mark.torture
async def test_killed_at_any_moment(place, tmp_path, wrap, size):
    """Whatever a killed process was at, the next one brings the index in order without being asked to compare."""
    chance = random.Random(7)
    for number in range(size(4, 40)):
        url, vectors = place("sqlite"), f"sqlite:///{tmp_path}/vectors{number}.db"
        async with child("stream", url, vectors) as process:
            process.stdin.write(b"go\n")
            acknowledged = [int(await line(process)) for _ in range(chance.randint(1, 80))][-1]
            await asyncio.sleep(chance.uniform(0, 0.02))  # the moment is random; nothing waits for it
        indexed = await wrap(open_store(url), open_vectors(vectors))
        await indexed.settle(SETTLED)
        found = await indexed.verify_vectors()
        assert not found, found
        assert found.waiting == 0
        assert found.entries == found.records > acknowledged


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
async def test_two_processes(kind, place, tmp_path, wrap, size):
    """Both write and embed, the same records among them; the index ends as the store does, and nothing waits."""
    url, vectors, count = place(kind), f"sqlite:///{tmp_path}/vectors.db", size(60, 1000)
    async with child("write", url, vectors, "one", str(count)) as one, child("write", url, vectors, "two", str(count)) as two:  # fmt: skip
        for process in (one, two):
            process.stdin.write(b"go\n")
        for process in (one, two):
            assert await line(process) == "settled"
            assert await process.wait() == 0, (await process.stderr.read()).decode()
    indexed = await wrap(open_store(url), open_vectors(vectors))
    found = await indexed.verify_vectors()
    assert not found, found
    assert (found.records, found.entries, found.waiting) == (2 * count + 5, 2 * count + 5, 0)
    assert (await indexed.tally(Query(collection="pending"))).total == 0
