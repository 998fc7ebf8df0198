"""AgentScope's real agents on Octavo's memories, in an environment of AgentScope's own."""

import importlib
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from environment import ROOT, as_here, blocks_of, prepared, ran_warm
from packaging.requirements import Requirement

from octavo import ConfigError
from servers import fresh

RUN = Path(__file__).with_name("agentscope_run.py")
#: What the extra brings beside Octavo's own, in the versions that are tested.
VERSIONS = {"agentscope": "1.0.21", "mcp": "1.30.0", "tqdm": "4.70.1"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def brought(extra):
    """What an extra asks for, and the extras that it names."""
    for each in map(Requirement, PROJECT["optional-dependencies"][extra]):
        if each.name == "octavo":
            for other in each.extras:
                yield from brought(other)
        else:
            yield each


def as_printed():
    """What the install line of the page asks for, and nothing else: what it forgets, AgentScope will miss."""
    page = (ROOT / "docs" / "agentscope.md").read_text()
    assert re.findall(r"^    pip install (.+)$", page, re.MULTILINE) == ["'.[agentscope]'"]
    for each in (*map(Requirement, PROJECT["dependencies"]), *brought("agentscope")):
        version = VERSIONS.get(each.name) or metadata.version(each.name)
        assert version in each.specifier
        extras = f"[{','.join(each.extras)}]" if each.extras else ""
        yield f"{each.name}{extras}=={version}"


REQUIREMENTS = (*as_printed(), *as_here("aiosqlite", "redis"))  # and the drivers of the memories below
KINDS = ("InMemoryMemory", "ChatMemory", "AsyncSQLAlchemyMemory", "RedisMemory", "OctavoMemory")


@pytest.fixture(scope="module")
def python():
    """The Python of an environment with AgentScope in it."""
    return prepared("AgentScope", REQUIREMENTS)


@pytest.fixture(scope="module")
def report(python, request, tmp_path_factory):
    """What happened when its agents ran on each of the memories."""
    with fresh("redis", request.getfixturevalue("redis_url")) as redis_url:
        told = ran_warm(python, RUN, tmp_path_factory.mktemp("agents"), redis_url)
    return json.loads(told.splitlines()[-1])


pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_talks(report, kind):
    """It calls a tool, answers, remembers the first question in the second turn, and compresses what is old."""
    told = report[kind]
    assert told["real"]
    assert told["theirs"]
    assert told["replies"] == ["It is 23 degrees.", "You asked about 杭州."]
    assert told["types"] == [["text"], ["tool_use"], ["tool_result"], ["text"], ["text"], ["text"]]
    assert told["model_saw_result"]
    assert told["model_saw_first_question"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_compresses(report, kind):
    """Its own compression marks the old part and keeps the summary, which the model is given in place of it."""
    told = report[kind]
    assert (told["compressed"], told["size"]) == (5, 8)
    assert told["short"] == ["You asked about 杭州.", "Thanks, bye", "Bye."]
    assert told["summary"].startswith("<system-info>Here is a summary")
    assert told["model_saw_summary"]
    assert not told["model_saw_compressed"]


@pytest.mark.parametrize("kind", KINDS)
def test_hints_come_and_go(report, kind):
    """A hint that the agent marks is shown once and then removed by its mark, which is an enum of AgentScope's."""
    hints = report[kind]["hints"]
    assert hints["metadata"] == {"city": "杭州"}
    assert hints["shown"] == [False, True, True]
    assert not hints["left"]


@pytest.mark.parametrize("kind", KINDS)
def test_messages_come_back_as_they_were(report, kind):
    """Every block, metadata, time, id and invocation; and the first message of an id wins."""
    assert report[kind]["lossless"]


@pytest.mark.parametrize("kind", KINDS)
def test_states(report, kind):
    """An agent's state is JSON at any moment; what cannot be loaded without waiting is refused whole."""
    told = report[kind]
    assert told["state"] == ["_compressed_summary", "content"][: 2 if kind == "InMemoryMemory" else 1]
    assert told["agent_state_is_json"]
    assert told["refused"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_that_is_loaded_is_told(report, kind):
    """`load_state_dict` cannot wait, so the store is told by the next call that can; a state that knows of none changes none."""
    later = ["Z"] if kind in ("ChatMemory", "AsyncSQLAlchemyMemory", "RedisMemory") else []
    assert report[kind]["loaded"] == ["X", "X", "Y", "Y", "hello", *later]


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_are_assigned_as_in_agentscope(report, kind):
    """`session_id`, `user_id` and `key_prefix` lead elsewhere, where the summary is another too, and back."""
    names = ["session_id", "user_id", *(["key_prefix"] if kind == "RedisMemory" else [])]
    assert report[kind]["moves"] == [[[name, 0, ""] for name in names], ["so far", "here"]]
    assert report[kind]["content"]


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_that_are_not_skipped(report, kind):
    """`skip_duplicated=False` is refused by AgentScope's memory in SQL databases, and keeps another copy in Redis."""
    expected = {"AsyncSQLAlchemyMemory": "IntegrityError 1", "RedisMemory": 3}
    assert report[kind]["duplicates"] == expected.get(kind, 3)


def test_the_rest(report):
    """A rollback takes messages back, AgentScope's sessions move a memory, and Octavo's compression works on one."""
    assert report["rolled_back"]
    assert report["session_first"]
    assert report["options"]
    assert report["moved"]
    assert report["compress"]


def test_every_block_of_the_page(python, tmp_path):
    """docs/agentscope.md: each block runs with AgentScope, and prints what stands under it."""
    for block, output in blocks_of("agentscope.md"):
        assert ran_warm(python, "-c", block, cwd=tmp_path) == output


def test_without_agentscope():
    """The error says what to install."""
    with pytest.raises(ConfigError, match=r"pip install 'octavo\[agentscope\]'"):
        importlib.import_module("octavo.integrations.agentscope")


def test_with_a_later_agentscope(monkeypatch):
    """AgentScope 2 has other memories: the error says so, and what to install."""
    monkeypatch.setattr(metadata, "version", lambda name: "2.0.3")
    with pytest.raises(
        ConfigError, match=r"AgentScope 2\.0\.3 has other memories: pip install 'octavo\[agentscope\]'"
    ):
        importlib.import_module("octavo.integrations.agentscope")
