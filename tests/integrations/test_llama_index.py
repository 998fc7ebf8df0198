"""LlamaIndex's chat engines and agents on Octavo's memory, in the frameworks' environment."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError

RUN = Path(__file__).with_name("llama_index_run.py")
PAGE = "llama-index.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]:
        told |= json.loads(ran_warm(frameworks, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_a_session_goes_on_in_another_process(told):
    """An engine and an agent in one session: the model is told one message, three, five with a call, and seven in the next process."""
    assert told["first"]["real"] == [True, True, True]
    assert told["first"]["asked"] == [1, 3, 5]
    assert told["second"]["asked"] == [7, 9]
    assert told["second"]["first"] == "My name is Lin, 我住在杭州。"
    turn = ["user", "assistant", "tool", "assistant"]
    assert told["second"]["roles"] == ["user", "assistant", *turn, *turn]
    assert told["second"]["reset"] == 0


def test_the_answers_are_those_of_the_chat_store_of_llama_index(told):
    """Messages of every kind added, archived, read and removed in random order: the same from `SQLAlchemyChatStore` and from ours."""
    assert told["first"]["differing"] == []


def test_messages_come_back_as_they_were(told):
    """Pictures, thoughts, calls and results; the bytes of a picture are not searched; and others have their own."""
    same, gone, blocks, other, found = told["first"]["lossless"]
    assert same
    assert gone == "Be brief."
    assert {"text", "tool_use", "tool_result"} == {*blocks}
    assert other == 0
    assert found[0] == "看图 what is this?"


def test_what_leaves_the_short_term_memory(told):
    """It is kept and no longer told, the facts in it are learnt, and the model is told what answers the question."""
    waterfall = told["first"]["waterfall"]
    assert waterfall["at_hand"]
    assert waterfall["all"] == 10
    assert waterfall["facts"] == ["The user is allergic to peanuts"]
    remembered, *messages = waterfall["told"]
    assert "allergic to peanuts" in remembered
    assert "I am allergic to peanuts. 0" not in messages
    assert messages[-1] == "Of course."


def test_the_model_is_told_what_is_remembered(told):
    """In another session, and within a block that LlamaIndex puts into the system message."""
    remembered, question = told["second"]["heard"]
    assert "<remembered>" in remembered
    assert "Dr. Osei" in remembered
    assert question == "Who is my dentist?"
    assert "Osei" in told["second"]["found"]
    assert told["second"]["others"] == 0


def test_tools(told):
    """No argument of a tool names a user; what one kept, the other finds, in another process."""
    assert told["second"]["tools"] == [["search_memory", ["query"]], ["remember", ["text"]]]
    assert "Lin's dentist is Dr. Osei." in told["second"]["recalled"]


def test_blocking_calls(told):
    """They work with a URL; with a store of the running event loop they are refused, and would wait for themselves otherwise."""
    assert told["blocking"] == [4, 4, 3, [], True]
    assert "would wait for itself" in told["second"]["deadlock"]


def test_what_is_refused(told):
    """A wrong owner when a block is made; what is no message; and a memory that is loaded from JSON, which does not say where its messages are."""
    assert "user_id must be a name" in told["second"]["refused"]
    assert told["second"]["no_message"].endswith("got 'hello'")
    assert told["second"]["homeless"]


def test_every_block_of_the_page(frameworks, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_without_llama_index():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install llama-index-core"):
        importlib.import_module("octavo.integrations.llama_index")
