"""Every format: what is in it arrives, once; what cannot be read is listed; an interrupted import goes on."""

import gzip
import json
import zipfile

import pytest
from import_cases import CASES
from made import chatgpt_conversations

from octavo import AsyncMemory, ConfigError, Memory, Query, Scope, open_store
from octavo.chat import ChatMemory
from octavo.conversation import StoreChatMessageHistory
from octavo.importers import FORMATS
from octavo.importers.sources import ImportSource, open_reader
from octavo.importers.values import DefaultOwner, bring, preview
from octavo.kernel.shapes import SHAPES
from octavo.layers import LayeredMemory

GRAPH = pytest.mark.skipif("graph_nodes" not in SHAPES, reason="there is no collection for graphs")
STORED = [pytest.param(name, marks=[GRAPH] if name == "mcp-memory" else []) for name in CASES]


def reader(format_, path, **owner):
    source, read = ImportSource.parse(str(path), format_), open_reader(format_)
    return lambda: read(source, DefaultOwner(**owner))


async def records(store, collection, **clauses):
    return await store.find(Query(collection=collection, scope=Scope(), **clauses))


def test_every_format_is_here():
    assert set(CASES) == set(FORMATS)


@pytest.mark.parametrize("format_", STORED)
async def test_all_of_it_arrives_once(format_, written, tmp_path):
    _, _, collections, bad, left_out = CASES[format_]
    read = reader(format_, written(format_))
    told = await preview(read)
    assert (told.collections, told.bad, sum(told.left_out.values())) == (collections, bad, left_out)
    assert len(told.unreadable) == bad
    assert all(each.position and each.reason for each in told.unreadable)
    assert len(told.samples) >= len({*collections} - {"log"})
    async with open_store(f"sqlite:///{tmp_path / 'octavo.db'}") as store:
        first = await bring(read, store, "run")
        assert (first.collections, first.bad, first.added) == (collections, bad, first.read)
        before = {name: await records(store, name) for name in collections}
        assert {name: len(found) for name, found in before.items()} == collections
        again = await bring(read, store, "run")
        assert (again.added, again.read) == (0, first.read)
        assert {name: await records(store, name) for name in collections} == before


@pytest.mark.parametrize("format_", STORED)
async def test_an_interrupted_import_goes_on(format_, written, tmp_path):
    _, _, collections, *_ = CASES[format_]
    read = reader(format_, written(format_))
    total, state = sum(collections.values()), tmp_path / "state"

    def stop(done, _):
        raise KeyboardInterrupt

    async with open_store(f"sqlite:///{tmp_path / 'octavo.db'}") as store:
        with pytest.raises(KeyboardInterrupt):
            await bring(read, store, "run", batch=1, progress=stop, resume=state)
        assert state.exists()
        rest = await bring(read, store, "run", batch=1, resume=state)
        assert rest.resumed > 0
        assert rest.resumed + rest.read == total
        assert rest.added == rest.read
        assert not state.exists()
        assert {name: len(await records(store, name)) for name in collections} == collections


async def test_a_source_that_changed_is_read_from_its_beginning(tmp_path):
    path, state = tmp_path / "talk.jsonl", tmp_path / "state"
    path.write_text('{"role":"user","content":"one","id":"a"}\n{"role":"user","content":"two","id":"b"}\n')

    def stop(done, _):
        raise KeyboardInterrupt

    async with open_store("memory://") as store:
        with pytest.raises(KeyboardInterrupt):
            await bring(reader("chat-jsonl", path), store, "run", batch=1, progress=stop, resume=state)
        path.write_text('{"role":"user","content":"zero","id":"z"}\n' + path.read_text())
        told = await bring(reader("chat-jsonl", path), store, "run", batch=1, resume=state)
        assert (told.resumed, told.read, told.added) == (0, 3, 2)


async def test_chatgpt(written):
    async with open_store("memory://") as store:
        told = await bring(reader("chatgpt", written("chatgpt"), user="lin"), store, "run")
        assert told.left_out == {
            "messages without a content": 1,
            "messages of branches that were given up": 1,
        }
        memory = ChatMemory(store, user_id="lin", session_id="c1")
        said = await memory.get_memory()
        assert [(m.role, m.get_text_content()) for m in said] == [
            ("user", "I live in Berlin."),
            ("assistant", None),
            ("assistant", "好的，记住了。"),
            ("user", "What is this?"),
        ]
        assert said[1].content == [{"type": "thinking", "thinking": "Home\nBerlin it is."}]
        assert said[3].content[0] == {
            "type": "image",
            "source": {"type": "url", "url": "file-service://file-1"},
        }
        assert said[2].metadata == {"title": "Home", "model": "gpt-5"}
        first, *_ = await records(store, "messages")
        assert first.created_at.isoformat() == "2023-11-14T22:13:20.500000+00:00"


@pytest.mark.parametrize("kind", ["zip", "folder", "parts", "gz"])
async def test_an_export_as_it_is_downloaded(kind, tmp_path):
    told = json.dumps(chatgpt_conversations())
    if kind == "zip":
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("user.json", "{}")
            archive.writestr("conversations.json", told)
    elif kind == "gz":
        path = tmp_path / "conversations.json.gz"
        path.write_bytes(gzip.compress(told.encode()))
    else:
        path = tmp_path / "export"
        path.mkdir()
        names = (
            ["conversations.json"]
            if kind == "folder"
            else ["conversations-000.json", "conversations-001.json"]
        )
        for name, part in zip(
            names,
            [told] if kind == "folder" else map(json.dumps, ([c] for c in chatgpt_conversations())),
            strict=True,
        ):
            (path / name).write_text(part)
    assert (await preview(reader("chatgpt", path))).collections == {"messages": 5}


@pytest.mark.parametrize(
    ("spoilt", "count"),
    [
        (lambda text: text[:-200], 4),  # cut short in the second conversation
        (lambda text: text.replace('"title": "Again"', '"title" "Again"'), 4),
        (lambda text: text[:-1], 5),
        (lambda text: text.replace("[", "[7, ", 1), 5),
    ],
)
async def test_what_cannot_be_read_of_a_file_is_told(spoilt, count, tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(spoilt(json.dumps(chatgpt_conversations())))
    told = await preview(reader("chatgpt", path))
    assert (told.read, told.bad) == (count, 1)
    assert "conversations.json" in told.unreadable[0].position


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        ("[]".encode("utf-16"), "no UTF-8"),
        (b"SQLite format 3\0\x10\xff\xfe", "no UTF-8"),
        (b"hello", "no JSON"),
    ],
)
async def test_a_file_that_is_none_of_it_is_told(written, reason, tmp_path):
    """It must not look as if there were no conversations."""
    path = tmp_path / "conversations.json"
    path.write_bytes(written)
    told = await preview(reader("chatgpt", path))
    assert reason in told.unreadable[0].reason


@pytest.mark.parametrize("shown_last", ["gone", None, ["a"]])
async def test_a_tree_that_does_not_say_what_was_shown_last(shown_last, tmp_path):
    """The newest branch is read, also where times are texts or missing."""

    def node(id_, parent, children, at):
        said = {"id": id_, "author": {"role": "user"}, "create_time": at}
        said["content"] = {"content_type": "text", "parts": [f"This is {id_}."]}
        return {"id": id_, "parent": parent, "children": children, "message": said}

    nodes = [
        *(node("a", None, ["b", "c", "d"], 1790000000.0), node("b", "a", [], None)),
        *(node("c", "a", [], "2026-10-01T00:00:00Z"), node("d", "a", [], 1790000001.0)),
    ]
    conversation = {"id": "s", "current_node": shown_last, "mapping": {each["id"]: each for each in nodes}}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))
    async with open_store("memory://") as store:
        told = await bring(reader("chatgpt", path), store, "run")
        assert [record.id for record in await records(store, "messages")] == ["a", "c"]
    assert told.left_out == {"messages of branches that were given up": 2}


async def test_claude(written):
    async with open_store("memory://") as store:
        await bring(reader("claude", written("claude")), store, "run")
        said = await ChatMemory(store, session_id="k1").get_memory()
        assert [m.role for m in said] == ["user", "assistant", "user"]
        assert [block["type"] for block in said[1].content] == ["thinking", "tool_use", "tool_result", "text"]
        assert said[2].metadata["attachments"][0]["extracted_content"] == "Satay"


@pytest.mark.parametrize("kind", ["gz", "no gz", "zip"])
async def test_a_file_that_was_cut_short_is_told(kind, tmp_path):
    """A download that broke off ends in a sentence, with all that can be read of it."""
    line = json.dumps({"role": "user", "content": "I sew sails."}) + "\n"
    path = tmp_path / f"talk.jsonl.{'zip' if kind == 'zip' else 'gz'}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("talk.jsonl", line * 3)
        path.write_bytes(path.read_bytes().replace(b"sails", b"SAILS"))
    else:
        path.write_bytes(line.encode() if kind == "no gz" else gzip.compress(line.encode() * 3)[:-6])
    told = await preview(reader("chat-jsonl", path, user="ode"))
    assert (told.bad, "it is damaged or cut short" in told.unreadable[0].reason) == (1, True)
    path = tmp_path / "export.zip"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ConfigError, match="is no whole zip; get it once more"):
        await preview(reader("chatgpt", path))


async def test_values_of_mem0_that_are_none(tmp_path):
    path = tmp_path / "all.json"
    path.write_text(
        json.dumps({"results": ["text", {"memory": 7}, {"id": 5, "memory": "Rows", "user_id": 7}]})
    )
    told = await preview(reader("mem0", path))
    assert [each.reason for each in told.unreadable] == ["it has no `memory`, so it is no memory of mem0"] * 2
    assert [each.user for each in told.samples] == ["7"]


@pytest.mark.parametrize(
    ("format_", "told"),
    [
        ("chat-jsonl", {"role": "user", "content": "hello", "timestamp": "long ago"}),
        ("chat-jsonl", {"role": "user", "content": "hello", "timestamp": -5}),
        ("chatgpt", [chatgpt_conversations()[0] | {"create_time": "31/12/2025"}]),
        ("claude", [{"uuid": "c", "created_at": "31/12/2025", "chat_messages": []}]),
        ("mem0", [{"id": "1", "memory": "Likes tea", "created_at": "long ago"}]),
        ("mem0", [{"id": "1", "memory": "Likes tea", "expiration_date": "soon"}]),
        ("agentscope", {"content": [[{"id": "1", "name": "u", "role": "user", "content": "a", "timestamp": "x"}, []]]}),
    ],
)  # fmt: skip
async def test_a_time_that_cannot_be_read_is_told(format_, told, tmp_path):
    """And no other one is kept in its place."""
    path = tmp_path / ("talk.jsonl" if format_ == "chat-jsonl" else "conversations.json")
    path.write_text(json.dumps(told))
    found = await preview(reader(format_, path))
    assert (found.read, found.bad) == (0, 1)
    assert "no time" in found.unreadable[0].reason or "isoformat" in found.unreadable[0].reason


async def test_a_line_without_a_time_leaves_those_of_the_others(tmp_path):
    path = tmp_path / "talk.jsonl"
    lines = [{"role": "user", "content": "one"}, {"role": "user", "content": "two", "timestamp": 1700000000}]
    path.write_text("\r\n".join(map(json.dumps, lines)))
    async with open_store("memory://") as store:
        await bring(reader("chat-jsonl", path), store, "run")
        assert {record.created_at.year for record in await records(store, "messages")} == {2023}


@pytest.mark.parametrize(
    ("format_", "name", "spell"),
    [
        ("chat-jsonl", "talk.jsonl", lambda said: json.dumps({"role": "user", "content": said})),
        ("langchain", "talk.json", lambda said: json.dumps([{"type": "human", "data": {"content": said}}])),
    ],
)
async def test_another_file_of_the_same_name_is_no_repetition(format_, name, spell, tmp_path):
    """What has no ids is known again by its place and by what it says: nothing that was said is taken for something else."""
    async with open_store("memory://") as store:
        for said in ("I live in Berlin.", "I live in Lyon.", "I live in Lyon."):
            (folder := tmp_path / said).mkdir(exist_ok=True)
            (folder / name).write_text(spell(said))
            await bring(reader(format_, folder / name), store, said)
        assert {record.text for record in await records(store, "messages")} == {
            "I live in Berlin.",
            "I live in Lyon.",
        }
        assert len(await records(store, "messages")) == 2


async def test_mem0(written, tmp_path):
    url = f"sqlite:///{tmp_path / 'octavo.db'}"
    async with open_store(url) as store:
        await bring(reader("mem0", written("mem0"), user="nobody"), store, "run")
    with Memory(url) as memory:
        facts = memory.get_all(user_id="lin")
        assert {fact.content for fact in facts} == {"Allergic to peanuts", "Has a cold"}
        [peanuts] = [fact for fact in facts if "peanuts" in fact.content]
        assert peanuts.metadata == {"sure": True, "categories": ["food"], "session_id": "monday"}
        assert peanuts.created_at.isoformat() == "2026-03-01T20:00:00+00:00"
        assert [row.reason for row in memory.history(peanuts.id)] == ["imported from mem0"]
        assert [fact.content for fact in memory.get_all(agent_id="planner")] == ["Answers briefly"]
        assert memory.search("peanuts", user_id="lin")[0].text == "Allergic to peanuts"


async def test_what_was_forgotten_is_not_brought_back(written, tmp_path):
    path, url = written("mem0"), f"sqlite:///{tmp_path / 'octavo.db'}"
    async with open_store(url) as store:
        await bring(reader("mem0", path), store, "run")
        layers = LayeredMemory(store)
        [cold] = [fact for fact in await layers.profile(user_id="lin") if fact.content == "Has a cold"]
        await layers.forget(cold.id)
        again = await bring(reader("mem0", path), store, "run")
        assert again.added == 0
        assert [fact.content for fact in await layers.profile(user_id="lin")] == ["Allergic to peanuts"]


async def test_langchain(written):
    async with open_store("memory://") as store:
        await bring(reader("langchain", written("langchain"), user="lin"), store, "run")
        messages = await StoreChatMessageHistory(store, "friday", "lin").aget_messages()
        assert [(m.type, m.content) for m in messages] == [("human", "I live in Berlin."), ("ai", "Noted.")]
        assert messages[1].id == "run-1"


async def test_agentscope(written):
    async with open_store("memory://") as store:
        await bring(reader("agentscope", written("agentscope")), store, "run")
        memory = ChatMemory(store, session_id="lin_s1-agent")
        summary, *said = await memory.get_memory()
        assert summary.content == "They spoke of Berlin."
        assert [m.id for m in said] == ["a1", "a2"]
        assert [m.id for m in await memory.get_memory(mark="hint", prepend_summary=False)] == ["a1"]


async def test_mk2(written):
    async with open_store("memory://") as store:
        await bring(reader("mk2", written("mk2"), user="nobody"), store, "run")
        [event] = await records(store, "observations")
        assert (event.id, event.text, event.scope.user, event.scope.session) == (
            "e1",
            "我对花生过敏",
            "lin",
            "dm:lin",
        )
        assert event.data["gate_result"] == {"action": "deliver"}
        assert event.data["extra"]["tags"] == ["a"]
        [turn] = await records(store, "turns")
        assert (turn.kind, turn.data["plan"], turn.metadata) == (
            "ok",
            {"steps": ["answer"]},
            {"tool_calls": [{"name": "x"}]},
        )
        [config] = await records(store, "configs")
        assert (config.id, config.text, config.scope.user) == ("users/lin", "Likes tea.", "lin")
        [known] = await records(store, "knowledge")
        assert (known.id, known.text) == ("facts/tea", "Green tea at 70 degrees.")


async def test_z_memory(written):
    async with open_store("memory://") as store:
        await bring(reader("z-memory", written("z-memory")), store, "run")
        layers = LayeredMemory(store)
        [profile] = await layers.profile(user_id="user123")
        assert (profile.id, profile.category, profile.metadata) == ("p1", "career", {"source": "chat"})
        [event] = await layers.events(user_id="user123")
        assert event.expiry_date is not None
        assert [fact.content for fact in await layers.profile(agent_id="planner")] == ["回答要简短"]
        assert {row.reason for row in await layers.logs("p1")} == {"imported from Z-Memory", "新的职业信息"}
        assert [row.action for row in await layers.logs("gone")] == ["delete"]


async def test_markdown(written):
    async with open_store("memory://") as store:
        await bring(reader("markdown", written("markdown")), store, "run")
        found = {record.text: record.metadata for record in await records(store, "profile")}
        assert [*found] == [
            "Likes tea\nand biscuits",
            "Lives in Berlin",
            "A paragraph of\ntwo lines.",
            "Uses pnpm\n - never npm",
        ]
        assert found["Lives in Berlin"] == {"file": "notes.md", "heading": "Notes"}


async def test_a_line_across_the_page_says_nothing(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("Likes tea\n\n---\n\n- Lives in Oslo\n* * *\nHas a dog\n___\n  --- is hers\n")
    async with open_store("memory://") as store:
        await bring(reader("markdown", path), store, "run")
        told = {record.text.strip() for record in await records(store, "profile")}
        assert told == {"Likes tea", "Lives in Oslo", "Has a dog", "--- is hers"}


async def test_hidden_notes_are_not_read(tmp_path):
    """What was thrown away in an editor lies in a hidden folder of its notes."""
    for name in ("kept.md", ".trash/gone.md", "a/.obsidian/own.md", ".hidden.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"- {name}\n")
    told = await preview(reader("markdown", tmp_path))
    assert {each.text for each in told.samples if each.collection == "profile"} == {"kept.md"}


async def test_a_memory_folder(written):
    async with open_store("memory://") as store:
        told = await bring(reader("claude-code", written("claude-code")), store, "run")
        found = {record.text: record.metadata for record in await records(store, "profile")}
        assert told.left_out == {"lines of the index": 1}
        assert set(found) == {
            "The build is `make all`",
            "Run the focused tests only.\n\n**Why:** the machine is shared.",
            "Uses ruff",
            "Uses mypy",
        }
        assert found["Uses ruff"]["topic"] == "tools"


async def test_the_graph(written):
    found = [item async for item in reader("mcp-memory", written("mcp-memory"), user="lin")()]
    node, other, edge, bad = found
    assert (node.text, node.kind, node.data["observations"]) == (
        "Lin",
        "person",
        ["lives in Berlin", "drinks tea"],
    )
    assert (other.collection, edge.collection) == ("graph_nodes", "graph_edges")
    assert edge.data == {"from": "Lin", "to": "Octavo", "relation_type": "uses"}
    assert node.scope.user == "lin"
    assert "type is entity or relation" in bad.reason


@pytest.mark.parametrize(
    ("given", "format_", "said"),
    [
        ("https://example.com/conversations.json", "chatgpt", "nothing is fetched"),
        ("nowhere.json", "chatgpt", "there is no file or folder nowhere.json"),
        ("postgresql://u:secret@h/d", "chatgpt", "a file or a folder"),
        ("redis://h/0", "langchain", "a file, a folder or the URL"),
        ("x", "word", "unknown format"),
    ],
)
def test_what_is_no_source_is_refused(given, format_, said):
    with pytest.raises(ConfigError, match=said) as refused:
        ImportSource.parse(given, format_)
    assert "secret" not in str(refused.value)


async def test_a_database_of_something_else_is_refused(written):
    with pytest.raises(ConfigError, match="no database of Z-Memory"):
        await preview(reader("z-memory", written("mk2")))


@pytest.mark.parametrize("kind", ["memory", "file", "sqlite", "postgres", "mysql", "redis"])
async def test_into_every_store(kind, written, tmp_path, request):
    if kind in {"postgres", "mysql", "redis"}:
        url = request.getfixturevalue("fresh_url")(kind)
    else:
        url = {"memory": "memory://", "file": f"file://{tmp_path}/f", "sqlite": f"sqlite:///{tmp_path}/s.db"}[
            kind
        ]
    async with open_store(url) as store:
        for format_ in ("chatgpt", "mem0", "mk2", "z-memory"):
            read = reader(format_, written(format_) if format_ != "z-memory" else written("z-memory"))
            told = await bring(read, store, format_)
            assert told.added == told.read
            assert (await bring(read, store, format_)).added == 0


async def test_an_id_that_comes_twice_is_told(tmp_path):
    """Only one can be kept: what says the same is counted, what says something else is listed. Neither is already there."""
    told = [("a", "Likes tea"), ("b", "Likes figs"), ("a", "Likes coffee"), ("b", "Likes figs")]
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps([{"id": id_, "memory": text, "user_id": "lin"} for id_, text in told]))
    seen = await preview(reader("mem0", path))
    async with AsyncMemory("memory://") as memory:
        moved = await bring(reader("mem0", path), memory.store, "run")
        for each in (seen, moved):
            assert [(one.position, one.reason.partition(":")[0]) for one in each.unreadable] == [
                ("profile 'a'", "a repeated id")
            ]
            assert each.left_out == {"repeated with the same id and text": 1}
            assert (each.bad, each.read) == (1, 4)
        assert moved.added == 4
        assert {fact.content for fact in await memory.get_all(user_id="lin")} == {"Likes tea", "Likes figs"}
        again = await bring(reader("mem0", path), memory.store, "run")
        assert (again.read, again.added, again.bad) == (4, 0, 1)
