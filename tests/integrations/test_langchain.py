"""LangChain's real chains on Octavo's histories and memories, in the frameworks' environment."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran, ran_warm

from octavo import ConfigError
from servers import fresh

RUN = Path(__file__).with_name("langchain_run.py")
HISTORIES = (
    "ChatMessageHistory",
    "FileChatMessageHistory",
    "RedisChatMessageHistory",
    "StoreChatMessageHistory",
    "OctavoChatMessageHistory",
    "StoreSessions",
)
CALL = {"name": "weather", "args": {"city": "杭州", "days": [1, None]}, "id": "call-1", "type": "tool_call"}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def report(frameworks, request, tmp_path_factory):
    """What happened when its chains ran on each of the histories and memories."""
    with fresh("redis", request.getfixturevalue("redis_url")) as redis_url:
        told = ran_warm(frameworks, RUN, tmp_path_factory.mktemp("chains"), redis_url)
    return json.loads(told.splitlines()[-1])


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_runnable_with_message_history(report, kind):
    """Four turns, each on a history opened anew: the model is told the past, and what was said is kept."""
    told = report[kind]
    assert told["real"]
    past = ["I am Lin.", "Hello Lin.", "Who am I?", "You are Lin.", "A story", "Once upon a time"]
    assert told["asked"] == ["Be kind.", *past, "Weather?"]
    assert told["kept"] == [*past, "Weather?", ""]
    assert told["streamed"] == "Once upon a time"
    assert told["kinds"] == ["HumanMessage", "AIMessage"] * 4
    assert told["calls"] == [CALL]
    assert told["shown"] == "Human: I am Lin."
    assert told["other"] == []


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_runnable_of_messages(report, kind):
    """A runnable that takes and gives messages sees the past before them, and keeps each message once."""
    seen, kept = report[kind]["plain"]
    assert seen == [["one"], ["one", "answer 1", "two"]]
    assert kept == ["one", "answer 1", "two", "answer 3"]


@pytest.mark.parametrize("kind", HISTORIES)
def test_messages_come_back_as_they_were(report, kind):
    """Every kind, with blocks, tool calls, usage, artifacts, and fields that nobody knows; replaced and cleared as asked."""
    assert report[kind]["lossless"]


@pytest.mark.parametrize("kind", HISTORIES)
def test_what_is_no_message_is_refused(report, kind):
    """Nothing of what came with it is kept."""
    assert report[kind]["refused"]


def test_users(report):
    """A chain that is configured with user and session keeps users apart."""
    assert report["users"] == [["lin", "yes"], ["wei", "yes"], []]


def test_a_buffer_in_a_chain(report):
    """The chain's model is told the conversation as text, and another chain may read along."""
    told = report["memories"]["buffer"]
    assert told["real"]
    assert told["replies"] == ["Hello.", "You are Lin."]
    assert "Human: I am Lin from 杭州.\nAI: Hello.\nHuman: Who am I?" in told["asked"][0]
    assert told["text"].endswith("Human: Who am I?\nAI: You are Lin.")
    assert told["history"] == ["I am Lin from 杭州.", "Hello.", "Who am I?", "You are Lin."]
    assert told["stats"] == 4
    assert report["memories"]["shared"]


def test_a_buffer_of_messages(report):
    """A second memory on the same session tells the same as LangChain's messages, and clears it."""
    told = report["memories"]["messages"]
    assert told["asked"] == ["I am Lin from 杭州.", "Hello.", "Who am I?", "You are Lin.", "Bye"]
    assert told["kinds"] == ["HumanMessage", "AIMessage"] * 3
    assert told["cleared"] == []


def test_a_window_over_a_history_of_langchain(report):
    """What falls out of the window is gone from the history, also where that is LangChain's own."""
    told = report["memories"]["window"]
    assert "Human: b\nAI: 2\nHuman: c" in told["asked"][0]
    assert "Human: a" not in told["asked"][0]
    assert told["theirs"] == ["c", "3"]
    assert told["same"]


def test_a_token_buffer(report):
    """No more is told than the limit has room for."""
    told = report["memories"]["tokens"]
    assert told["left"] == 2
    assert "question number 7" in told["asked"][0]
    assert "question number 6" not in told["asked"][0]


def test_a_summary_by_a_model_of_langchain(report):
    """The summary is asked of a chat model of LangChain's, and told as the message class that was given."""
    told = report["memories"]["summary"]
    assert told["asked"] == ["Lin is from 杭州.", "Who am I?"]
    assert told["text"] == "Lin is known."
    assert told["kind"] == "HumanMessage"


def test_combined(report):
    """A summary and a window in one prompt."""
    summary, recent, question = report["memories"]["combined"]["asked"][0].split("\n--\n")
    assert "杭州" in summary
    assert recent == "Human: I am Lin from 杭州.\nAI: Hello."
    assert question == "Who am I?"


def test_retrieved(report):
    """Turns are kept in, and found by, a vector store of LangChain's; documents are LangChain's."""
    told = report["found"]
    assert "Human: I am Lin from 杭州.\nAI: Hello." in told["asked"][0]
    assert told["docs"] == ["Human: I am Lin from 杭州.\nAI: Hello.", "Human: Who am I?\nAI: You are Lin."]


def test_recalled(report):
    """Octavo's own recall finds them as well, and its documents are LangChain's."""
    told = report["recalled"]
    assert "Human: I am Lin from 杭州.\nAI: Hello." in told["asked"][0]
    assert told["theirs"]
    assert told["text"] == "Human: I am Lin from 杭州.\nAI: Hello."
    assert told["said"] == "I am Lin from 杭州."


def test_measured(report):
    """A memory in a chain can be measured."""
    assert report["measured"]["replies"] == ["Hello.", "You are Lin."]
    assert report["measured"]["counts"] == [2, 2, 0]


def test_assigned(report):
    """`memory.k = 1` reaches the memory inside; what it would not look at is refused."""
    assert report["assigned"] == [
        1, ["question 2", "answer 2"], ["ValueError", "AttributeError", "AttributeError"],
    ]  # fmt: skip


def test_beside_a_memory_of_langchain(report):
    """A combined memory takes members that are LangChain's own."""
    assert report["beside_theirs"]["asked"] == ["杭州\nHuman: I am Lin from 杭州.\nAI: Hello.\nWho am I?"]


def test_entities(report):
    """What LangChain's memories do not have is asked of the one inside."""
    assert "Alice" in report["entities"]


def test_a_turn_of_messages(report):
    """They come back as they were, with fields that nobody knows; what a chain hands back is not kept again."""
    assert report["turn_of_messages"]


def test_every_block_of_the_page(frameworks, tmp_path):
    """docs/langchain.md: each block runs with LangChain, and prints what stands under it."""
    for block, output in blocks_of("langchain.md"):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_without_langchain():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install langchain-core"):
        importlib.import_module("octavo.integrations.langchain")


def test_without_the_classic_part(frameworks):
    """Histories are there; for a memory, the error says what to install."""
    program = """
import sys
sys.modules["langchain_classic"] = None  # as if it were not installed
from octavo import ConfigError
from octavo.integrations import langchain
print(langchain.ChatMessageHistory().messages)
try:
    langchain.ConversationBufferMemory
except ConfigError as error:
    print(str(error).rpartition(": ")[2])
print(hasattr(langchain, "no_such_name"))
"""
    assert ran(frameworks, "-c", program) == "[]\npip install langchain-classic\nFalse\n"


def test_buffers_and_summaries_are_langchains(report):
    """Beside LangChain's own memories: the same text and messages, never a picture's bytes, the same pruning."""
    told = report["like_theirs"]
    words = "Human: look\nAI: yes\nHuman: hi\nAI: hello"
    assert told["ConversationBufferMemory"] == [True, words]
    assert told["ConversationBufferWindowMemory"] == [True, words]
    assert told["from_messages"] == [True, "two"]
    same, theirs, mine = told["summary_buffer"]
    assert same, (theirs, mine)
    assert mine[3] == "System: short\nHuman: e\nAI: f"


def test_arguments_of_langchains_histories(report):
    """`file_path`, `encoding`, `key` and `key_prefix` are where LangChain has them."""
    file, redis, refused = report["places"]
    assert file[0].endswith("/gb.json")
    assert file[1:] == ["gb18030", True]
    assert redis == ["app:s", -1, "app:"]
    assert "key_prefix is a string, and ttl comes after it; got 60" in refused


def test_all_names_are_there(frameworks):
    """Each name that the module tells is there, and takes nothing that langchain-core and langchain-classic do not bring."""
    program = """
import sys
from octavo.integrations import langchain as it
print([getattr(it, name).__name__ for name in it.__all__])
print(sorted({"langchain", "langgraph", "openai", "anthropic", "asyncpg", "asyncmy"} & sys.modules.keys()))
"""
    names, others = ran(frameworks, "-c", program).splitlines()
    assert "ConversationEntityMemory" in names
    assert others == "[]"
