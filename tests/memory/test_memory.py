"""Add, search and look: what the front door promises, on every store."""

import asyncio
import copy
import enum
import gc
import pickle
from datetime import UTC, datetime
from functools import partial

import pytest

from octavo import (
    AsyncMemory,
    ConfigError,
    Conflict,
    InvalidQuery,
    InvalidRecord,
    Memory,
    NotFound,
    StoreError,
    open_store,
)
from octavo.chat import ChatMemory, Msg
from octavo.conversation import StoreChatMessageHistory
from octavo.events import AgentEvent, EventStore
from octavo.kernel.model import Query, Scope
from octavo.memory import DEFAULT_USER
from octavo.testing.embedding import HashEmbedder

BERLIN = "I live in Berlin and I am allergic to peanuts."


async def test_says_what_became_of_it(memory):
    added = await memory.add(BERLIN, user_id="lin")
    assert added.status == "stored"
    assert added.note == ""
    assert [each.action for each in added.memories] == ["insert", "insert"]
    assert added.count("insert") == 2
    assert all(each.reason for each in added.memories)
    again = await memory.add(BERLIN, user_id="lin")
    assert [each.action for each in again.memories] == ["ignore", "ignore"]
    moved = await memory.add("I moved to Munich.", user_id="lin")
    assert "update" in [each.action for each in moved.memories] or moved.count("insert")


async def test_what_was_said_is_kept_once(memory, tenant, store):
    """The message is the source of its facts, and the chat face has it; there is no second copy."""
    added = await memory.add(BERLIN, user_id="lin", session_id="monday")
    [said] = await ChatMemory(store, "lin", "monday", tenant=tenant).get_memory()
    assert (said.id, said.content, said.role) == (added.messages[0], BERLIN, "user")
    assert await store.find(Query(collection="observations", scope=Scope(tenant=tenant))) == []
    assert await store.find(Query(collection="pending", scope=Scope(tenant=tenant))) == []
    facts = await memory.get_all(user_id="lin")
    assert {fact.sources for fact in facts} == {(said.id,)}


@pytest.mark.parametrize("question", ["what am I allergic to?", "Berlin", "peanuts"])
async def test_a_fact_or_its_sentence(memory, question):
    await memory.add(BERLIN, user_id="lin")
    hits = await memory.search(question, user_id="lin")
    assert hits
    assert not hits.probably_absent
    for hit in hits:
        assert hit.text
        assert hit.why
        assert hit.when
        assert hit.user_id == "lin"
        assert 0 < hit.score <= 1
    facts = {source for hit in hits if hit.source == "facts" for source in hit.sources}
    messages = {hit.id for hit in hits if hit.source == "messages"}
    assert not facts & messages


async def test_nobody_crosses(memory):
    """A user that is not named is the default one, on both sides."""
    await memory.add("I keep bees on the roof.")
    await memory.add("I keep goats in the garden.", user_id="lin")
    await memory.add("I keep records of every bee.", agent_id="bot")
    assert {hit.user_id for hit in await memory.search("what do I keep?")} == {DEFAULT_USER}
    assert {hit.user_id for hit in await memory.search("what do I keep?", user_id="lin")} == {"lin"}
    assert {hit.agent_id for hit in await memory.search("what do I keep?", agent_id="bot")} == {"bot"}
    assert await memory.search("what do I keep?", user_id="nobody") == []
    assert "bees" in str(await memory.context("what do I keep?"))
    assert "goats" not in str(await memory.context("what do I keep?"))
    assert [fact.entity_id for fact in await memory.get_all(agent_id="bot")] in ([], ["bot"])
    everyone = await memory.search("what do I keep?", everyone=True)
    assert {hit.user_id for hit in everyone} >= {DEFAULT_USER, "lin"}
    with pytest.raises(InvalidQuery, match="not both"):
        await memory.search("x", user_id="lin", everyone=True)
    with pytest.raises(InvalidQuery, match="user_id must be a name"):
        await memory.search("x", user_id="")


@pytest.mark.parametrize("name", ["user_id", "agent_id", "session_id"])
async def test_a_name_that_no_store_keeps(memory, name):
    """The refusal names the caller's own word for it; to ask for such a name just finds nothing."""
    with pytest.raises(InvalidRecord, match=rf"^{name} is 5000 bytes long, at most 255 are kept"):
        await memory.add("I keep bees.", **{name: "x" * 5000})
    assert await memory.search("bees", **{name: "x" * 5000}) == []
    with pytest.raises(InvalidQuery, match=f"^{name} must be a name; got '  '"):
        await memory.add("I keep bees.", **{name: "  "})


@pytest.mark.parametrize(("name", "verb"), [("model", "decide"), ("embedder", "embed")])
def test_a_model_of_another_kind_is_refused_at_once(name, verb):
    """Such as a client of an SDK: the first `add` would keep the text, and then fail."""
    with pytest.raises(TypeError, match=f"{name} is a name, or has a method `{verb}`; got <object"):
        Memory("memory://", **{name: object()})


async def test_a_memory_cannot_be_copied(memory):
    """Half a copy of an event loop would complain when it is collected."""
    with pytest.raises(TypeError, match="share it, or open another"):
        copy.deepcopy(memory)


async def test_a_store_in_use_cannot_be_copied(tmp_path):
    """The lock of a copy was the original's, and ended with the copy."""
    async with open_store(f"file://{tmp_path}") as store:
        history = StoreChatMessageHistory(store, "monday")
        await history.aadd_user_message("hello")
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="share it, or open another"):
                make(store)
        with pytest.raises(TypeError):
            copy.deepcopy(history)
        gc.collect()
        await history.aadd_user_message("again")
        assert await history.acount() == 2


async def test_a_text_of_another_class_is_the_text(memory):
    """A member of an enum, or what a template engine answers: the same user, and the same words, in every spelling."""

    class Name(str, enum.Enum):  # noqa: UP042 - an f-string says "Name.LIN" of it
        LIN = "lin"
        MONDAY = "monday"

    class Markup(str):
        __slots__ = ()

    who = {"user_id": Name.LIN, "session_id": Name.MONDAY}
    added = await memory.add(Markup(BERLIN), metadata={"app": Markup("shop")}, **who)
    assert added.count("insert") == 2
    [fact, _] = await memory.get_all(user_id="lin", session_id="monday")
    assert (fact.metadata["app"], fact.entity_id) == ("shop", "lin")
    await memory.update(fact.id, Markup("The user lives in Potsdam"))
    assert (await memory.get(fact.id)).content == "The user lives in Potsdam"
    assert (await memory.search("peanuts", **who))[0].session_id == "monday"
    await memory.forget(user_id=Name.LIN)  # which went on without end on files
    assert (await memory.stats(user_id="lin"))["messages"] == 0


async def test_a_session_is_searched_alone(memory):
    await memory.add("The code of the door is 4711.", user_id="lin", session_id="monday")
    await memory.add("The code of the gate is 1234.", user_id="lin", session_id="tuesday")
    await memory.add("The code of the shed is 99.", user_id="lin", session_id="monday", infer=False)
    monday = await memory.search("what is the code?", user_id="lin", session_id="monday")
    assert monday
    assert not any("1234" in hit.text for hit in monday)
    assert any("4711" in hit.text for hit in monday)
    assert any("99" in hit.text for hit in monday)
    assert any("1234" in hit.text for hit in await memory.search("what is the code?", user_id="lin"))
    assert await memory.search("what is the code?", session_id="monday") == []


async def test_filters(memory):
    await memory.add("My dentist is Dr. Weiss.", user_id="lin", metadata={"from": "mail"})
    await memory.add("My plumber is Mr. Schwarz.", user_id="lin")
    [hit, *_] = await memory.search("who is my dentist?", user_id="lin", sources=["messages"])
    assert (hit.source, hit.kind) == ("messages", "user")
    found = await memory.search("who is my plumber?", user_id="lin", metadata={"from": "mail"})
    assert all("Weiss" in each.text for each in found)
    assert await memory.search("who is my dentist?", user_id="lin", until=hit.when.replace(year=2020)) == []
    assert await memory.search("who is my dentist?", user_id="lin", since=hit.when.replace(year=2090)) == []
    assert len(await memory.search("who is my dentist?", user_id="lin", limit=1)) == 1
    for nothing in ({"query": "", "limit": 10}, {"query": "who is my dentist?", "limit": 0}):
        hits = await memory.search(**nothing, user_id="lin")
        assert (hits, hits.probably_absent) == ([], False)
    with pytest.raises(InvalidQuery, match="unknown source 'mails'; known: facts"):
        await memory.search("x", sources=["mails"])


async def test_what_overtakes_stands_first(memory):
    """A sentence that is not true any more never stands before the fact that says so."""
    await memory.add("I live in Berlin.", user_id="lin")
    await memory.add("I live in Munich now.", user_id="lin")
    hits = [hit.text for hit in await memory.search("where do I live?", user_id="lin")]
    assert "Munich" in hits[0]
    await memory.add("I drive a VW Golf.", user_id="lin")
    await memory.add("I sold the Golf.", user_id="lin")
    hits = [hit.text for hit in await memory.search("What car do I drive?", user_id="lin")]
    assert "sold" in hits[0]


async def test_why_it_is_a_hit(memory):
    """In words, as they were asked; stems are nobody's language."""
    await memory.add("I drank three coffees this morning. 我每天早上喝咖啡。", user_id="lin")
    for question, says in (
        ("Which COFFEE in the mornings?", "says coffee, mornings"),
        ("喝咖啡吗", "says 喝咖, 咖啡"),
    ):
        [hit, *_] = await memory.search(question, user_id="lin", sources="messages")
        assert hit.why.startswith(says)


async def test_scores_go_down(memory):
    """Also where a fact stands before a sentence that has more of the question."""
    await memory.add("I live in Ghent for the time being.", user_id="lin")
    await memory.add("I live in Berchem now.", user_id="lin")
    hits = await memory.search("do I live in Ghent for the time being?", user_id="lin")
    assert "Berchem" in hits[0].text
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("limit", [-1, "5", None, 2.5, True])
async def test_a_limit_is_a_number(memory, limit):
    await memory.add("I like tea.", user_id="lin")
    for look in (partial(memory.search, "tea"), memory.get_all):
        with pytest.raises(InvalidQuery, match="limit must be a number, 0 or more; got"):
            await look(user_id="lin", limit=limit)


async def test_a_span_ends_after_it_begins(memory):
    early, late = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2)  # noqa: DTZ001 - local time is taken too
    for look in (
        partial(memory.search, "tea"),
        memory.layers.events,
        partial(memory.layers.logs),
    ):
        assert not await look(user_id="lin", since=early, until=late)
        with pytest.raises(InvalidQuery, match=r"since \(2026-03-0.* is later than until \(2026-03-01"):
            await look(user_id="lin", since=late, until=early)


async def test_a_page_goes_on_after_a_cursor(memory):
    with pytest.raises(
        InvalidQuery, match="after must be the Cursor of a record or a page; got 'user_lin_1'"
    ):
        await memory.get_all(user_id="lin", after="user_lin_1")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"store": "octavo.db"}, "^store: 'octavo.db' is not the URL of a store"),
        ({"store": ""}, "^store is text, not empty"),
        ({"store": "memory://", "embedder": "wat:x"}, "^embedder: "),
    ],
)
def test_an_argument_that_is_wrong_is_named(given, says):
    with pytest.raises(ConfigError, match=says):
        AsyncMemory(**given)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda memory, fact: memory.add("I am a nurse.", user_id="lin", infer="no"), "infer must be True or"),
        (lambda memory, fact: memory.delete(fact, forever="no"), "forever must be True or False; got 'no'"),
        (lambda memory, fact: memory.forget(user_id="lin", dry_run=1), "dry_run must be True or False; got 1"),
        (lambda memory, fact: memory.undo_all(add=[], user_id="lin"), "add is what an add.. answered"),
        (lambda memory, fact: memory.undo_all(add=5, user_id="lin"), "add is what an add.. answered"),
        (lambda memory, fact: memory.search("home", user_id="lin", max_bytes=-1), "max_bytes must be a number"),
        (lambda memory, fact: memory.context("home", user_id="lin", shown="home"), "shown must be a list of"),
        (lambda memory, fact: memory.context("home", user_id="lin", shown=[5]), "shown must be a list of"),
        (lambda memory, fact: memory.export(None, user_id="lin"), "an export goes to a path"),
        (lambda memory, fact: memory.export(".", user_id="lin"), "is a folder; name a file in it"),
        (lambda memory, fact: memory.export("a", user_id="lin", page="a"), "would be one file, a; name two"),
    ],
)  # fmt: skip
async def test_a_wrong_argument_is_named_and_does_nothing(memory, tmp_path, monkeypatch, call, says):
    monkeypatch.chdir(tmp_path)
    added = await memory.add("I live in Berlin.", user_id="lin")
    with pytest.raises((InvalidQuery, InvalidRecord, ConfigError), match=says):
        await call(memory, added.memories[0].id)
    assert [fact.text for fact in await memory.get_all(user_id="lin")] == ["The user lives in Berlin"]
    assert not (tmp_path / "a").exists()


async def test_the_history_of_no_memory_is_nobody_s(memory):
    """None would be the log of everybody."""
    await memory.add("I live in Berlin.", user_id="lin")
    with pytest.raises(InvalidQuery, match="memory_id must be a string; got None"):
        await memory.history(None)


async def test_the_last_moment_is_now(memory):
    await memory.add("I live in Berlin.", user_id="lin")
    assert await memory.search("Berlin", user_id="lin", as_of=datetime.max.replace(tzinfo=UTC))
    assert (await memory.context("Berlin", user_id="lin", as_of=datetime.max.replace(tzinfo=UTC))).text


async def test_what_a_message_has_beside_its_words_is_kept(memory):
    told = {"role": "user", "content": "I like tea.", "timestamp": "2026-01-05", "metadata": {"from": "mail"}}
    added = await memory.add([told, "I like rye."], user_id="lin", metadata={"seen": True})
    hits = await memory.search("tea", user_id="lin", sources=["messages"])
    assert hits[0].metadata == {"from": "mail", "timestamp": "2026-01-05", "seen": True}
    assert [fact.metadata for fact in await memory.get_all(user_id="lin")] == [{"seen": True}] * len(
        added.memories
    )


async def test_metadata_are_a_dict(memory):
    with pytest.raises(InvalidRecord, match="metadata must be a dict; got 'mail'"):
        await memory.add("I like tea.", user_id="lin", metadata="mail")
    with pytest.raises(InvalidQuery, match=r"metadata must be a dict, .*; got 'mail'"):
        await memory.search("tea", user_id="lin", metadata="mail")


async def test_absence_is_told(memory):
    await memory.add("I like tea.", user_id="lin")
    hits = await memory.search("which submarine did the admiral sink?", user_id="lin")
    assert hits.probably_absent
    assert (await memory.context("which submarine did the admiral sink?", user_id="lin")).probably_absent


async def test_kept_as_it_is(memory):
    added = await memory.add("Dates: 12. and 14. May, as said by phone", user_id="lin", infer=False)
    [only] = added.memories
    fact = await memory.get(only.id)
    assert fact.content == "Dates: 12. and 14. May, as said by phone"
    assert [each.id for each in await memory.get_all(user_id="lin")] == [only.id]
    assert [hit.id for hit in await memory.search("which dates in May?", user_id="lin")] == [only.id]


async def test_change_delete_and_undo(memory):
    added = await memory.add("I work as a welder.", user_id="lin")
    [one] = [each.id for each in added.memories]
    changed = await memory.update(one, "The user is a master welder", reason="passed the exam")
    assert changed.content == "The user is a master welder"
    gone = await memory.delete(one, reason="said so")
    assert gone.id == one
    with pytest.raises(NotFound):
        await memory.get(one)
    history = await memory.history(one)
    assert [row.action for row in history] == ["insert", "update", "delete"]
    assert [row.reason for row in history[1:]] == ["passed the exam", "said so"]
    await memory.undo(history[-1])
    assert (await memory.get(one)).content == "The user is a master welder"
    with pytest.raises(Conflict, match="only the last change"):
        await memory.undo(history[0].id)


async def test_pages_of_all(memory):
    for number in range(7):
        await memory.add(f"number {number}", user_id="lin", infer=False)
    seen, after = [], None
    while True:
        page = await memory.get_all(user_id="lin", limit=3, after=after)
        seen += [fact.content for fact in page]
        after = page.following
        if after is None:
            break
    assert seen == [f"number {number}" for number in reversed(range(7))]
    stats = await memory.stats(user_id="lin")
    assert (stats["facts"], stats["messages"]) == (7, 0)
    assert (await memory.stats())["facts"] == 7


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_messages_of_the_sdks(kind, tmp_path):
    """OpenAI's and Anthropic's spellings, their tool calls, and Octavo's own."""
    told = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "I have two children."}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"what": "kids"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "two found"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "do", "input": {"a": 1}}]},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}],
        },
        Msg("Lin", "I was born in Oslo.", "user"),
        "And I love skiing.",
    ]
    async with AsyncMemory(f"{kind}:///{tmp_path}/m.db") as memory:
        added = await memory.add(told, user_id="lin", session_id="s")
        assert len(added.messages) == len(told)
        kept = await ChatMemory(memory.store, "lin", "s").get_memory()
    assert [message.role for message in kept] == [
        "system", "user", "assistant", "system", "user", "assistant", "user", "user", "user",
    ]  # fmt: skip
    assert kept[2].content == [{"type": "tool_use", "id": "c1", "name": "look", "input": {"what": "kids"}}]
    assert kept[3].content == [{"type": "tool_result", "id": "c1", "name": "", "output": "two found"}]
    assert kept[6].content[0]["source"]["url"] == "https://example.org/a.png"
    assert kept[7].name == "Lin"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (7, "add takes a text"),
        ([7], "add takes a text"),
        ({"role": "pope", "content": "x"}, "the role of a message is one of user"),
        ({"role": "user"}, "a message has a content"),
        ({"role": "user", "content": 7}, "a text or a list of blocks"),
        ({"role": "user", "content": "x", "metadata": "mail"}, "metadata of a message must be a dict"),
        ({"role": "user", "content": [{"text": "no type"}]}, "a dict with a 'type'"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, "not empty"),
        ({"role": "user", "content": [{"type": "text"}]}, "not empty"),
        ({"role": "assistant", "tool_calls": "look"}, "a tool call is a dict with a 'function'.*; got 'l'"),
        ({"role": "assistant", "tool_calls": [{"function": "look"}]}, "got {'function': 'look'}"),
        ("  ", "not empty"),
        ("", "not empty"),
    ],
)
def test_what_is_no_message(wrong, says):
    with Memory("memory://") as memory:
        with pytest.raises(InvalidRecord, match=says):
            memory.add(wrong)
        assert memory.stats()["messages"] == 0


def test_blocking_and_chinese(tmp_path):
    """The five lines, in Chinese, on a file, opened twice."""
    url = f"sqlite:///{tmp_path}/m.db"
    with Memory(url) as memory:
        memory.add("我住在杭州，在一家医院上班。", user_id="王")
        memory.add([{"role": "user", "content": "我对花生过敏。"}], user_id="王", session_id="周一")
    with Memory(url) as memory:
        assert "杭州" in memory.search("我住在哪里？", user_id="王")[0].text
        assert "花生" in memory.search("用户对什么过敏？", user_id="王")[0].text
        block = memory.context("晚上吃什么？", user_id="王", session_id="周一", max_tokens=300)
        assert block.text.startswith("```memory\n以下是记忆")
        assert "杭州" in block.text
        assert "花生" in block.text
    memory.close()


def test_an_embedder_of_ones_own(tmp_path):
    with Memory(f"sqlite:///{tmp_path}/m.db", embedder=HashEmbedder()) as memory:
        memory.add("I play the cello.", user_id="lin")
        assert memory.search("cello", user_id="lin")


def test_the_event_loop_has_ended(tmp_path):
    """A memory used in one `asyncio.run` says in the next what to do, and can be closed there."""
    memory = AsyncMemory(f"sqlite:///{tmp_path}/o.db")
    asyncio.run(memory.add(BERLIN, user_id="lin"))
    with pytest.raises(StoreError, match="use Memory, which serves all of them"):
        asyncio.run(memory.search("Where do I live?", user_id="lin"))
    asyncio.run(memory.close())


def test_the_default_store_is_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OCTAVO_URL", raising=False)
    with Memory() as memory:
        memory.add("I ride a tandem.")
    assert (tmp_path / "octavo.db").exists()
    monkeypatch.setenv("OCTAVO_URL", "sqlite:///other.db")
    with Memory() as memory:
        assert memory.search("tandem") == []


async def test_what_is_nobodys(memory, store, tenant):
    """What was kept for no user is found by its agent or its session, and by no user."""
    events = EventStore(store, tenant=tenant)
    kept = AgentEvent(
        agent_name="porter", session_id="night", data={"said": "the lift is stuck on floor nine"}
    )
    assert await events.store(kept)
    for whose in (
        {"agent_id": "porter"},
        {"session_id": "night"},
        {"agent_id": "porter", "session_id": "night"},
    ):
        [hit] = await memory.search("which floor is the lift stuck on?", **whose)
        assert (hit.source, hit.user_id, hit.agent_id, hit.session_id) == ("events", None, "porter", "night")
    for whose in ({}, {"user_id": "lin"}, {"user_id": "lin", "session_id": "night"}, {"agent_id": "other"}):
        assert await memory.search("which floor is the lift stuck on?", **whose) == []
