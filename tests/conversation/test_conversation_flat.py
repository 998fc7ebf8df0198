"""Window and token memories read and write as much at turn 1,000 as at turn 100; at 10,000 with `make torture`."""

import pytest

from octavo import open_store
from octavo.conversation import (
    AIMessage,
    ConversationBufferWindowMemory,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    HumanMessage,
    RedisChatMessageHistory,
    StoreChatMessageHistory,
)


class Watched:
    """A store, and how much went through it."""

    def __init__(self, store):
        self._store = store
        self.log = []

    async def apply(self, ops):
        counts = await self._store.apply(ops)
        self.log.append(("apply", *(type(op).__name__ for op in ops), *counts))
        return counts

    async def find(self, query):
        found = await self._store.find(query)
        self.log.append(("find", len(found)))
        return found

    async def tally(self, query):
        assert query.plain  # counters answer it
        self.log.append(("tally",))
        return await self._store.tally(query)

    async def close(self):
        await self._store.close()


MEMORIES = {
    "window": lambda **given: ConversationBufferWindowMemory(k=5, **given),
    "tokens": lambda **given: ConversationTokenBufferMemory(max_token_limit=200, **given),
    "summary": lambda **given: ConversationSummaryMemory(lambda _: "so far", **given),
    "summary-buffer": lambda **given: ConversationSummaryBufferMemory(lambda _: "so far", 200, **given),
}


def turns(count, start=0):
    return [
        message
        for at in range(start, start + count)
        for message in (HumanMessage(f"question {at:06}"), AIMessage(f"answer {at:06}"))
    ]


async def grown(history, memory, start, to):
    """Bring a conversation to a turn: in bulk, and the last ones as they are lived through."""
    await history.aadd_messages(turns(to - start - 20, start))
    for at in range(20):
        await memory.asave_context({"input": f"question {at:06}"}, {"output": f"answer {at:06}"})
        await memory.aload_memory_variables({})


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize("keep", ["prune", "all"])
@pytest.mark.parametrize("name", MEMORIES)
async def test_the_same_reads_and_writes(kind, keep, name, tmp_path, size):
    store = Watched(open_store("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/a.db"))
    history = StoreChatMessageHistory(store, "s")
    memory = MEMORIES[name](keep=keep, chat_memory=history)
    seen = []
    start = 0
    for to in (100, size(1_000, 10_000)):
        await grown(history, memory, start, to)
        store.log.clear()
        await memory.asave_context({"input": "question 000000"}, {"output": "answer 000000"})
        loaded = await memory.aload_memory_variables({})
        seen.append((list(store.log), len(loaded["history"])))
        start = to
    await store.close()
    assert seen[0] == seen[1]
    assert sum(entry[1] for entry in seen[1][0] if entry[0] == "find") < 200


@pytest.mark.torture
@pytest.mark.parametrize("name", ["window", "tokens"])
async def test_many_turns_one_by_one(name, size):
    """Lived through turn by turn, the history never holds more than the memory shows and one turn."""
    memory = MEMORIES[name]()
    history = memory.chat_memory
    most, count = 0, size(2_000, 10_000)
    for at in range(count):
        await memory.asave_context({"input": f"question {at:06}"}, {"output": f"answer {at:06}"})
        if at % 1000 == 99:
            most = max(most, await history.acount())
    shown = (await memory.aload_memory_variables({}))["history"]
    assert shown.endswith(f"AI: answer {count - 1:06}")
    assert most == await history.acount() < 50


def test_a_view_of_a_long_redis_list_reads_its_end(fresh_redis, monkeypatch):
    """Of 20,000 messages in Redis only the newest are asked for."""
    with RedisChatMessageHistory("s", fresh_redis) as history:
        history.add_messages(turns(10_000))
        asked = []
        plain = history._range
        monkeypatch.setattr(history, "_range", lambda start: asked.append(start) or plain(start))
        for name in ("window", "tokens"):
            memory = MEMORIES[name](keep="all", chat_memory=history)
            memory.save_context({"input": "q"}, {"output": "a"})
            assert memory.load_memory_variables({})["history"].endswith("Human: q\nAI: a")
        assert asked
        assert all(-200 < start < 0 for start in asked)
