"""Agents of the OpenAI Agents SDK on Octavo's sessions and tools, in the frameworks' environment."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError

RUN = Path(__file__).with_name("openai_agents_run.py")
PAGE = "openai-agents.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    runs = [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in runs:
        told |= json.loads(ran_warm(frameworks, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_a_session_goes_on_in_another_process(told):
    """The model sees what was said before: one item, three, and five in the next process."""
    assert told["first"]["real"] == ["monday", None]
    assert told["first"]["asked"] == [1, 3]
    assert told["second"]["asked"] == [5]


def test_the_answers_are_those_of_the_session_of_the_sdk(told):
    """Items of every kind added, read and taken in random order: the same from `SQLiteSession` and from ours."""
    assert told["first"]["differing"] == []


def test_many_at_once(told):
    """Each item is kept once, and taken once."""
    assert told["first"]["busy"] == [sorted(f"{number}" for number in [*range(6)] * 2), 2]


def test_calls_of_tools_are_kept_in_their_place(told):
    message, call, output = "message", "function_call", "function_call_output"
    turns = ["user", message] * 3
    assert told["second"]["kinds"] == [*turns, "user", call, output, message]
    assert told["second"]["last"] == [output, message]
    assert told["second"]["cleared"] == []


def test_memory_finds_what_was_said(told):
    """By the front door, for this user and for nobody else."""
    assert told["second"]["found"] == "My name is Lin, my dentist is Dr. Osei."
    assert told["second"]["not_found"] == 0


def test_tools(told):
    """No argument of a tool names a user; what one kept, the other finds, in another session."""
    assert told["second"]["tools"] == [["search_memory", ["query"]], ["remember", ["text"]]]
    assert any("allergic to peanuts" in fact for fact in told["second"]["facts"])
    assert "peanuts" in told["second"]["recalled"]


def test_blocking_runs(told, framework_url):
    """`Runner.run_sync` makes an event loop for each run; a wrong item is refused, and a wrong owner when tools are made."""
    if framework_url != "memory://":
        assert told["blocking"] == [[1, 3, 5], True]
        assert told["refused"][0].startswith("an item is a dict, such as {")
        assert told["refused"][0].endswith("; got 'x'")
        assert len(told["refused"]) == 3


def test_every_block_of_the_page(frameworks, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_without_the_sdk():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install openai-agents"):
        importlib.import_module("octavo.integrations.openai_agents")
