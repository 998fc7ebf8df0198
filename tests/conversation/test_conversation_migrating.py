"""What LangChain's memories and histories take and give, and users who come from them look for."""

import json
from pathlib import Path

import pytest

from octavo import InvalidRecord
from octavo.conversation import (
    AIMessage,
    ConversationBufferMemory,
    ConversationBufferWindowMemory,
    ConversationSummaryBufferMemory,
    ConversationSummaryMemory,
    ConversationTokenBufferMemory,
    FileChatMessageHistory,
    HumanMessage,
    RedisChatMessageHistory,
    SystemMessage,
    get_buffer_string,
)

PICTURE = "data:image/png;base64," + "iVBORw0KGgo" * 500
BLOCKS = [{"type": "text", "text": "Which city?"}, {"type": "image_url", "image_url": {"url": PICTURE}}]


class Model:
    """Answers with a number, and remembers what it was asked."""

    def __init__(self):
        self.prompts = []
        self.fails = False

    def predict(self, prompt):
        if self.fails:
            raise TimeoutError("too slow")
        self.prompts.append(prompt)
        return f"summary {len(self.prompts)}"

    def get_num_tokens(self, text):
        return len(text)


@pytest.mark.parametrize(
    "kind", [ConversationBufferMemory, ConversationBufferWindowMemory, ConversationTokenBufferMemory]
)
async def test_the_buffer_in_every_form(kind, histories):
    """As text and as messages, blocking and awaited."""
    memory = kind(chat_memory=histories.open())
    await memory.asave_context({"input": "hi"}, {"output": "hello"})
    assert await memory.abuffer() == await memory.abuffer_as_str() == "Human: hi\nAI: hello"
    assert await memory.abuffer_as_messages() == [HumanMessage("hi"), AIMessage("hello")]


def test_the_buffer_as_text():
    memory = ConversationBufferMemory(return_messages=True)
    memory.save_context({"input": "hi"}, {"output": "hello"})
    assert memory.buffer_as_str == memory.buffer == "Human: hi\nAI: hello"


def test_a_picture_is_no_text(histories):
    """Of a message of several blocks the words are told, to prompts and to models; the history keeps all of it."""
    model = Model()
    memory = ConversationSummaryBufferMemory(model, max_token_limit=10, chat_memory=histories.open())
    memory.save_context({"input": HumanMessage(BLOCKS)}, {"output": "杭州"})
    memory.save_context({"input": "And now?"}, {"output": "Still 杭州"})
    assert "Human: Which city?\nAI: 杭州" in model.prompts[0]
    assert not any("base64" in prompt for prompt in model.prompts)
    assert get_buffer_string([HumanMessage(BLOCKS), AIMessage("杭州")]) == "Human: Which city?\nAI: 杭州"
    assert get_buffer_string([HumanMessage(BLOCKS[1:])]) == "Human: "
    buffer = ConversationBufferMemory(chat_memory=histories.open())
    buffer.save_context({"input": HumanMessage(BLOCKS)}, {"output": "杭州"})
    assert "base64" not in buffer.buffer
    assert buffer.chat_memory.messages[-2].content == BLOCKS


def test_a_summary_and_what_follows_it(histories):
    """As LangChain tells both: the summary as a message of its kind, then the turns; `buffer` is all of it."""
    memory = ConversationSummaryBufferMemory(
        Model(), max_token_limit=25, moving_summary_buffer="so far", chat_memory=histories.open()
    )
    assert memory.buffer == "System: so far"
    memory.save_context({"input": "one"}, {"output": "1"})
    assert memory.load_memory_variables({}) == {"history": "System: so far\nHuman: one\nAI: 1"}
    memory.save_context({"input": "two"}, {"output": "2"})
    assert memory.moving_summary_buffer == "summary 1"
    assert memory.buffer == "System: summary 1\nHuman: two\nAI: 2"
    memory.return_messages = True
    assert memory.buffer == [SystemMessage("summary 1"), HumanMessage("two"), AIMessage("2")]
    memory.moving_summary_buffer = "mine"
    assert memory.buffer[0] == SystemMessage("mine")


async def test_pruned_on_request(histories):
    """A history that is longer than it may be is summarised by `aprune`, before any turn."""
    history = histories.open()
    await history.aadd_messages([HumanMessage("one"), AIMessage("1"), HumanMessage("two"), AIMessage("2")])
    memory = ConversationSummaryBufferMemory(Model(), max_token_limit=20, chat_memory=history)
    await memory.aprune()
    assert await memory.abuffer() == "System: summary 1\nHuman: two\nAI: 2"


def test_a_summary_of_a_history_that_is_there(histories):
    """`from_messages`: so many messages at a time, the history stays, and the next turn goes on from there."""
    history = histories.open()
    history.add_messages(
        [HumanMessage("one"), AIMessage("1"), HumanMessage("two"), AIMessage("2"), HumanMessage("three")]
    )
    model = Model()
    memory = ConversationSummaryMemory.from_messages(model, history, summarize_step=2)
    assert (memory.buffer, len(model.prompts), len(history.messages)) == ("summary 3", 3, 5)
    assert "summary 1" in model.prompts[1]
    assert "two" in model.prompts[1]
    memory.save_context({"input": "four"}, {"output": "4"})
    assert (memory.buffer, len(histories.open().messages)) == ("summary 4", 7)
    assert "one" not in model.prompts[3]


def test_a_model_that_fails_on_the_way():
    """What it has not summarised is told as it was said."""
    model = Model()
    model.fails = True
    history = ConversationBufferMemory().chat_memory
    history.add_messages([HumanMessage("one"), AIMessage("1")])
    memory = ConversationSummaryMemory.from_messages(model, history)
    assert memory.load_memory_variables({}) == {"history": "Human: one\nAI: 1"}
    with pytest.raises(ValueError, match="summarize_step"):
        ConversationSummaryMemory.from_messages(model, history, summarize_step=0)


def test_the_encoding_of_a_file(tmp_path):
    """As it is given, for messages and states; what it cannot say is refused whole, with the cure."""
    path = tmp_path / "talk.json"
    history = FileChatMessageHistory(path, encoding="gb18030")
    history.add_user_message("你好")
    history.set_state("summary", {"summary": "问好"})
    assert "你好" in path.read_text(encoding="gb18030")
    assert "问好" in Path(f"{path}.state.json").read_text(encoding="gb18030")
    again = FileChatMessageHistory(path, encoding="gb18030")
    assert (again.messages, again.get_state("summary")) == ([HumanMessage("你好")], {"summary": "问好"})
    latin = FileChatMessageHistory(tmp_path / "latin.json", encoding="latin-1")
    with pytest.raises(InvalidRecord, match="'你' cannot be written in latin-1: give ensure_ascii=True"):
        latin.add_user_message("你好")
    assert latin.messages == []
    escaped = FileChatMessageHistory(tmp_path / "ascii.json", encoding="ascii", ensure_ascii=True)
    escaped.add_user_message("你好")
    assert json.loads((tmp_path / "ascii.json").read_text())[0]["data"]["content"] == "你好"
    assert escaped.messages == [HumanMessage("你好")]
    with pytest.raises(ValueError, match="encoding is one that Python knows"):
        FileChatMessageHistory(path, encoding="klingon")


def test_the_prefix_of_a_key(fresh_redis):
    """Stands before the session in the keys of messages and states, and keeps two applications apart."""
    one = RedisChatMessageHistory("s", fresh_redis, key_prefix="app:")
    one.add_user_message("hi")
    one.set_state("summary", {"summary": "x"})
    assert {key.decode() for key in one.redis_client.keys("*")} == {"app:s", "app:s:state"}
    assert RedisChatMessageHistory("s", fresh_redis).messages == []
    assert RedisChatMessageHistory("s", fresh_redis, key_prefix="app:").messages == [HumanMessage("hi")]
    with pytest.raises(AttributeError, match="key_prefix cannot be changed"):
        one.key_prefix = "b:"
