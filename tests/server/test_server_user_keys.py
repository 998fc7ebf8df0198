"""Keys that are bound to a user: every route takes that user, and refuses another."""

import itertools

import pytest
from test_server_access import MATRIX, body_of, names_of_something, path_of

from octavo.server.access import is_open_to_users
from sampled import sampled

#: What the key of another user, with write access, gets where Lin is named or something is hers.
OTHERS = {
    ("GET", "/config"): 403,
    ("GET", "/metrics"): 403,
    ("GET", "/queue"): 403,
    ("POST", "/queue/replay"): 403,
    ("POST", "/memory/query"): 403,
    ("POST", "/search"): 403,
    ("POST", "/context"): 403,
    ("GET", "/memory/{memory_id}"): 404,
    ("POST", "/memory/{memory_type}/{entity_id}"): 403,
    ("GET", "/memory/{memory_type}/{entity_id}/profile"): 403,
    ("GET", "/memory/{memory_type}/{entity_id}/events"): 403,
    ("GET", "/memory/{memory_type}/{entity_id}/logs"): 403,
    ("PUT", "/memory/{memory_type}/{entity_id}/{layer}/{memory_id}"): 403,
    ("DELETE", "/memory/{memory_type}/{entity_id}/{layer}/{memory_id}"): 403,
    ("POST", "/memory/logs/{log_id}/undo"): 404,
    ("POST", "/memory/{memory_type}/{entity_id}/undo"): 403,
    ("POST", "/memory/{memory_type}/{entity_id}/allow/{memory_id}"): 403,
}


#: What Lin's own key gets: nothing of hers is rejected.
OWN = {("POST", "/memory/{memory_type}/{entity_id}/allow/{memory_id}"): 404}
#: What no key of one user opens: the server's, another user's, and mem0's, where a request names whose it is.
CLOSED = ("/config", "/metrics", "/queue", "/queue/replay", "/users/{user_id}", "/users/{user_id}/export")
MEM0 = ("/v1/", "/v2/", "/v3/", "/mem0/", "/api/")


@pytest.fixture
def bound(store_url, settings_of, serving, new_key):
    """A server, and the keys of an admin and of two users."""
    url = store_url("sqlite")
    keys = {user: new_key(url, "write", "ours", user=user).key for user in ("lin", "bob")}
    return serving(settings_of(url, auth="on")), {**keys, "admin": new_key(url, "admin", "ours").key}


@sampled(("user", "batched"), itertools.product(["lin", "bob"], [False, True]), share=3)
def test_the_matrix_of_a_users_key(bound, user, batched):
    server, keys = bound
    got, wanted, named = {}, {}, None
    with server.client(keys["admin"]) as admin, server.client(keys[user]) as client:
        for method, path in MATRIX:
            if batched and (path == "/batch" or method == "PATCH"):
                continue
            named, route = named or names_of_something(admin), (method, path)
            body, asked = body_of(route, named), path_of(route, named)
            if batched:
                part = {
                    "method": method,
                    "path": asked,
                    **({} if body is None else {"body": body}),
                }
                got[method, path] = client.post("/batch", json={"requests": [part]}).json()["answers"][0][
                    "status"
                ]
            else:
                got[method, path] = client.request(method, asked, json=body).status_code
            wanted[method, path] = (OTHERS if user == "bob" else OWN).get(route, 200)
            if path in CLOSED or path.startswith(MEM0):
                wanted[method, path] = 403
            if method != "GET":
                if got[method, path] >= 400:  # refused is untouched
                    assert admin.get(f"/memory/{named['memory_id']}").json()["version"] == 1
                else:
                    named = None
    assert got == wanted


def test_what_is_not_named_is_the_keys_users(bound):
    server, keys = bound
    with server.client(keys["lin"]) as lin, server.client(keys["bob"]) as bob:
        for client, text in ((lin, "Lin drinks tea"), (bob, "Bob drinks tea")):
            user = text.split()[0].lower()
            made = client.post(f"/memory/user/{user}", json={"content": text, "category": "other"})
            assert made.status_code == 200
            client.post("/events", json={"session_key": "s", "payload": {"text": text}, "actor": "somebody"})
        for client, user in ((lin, "lin"), (bob, "bob")):
            found = client.post("/search", json={"query": "tea"}).json()["hits"]
            assert {hit["user_id"] for hit in found} == {user}
            assert user in client.post("/context", json={"query": "tea"}).json()["text"].lower()
            [memory] = client.post("/memory/query", json={"query": "tea"}).json()["memories"]
            assert memory["entity_id"] == user
            assert [each["user_id"] for each in client.get("/events").json()["events"]] == [user]
            assert [each["user_id"] for each in client.get("/sessions/s/events").json()["events"]] == [user]
            assert [each["events"] for each in client.get("/sessions").json()["sessions"]] == [1]
            assert [each["user_id"] for each in client.get("/users").json()["users"]] == [user]
            stats = client.get("/stats").json()
            assert (stats["event"]["total"], stats["events"]["total"], stats["logs"]["total"]) == (1, 1, 1)


def test_what_is_another_users_is_not_there(bound):
    server, keys = bound
    with server.client(keys["lin"]) as lin, server.client(keys["bob"]) as bob:
        made = lin.post("/memory/user/lin", json={"content": "drinks tea", "category": "other"}).json()["id"]
        row = lin.get(f"/memory/{made}/logs").json()["logs"][0]["id"]
        hidden, none = bob.get(f"/memory/{made}"), bob.get("/memory/nobody")
        assert hidden.text.replace(made, "nobody") == none.text
        assert bob.get(f"/memory/{made}/logs").json()["count"] == 0
        hidden = bob.post(f"/memory/logs/{row}/undo")
        assert hidden.status_code == 404
        assert hidden.text.replace(row, "x") == bob.post("/memory/logs/x/undo").text
        assert bob.get("/memory/agent/planner/profile").status_code == 403
        assert bob.post("/search", json={"query": "tea", "everyone": True}).status_code == 403
        assert bob.post("/search", json={"query": "tea", "session_id": "s"}).json()["count"] == 0
        event = {"session_key": "s", "payload": {"text": "tea"}, "obs_id": "o"}
        assert lin.post("/events", json=event).json()["user_id"] == "lin"
        taken = bob.post("/events", json={**event, "payload": {"text": "mine"}})
        assert (taken.status_code, "tea" in taken.text) == (409, False)
        assert bob.post("/events", json={**event, "obs_id": "p", "user_id": "lin"}).status_code == 403
        assert bob.get("/sessions/s/turns").json()["count"] == 0
        assert lin.get(f"/memory/{made}").json()["content"] == "drinks tea"


def test_a_new_route_is_closed_to_a_users_key():
    for path in ("/anything/new", "/config", "/queue/replay", "/memoryx", "/mcpx", "/v1/memories/"):
        assert not is_open_to_users(path)
    for path in ("/memory/user/lin", "/mcp", "/search", "/events", "/sessions/s/events"):
        assert is_open_to_users(path)
