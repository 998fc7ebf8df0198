"""mem0's interface: the short paths of its own server, what is refused, and whose memories it reaches."""

import pytest

TALK = [{"role": "user", "content": "I live in Berlin and I am allergic to peanuts."}]


def texts(answered):
    assert answered.status_code == 200, answered.text
    return [memory["memory"] for memory in answered.json()["results"]]


def test_the_short_paths(client):
    """As the self-hosted server of mem0 has them, on every store."""
    made = client.post("/mem0/memories", json={"messages": TALK, "user_id": "lin", "run_id": "monday"})
    assert texts(made) == ["The user lives in Berlin", "The user is allergic to peanuts"]
    home = made.json()["results"][0]["id"]
    assert texts(client.get("/mem0/memories?user_id=lin&run_id=monday")) == texts(made)[::-1]
    found = texts(client.post("/mem0/search", json={"query": "Berlin", "user_id": "lin"}))
    assert found == ["The user lives in Berlin", "The user is allergic to peanuts"]  # of one sentence
    assert client.get(f"/mem0/memories/{home}").json()["run_id"] == "monday"
    changed = client.put(f"/mem0/memories/{home}", json={"text": "Lives in Potsdam"})
    assert changed.json()["message"] == "Memory updated successfully!"
    rows = client.get(f"/mem0/memories/{home}/history").json()
    assert [row["event"] for row in rows] == ["ADD", "UPDATE"]
    assert client.delete(f"/mem0/memories/{home}").status_code == 200
    assert client.get(f"/mem0/memories/{home}").status_code == 404
    assert client.delete("/mem0/memories?user_id=lin").status_code == 200
    assert texts(client.get("/mem0/memories?user_id=lin")) == []
    client.post("/mem0/memories", json={"messages": "Likes tea", "user_id": "ann", "infer": False})
    assert client.post("/mem0/reset").status_code == 200
    assert client.get("/mem0/entities").json()["results"] == []


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "give user_id, agent_id or run_id"),
        ({"filters": {"user_id": ""}}, 422, "user_id"),
        ({"filters": {"AND": [{"user_id": "a"}, {"user_id": "b"}]}}, 422, "user_id cannot be two at once"),
        ({"filters": {"OR": [{"user_id": "a"}]}}, 501, "filters.OR"),
        ({"filters": {"user_id": "*"}}, 501, "filters.user_id"),
        ({"filters": {"user_id": "a", "categories": {"in": ["x"]}}}, 501, "filters.categories"),
        ({"filters": {"user_id": "a", "topic": {"in": ["x"]}}}, 501, "filters.topic"),
        ({"user_id": "a", "show_expired": True}, 501, "show_expired"),
        ({"user_id": "a", "show_expired": False, "rerank": True}, 200, ""),
        ({"user_id": "a", "top_k": 0}, 422, "top_k"),
        ({"user_id": "a", "filters": {"created_at": {"gte": "soon"}}}, 422, "ISO 8601"),
        ({"user_id": "a", "filters": {"created_at": {"gte": "2026-01-01", "lt": "2099-01-01"}}}, 200, ""),
    ],
)
def test_what_is_refused_is_named(sqlite_server, body, status, said):
    with sqlite_server().client() as client:
        answered = client.post("/v3/memories/search/", json={"query": "tea", **body})
        assert (answered.status_code, said in answered.text) == (status, True), answered.text


def test_a_batch_is_made_whole_or_not_at_all(sqlite_server):
    with sqlite_server(max_batch=2).client() as client:
        added = {"messages": "Likes tea", "user_id": "lin", "infer": False}
        made = client.post("/mem0/memories", json=added).json()["results"][0]["id"]
        changes = [{"memory_id": made, "text": "Likes coffee"}, {"memory_id": "nothing", "text": "x"}]
        assert client.put("/v1/batch/", json={"memories": changes}).status_code == 404
        assert client.request("DELETE", "/v1/batch/", json={"memories": changes}).status_code == 404
        assert client.get(f"/v1/memories/{made}/").json()["memory"] == "Likes tea"
        assert client.put("/v1/batch/", json={"memories": changes * 2}).status_code == 422


def test_a_text_that_is_too_long_is_refused(sqlite_server):
    with sqlite_server(max_content_bytes=1024).client() as client:
        body = {"messages": [{"role": "user", "content": "x" * 1025}], "user_id": "lin"}
        assert client.post("/v3/memories/add/", json=body).status_code == 422


def test_another_tenant_is_not_reached(store_url, settings_of, serving, new_key):
    url = store_url("sqlite")
    server = serving(settings_of(url, auth="on"))
    keys = [new_key(url, "admin", tenant).key for tenant in ("ours", "other")]
    with server.client(keys[0]) as ours, server.client(keys[1]) as theirs:
        made = ours.post("/v3/memories/add/", json={"messages": TALK, "user_id": "lin"}).json()["results"]
        named = {"filters": {"user_id": "lin"}}
        assert texts(theirs.post("/v3/memories/search/", json={"query": "Berlin", **named})) == []
        assert texts(theirs.post("/v3/memories/", json=named)) == []
        assert texts(theirs.get("/mem0/memories?user_id=lin")) == []
        assert theirs.get(f"/v1/memories/{made[0]['id']}/history/").status_code == 404
        assert theirs.get("/v1/entities/").json()["count"] == 0
        assert theirs.delete("/v1/memories/?user_id=lin").status_code == 200
        assert theirs.post("/mem0/reset").status_code == 200
        assert len(texts(ours.post("/v3/memories/", json=named))) == 2


def test_they_stand_in_no_document_of_ours(sqlite_server):
    with sqlite_server().client() as client:
        paths = client.get("/openapi.json").json()["paths"]
    assert not [path for path in paths if path.startswith(("/v1", "/v2", "/v3", "/mem0", "/api"))]


@pytest.mark.parametrize("ends", ["soon", "2020-05-31", ""])
def test_an_end_that_is_refused_keeps_nothing(sqlite_server, ends):
    with sqlite_server().client() as client:
        for infer in (True, False):
            body = {"messages": TALK, "user_id": "lin", "expiration_date": ends, "infer": infer}
            answered = client.post("/v3/memories/add/", json=body)
            assert (answered.status_code, f"got {ends!r}" in answered.text) == (422, True), answered.text
            assert "expiration_date" in answered.text
        assert texts(client.get("/mem0/memories?user_id=lin")) == []


def test_a_text_for_an_agent_is_remembered(sqlite_server):
    """The client sends a text as a message of the user, whoever it is for."""
    with sqlite_server().client() as client:
        said = [{"role": "user", "content": "short answers please"}]
        added = client.post("/v3/memories/add/", json={"messages": said, "agent_id": "planner"})
        assert (
            texts(added) == texts(client.get("/mem0/memories?agent_id=planner")) == ["short answers please"]
        )
