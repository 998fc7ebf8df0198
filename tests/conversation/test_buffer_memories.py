"""Buffer and window: what is shown, what is pruned, and how a turn is read from inputs and outputs."""

import asyncio
import threading

import pytest

from octavo.conversation import (
    AIMessage,
    BaseChatMemory,
    BaseMemory,
    ChatMessageHistory,
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationSummaryBufferMemory,
    HumanMessage,
    StoreChatMessageHistory,
)


def talk(memory, turns, start=0):
    for at in range(start, start + turns):
        memory.save_context({"input": f"问{at}"}, {"output": f"答{at}"})


def test_buffer_shows_the_whole_conversation(histories):
    memory = ConversationBufferMemory(histories.open())
    assert memory.load_memory_variables({}) == {"history": ""}
    talk(memory, 2)
    assert memory.buffer == "Human: 问0\nAI: 答0\nHuman: 问1\nAI: 答1"
    again = ConversationBufferMemory(
        histories.open(), return_messages=True, memory_key="past", human_prefix="H"
    )
    assert again.memory_variables == ["past"]
    shown = again.load_memory_variables({})["past"]
    assert shown == [HumanMessage("问0"), AIMessage("答0"), HumanMessage("问1"), AIMessage("答1")]
    assert again.buffer.startswith("H: 问0")
    again.clear()
    assert memory.load_memory_variables({}) == {"history": ""}


def test_buffer_stats_are_the_documented_ones():
    memory = ConversationBufferMemory()
    assert memory.get_memory_stats()["last_accessed"] is None
    talk(memory, 1)
    memory.load_memory_variables({})
    stats = memory.get_memory_stats()
    assert set(stats) == {
        "message_count",
        "buffer_size_chars",
        "created_at",
        "last_accessed",
        "memory_type",
    }
    assert (stats["message_count"], stats["memory_type"]) == (2, "ConversationBufferMemory")
    assert stats["buffer_size_chars"] == len("Human: 问0\nAI: 答0")
    assert stats["last_accessed"] >= stats["created_at"]


async def test_twins_do_the_same(histories):
    memory = ConversationBufferWindowMemory(k=1, chat_memory=histories.open())
    for at in range(3):
        await memory.asave_context({"input": f"{at}"}, {"output": "ok"})
    assert await memory.aload_memory_variables({}) == {"history": "Human: 2\nAI: ok"}
    assert (await memory.aget_window_info())["messages_pruned"] == 4
    await memory.aclear()
    assert await memory.aload_memory_variables({}) == {"history": ""}


async def test_plain_calls_inside_an_event_loop(tmp_path):
    """A notebook has a loop running: plain calls work there all the same."""
    memory = ConversationBufferMemory(StoreChatMessageHistory(f"sqlite:///{tmp_path}/a.db", "s"))
    talk(memory, 1)
    assert memory.load_memory_variables({})["history"] == "Human: 问0\nAI: 答0"
    memory.chat_memory.close()


def test_window_prunes_the_history_itself(histories):
    memory = ConversationBufferWindowMemory(k=2, chat_memory=histories.open())
    talk(memory, 5)
    assert [one.content for one in histories.open().messages] == ["问3", "答3", "问4", "答4"]
    assert memory.load_memory_variables({})["history"] == "Human: 问3\nAI: 答3\nHuman: 问4\nAI: 答4"
    assert memory.get_window_info() == {
        "max_window_size": 2,
        "current_window_size": 2,
        "total_messages_processed": 10,
        "messages_pruned": 6,
        "window_utilization": 1.0,
        "pruning_efficiency": 0.6,
    }


def test_window_that_keeps_all_is_only_a_view(histories):
    memory = ConversationBufferWindowMemory(k=1, keep="all", chat_memory=histories.open())
    talk(memory, 3)
    assert memory.load_memory_variables({})["history"] == "Human: 问2\nAI: 答2"
    assert histories.open().count() == 6
    info = memory.get_window_info()
    assert (info["messages_pruned"], info["current_window_size"]) == (0, 1)


def test_window_over_a_longer_history():
    """A view shows only the window before anything was pruned; `_prune_messages` prunes by hand."""
    history = ChatMessageHistory([HumanMessage(str(at)) for at in range(30)])
    memory = ConversationBufferWindowMemory(chat_memory=history)
    assert memory.k == 5
    assert len(memory.buffer_as_messages) == 10
    assert memory.get_window_info()["pruning_efficiency"] == 0
    memory._prune_messages()
    assert len(history.messages) == 10


def test_window_of_nothing():
    memory = ConversationBufferWindowMemory(k=0)
    talk(memory, 1)
    assert memory.load_memory_variables({}) == {"history": ""}
    assert memory.get_window_info()["window_utilization"] == 0
    for bad in (-1, "3"):
        with pytest.raises(ValueError, match="k is a number of turns"):
            ConversationBufferWindowMemory(k=bad)
    with pytest.raises(ValueError, match='keep is "prune" or "all"'):
        ConversationBufferWindowMemory(keep="some")


@pytest.mark.parametrize(
    ("settings", "inputs", "outputs", "turn"),
    [
        ({}, {"question": "q"}, {"answer": "a"}, ("q", "a")),
        ({}, {"q": "q", "history": "…", "stop": ["\n"]}, {"a": "a"}, ("q", "a")),
        ({"input_key": "b"}, {"a": "1", "b": "2"}, {"x": "a"}, ("2", "a")),
        ({"output_key": "y"}, {"a": "1"}, {"x": "1", "y": "2"}, ("1", "2")),
        ({}, {"a": "1"}, {"source": "s", "output": "o"}, ("1", "o")),
        ({}, {"a": HumanMessage("h")}, {"b": AIMessage([{"type": "text", "text": "t"}])}, ("h", "t")),
        ({}, {"a": {"城市": "上海"}}, {"b": 3}, ('{"城市": "上海"}', "3")),
    ],
)
def test_which_key_is_read(settings, inputs, outputs, turn):
    memory = ConversationBufferMemory(**settings)
    assert memory._get_input_output(inputs, outputs) == turn
    memory.save_context(inputs, outputs)
    assert [one.text for one in memory.chat_memory.messages] == [*turn]


@pytest.mark.parametrize(
    ("settings", "inputs", "outputs", "named"),
    [
        ({}, {"a": "1", "b": "2"}, {"o": "x"}, "'a', 'b'"),
        ({}, {"history": "x", "stop": "y"}, {"o": "x"}, "there are none"),
        ({"input_key": "z"}, {"a": "1"}, {"o": "x"}, "input_key is 'z'.*'a'"),
        ({}, {"a": "1"}, {"x": "1", "y": "2"}, "'x', 'y'"),
        ({}, {"a": "1"}, {}, "there are none"),
        ({"output_key": "z"}, {"a": "1"}, {"x": "1"}, "output_key is 'z'.*'x'"),
    ],
)
def test_a_turn_that_is_not_clear_is_refused_by_its_keys(settings, inputs, outputs, named):
    memory = ConversationBufferMemory(**settings)
    with pytest.raises(ValueError, match=named):
        memory.save_context(inputs, outputs)
    assert memory.chat_memory.messages == []


def test_tool_calls_are_kept(histories):
    call = {"name": "f", "args": {"x": 1}, "id": "c"}
    memory = ConversationBufferMemory(histories.open())
    memory.save_context({"input": HumanMessage("q", id="m")}, {"output": AIMessage("", tool_calls=[call])})
    asked, answered = histories.open().messages
    assert asked.id == "m"
    assert answered.tool_calls == [call]


class Shouting(ConversationBufferMemory):
    """A memory of a user's own, written plainly as the document writes them."""

    def save_context(self, inputs, outputs):
        super().save_context({"input": inputs["input"].upper()}, outputs)


class Counting(BaseMemory):
    """One that stands by itself."""

    saved = 0
    memory_variables = ["saved"]  # noqa: RUF012

    def load_memory_variables(self, inputs):
        return {"saved": self.saved, "thread": threading.current_thread().name}

    def save_context(self, inputs, outputs):
        self.saved += 1

    async def aclear(self):
        await asyncio.sleep(0)
        self.saved = 0


async def test_a_memory_of_ones_own_needs_only_one_of_each_pair():
    shouting = Shouting()
    await shouting.asave_context({"input": "hi"}, {"output": "a"})
    shouting.save_context({"input": "ho"}, {"output": "b"})
    assert shouting.buffer == "Human: HI\nAI: a\nHuman: HO\nAI: b"
    counting = Counting()
    await counting.asave_context({}, {})
    counting.save_context({}, {})
    loaded = await counting.aload_memory_variables({})
    assert loaded["saved"] == 2
    assert loaded["thread"] != threading.current_thread().name
    counting.clear()
    assert counting.saved == 0


def test_what_is_missing_is_named():
    class Half(BaseChatMemory):
        def load_memory_variables(self, inputs):
            return {}

    class Forgetful(BaseMemory):
        memory_variables = ()

        async def aload_memory_variables(self, inputs):
            return {}

    Half().save_context({"input": "hi"}, {"output": "hello"})
    with pytest.raises(NotImplementedError, match="Forgetful has neither clear nor aclear"):
        Forgetful().clear()
    for abstract in (BaseMemory, BaseChatMemory):
        with pytest.raises(TypeError, match=r"abstract.*load_memory_variables"):
            abstract()


@pytest.mark.parametrize(
    "kind", [ConversationBufferMemory, ConversationBufferWindowMemory, ConversationSummaryBufferMemory]
)
async def test_what_is_given_is_a_copy(kind):
    """Changing it changes nothing: over a history in this process it changed the history."""
    memory = kind(return_messages=True)
    memory.save_context({"input": "hi"}, {"output": AIMessage("hello", additional_kwargs={"list": [1]})})
    given = [
        memory.load_memory_variables({})["history"],
        (await memory.aload_memory_variables({}))["history"],
    ]
    if kind is not ConversationSummaryBufferMemory:
        given += [memory.buffer_as_messages, await memory.abuffer_as_messages()]
    for messages in given:
        messages[0].content = "changed"
        messages[1].additional_kwargs["list"].append(2)
        messages.clear()
    held = memory.chat_memory.messages
    assert [one.content for one in held] == ["hi", "hello"]
    assert held[1].additional_kwargs == {"list": [1]}


def test_turns_at_once_stay_together(lasting):
    """Turns saved from several threads never come apart."""
    memory = ConversationBufferMemory(lasting.open())
    memory.load_memory_variables({})
    threads = [
        threading.Thread(target=memory.save_context, args=({"input": f"q{at}"}, {"output": f"a{at}"}))
        for at in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [one.content for one in lasting.open().messages]
    assert sorted(said[::2]) == [f"q{at}" for at in range(8)]
    assert [one.replace("a", "q") for one in said[1::2]] == said[::2]
