"""Facts of a text that was queued, or whose process ended in between, are found later."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from octavo import AsyncMemory, Journal, ModelError
from octavo.chat import Msg
from octavo.chat.messages import to_record
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Query, Scope
from octavo.layers.rules import RuleExtractor
from octavo.memory import pending
from octavo.memory.pending import note_for
from serving import Faulty


async def until(condition):
    for _ in range(400):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come about")


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_queued_texts(store, tenant, tmp_path):
    faulty = Faulty(store)
    journal = Journal(faulty, tmp_path / "queue", timeout=3, backoff=(0.001, 0.01), owned=False)
    async with journal, AsyncMemory(journal, tenant=tenant) as memory:
        await memory.add("I am a welder.", user_id="lin")
        faulty.mode = "down"
        added = await memory.add("I am allergic to nuts.", user_id="lin", session_id="s")
        assert added.status == "queued"
        assert added.memories == []
        assert "on disk" in added.note
        faulty.mode = "up"

        async def found():
            return any("nuts" in fact.content for fact in await memory.get_all(user_id="lin"))

        await until(found)
        [hit, *_] = await memory.search("what am I allergic to?", user_id="lin", sources=["facts"])
        assert hit.sources == tuple(added.messages)
        assert await store.find(Query(collection="pending", scope=Scope(tenant=tenant))) == []


async def test_left_by_an_earlier_process(store, tenant, monkeypatch):
    """The message and its note were written; then the process was killed."""
    message = to_record(
        Msg("user", "I am a luthier from Cremona.", "user"),
        (),
        Scope(tenant=tenant, user="lin", agent="", session="s"),
    )
    await store.apply([Add([message]), Add([note_for(message, {"user_id": "lin"}, {})])])
    removed = to_record(Msg("user", "gone", "user"), (), Scope(tenant=tenant, user="lin", session="s"))
    await store.apply([Add([note_for(removed, {"user_id": "lin"}, {})])])
    monkeypatch.setattr(pending, "_GRACE", timedelta(seconds=-5))
    async with AsyncMemory(store, tenant=tenant) as memory:
        await memory.add("hello", user_id="other")

        async def struck_out():
            return await store.find(Query(collection="pending", scope=Scope(tenant=tenant))) == []

        await until(struck_out)
        facts = await memory.get_all(user_id="lin")
        assert [fact.sources for fact in facts] == [(message.id,)]


async def test_left_by_a_process_whose_clock_was_ahead(store, tenant):
    """It was killed, the clock was set right, and nobody waits for the day that it had shown."""
    scope = Scope(tenant=tenant, user="lin", agent="", session="s")
    message = to_record(Msg("user", "I am a luthier from Cremona.", "user"), (), scope)
    note = note_for(message, {"user_id": "lin"}, {})
    later = msgspec.structs.replace(note, created_at=now() + timedelta(days=365))
    await store.apply([Add([message]), Add([later])])
    async with AsyncMemory(store, tenant=tenant) as memory:
        await memory.add("hello", user_id="other")

        async def found():
            return await memory.get_all(user_id="lin") != []

        await until(found)


async def test_left_a_moment_ago(store, tenant, monkeypatch):
    """A process that was killed is started again at once, and goes on for months."""
    monkeypatch.setattr(pending, "_GRACE", timedelta(seconds=1))
    async with AsyncMemory(store, tenant=tenant) as memory:
        scope = Scope(tenant=tenant, user="lin", agent="", session="s")
        message = to_record(Msg("user", "I am a luthier from Cremona.", "user"), (), scope)
        await store.apply([Add([message]), Add([note_for(message, {"user_id": "lin"}, {})])])
        await memory.add("hello", user_id="other")
        await asyncio.sleep(0.3)
        assert await memory.get_all(user_id="lin") == []  # somebody may be at it

        async def found():
            await memory.add("hello", user_id="other")
            return await memory.get_all(user_id="lin")

        await until(found)


async def test_a_model_that_fails(store, tenant):
    """What was said is kept, and its facts are found when the model answers again."""

    class Failing(RuleExtractor):
        fails = True

        async def decide(self, *args, **kwargs):
            if self.fails:
                raise ModelError("the model is away")
            return await super().decide(*args, **kwargs)

    extractor = Failing()
    async with AsyncMemory(store, tenant=tenant, model=extractor) as memory:
        added = await memory.add("I am allergic to nuts.", user_id="lin")
        assert added.status == "stored"
        assert "the model is away" in added.note
        assert "nuts" in (await memory.search("what am I allergic to?", user_id="lin"))[0].text
        extractor.fails = False

        async def found():
            return bool(await memory.get_all(user_id="lin"))

        await until(found)


async def test_told_when_it_was_said(tmp_path):
    """A day that is counted from now is counted from when it was said."""
    async with AsyncMemory(f"sqlite:///{tmp_path}/m.db") as memory:
        scope = Scope(user="lin", agent="", session="s")
        said = to_record(Msg("user", "I met Olga yesterday.", "user"), (), scope)
        import msgspec

        said = msgspec.structs.replace(said, created_at=now() - timedelta(days=10))
        note = note_for(said, {"user_id": "lin"}, {})
        await memory.store.apply([Add([said]), Add([note])])
        await memory._pending.find(note, said)
        [fact] = await memory.get_all(user_id="lin")
        assert fact.happened_at.date() == (now() - timedelta(days=11)).date()
