"""What each page says differs from the framework's own class: both are driven, side by side."""

import json
import re
from pathlib import Path

import pytest
from environment import ROOT, ran_warm

RUN = Path(__file__).with_name("differing_run.py")
PAGES = (
    "openai-agents", "langgraph", "anthropic", "pydantic-ai", "agent-framework", "adk", "llama-index", "langchain", "agentscope",
)  # fmt: skip
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def differing(request):
    """What a framework's own class and Octavo's answered, by the name of the page."""
    return lambda page: json.loads(
        ran_warm(request.getfixturevalue("adk" if page == "adk" else "frameworks"), RUN, page).splitlines()[
            -1
        ]
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_a_list(page):
    """Of three lines or more, each of which begins with what differs."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    [told] = re.findall(r"^## What differs\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^\* \*\*", told, re.MULTILINE)) >= 3


def test_openai_agents(differing):
    """No store keeps half a character, NUL, NaN or more than 64 bits; a session is a user's, and told by all who speak in it."""
    assert differing("openai-agents") == {
        "SQLiteSession": [[None] * 4, []],
        "OctavoSession": [["InvalidRecord"] * 4, ["Tea, please."]],
        "another user": [],
    }


def test_langgraph(differing):
    """Questions are answered by words, values are JSON and copies, times of birth stay, and nothing is left unimplemented."""
    assert differing("langgraph") == {
        "InMemoryStore": {
            "asked": ["1", "2"], "listed": ["1", "2"], "compared": "ValueError", "read": "(datetime.date(2026, 1, 1),)",
            "long": None, "mortal": "NotImplementedError", "born": False,
        },
        "OctavoStore": {
            "asked": ["1"], "listed": ["2", "1"], "compared": ["1"], "read": "['2026-01-01']",
            "long": "InvalidRecord", "mortal": None, "born": True,
        },
        "InMemorySaver": ["NotImplementedError"] * 3,
        "OctavoSaver": [None] * 3,
    }  # fmt: skip


def test_anthropic(differing):
    """What no record can hold is refused, and the model is told why."""
    told = differing("anthropic")
    assert told["BetaLocalFilesystemMemoryTool"] == ["File created successfully at"] * 3
    for answer, reason in zip(
        told["OctavoMemoryTool"], ("at most 255", "a NUL character", "16777216"), strict=True
    ):
        assert reason in answer


def test_pydantic_ai(differing):
    """What is added twice is there twice, and a limit counts messages."""
    assert differing("pydantic-ai") == [6, ["response"]]


def test_agent_framework(differing):
    """Messages are in the store and not in the session's state, so that a session is found again by its name alone."""
    assert differing("agent-framework") == {
        "InMemoryHistoryProvider": [True, []],
        "OctavoHistoryProvider": [False, ["hello"]],
        "skip_excluded": [True, False],
    }


def test_llama_index(differing):
    """`delete_message` counts from the oldest, where LlamaIndex's takes the number of a row."""
    assert differing("llama-index") == {"Memory": ["a", ["b", "c"]], "OctavoMemory": ["b", ["a", "c"]]}


def test_adk(differing):
    """Late and repeated events are refused, states are JSON, and a search looks for words that say something."""
    assert differing("adk") == {
        "InMemorySessionService": ["kept", "kept", ["1", "2", "1"], "date"],
        "OctavoSessionService": ["StaleSessionError", "StaleSessionError", ["1"], "str"],
        "InMemoryMemoryService": [{"is it raining": ["3"], "walking": []}, "NotImplementedError"],
        "OctavoMemoryService": [{"is it raining": [], "walking": ["4"]}, None],
    }
