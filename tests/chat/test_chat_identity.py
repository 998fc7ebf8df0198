"""Whose a conversation is: names that look alike are not alike."""

import itertools

import pytest

from octavo.chat import ChatMemory, InMemoryMemory, Msg
from octavo.stores.memory import MemoryStore

# Pairs of user and session that some collation, separator or trimming would take for one another.
PAIRS = [
    ("alice", "s"),
    ("Alice", "s"),
    ("alicé", "s"),
    ("alice\u0301", "s"),
    ("alice ", "s"),
    (" alice", "s"),
    ("alice", "s "),
    ("alice", "S"),
    ("bob", "s"),
    ("alice:s", ""),
    ("alice", ":s"),
    ("alice:", "s"),
    ("alice/s", "s"),
    ("alice\\", "s"),
    ("a{lice}", "s"),
    ("alic", "es"),
    ("s", "alice"),
    ("alice\n", "s"),
    ("alice%", "s"),
    ("alic_", "s"),
    ("", "s"),
    ("alice", ""),
    ("ａlice", "s"),
    ("爱丽丝", "s"),
    ("../alice", "s"),
    ("alice", "../s"),
    ("alice", "session_s"),
]


async def test_nobody_meets(place):
    """Every pair has its own messages, summary and counts, though the message ids are the same."""
    memories = {pair: await place.memory(*pair) for pair in PAIRS}
    for (user, session), memory in memories.items():
        message = Msg("x", f"{user}|{session}", "user")
        message.id = "same"
        await memory.add(message, marks="m")
        await memory.update_compressed_summary(f"summary of {user}|{session}")
    for (user, session), memory in memories.items():
        assert [message.content for message in await memory.get_memory()] == [
            f"summary of {user}|{session}",
            f"{user}|{session}",
        ]
        assert await memory.size() == 1
    mine, *others = memories.values()
    assert await mine.update_messages_mark("n", "m") == 1
    assert await mine.delete(["same"]) == 1
    await mine.clear(summary=True)
    assert await mine.delete_by_mark("m") == 0
    for other in others:
        assert await other.size() == 1
        assert len(await other.get_memory(mark="m")) == 2


def test_the_pairs_differ():
    assert all(one != two for one, two in itertools.combinations(PAIRS, 2))


async def test_tenants():
    """A tenant's users are its own."""
    async with MemoryStore() as store:
        one, two = ChatMemory(store, "u", "s", tenant="one"), ChatMemory(store, "u", "s", tenant="two")
        await one.add(Msg("x", "1", "user"))
        assert (await one.size(), await two.size()) == (1, 0)


@pytest.mark.parametrize("names", [{"user_id": None}, {"session_id": 1}, {"tenant": b"x"}])
def test_names_are_strings(names):
    """None must not become one user of all who forgot to name one."""
    with pytest.raises(TypeError, match=next(iter(names))):
        ChatMemory(MemoryStore(), **names)


async def test_in_memory_memories_share_nothing():
    one, two = InMemoryMemory(), InMemoryMemory()
    await one.add(Msg("x", "1", "user"))
    assert await two.size() == 0
