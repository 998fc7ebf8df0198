"""Pydantic AI's agents on Octavo's histories and tools, in the frameworks' environment."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError

RUN = Path(__file__).with_name("pydantic_ai_run.py")
PAGE = "pydantic-ai.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]:
        told |= json.loads(ran_warm(frameworks, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_a_history_goes_on_in_another_process(told):
    """The model sees what was said before, and what was called."""
    assert told["first"]["kept"] == 2
    assert told["second"]["asked"][:2] == [3, 5]
    assert told["second"]["kept"] == 6
    assert told["second"]["cleared"] == []
    assert told["blocking"] == [4, []]


def test_messages_come_back_as_they_were(told):
    """Pictures, thoughts, calls and results; the latest of them; what was said is found, and the bytes of a picture are not."""
    same, lengths, found, chat = told["first"]["lossless"]
    assert same
    assert lengths == [0, 1, 2, 3, 4, 5, 7, 7]
    assert found[0] == "What is this? 看图"
    assert [role for role, _ in chat] == [
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
        "system",
        "assistant",
    ]
    assert chat[2] == ["user", "And this?"]
    assert chat[3] == ["user", "[request]"]


def test_a_session_of_several_frameworks(told):
    """What other faces and frameworks said in it is told as plain words, and the other way round."""
    assert told["first"]["others"] == [[["Hello"], ["Hi."], ["And you?"], ["Fine."]], "Fine."]


def test_tools(told):
    """What one kept, the other finds."""
    assert "allergic to peanuts" in told["second"]["recalled"]


def test_memory_finds_what_was_said(told):
    """By the front door, for this user and for nobody else."""
    assert told["second"]["found"][0] == "My dentist is Dr. Osei."
    assert told["second"]["not_found"] == 0


def test_every_block_of_the_page(frameworks, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_without_pydantic_ai():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install pydantic-ai-slim"):
        importlib.import_module("octavo.integrations.pydantic_ai")
