"""A Redis that is none: fakeredis, whose Lua has less than Redis gives its scripts."""

import subprocess
import sys

import fakeredis
import pytest

from octavo import Add, Change, Query, Record
from octavo.chat import Msg, RedisMemory
from octavo.stores.redis.store import RedisStore
from octavo.testing import StoreContract


class Contract(StoreContract):
    async def open(self):
        return RedisStore(fakeredis.FakeAsyncRedis(), owned=True)


@pytest.mark.parametrize(
    "test",
    [
        "test_programs_agree", "test_what_is_expected",
        "test_adds_and_removes_at_once", "test_merges_at_once", "test_bodies_come_back", "test_text_comes_back", "test_times",
        "test_an_end_moves_with_its_record", "test_names_are_listed",
    ],
)  # fmt: skip
def test_it_keeps_what_a_redis_keeps(test, monkeypatch):
    """The contract of every store holds on fakeredis[lua]."""
    monkeypatch.setenv("OCTAVO_PROGRAMS", "20")
    getattr(Contract(), test)()


@pytest.mark.parametrize("decode", [True, False])
async def test_a_chat_on_a_fake(decode):
    """Two memories on one server: what one keeps the other finds, changes and removes, and it expires."""
    server = fakeredis.FakeServer()
    pools = [
        fakeredis.FakeAsyncRedis(server=server, decode_responses=decode).connection_pool for _ in range(2)
    ]
    one, two = (RedisMemory(connection_pool=pool, key_ttl=60) for pool in pools)
    await one.add([Msg("lin", f"{n} 你好", "user") for n in range(5)], marks="todo")
    assert await two.update_messages_mark("done", "todo") == 5
    assert [message.content for message in await one.get_memory("done")] == [f"{n} 你好" for n in range(5)]
    assert await one.delete_by_mark("done") == 5
    await two.update_compressed_summary("so far")
    assert [message.content for message in await one.get_memory()] == ["so far"]
    client = one.get_client()
    assert {await client.ttl(key) > 0 for key in await client.keys("*summaries*body*")} == {True}
    for memory in (one, two):
        await memory.close()


async def test_a_fake_is_searched():
    """Searching by words needs nothing that fakeredis[lua] lacks."""
    everything = Query(collection="messages")
    async with RedisStore(fakeredis.FakeAsyncRedis(), owned=True) as store:
        await store.apply(
            [Add([Record(collection="messages", id=str(n), text=f"tea 茶 {n}") for n in range(3)])]
        )
        await store.apply([Change(query=Query(collection="messages", ids=("1",)), text="coffee")])
        for _ in range(2):
            assert [match.id for match in (await store.search(everything, ["tea", "茶"])).found] == ["0", "2"]
        assert await store.reindex("messages") == 3
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.waiting, lexicon.missing, lexicon.stray) == (3, 0, (), 0)


def test_without_lua_the_cure_is_named():
    """fakeredis alone runs no scripts; the error says what to install."""
    program = (
        "import sys; sys.modules['lupa'] = sys.modules['lupa.lua51'] = None\n"
        "import asyncio, fakeredis\n"
        "from octavo.chat import Msg, RedisMemory\n"
        "pool = fakeredis.FakeAsyncRedis().connection_pool\n"
        "asyncio.run(RedisMemory(connection_pool=pool).add(Msg('a', 'b', 'user')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "octavo.errors.ConfigError: this Redis runs no Lua scripts, which Octavo writes with; "
        "fakeredis does with pip install 'fakeredis[lua]'"
    )
