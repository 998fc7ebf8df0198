"""Runners and agents of Google's ADK on Octavo's services, in an environment of ADK's own."""

import importlib
import json
from pathlib import Path

import pytest
from environment import blocks_of, ran_warm

from octavo import ConfigError

RUN = Path(__file__).with_name("adk_run.py")
PAGE = "adk.md"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(adk, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]:
        told |= json.loads(ran_warm(adk, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_a_session_goes_on_in_another_process(told):
    """The model is told what was said before; what the session itself says is not told twice, as memory."""
    assert told["first"]["real"] == [True, True]
    assert [len(asked) for asked in told["first"]["asked"]] == [2, 4]
    assert told["first"]["events"] == ["user", "helper"] * 2
    assert told["second"]["asked"][:4] == ["My dentist is Dr. Osei.", "Noted.", "我住在杭州。", "Good."]


def test_the_answers_are_those_of_the_session_service_of_adk(told):
    """Sessions made, read, listed and deleted, events of every kind and states appended in random order: the same from `InMemorySessionService` and from ours."""
    assert told["first"]["differing"] == []


def test_what_is_refused(told):
    """The same event again changes nothing; a session that others have changed since, or that is gone, takes no event."""
    assert told["first"]["odds"] == [1, 1, True, True, "StaleSessionError", "SessionNotFoundError", ["new"]]


def test_memory(told):
    """A session is in memory as soon as it is added, and is learnt from once; of this user, and in this app."""
    memory = told["first"]["remembered"]
    assert memory["before"] == []
    assert memory["after"] == ["I am allergic to peanuts."]
    assert memory["facts"] == ["The user is allergic to peanuts"]
    assert memory["history"] == [1]
    assert memory["others"] == [[], []]
    assert memory["all_apps"] == ["I am allergic to peanuts."]
    assert memory["added"] == ["Ann's locker is 42.", "admin", "facts"]


def test_what_is_deleted_from_memory(told):
    """It is not found again, also when its session is added again, and stays in the session; another app deletes nothing."""
    memory = told["first"]["remembered"]
    assert memory["theirs"] == ["Ann's locker is 42."]
    assert memory["deleted"] == [[], []]
    assert memory["session"] == 2
    assert memory["only"] == ["Her cat is Momo.", []]


def test_the_model_is_told_what_is_remembered(told):
    """By `PreloadMemoryTool` and `load_memory` in later sessions, and in those of nobody else."""
    second = told["second"]
    assert "user: My dentist is Dr. Osei." in second["recalled"][0]
    assert second["recalled"][1] == "Who is my dentist?"
    assert second["loaded"] == 2
    assert "Dr. Osei" in second["result"]
    assert "Osei" not in str(second["others"])
    assert "monday" in second["found"]


def test_a_user_is_forgotten(told):
    """His sessions with their states, too."""
    assert told["second"]["forgotten"] == [0, True]


def test_blocking_memory(told):
    """A `Memory`, and a service that opens its store itself."""
    assert told["blocking"] == ["I like tea.", "user", {"lang": "zh"}]


def test_every_block_of_the_page(adk, tmp_path):
    for block, output in blocks_of(PAGE):
        assert ran_warm(adk, "-c", block, cwd=tmp_path) == output


def test_without_adk():
    """The error says what to install."""
    with pytest.raises(ConfigError, match="pip install google-adk"):
        importlib.import_module("octavo.integrations.adk")
