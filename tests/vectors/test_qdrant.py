"""Vectors in Qdrant: one process at a time in a folder, a client of the caller's, and a server that is not there."""

import asyncio
import gc
import random
import socket
import warnings
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from octavo.errors import StoreUnavailable
from octavo.testing.vectors import Home, direction, keys, plane
from octavo.vectors import QdrantIndex, open_vectors

HOME = Home("model", "t")


async def collect_lock_file(path):
    """Wait until the lock file that qdrant-client could not lock, and left to the collector, is closed."""

    def times_open():
        return sum(fd.resolve() == path.resolve() for fd in Path("/proc/self/fd").iterdir())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(200):  # a thread that is about to end may hold the error for a moment
            gc.collect()
            if times_open() <= 1:
                return
            await asyncio.sleep(0.05)


async def test_a_folder_serves_one_at_a_time(tmp_path):
    """A second index on a folder is told that it is in use, and may have it when the first one is closed."""
    url = f"qdrant://{tmp_path}/qdrant"
    async with open_vectors(url) as index:
        await index.put(HOME.space, [HOME.entry("a", plane(1, 0))])
        second = open_vectors(url)
        with pytest.raises(StoreUnavailable, match="one process at a time") as refusal:
            await second.spaces()
        assert refusal.value.__cause__ is not None
        del refusal
        await collect_lock_file(tmp_path / "qdrant" / ".lock")
    assert [key.id for key, _ in await keys(second, HOME.space)] == ["a"]
    await second.close()


async def test_a_client_of_the_callers():
    """A client handed in stays open; two prefixes over it are two indexes."""
    client = QdrantClient(location=":memory:")
    async with QdrantIndex(client) as index, QdrantIndex(client, "mem_") as other:
        await index.put(HOME.space, [HOME.entry("a", plane(1, 0))])
        assert await other.spaces() == []
    assert len(client.get_collections().collections) == 3  # a list each, and one space
    client.close()


async def test_a_space_made_anew_by_another():
    """A space that another index forgets and makes anew, with another length, is noticed by one that had used it."""
    client = QdrantClient(location=":memory:")
    async with QdrantIndex(client) as index, QdrantIndex(client) as other:
        for n in range(4):
            vector = plane(1, 0, 32 * (1 + n % 2))
            await index.put(HOME.space, [HOME.entry(f"a{n}", vector)])
            for one in (index, other):
                found = await one.nearest(HOME.space, vector, HOME.scope(), ["messages"], 5)
                assert [near.key.id for near in found] == [f"a{n}"]
            await other.put(HOME.space, [HOME.entry(f"b{n}", vector)])
            assert [space.entries for space in await index.spaces()] == [2]
            await other.forget(HOME.space)
    client.close()


async def test_the_event_loop_goes_on(tmp_path):
    """Qdrant in process works in a thread of its own: other tasks run while it does."""
    source = random.Random(1)
    async with open_vectors(f"qdrant://{tmp_path}/qdrant") as index:
        task = asyncio.create_task(
            index.put(HOME.space, [HOME.entry(str(n), direction(source)) for n in range(200)])
        )
        turns = 0
        while not task.done():
            await asyncio.sleep(0.001)
            turns += 1
        await task
        assert turns > 3  # in the thread of the loop it would be one


async def test_nobody_answers():
    """A server that is not there is StoreUnavailable, at once, and without the key in the message."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        index = open_vectors(f"qdrant://127.0.0.1:{port}?timeout=5")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot be reached") as refusal:
                await index.spaces()
            assert refusal.value.__cause__ is not None
        await index.close()
        secret = open_vectors(f"qdrant+https://127.0.0.1:{port}?timeout=5&api_key=wordless")
        with pytest.raises(StoreUnavailable) as refusal:
            await secret.put(HOME.space, [HOME.entry("a", plane(1, 0))])
        assert "wordless" not in str(refusal.value)
        await secret.close()
