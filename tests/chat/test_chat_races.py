"""Many at once on one session: nothing is lost, nothing fails, and every reader sees the same order."""

import asyncio
import contextlib
import itertools
import json
import subprocess
from pathlib import Path

import pytest

from octavo.chat import ChatMemory, Msg
from sampled import sampled
from warm import programs

pytestmark = pytest.mark.every_store

CHILD = Path(__file__).with_name("chat_child.py")
ADDED = 40


def said(text, id_=None):
    message = Msg("Alice", text, "user")
    message.id = id_ or text
    return message


async def test_fifty_adds_at_once(place):
    """All are kept, each list together and in its order, and two readers agree about the order."""
    one, two = await place.memory(), await place.memory()
    await asyncio.gather(
        *(one.add([said(f"{n}a"), said(f"{n}b")], marks=["all", f"m{n % 5}"]) for n in range(50))
    )
    order = [message.content for message in await one.get_memory()]
    assert sorted(order) == sorted(f"{n}{letter}" for n in range(50) for letter in "ab")
    assert all(order.index(f"{n}a") + 1 == order.index(f"{n}b") for n in range(50))
    assert [message.content for message in await two.get_memory(mark="all")] == order
    assert await two.size() == 100
    assert len(await two.get_memory(mark="m3")) == 20


async def test_one_id_many_times_at_once(place):
    """One is kept; with allow_duplicates all are."""
    memory = await place.memory()
    await asyncio.gather(*(memory.add(said(str(n), "x")) for n in range(20)))
    assert await memory.size() == 1
    await memory.clear()
    await asyncio.gather(*(memory.add(said(str(n), "x"), allow_duplicates=True) for n in range(20)))
    found = await memory.get_memory()
    assert sorted(message.content for message in found) == sorted(map(str, range(20)))
    assert {message.id for message in found} == {"x"}
    assert await memory.delete(["x"]) == 20
    lists = [[said(f"{n}.{k}", f"id{k}") for k in range(5)] for n in range(10)]
    await asyncio.gather(*(memory.add(some, marks="m", allow_duplicates=True) for some in lists))
    found = [message.content for message in await memory.get_memory(mark="m")]
    assert sorted(found) == sorted(message.content for some in lists for message in some)
    for n in range(10):
        assert [text for text in found if text.startswith(f"{n}.")] == [f"{n}.{k}" for k in range(5)]


async def test_everything_at_once(place):
    """Readers and writers of every kind get along, as an agent with parallel tool calls needs."""
    memory = await place.memory()
    await memory.add([said(f"old{n}") for n in range(20)], marks="old")
    calls = itertools.chain.from_iterable(
        (
            memory.add(said(f"new{n}"), marks="new"),
            memory.get_memory(),
            memory.size(),
            memory.update_messages_mark("kept", None, [f"old{n}"]),
            memory.update_compressed_summary(f"summary {n}"),
        )
        for n in range(10)
    )
    await asyncio.gather(*calls)
    assert await memory.size() == 30
    assert len(await memory.get_memory(mark="kept", prepend_summary=False)) == 10
    assert (await memory.compressed_summary()).startswith("summary ")


@sampled("kind", ["file", "sqlite", "postgres", "mysql", "redis"], share=2)
async def test_four_processes(kind, tmp_path, fresh_url):
    """Four processes on one session: everything is there once, and all of them end up with one order."""
    url = {"file": f"file://{tmp_path}/chat", "sqlite": f"sqlite:///{tmp_path}/chat.db"}.get(
        kind
    ) or fresh_url(kind)
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [f"{programs()}/python", str(CHILD), url, "alice", f"p{n}", str(ADDED)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for n in range(4)
        ]
        for child in children:
            assert child.stdout.readline() == "ready\n", child.stderr.read()
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = [child.communicate(timeout=200) for child in children]
    assert [child.returncode for child in children] == [0] * 4, answers
    assert not any(errors for _, errors in answers), answers
    async with ChatMemory.open(url, "alice", "s") as memory:
        order = [message.id for message in await memory.get_memory()]
        assert len(order) == await memory.size() == 4 * ADDED + ADDED // 5
        assert len(set(order)) == len(order)
        assert len(await memory.get_memory(mark="seen")) == 4 * ADDED // 5
        for n in range(4):
            own = [one for one in order if one.startswith(f"p{n}-")]
            assert len(own) == ADDED
            # Of five added at once any may be first; the next five come after them.
            assert [int(one.partition("-")[2]) // 5 for one in own] == sorted(k // 5 for k in range(ADDED))
        for told, _ in answers:
            seen = json.loads(told)
            places = {one: at for at, one in enumerate(order)}
            assert [places[one] for one in seen] == sorted(places[one] for one in seen)
