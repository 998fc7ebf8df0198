"""Agents of Microsoft's Agent Framework on Octavo's providers, in the frameworks' environment."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError

RUN = Path(__file__).with_name("agent_framework_run.py")
PAGE = "agent-framework.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]:
        told |= json.loads(ran_warm(frameworks, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_a_session_goes_on_in_another_process(told):
    """The client is told one message, three, and five in the next process."""
    assert told["first"]["real"] == [True, True]
    assert told["first"]["asked"] == [1, 3]
    assert told["second"]["asked"] == [5]
    assert told["second"]["first"] == "My dentist is Dr. Osei."
    assert told["blocking"] == [1, 3]


def test_messages_come_back_as_they_were(told):
    """Pictures, calls and results; what a workflow sends again is not kept again; and others have their own."""
    same, again, latest, other = told["first"]["lossless"]
    assert same
    assert again == 6
    assert latest == ["A logo.", "And now?"]
    assert other == 0


def test_memory_finds_what_was_said(told):
    assert told["second"]["found"] == "My dentist is Dr. Osei."


def test_the_model_is_told_what_is_remembered(told):
    """The memory provider learns from what is said, and tells it in another session, to this user's agent only."""
    second = told["second"]
    assert second["facts"] == ["The user is allergic to peanuts"]
    assert "Be kind." in second["instructions"]
    assert "peanuts" in second["instructions"]
    assert second["said"][0] == "I am allergic to peanuts."
    assert "What must I not eat?" not in second["said"]  # of a provider that is not to learn
    assert not second["others"]


def test_every_block_of_the_page(frameworks, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(frameworks, "-c", block, cwd=tmp_path) == output


def test_without_agent_framework():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install agent-framework-core"):
        importlib.import_module("octavo.integrations.agent_framework")
