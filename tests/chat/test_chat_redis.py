"""RedisMemory: shared pools, prefixes, and a time to live on every key of the session."""

import asyncio
from urllib.parse import urlsplit

import pytest
import redis.asyncio as aio

from octavo import ConfigError
from octavo.chat import ChatMemory, Msg, RedisMemory


@pytest.fixture
async def pool(fresh_redis):
    made = aio.ConnectionPool.from_url(fresh_redis, decode_responses=True, max_connections=4)
    yield made
    await made.disconnect()


@pytest.fixture
async def client(fresh_redis):
    """Somebody who looks at the keys."""
    made = aio.Redis.from_url(fresh_redis)
    yield made
    await made.aclose()


def said(text):
    return Msg("Alice", text, "user")


def server(url):
    """The documented arguments that name a server."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname,
        "port": parts.port,
        "db": int(parts.path.strip("/") or 0),
        "password": parts.password,
    }


async def lives(client):
    """How long each key lives on, in seconds; -1 for good."""
    return {key.decode(): await client.ttl(key) for key in await client.keys()}


async def test_host_and_port(fresh_redis):
    """A memory that names its server opens a pool of its own, and closes it."""
    async with RedisMemory(**server(fresh_redis), user_id="u", session_id="s") as memory:
        await memory.add(said("x"))
        mine = memory.get_client()
        assert await mine.ping()
    assert not mine.connection_pool._in_use_connections
    async with ChatMemory.open(fresh_redis, "u", "s") as memory:
        assert await memory.size() == 1


async def test_a_shared_pool_stays_open(pool):
    """Closing a memory or its client, as a request handler does, leaves the pool to the others."""
    for n in range(3):
        memory = RedisMemory(connection_pool=pool, user_id="u", session_id="s")
        await memory.add(said(str(n)))
        await memory.get_client().aclose()
    async with RedisMemory(connection_pool=pool, user_id="u", session_id="s") as memory:
        assert await memory.size() == 3
    assert await aio.Redis(connection_pool=pool).ping()


async def test_two_hundred_memories_on_a_pool_of_four(pool):
    """Whoever finds the pool used up waits; nobody is refused, and every connection goes back."""

    async def serve(n):
        memory = RedisMemory(connection_pool=pool, user_id=f"u{n % 20}", session_id="s", key_ttl=100)
        await memory.add(said(str(n)), marks="m")
        await memory.get_memory(mark="m")
        await memory.update_messages_mark("n", "m")
        await memory.get_client().aclose()

    await asyncio.gather(*(serve(n) for n in range(200)))
    sizes = [
        await RedisMemory(connection_pool=pool, user_id=f"u{n}", session_id="s").size() for n in range(20)
    ]
    assert sizes == [10] * 20
    assert len(pool._available_connections) <= 4
    assert not pool._in_use_connections


async def test_prefix(pool, client):
    """It stands in front of every key, and keeps applications apart."""
    one = RedisMemory(connection_pool=pool, key_prefix="app:")
    two = RedisMemory(connection_pool=pool)
    await one.add(said("1"), marks="m")
    await one.update_compressed_summary("s")
    assert all(key.startswith(b"app:") for key in await client.keys())
    assert await two.size() == 0
    await two.add(said("2"))
    assert await one.size() == await two.size() == 1


async def test_time_to_live(pool, client):
    """Every key of the session has it from the first write on, and every write renews all of them together."""
    memory = RedisMemory(connection_pool=pool, user_id="u", session_id="s", key_ttl=1000)
    await memory.add(said("1"), marks="m")
    first = await lives(client)
    assert len(first) > 5
    assert all(900 < seconds <= 1000 for seconds in first.values()), first
    await memory.update_compressed_summary("so far")

    async def grow_old():
        for key in await client.keys():
            await client.expire(key, 500)

    for write in (
        lambda: memory.add(said("2")),
        lambda: memory.update_messages_mark("n", "m"),
        lambda: memory.update_compressed_summary("further"),
        lambda: memory.delete_by_mark("n"),
        lambda: memory.load_state_dict({"content": [said("3").to_dict()]}, strict=False),
    ):
        await grow_old()
        await write()
        now = await lives(client)
        assert any("summaries:body" in key for key in now)
        assert any("messages:body" in key for key in now)
        assert {key: left for key, left in now.items() if not 900 < left <= 1000} == {}


async def test_without_a_time_to_live(pool, client):
    memory = RedisMemory(connection_pool=pool)
    await memory.add(said("1"), marks="m")
    await memory.update_compressed_summary("s")
    assert set((await lives(client)).values()) == {-1}


async def test_a_session_is_forgotten_whole(pool, client):
    """Messages and summary go at the same time; the other sessions of the user stay."""
    short = RedisMemory(connection_pool=pool, user_id="u", session_id="short", key_ttl=1)
    long = RedisMemory(connection_pool=pool, user_id="u", session_id="long", key_ttl=1000)
    for memory in (short, long):
        await memory.add(said("1"), marks="m")
        await memory.update_compressed_summary("s")
    async with asyncio.timeout(20):
        while await short.get_memory():
            await asyncio.sleep(0.05)
    assert await short.size() == 0
    assert await short.get_memory(mark="m") == []
    assert await long.size() == 1
    assert [message.content for message in await long.get_memory(mark="m")] == ["s", "1"]


@pytest.mark.parametrize("ttl", [0, -1, 1.5, "60"])
async def test_what_is_no_time_to_live(pool, ttl):
    for where in ({"connection_pool": pool}, {}):
        with pytest.raises(ConfigError, match="number of seconds"):
            RedisMemory(**where, key_ttl=ttl)


async def test_no_command_looks_through_all_keys(fresh_redis, client):
    """Neither KEYS nor SCAN is ever sent: what a session needs is named. Other tests have other databases of this server."""
    mine = server(fresh_redis)["db"]
    async with RedisMemory(**server(fresh_redis), key_ttl=100) as memory, client.monitor() as monitor:
        await memory.add([said("1"), said("2")], marks="m")
        await memory.update_messages_mark("n", "m")
        await memory.update_compressed_summary("s")
        await memory.get_memory(mark="n")
        await memory.delete_by_mark("n")
        await memory.state_dict()
        await memory.clear()
        await memory.get_client().execute_command("ECHO", "the end")
        sent = []
        while not sent or sent[-1].split()[0] != "ECHO":
            seen = await monitor.next_command()
            if seen["db"] == mine:
                sent.append(seen["command"])
    words = {command.split()[0].upper() for command in sent}
    assert "EVALSHA" in words or "EVAL" in words
    assert not {"KEYS", "SCAN"} & words
