"""What AgentScope's memories take and give beside the documented methods: skip_duplicated, attributes, redis-py's options."""

from urllib.parse import urlsplit

import fakeredis
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from octavo import ConfigError
from octavo.chat import AsyncSQLAlchemyMemory, InMemoryMemory, Msg, RedisMemory
from octavo.errors import Conflict


def said(text):
    message = Msg("Alice", text, "user")
    message.id = text
    return message


async def texts(memory):
    return [message.content for message in await memory.get_memory()]


async def test_another_session_is_one_assignment_away(place):
    """`session_id` and `user_id` lead to another session's messages, summary and all, and back."""
    memory = await place.memory("alice", "monday")
    alice = memory.user_id
    await memory.add(said("one"))
    await memory.update_compressed_summary("so far")
    memory.session_id = "tuesday"
    assert (memory.session_id, await texts(memory)) == ("tuesday", [])
    await memory.add(said("two"))
    memory.user_id = alice + "bob"
    assert await texts(memory) == []
    memory.user_id, memory.session_id = alice, "monday"
    assert await texts(memory) == ["so far", "one"]
    assert await (await place.memory("alice", "tuesday")).size() == 1
    with pytest.raises(TypeError, match="session_id is a string"):
        memory.session_id = 7


async def test_duplicates_that_are_not_skipped(place):
    """AgentScope's Redis memory then keeps a message once more, and its SQLAlchemy memory refuses all that came with it."""
    memory = await place.memory()
    await memory.add(said("one"))
    if not isinstance(memory, AsyncSQLAlchemyMemory | RedisMemory):  # AgentScope has no more than these two
        with pytest.raises(TypeError, match="skip_duplicated"):
            await memory.add(said("one"), skip_duplicated=True)
        return
    await memory.add(said("one"), skip_duplicated=True)
    assert await texts(memory) == ["one"]
    if isinstance(memory, AsyncSQLAlchemyMemory):
        with pytest.raises(Conflict, match="kept already: two, one"):
            await memory.add([said("two"), said("one")], skip_duplicated=False)
        assert await texts(memory) == ["one"]
        await memory.add([said("two"), said("three")], skip_duplicated=False)
        assert await texts(memory) == ["one", "two", "three"]
        await memory.add(said("one"), allow_duplicates=True, skip_duplicated=False)
        assert await memory.size() == 4
    else:
        await memory.add([said("two"), said("one")], skip_duplicated=False)
        assert await texts(memory) == ["one", "two", "one"]


async def test_a_refused_message_leaves_the_callers_transaction(tmp_path):
    """What the caller wrote before in the same session is still to be committed."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/chat.db")
    async with AsyncSession(engine) as session:
        memory = AsyncSQLAlchemyMemory(session)
        await memory.add(said("one"))
        with pytest.raises(Conflict):
            await memory.add(said("one"), skip_duplicated=False)
        await session.commit()
    assert await texts(AsyncSQLAlchemyMemory(engine)) == ["one"]
    await engine.dispose()


async def test_content_is_read_and_replaced():
    """`content` has every message with its marks, as copies that cannot be added to in vain; assigning replaces them."""
    memory = InMemoryMemory()
    assert not memory.content
    await memory.add([said("one"), said("two")], marks=["a"])
    await memory.update_compressed_summary("so far")
    content = memory.content
    assert [(message.content, marks) for message, marks in content] == [("one", ["a"]), ("two", ["a"])]
    content[0][0].content = "changed"
    with pytest.raises(AttributeError, match="append"):
        content.append((said("three"), []))
    memory.content = [*memory.content[1:], (said("three"), "b")]
    assert await texts(memory) == ["so far", "two", "three"]
    assert [marks for _, marks in memory.content] == [["a"], ["b"]]
    memory.content = []
    assert await memory.size() == 0


async def test_options_of_the_redis_client(fresh_redis):
    """What RedisMemory does not know is redis-py's; what that does not know is refused by name, and so is what a pool has."""
    at = urlsplit(fresh_redis)
    named = {
        "host": at.hostname,
        "port": at.port,
        "db": int(at.path.strip("/") or 0),
        "password": at.password,
    }
    async with RedisMemory(
        **named, socket_timeout=7, client_name="octavo-test", max_connections=3, health_check_interval=9
    ) as memory:
        await memory.add(said("one"))
        pool = memory.get_client().connection_pool
        assert await memory.get_client().client_getname() == "octavo-test"
        assert (pool.max_connections, pool.connection_kwargs["socket_timeout"]) == (3, 7)
    with pytest.raises(ConfigError, match="sokcet_timeout"):
        RedisMemory(**named, sokcet_timeout=7)
    with pytest.raises(ConfigError, match="give username, ssl to the pool"):
        RedisMemory(connection_pool=pool, username="u", ssl=True)


async def test_prefix_and_life_of_keys_can_be_changed():
    """`key_prefix` leads to other messages, and back; `key_ttl` counts from the next write on."""
    client = fakeredis.FakeAsyncRedis()
    async with RedisMemory(connection_pool=client.connection_pool, key_prefix="a:") as memory:
        await memory.add(said("one"))
        memory.key_prefix = "b:"
        assert (memory.key_prefix, await memory.size()) == ("b:", 0)
        memory.key_ttl = 60
        await memory.add(said("two"))
        lives = {key.decode()[:2]: await client.ttl(key) for key in await client.keys()}
        assert lives["a:"] == -1
        assert 0 < lives["b:"] <= 60
        memory.key_prefix = "a:"
        assert await texts(memory) == ["one"]
        with pytest.raises(ConfigError, match="key_ttl is a number of seconds"):
            memory.key_ttl = 0
        assert memory.key_ttl == 60
