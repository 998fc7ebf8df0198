"""What each framework's page says of the server is true: the first block of the page is run, and its store is served."""

import pytest
from environment import ROOT, blocks_of, prepared, ran_warm
from test_agentscope import REQUIREMENTS as AGENTSCOPE

from octavo.config import Database, FailureQueue, Settings
from sampled import sampled
from server.conftest import Running

#: page: the environment it is run in ("" is AgentScope's own), and what was said in the session `monday`.
SESSIONS = {
    "openai-agents.md": ("frameworks", "My dentist is Dr. Osei."),
    "pydantic-ai.md": ("frameworks", "My dentist is Dr. Osei."),
    "agent-framework.md": ("frameworks", "My dentist is Dr. Osei."),
    "llama-index.md": ("frameworks", "What must I not eat?"),
    "adk.md": ("adk", "My dentist is Dr. Osei."),
    "agentscope.md": ("", "生成一份报告"),
}
LEARNT = {
    "agent-framework.md": "allergic to peanuts",
    "llama-index.md": "allergic to peanuts",
    "adk.md": "dentist",
    "langchain.md": "dentist",
}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def served(request, tmp_path_factory):
    """A client of a server over the store that a page's first block made."""
    page = request.param
    environment = SESSIONS[page][0] if page in SESSIONS else "frameworks"
    python = request.getfixturevalue(environment) if environment else prepared("AgentScope", AGENTSCOPE)
    folder = tmp_path_factory.mktemp("served")
    ran_warm(python, "-c", blocks_of(page)[0][0], cwd=folder)
    settings = Settings(
        database=Database(dsn=f"sqlite:///{folder}/octavo.db"),
        failure_queue=FailureQueue(directory=str(folder / "queue")),
    )
    with Running(settings) as server, server.client() as client:
        yield page, client


@sampled("served", SESSIONS, share=2, indirect=True)
def test_a_session(served):
    """On the console, counted, found, in a block for a prompt, exported, and erased."""
    page, client = served
    said = SESSIONS[page][1]
    assert said in client.get("/console/sessions/monday").text
    [user] = client.get("/users").json()["users"]
    assert (user["user_id"], user["counts"]["messages"] > 1) == ("lin", True)
    asked = {"query": said, "user_id": "lin"}
    assert said in [hit["text"] for hit in client.post("/search", json=asked).json()["hits"]]
    about = {"agent_id": "helper"} if page == "adk.md" else {}
    block = client.post("/context", json={"query": "?", "user_id": "lin", "session_id": "monday", **about})
    assert said in block.json()["text"]
    assert said in client.get("/users/lin/export").text
    if page in LEARNT:
        assert LEARNT[page] in client.get("/memory/user/lin/profile").text
    assert client.get("/sessions").json()["sessions"] == []
    client.delete("/users/lin").raise_for_status()
    assert client.get("/users").json()["users"] == []


@pytest.mark.parametrize("served", ["anthropic.md"], indirect=True)
def test_documents(served):
    _, client = served
    [hit] = client.post("/search", json={"query": "Which hotel?", "user_id": "lin"}).json()["hits"]
    assert (hit["source"], hit["id"]) == ("documents", "memories/trips/plan.md")
    assert "Hotel: Riverside." in client.get("/users/lin/export").text
    client.delete("/users/lin").raise_for_status()
    assert client.post("/search", json={"query": "Which hotel?", "user_id": "lin"}).json()["hits"] == []


@pytest.mark.parametrize("served", ["langchain.md"], indirect=True)
def test_what_was_remembered(served):
    page, client = served
    assert LEARNT[page] in client.get("/memory/user/lin/profile").text
    [hit] = client.post("/search", json={"query": "dentist", "user_id": "lin"}).json()["hits"]
    assert hit["text"] == "My dentist is Dr. Osei."


@pytest.mark.parametrize("served", ["langgraph.md"], indirect=True)
def test_graphs(served):
    """Nothing of them is shown."""
    _, client = served
    assert client.get("/users").json()["users"] == []
    assert "Osei" not in client.get("/console/sessions/monday").text


@pytest.mark.parametrize("page", [*SESSIONS, "anthropic.md", "langchain.md", "langgraph.md"])
def test_the_page_says_so(page):
    assert "## On the server" in (ROOT / "docs" / page).read_text()
