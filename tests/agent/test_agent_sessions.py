"""The sessions of an agent: conversations that do not mix, and go on in another process."""

import asyncio

import pytest
from agents import ListStore, agent, call, lived

from octavo import (
    Agent,
    ConfigError,
    EventType,
    InvalidRecord,
    MockAdapter,
)


async def test_the_system_prompt_and_the_conversation():
    """The model sees the prompt first, then everything said so far; a new context begins anew."""
    made = agent("one", "two", "three", system_prompt="Be brief.")
    await made.run("1")
    await made.run("2")
    seen = [(m["role"], m["content"]) for m in made.model_adapter.asked[1]]
    assert seen == [("system", "Be brief."), ("user", "1"), ("assistant", "one"), ("user", "2")]
    before = made.context
    made.reset_context()
    assert made.context.session_id != before.session_id
    await made.run("3")
    assert [m["content"] for m in made.model_adapter.asked[2]] == ["Be brief.", "3"]
    assert len(await lived(made, before.session_id)) == 5
    assert len(await lived(made, made.context.session_id)) == 2


async def test_runs_at_the_same_time_do_not_mix_sessions():
    """A context that is reset while a run is under way does not move it; each session has its own events only."""
    gates = {word: asyncio.Event() for word in ("a", "b", "c")}

    class Slow(MockAdapter):
        async def complete(self, messages, tools):
            await gates[messages[-1]["content"]].wait()
            return await super().complete(messages, tools)

    made = Agent.create(name="busy", model_adapter=Slow())
    await made.initialize()
    runs, sessions = {}, {}
    for word in gates:
        made.reset_context()
        sessions[word] = made.context.session_id
        runs[word] = asyncio.create_task(made.run(word))
        await asyncio.sleep(0)
    for word in ("b", "c", "a"):
        gates[word].set()
        assert (await runs[word])["response"] == f"Mock response to: {word}"
    for word, session in sessions.items():
        events = await made.get_memory(session_id=session)
        assert [event.event_type.name for event in events] == ["USER_MESSAGE", "MODEL_RESPONSE"]
        assert events[0].data["message"] == word


async def test_two_runs_of_one_session_each_see_a_whole_conversation():
    """A turn is added to the conversation when it is over, all of it."""
    gate = asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "slow"

    made = agent(call("slow"), "quick answer", "slow answer", tools=[slow])
    first = asyncio.create_task(made.run("first"))
    while not made.model_adapter.asked:
        await asyncio.sleep(0)
    await made.run("second")
    gate.set()
    assert (await first)["response"] == "slow answer"
    roles = [message["role"] for message in made.context.messages]
    assert roles == ["user", "assistant", "user", "assistant", "tool", "assistant"]


async def test_one_session_for_each_user():
    """`user_id` names a user's own conversation, `session_id` any; events carry both, and users do not meet."""
    made = agent("a1", "b1", "a2", "s1")
    for user, message in (("alice", "I am Alice"), ("bob", "I am Bob"), ("alice", "Who am I?")):
        await made.run(message, user_id=user)
    assert [m["content"] for m in made.model_adapter.asked[2]] == ["I am Alice", "a1", "Who am I?"]
    events = await made.get_memory(event_type=EventType.USER_MESSAGE)
    assert [event.metadata for event in events] == [{"user_id": user} for user in ("alice", "bob", "alice")]
    assert events[0].session_id == events[2].session_id != events[1].session_id
    await made.run("in a room", session_id="room", user_id="alice")
    assert [e.data["message"] for e in await made.get_memory("user_message", session_id="room")] == [
        "in a room"
    ]
    with pytest.raises(InvalidRecord, match="belongs to user 'alice', not to 'bob'"):
        await made.run("me too", session_id="room", user_id="bob")


async def test_every_event_carries_the_user_of_its_conversation():
    """Also the first one, those of tools and one's own; an agent of one person needs no user to be named."""
    made = agent("a1", "b1", "a2", user_id="lin")
    await made.initialize()
    await made.run("hello")
    await made.record_event("custom", note="her own")
    made.reset_context()
    await made.run("again")
    assert {event.user_id for event in await made.get_memory()} == {"lin"}
    await made.run("somebody else's", user_id="bob")
    await made.record_event("custom", session_id="user-bob", note="his own")
    await made.record_event("custom", session_id="elsewhere", note="nobody else was named")
    found = await made.memory_store.retrieve(user_id="bob")
    assert [event.event_type for event in found] == ["user_message", "model_response", "custom"]
    assert len(await made.memory_store.retrieve(user_id="")) == 0
    with pytest.raises(ConfigError, match="user_id"):
        agent("a1", user_id="")


async def test_a_conversation_of_nobody():
    made = agent("a1", "b1")
    await made.run("hello")
    assert {event.user_id for event in await made.get_memory()} == {""}


async def test_a_named_session_goes_on_in_another_process():
    """A second agent on the same store continues the session with what was said; another user's words are not shown."""
    store = ListStore()
    first = agent("Nice to meet you, Lin.", RuntimeError("no"), memory_store=store)
    await first.run("I am Lin", session_id="s1")
    await first.run("lost", session_id="s1")
    second = agent("You are Lin.", "Who?", memory_store=store)
    await asyncio.gather(second.run("Who am I?", session_id="s1"), second.run("x", session_id="s2"))
    shown = {tuple(m["content"] for m in asked) for asked in second.model_adapter.asked}
    assert ("I am Lin", "Nice to meet you, Lin.", "Who am I?") in shown
    assert ("x",) in shown
    third = agent(memory_store=store)
    await third.run("Who am I?", session_id="s1", user_id="mallory")
    assert len(third.model_adapter.asked[0]) == 1
    fourth = agent(memory_store=store)
    assert fourth.reset_context("s1") is fourth.context
    await fourth.run("Hello again")
    assert fourth.model_adapter.asked[0][0]["content"] == "I am Lin"


async def test_many_sessions():
    """Conversations beyond those held in memory are read back from the store."""
    made = agent()
    here = made.context
    for number in range(1100):
        await made.run(str(number), session_id=f"s{number}")
    assert len(made._sessions) == 1000
    assert made._sessions[here.session_id] is here
    await made.run("again", session_id="s0")
    assert made.model_adapter.asked[-1][0]["content"] == "0"


async def test_two_agents_on_one_store():
    """Each sees, searches, counts and clears its own events only."""
    store = ListStore()
    one, other = agent(name="one", memory_store=store), agent(name="other", memory_store=store)
    await one.run("hello there")
    await other.run("hello you")
    assert len(await one.get_memory()) == 3
    assert {e.agent_name for e in await one.search_memory("hello")} == {"one"}
    assert (await one.get_memory_stats())["total_events"] == 3
    await one.clear_memory()
    assert await one.get_memory() == []
    assert len(await other.get_memory()) == 3
