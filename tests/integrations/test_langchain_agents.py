"""Agents and chains of today's LangChain on Octavo's retriever and tools, in the frameworks' environment."""

import json
from pathlib import Path

import pytest
from environment import ran, ran_warm

RUN = Path(__file__).with_name("langchain_agents_run.py")
STANDARD = Path(__file__).with_name("langchain_standard.py")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def told(frameworks, framework_url, tmp_path_factory):
    """What happened in two processes, one after the other; or in one, where the store lives in it."""
    told, folder = {}, tmp_path_factory.mktemp("runs")
    for parts in [["first", "second"]] if framework_url == "memory://" else [["first"], ["second"]]:
        told |= json.loads(ran_warm(frameworks, RUN, framework_url, *parts, cwd=folder).splitlines()[-1])
    return told


def test_an_agent_remembers_for_another_process(told):
    """What `remember` kept in an agent's run, `search_memory` finds in the next process; no argument names a user."""
    assert told["first"]["said"] == ["human", "ai", "tool", "ai"]
    assert "Lin's dentist is Dr. Osei." in told["second"]["recalled"]
    assert told["second"]["tools"] == [["search_memory", ["query"], True], ["remember", ["text"], True]]
    assert told["second"]["awaited_tool"]


def test_a_chain_with_the_retriever(told):
    """The prompt is given what answers the question, best first, whether the chain is awaited or not."""
    assert told["first"]["answer"].startswith("Known: Lin's dentist is Dr. Osei.")
    assert told["second"]["real"]
    assert told["second"]["answer"].startswith("Known: Lin's dentist is Dr. Osei.")
    assert told["second"]["awaited"]


def test_documents(told):
    """They say whose they are and from where; those of one user, or of one session of his."""
    second = told["second"]
    where = {"source": "messages", "kind": "user", "user_id": "lin", "session_id": "monday"}
    assert second["document"] == ["我对花生过敏。", where]
    assert second["session"] == ["我对花生过敏。"]
    assert second["others"] == ["Bob's dentist is Dr. Wu."]
    assert not second["dumped"]


def test_a_memory_to_be_awaited(told):
    """It is asked on its own event loop; a blocking call of it and a wrong owner are refused."""
    answer, found, blocked, *refused = told["awaiting"]
    assert "Osei" in answer
    assert "Osei" in found
    assert "ainvoke" in blocked
    assert ["user_id must be a name" in each for each in refused] == [True, True]


def test_the_standard_tests_of_langchain(frameworks, tmp_path):
    """`langchain-tests`, LangChain's suite for whoever writes a retriever or a tool: each test passes."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    options = ("--noconftest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini")
    printed = ran(frameworks, "-m", "pytest", *options, STANDARD, cwd=tmp_path)
    passed = printed.splitlines()[-1]
    assert "passed" in passed
    assert not {"failed", "xfailed", "skipped"} & {*passed.replace(",", "").split()}
