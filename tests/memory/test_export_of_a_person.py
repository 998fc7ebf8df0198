"""Everything of a person in a file, and from it the same answers again: on every store."""

import json

import pytest
from test_doors import ANN, FACES, LIN, QUESTION

from octavo import Add, ConfigError, Memory, Record
from octavo.chat import ChatMemory
from octavo.kernel.ids import now
from octavo.kernel.model import Query, Remove, Scope
from octavo.kernel.shapes import SHAPES
from octavo.memory.exporting import EXPORTED, PersonReach
from octavo.transfer import import_

QUESTIONS = (
    QUESTION,
    "where do I live?",
    "what am I allergic to?",
    "what do you know about me?",
    "flowerpot",
    "我住在哪里？",
    "which submarine did the admiral sink?",
)


async def _write(memory, store, tenant, folder):
    """Something by every face for two users, and what two sessions have for nobody."""
    for write in FACES:
        for user in (LIN, ANN):
            await write(store, tenant, user, folder)
    await memory.add("I live in Berlin and I am allergic to peanuts.", user_id=LIN, session_id="monday")
    moved = await memory.add("I live in Munich now.", user_id=LIN, session_id="monday")
    await memory.delete(moved.memories[0].id, reason="a mistake")
    await ChatMemory(store, LIN, "monday", tenant=tenant).update_compressed_summary("Lin talks about homes.")
    await memory.add("I am here too", user_id=ANN, session_id="shared")
    await memory.add("So am I", user_id=LIN, session_id="shared")
    unnamed = [
        Record(
            collection="turns", kind="ok", scope=Scope(tenant=tenant, session=session), data={"of": session}
        )
        for session in ("monday", "shared", "nobody's")
    ]
    await store.apply([Add(unnamed)])
    await store.apply(
        [
            Add(
                [
                    Record(
                        collection="entities",
                        id="Ann",
                        scope=Scope(tenant=tenant, user=LIN),
                        text="her sister",
                    )
                ]
            )
        ]
    )


async def _answers(memory, store, tenant, moment):
    """What is answered to a fixed list of questions, and all that is listed."""
    told = []
    for question in QUESTIONS:
        for more in ({}, {"session_id": "monday"}, {"as_of": moment}):
            hits = await memory.search(question, user_id=LIN, **more)
            told.append([(hit.id, hit.text, hit.score, hit.source, hit.when) for hit in hits])
            told.append(str(await memory.context(question, user_id=LIN, **more)))
    facts = await memory.get_all(user_id=LIN)
    told += [facts, [await memory.history(fact.id) for fact in facts], await memory.layers.logs(user_id=LIN)]
    said = await ChatMemory(store, LIN, "monday", tenant=tenant).get_memory()
    told.append([(message.id, message.content) for message in said])
    stats = await memory.stats(user_id=LIN)
    return [
        *told,
        {name: stats[name] for name in ("facts", "messages", "observations", "events", "documents")},
    ]


async def test_out_and_in_again(memory, store, tenant, tmp_path):
    """Exported, erased and imported, every question has the answer it had; nothing of anybody else is in the file."""
    await _write(memory, store, tenant, tmp_path)
    moment = now()
    await memory.add("I like tea.", user_id=LIN)
    before = await _answers(memory, store, tenant, moment)
    assert any(before[0])
    file, page = tmp_path / "lin.jsonl", tmp_path / "lin.md"
    moved = await memory.export(file, user_id=LIN, page=page)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()][1:-1]
    assert moved.read == len(lines) > 20
    owners = [(line["scope"].get("user", ""), line["scope"].get("session", "")) for line in lines]
    assert {user for user, _ in owners} == {LIN, ""}
    assert {session for user, session in owners if not user} == {"monday"}
    there = {line["collection"] for line in lines}
    assert there >= {"profile", "episodes", "log", "messages", "summaries", "entities", "exchanges"}
    assert there >= {"observations", "turns", "events", "configs"}
    erased = [Remove(Query(collection=name, scope=Scope(tenant=tenant))) for name in SHAPES]
    await store.apply(erased)
    assert await memory.search(QUESTION, user_id=LIN) == []
    assert (await import_(file, store)).added == len(lines)
    assert await _answers(memory, store, tenant, moment) == before
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# What is kept about lin\n")
    assert "## Who you are\n" in text
    assert f"That is all: {len(lines):,} records." in text
    assert text.count("\n- ") == len(lines)


async def test_nothing_is_there(memory, tmp_path):
    moved = await memory.export(tmp_path / "x.jsonl", user_id="nobody", page=tmp_path / "x.md")
    assert moved.read == 0
    assert (tmp_path / "x.jsonl").read_text() == '{"octavo_export":1}\n{"octavo_export_end":0}\n'


def test_every_collection_is_a_person_s_or_left_out():
    """A new collection has to be thought of here."""
    assert set(SHAPES) - set(EXPORTED) == {"vectors", "pending", "keys", "owners"}


def test_a_page_cannot_pose(tmp_path):
    with Memory(f"sqlite:///{tmp_path}/m.db") as memory:
        memory.add("# I live\n## in <b>Berlin</b> [x](y)", user_id="li*n", infer=False)
        memory.export(tmp_path / "a.jsonl.gz", user_id="li*n", page=tmp_path / "a.md")
        assert memory.stats(user_id="li*n")["facts"] == 1
    text = (tmp_path / "a.md").read_text()
    assert "What is kept about li\\*n" in text
    assert "<b>" not in text.replace("\\<b", "")
    assert "\n## in" not in text


async def test_a_store_that_lists_no_names(memory, store, tenant):
    """What is meant does not depend on what a store can do beside the three verbs."""

    class Plain:
        find, tally, apply = store.find, store.tally, store.apply

    for user, session in ((LIN, "a"), (LIN, "b"), (ANN, "b"), ("", "a"), ("", "b")):
        said = Record(collection="messages", scope=Scope(tenant=tenant, user=user, session=session))
        await store.apply([Add([said])])
    for one in (store, Plain()):
        assert (await PersonReach.of_user(one, LIN, tenant)).sessions == ["a"]
    del memory


def test_the_store_is_not_written_over(tmp_path):
    """Neither by the lines nor by the page; and the lines not by the page, however they are named."""
    own = tmp_path / "octavo.db"
    with Memory(f"sqlite:///{own}") as memory:
        memory.add("I live in Berlin.", user_id=LIN)
        for to, page in ((own, None), (tmp_path / "a.jsonl", f"{own}-wal")):
            with pytest.raises(ConfigError, match="belongs to the store in"):
                memory.export(to, user_id=LIN, page=page)
        with pytest.raises(ConfigError, match="would be one file"):
            memory.export(tmp_path / "a.jsonl", user_id=LIN, page=f"{tmp_path}/x/../a.jsonl")
        assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == []
        assert len(memory.get_all(user_id=LIN)) == 1
