"""What was known at a moment, and taking back what was done: on every store."""

import asyncio
from datetime import timedelta

import pytest

from octavo import Conflict, InvalidQuery, NotFound
from octavo.chat import ChatMemory, Msg
from octavo.kernel.ids import now

LIN = {"user_id": "lin"}


async def _tick():
    await asyncio.sleep(0.002)
    moment = now()
    await asyncio.sleep(0.002)
    return moment


async def _texts(memory, question, **more):
    return [hit.text for hit in await memory.search(question, **LIN, **more)]


async def test_answers_of_then(memory, store, tenant):
    """Facts have the words of then, also if they are gone now; nothing that was said later is there."""
    nothing = await _tick()
    await memory.add("I live in Berlin and I am allergic to peanuts.", **LIN, session_id="monday")
    await memory.add("Ann likes my goats", **LIN, infer=False)
    first = await _tick()
    await memory.add("I live in Munich now.", **LIN, session_id="monday")
    [goats] = [fact for fact in await memory.get_all(**LIN) if "goats" in fact.content]
    await memory.delete(goats.id)
    chat = ChatMemory(store, "lin", "monday", tenant=tenant)
    await chat.update_compressed_summary("Lin has moved to Munich.")

    def contents(facts):
        return sorted(fact.content for fact in facts)

    then = contents(await memory.get_all(**LIN, as_of=first))
    assert then == ["Ann likes my goats", "The user is allergic to peanuts", "The user lives in Berlin"]
    assert "Munich" in " ".join(contents(await memory.get_all(**LIN)))
    assert contents(await memory.get_all(**LIN, as_of=nothing)) == []
    pages = await memory.get_all(**LIN, as_of=first, limit=2)
    rest = await memory.get_all(**LIN, as_of=first, limit=2, after=pages.following)
    assert contents([*pages, *rest]) == then

    assert any("Munich" in text for text in await _texts(memory, "where do I live?"))
    told = await _texts(memory, "where do I live?", as_of=first)
    assert any("Berlin" in text for text in told)
    assert not any("Munich" in text for text in told)
    assert await _texts(memory, "who likes my goats?", as_of=first) == ["Ann likes my goats"]
    assert "Ann likes my goats" not in await _texts(memory, "who likes my goats?")
    assert await _texts(memory, "where do I live?", as_of=nothing) == []

    block = str(await memory.context("where do I live?", **LIN, session_id="monday", as_of=first))
    assert "Berlin" in block
    assert "Munich" not in block
    assert "moved" in str(await memory.context("where do I live?", **LIN, session_id="monday"))
    with pytest.raises(InvalidQuery, match="as_of is asked about somebody"):
        await memory.search("x", everyone=True, as_of=first)


async def test_a_moment_that_is_none_is_named(memory):
    with pytest.raises(InvalidQuery, match="since must be a datetime; got '2020'"):
        await memory.undo_all(since="2020")
    with pytest.raises(InvalidQuery, match="as_of must be a datetime; got '2020'"):
        await memory.search("x", as_of="2020")


async def test_undo_of_one_add(memory, store, tenant):
    """Its facts, what it changed and the message go; undone again, they are back."""
    await memory.add("I live in Berlin.", **LIN)
    added = await memory.add("I live in Munich now. I am allergic to peanuts.", **LIN)
    later = await memory.add("I have two children.", **LIN)
    before = sorted(fact.content for fact in await memory.get_all(**LIN))
    dry = await memory.undo_all(add=added, **LIN, dry_run=True)
    assert (len(dry.changes), dry.messages, dry.kept, dry.dry_run) == (2, added.messages, {}, True)
    assert sorted(fact.content for fact in await memory.get_all(**LIN)) == before
    undone = await memory.undo_all(add=added, **LIN, reason="a joke")
    assert [row.id for row in undone.changes] == [row.id for row in dry.changes]
    facts = {fact.content for fact in await memory.get_all(**LIN)}
    assert facts == {"The user lives in Berlin", *(each.content for each in later.memories)}
    assert not any("peanuts" in text for text in await _texts(memory, "what am I allergic to?"))
    said = [message.id for message in await ChatMemory(store, "lin", tenant=tenant).get_memory()]
    assert added.messages[0] not in said
    again = await memory.undo_all(undo=undone.id, **LIN)
    assert again.messages == added.messages
    assert sorted(fact.content for fact in await memory.get_all(**LIN)) == before
    said = [message.id for message in await ChatMemory(store, "lin", tenant=tenant).get_memory()]
    assert added.messages[0] in said
    third = await memory.undo_all(undo=again.id, **LIN)
    assert third.messages == added.messages
    assert {fact.content for fact in await memory.get_all(**LIN)} == facts
    with pytest.raises(NotFound):
        await memory.undo_all(add="no such message", **LIN)
    with pytest.raises(NotFound):
        await memory.undo_all(add=added, user_id="ann")
    with pytest.raises(InvalidQuery, match="give one of add, since and undo"):
        await memory.undo_all(**LIN)


async def test_what_changed_again_stays(memory):
    added = await memory.add("I live in Berlin.", **LIN)
    [home] = added.memories
    await memory.update(home.id, "The user lives in Potsdam")
    undone = await memory.undo_all(add=added, **LIN)
    assert (undone.changes, list(undone.kept)) == ([], [home.id])
    assert (await memory.get(home.id)).content == "The user lives in Potsdam"


async def test_undo_since(memory):
    """One change brings each memory back to the moment; what others remember is not touched."""
    await memory.add("I live in Berlin.", **LIN)
    kept = await memory.add("tea", **LIN, infer=False)
    moment = await _tick()
    before = [(fact.id, fact.content) for fact in await memory.get_all(**LIN, as_of=moment)]
    await memory.add("I live in Munich now.", **LIN)
    await memory.add("I live in Hamburg now.", **LIN)
    await memory.delete(kept.memories[0].id)
    short = await memory.add("soon gone", **LIN, infer=False)
    await memory.delete(short.memories[0].id)
    await memory.add("I live in Rome.", user_id="ann")
    undone = await memory.undo_all(since=moment, **LIN)
    assert [(fact.id, fact.content) for fact in await memory.get_all(**LIN)] == before
    assert short.memories[0].id in undone.kept
    assert [fact.content for fact in await memory.get_all(user_id="ann")] == ["The user lives in Rome"]
    [home] = [fact for fact in await memory.get_all(**LIN) if "Berlin" in fact.content]
    *_, last = await memory.history(home.id)
    await memory.undo(last)
    assert "Hamburg" in (await memory.get(home.id)).content
    with pytest.raises(Conflict):
        await memory.undo(last)
    empty = await memory.undo_all(since=now() + timedelta(hours=1), **LIN)
    assert (empty.changes, empty.kept) == ([], {})


async def test_messages_only(memory, store, tenant):
    """What another face has said is no add, and its talk stays."""
    chat = ChatMemory(store, "lin", "room", tenant=tenant)
    await chat.add(Msg("user", "the code is 4711", "user"))
    moment = await _tick()
    await chat.add(Msg("user", "the code is 9999", "user"))
    assert await _texts(memory, "what is the code?", as_of=moment) == ["the code is 4711"]
