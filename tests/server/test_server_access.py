"""Who may do what: every route with every kind of key, and servers that need none."""

import http.client
import re
from datetime import timedelta

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from octavo import open_store
from octavo.config import Server
from octavo.errors import StoreUnavailable
from octavo.keys import Keys
from octavo.server import create_app
from octavo.server.access import Caller, Door, needed_access
from octavo.server.app import TenantMemories
from octavo.server.problems import CODES
from octavo.server.routes import mem0
from octavo.wraps import Wrap
from sampled import sampled

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")
HOSTED = [re.sub(":[a-z]+}", "}", path) for path in mem0.HOSTED]
CALLERS = ("no key", "wrong key", "other tenant's key", "reader", "writer", "admin")
# Route → what each of the callers gets. The other tenant's key is an admin's: it may do all, and sees nothing of ours.
OPEN = (200, 200, 200, 200, 200, 200)
READ = (401, 401, 200, 200, 200, 200)
OURS = (401, 401, 404, 200, 200, 200)
WRITE = (401, 401, 200, 403, 200, 200)
CHANGE = (401, 401, 404, 403, 200, 200)
ADMIN = (401, 401, 200, 403, 403, 200)
MATRIX = {
    ("GET", "/health"): OPEN,
    ("GET", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("GET", "/metrics"): ADMIN,
    ("GET", "/config"): ADMIN,
    ("GET", "/queue"): ADMIN,
    ("POST", "/queue/replay"): ADMIN,
    ("GET", "/stats"): READ,
    ("GET", "/events"): READ,
    ("POST", "/events"): WRITE,
    ("GET", "/users"): READ,
    ("GET", "/users/{user_id}/export"): READ,
    ("DELETE", "/users/{user_id}"): ADMIN,
    ("GET", "/sessions"): READ,
    ("GET", "/sessions/{session}/events"): READ,
    ("GET", "/sessions/{session}/turns"): READ,
    ("POST", "/memory/query"): READ,
    ("POST", "/search"): READ,
    ("POST", "/context"): READ,
    ("POST", "/batch"): READ,
    ("POST", "/mcp"): READ,
    ("GET", "/memory/{memory_id}"): OURS,
    ("GET", "/memory/{memory_id}/logs"): READ,
    ("POST", "/memory/{memory_type}/{entity_id}"): WRITE,
    ("GET", "/memory/{memory_type}/{entity_id}/profile"): READ,
    ("GET", "/memory/{memory_type}/{entity_id}/events"): READ,
    ("GET", "/memory/{memory_type}/{entity_id}/logs"): READ,
    ("PUT", "/memory/{memory_type}/{entity_id}/{layer}/{memory_id}"): CHANGE,
    ("DELETE", "/memory/{memory_type}/{entity_id}/{layer}/{memory_id}"): CHANGE,
    ("POST", "/memory/{memory_type}/{entity_id}/allow/{memory_id}"): (401, 401, 404, 403, 404, 404),
    ("POST", "/memory/logs/{log_id}/undo"): CHANGE,
    ("POST", "/memory/{memory_type}/{entity_id}/undo"): WRITE,
    # mem0's, which stand in no document of ours.
    ("GET", "/v1/ping/"): READ,
    ("POST", "/v3/memories/add/"): WRITE,
    ("POST", "/v1/memories/"): WRITE,
    ("POST", "/mem0/memories"): WRITE,
    ("POST", "/v3/memories/search/"): READ,
    ("POST", "/v2/memories/search/"): READ,
    ("POST", "/mem0/search"): READ,
    ("POST", "/v3/memories/"): READ,
    ("POST", "/v2/memories/"): READ,
    ("GET", "/mem0/memories"): READ,
    ("DELETE", "/v1/memories/"): WRITE,
    ("DELETE", "/mem0/memories"): WRITE,
    **{
        (method, path): verdict
        for path in ("/v1/memories/{memory_id}/", "/mem0/memories/{memory_id}")
        for method, verdict in (("GET", OURS), ("PUT", CHANGE), ("DELETE", CHANGE))
    },
    ("GET", "/v1/memories/{memory_id}/history/"): OURS,
    ("GET", "/mem0/memories/{memory_id}/history"): OURS,
    ("PUT", "/v1/batch/"): CHANGE,
    ("DELETE", "/v1/batch/"): CHANGE,
    ("GET", "/v1/entities/"): READ,
    ("GET", "/mem0/entities"): READ,
    ("DELETE", "/v2/entities/{kind}/{name}/"): CHANGE,
    ("DELETE", "/mem0/entities/{kind}/{name}"): CHANGE,
    ("POST", "/mem0/reset"): ADMIN,
    **{
        (method, path): (401, 401, 501, 501 if method == "GET" else 403, 501, 501)
        for path in HOSTED
        for method in VERBS
    },
}
# The console's pages and forms: whoever has no key is asked to sign in.
EVERYBODY = (200, 200, 200, 200, 200, 200)
PAGE = (303, 303, 200, 200, 200, 200)
PAGE_OF_OURS = (303, 303, 404, 200, 200, 200)
ADMIN_PAGE = (303, 303, 200, 403, 403, 200)
FORM = (401, 401, 303, 403, 303, 303)
FORM_OF_OURS = (401, 401, 404, 403, 303, 303)
ADMIN_FORM = (401, 401, 200, 403, 403, 200)
PAGES = {
    ("GET", "/"): (307,) * 6,
    ("GET", "/console"): PAGE,
    ("GET", "/console/activity.svg"): PAGE,
    ("GET", "/console/people"): PAGE,
    ("POST", "/console/people"): FORM,
    ("GET", "/console/people/{user}"): PAGE,
    ("POST", "/console/people/{user}/memories"): FORM,
    ("GET", "/console/people/{user}/export"): PAGE,
    ("GET", "/console/people/{user}/forget"): ADMIN_PAGE,
    ("POST", "/console/people/{user}/forget"): ADMIN_FORM,
    ("GET", "/console/agents"): PAGE,
    ("GET", "/console/agents/{agent}"): PAGE,
    ("POST", "/console/agents/{agent}/memories"): FORM,
    ("GET", "/console/memories/{memory}"): PAGE_OF_OURS,
    ("POST", "/console/memories/{memory}"): FORM_OF_OURS,
    ("POST", "/console/memories/{memory}/reject"): FORM_OF_OURS,
    ("POST", "/console/undo/{row}"): FORM_OF_OURS,
    ("GET", "/console/log"): PAGE,
    ("GET", "/console/log/export"): PAGE,
    ("GET", "/console/search"): PAGE,
    ("GET", "/console/context"): PAGE,
    ("GET", "/console/sessions"): PAGE,
    ("GET", "/console/sessions/{session}"): PAGE,
    ("GET", "/console/sessions/{session}/tail"): PAGE,
    ("GET", "/console/reliability"): ADMIN_PAGE,
    ("POST", "/console/reliability/replay"): (401, 401, 303, 403, 403, 303),
    ("POST", "/console/reliability/letters/{letter}"): (401, 401, 404, 403, 403, 404),
    ("GET", "/console/vault"): ADMIN_PAGE,
    ("GET", "/console/vault/{key}"): (303, 303, 404, 403, 403, 404),
    ("GET", "/console/access"): ADMIN_PAGE,
    ("POST", "/console/access/keys"): ADMIN_FORM,
    ("POST", "/console/access/keys/{key}/revoke"): (401, 401, 404, 403, 403, 303),
    ("GET", "/console/static/{name}"): EVERYBODY,
    ("GET", "/console/language"): (303,) * 6,
    ("GET", "/console/sign-in"): EVERYBODY,
    ("POST", "/console/sign-in"): (403,) * 6,  # with a key that there is not
    ("POST", "/console/sign-out"): (401, 401, 303, 303, 303, 303),
    ("GET", "/console/{rest}"): (303, 303, 404, 404, 404, 404),
}
FORMS = {
    ("POST", "/console/people"): {"name": "mei"},
    ("POST", "/console/people/{user}/memories"): {"content": "likes tea", "memory_layer": "profile"},
    ("POST", "/console/agents/{agent}/memories"): {"content": "answers in verse", "memory_layer": "profile"},
    ("POST", "/console/people/{user}/forget"): {"name": "nobody"},
    ("POST", "/console/memories/{memory}"): {"content": "likes coffee", "reason": "asked"},
    ("POST", "/console/access/keys"): {"name": "laptop"},
    ("POST", "/console/sign-in"): {"key": "oct_0123456789abcdef_" + "0" * 64},
}
NAMED = {"user_id": "lin"}
QUERIES = {
    ("GET", "/mem0/memories"): NAMED,
    ("DELETE", "/v1/memories/"): NAMED,
    ("DELETE", "/mem0/memories"): NAMED,
}
BODIES = {
    ("POST", "/batch"): {"requests": [{"path": "/stats"}]},
    ("POST", "/mcp"): {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    ("POST", "/events"): {"session_key": "s", "payload": {"text": "hello"}, "obs_id": "o"},
    ("POST", "/memory/query"): {"query": "tea", "user_id": "lin"},
    ("POST", "/search"): {"query": "tea", "user_id": "lin"},
    ("POST", "/context"): {"query": "tea", "user_id": "lin"},
    ("POST", "/memory/{memory_type}/{entity_id}/undo"): {"since": "2026-01-01T00:00:00Z", "dry_run": True},
    ("POST", "/memory/{memory_type}/{entity_id}"): {"content": "likes tea", "category": "other"},
    ("PUT", "/memory/{memory_type}/{entity_id}/{layer}/{memory_id}"): {"content": "likes coffee"},
    **{
        ("POST", path): {"messages": "likes tea", **NAMED}
        for path in ("/v3/memories/add/", "/v1/memories/", "/mem0/memories")
    },
    **{
        ("POST", path): {"query": "tea", "filters": NAMED}
        for path in ("/v3/memories/search/", "/v2/memories/search/", "/mem0/search")
    },
    **{("POST", path): {"filters": NAMED} for path in ("/v3/memories/", "/v2/memories/")},
    **{
        ("PUT", path): {"text": "likes coffee"}
        for path in ("/v1/memories/{memory_id}/", "/mem0/memories/{memory_id}")
    },
    ("PUT", "/v1/batch/"): {"memories": [{"memory_id": "{memory_id}", "text": "likes coffee"}]},
    ("DELETE", "/v1/batch/"): {"memories": [{"memory_id": "{memory_id}"}]},
}


def body_of(route, named):
    """What is sent to a route, with the names of something that there is."""
    body = BODIES.get(route)
    if body is not None and "memories" in body:
        return {"memories": [{**each, "memory_id": named["memory_id"]} for each in body["memories"]]}
    return body


def path_of(route, named):
    """The path of a route with the names of something that there is, and its query."""
    query = "&".join(f"{name}={value}" for name, value in QUERIES.get(route, {}).items())
    return route[1].format(**named) + (f"?{query}" if query else "")


@pytest.fixture
def keyed(store_url, settings_of, serving, new_key):
    """A server that needs keys, and one key for each caller."""
    url = store_url("sqlite")
    keys = {
        "no key": None,
        "wrong key": "oct_0123456789abcdef_" + "0" * 64,
        "other tenant's key": new_key(url, "admin", "other").key,
        "reader": new_key(url, "read", "ours").key,
        "writer": new_key(url, "write", "ours").key,
        "admin": new_key(url, "admin", "ours").key,
    }
    return serving(settings_of(url, auth="on")), keys


def test_every_route_is_in_the_matrix(sqlite_server):
    """Those in the document, and those that are in none."""
    routes = {
        (verb, re.sub(":[a-z]+}", "}", route.path))
        for route in sqlite_server().app.routes
        for verb in route.methods
        if route.path not in ("/docs", "/openapi.json") and (verb != "HEAD" or "GET" not in route.methods)
    }
    assert routes == set(MATRIX) | set(PAGES)


def names_of_something(admin):
    """The names in a path of a memory that was just made."""
    body = {"content": "a", "category": "preference", "memory_layer": "profile"}
    made = admin.post("/memory/user/lin", json=body).json()["id"]
    log = admin.get(f"/memory/{made}/logs").json()["logs"][0]["id"]
    return {"memory_type": "user", "entity_id": "lin", "layer": "profile", "memory_id": made, "log_id": log, "session": "s", "kind": "user", "name": "lin", "more": "x", "user_id": "nobody"}  # fmt: skip


@pytest.mark.parametrize("caller", CALLERS)
def test_the_matrix(keyed, caller):
    server, keys = keyed
    got = {}
    with server.client(keys["admin"]) as admin, server.client(keys[caller]) as client:
        named = None
        for method, path in MATRIX:
            named, route = named or names_of_something(admin), (method, path)
            answered = client.request(method, path_of(route, named), json=body_of(route, named))
            got[method, path] = answered.status_code
            if answered.status_code == 401:
                assert answered.headers["www-authenticate"].startswith("Bearer")
            if answered.status_code >= 400:
                assert list(answered.json()) == ["detail", "code"]
                assert answered.json()["code"] == CODES[answered.status_code]
            if method != "GET":
                if answered.status_code >= 400:  # refused is untouched
                    assert admin.get(f"/memory/{named['memory_id']}").json()["version"] == 1
                else:
                    named = None
    column = CALLERS.index(caller)
    assert got == {route: expected[column] for route, expected in MATRIX.items()}


@pytest.fixture
def console_keys(store_url, settings_of, serving, new_key):
    """The same with streams that end soon, and a key to be revoked."""
    url = store_url("sqlite")
    made = {
        "other tenant's key": new_key(url, "admin", "other"),
        "reader": new_key(url, "read", "ours"),
        "writer": new_key(url, "write", "ours"),
        "admin": new_key(url, "admin", "ours"),
    }
    keys = {
        "no key": None,
        "wrong key": "oct_0123456789abcdef_" + "0" * 64,
        **{k: v.key for k, v in made.items()},
    }
    return serving(settings_of(url, auth="on", stop_seconds=0.1)), keys, new_key(url, "read", "ours").info.id


def token_of(client):
    """What a form of this caller must carry."""
    for page in ("/console/search", "/console/sign-in"):
        if (told := client.get(page)).status_code == 200:
            return re.search(r'name="token" value="([0-9a-f]+)"', told.text)[1]
    raise AssertionError(page)


@pytest.mark.parametrize("caller", CALLERS)
def test_the_matrix_of_pages(console_keys, caller):
    """Of the console: each page and each form with its token, for every caller; and without it for nobody."""
    server, keys, spare = console_keys
    got, without = {}, {}
    with server.client(keys["admin"]) as admin, server.client(keys[caller]) as client:
        # What the search page shows a reader has no form to send; whoever is signed in has the one to sign out.
        token, named = token_of(client), None
        for method, path in PAGES:
            named = named or names_of_something(admin)
            names = {"user": "nobody", "agent": "nobody", "memory": named["memory_id"], "row": named["log_id"], "session": "s", "letter": "x", "key": spare, "name": "console.css", "rest": "nothing"}  # fmt: skip
            where, form = path.format(**names), FORMS.get((method, path), {})
            if method == "POST":
                without[path] = client.post(where, data=form).status_code
                assert admin.get(f"/memory/{named['memory_id']}").json()["version"] == 1
            answered = client.request(
                method, where, data={**form, "token": token} if method == "POST" else None
            )
            got[method, path] = answered.status_code
            if answered.status_code >= 400:
                assert answered.headers["content-type"].startswith("text/html")
            if method == "POST":
                if answered.status_code >= 400:  # refused is untouched
                    assert admin.get(f"/memory/{named['memory_id']}").json()["version"] == 1
                else:
                    named = None
    column = CALLERS.index(caller)
    assert got == {route: expected[column] for route, expected in PAGES.items()}
    assert set(without.values()) <= {401, 403}


@sampled("caller", CALLERS[2:], share=2)
def test_the_matrix_in_a_batch(keyed, caller):
    """Whatever a key may not do, it may not do in a batch; and what it may do, it may."""
    server, keys = keyed
    column = CALLERS.index(caller)
    with server.client(keys["admin"]) as admin, server.client(keys[caller]) as client:
        named = None
        for (method, path), expected in MATRIX.items():
            if path == "/batch" or method == "PATCH":
                continue
            named, route = named or names_of_something(admin), (method, path)
            part = {"method": method, "path": path_of(route, named)}
            if (body := body_of(route, named)) is not None:
                part["body"] = body
            [told] = client.post("/batch", json={"requests": [part]}).json()["answers"]
            assert told["status"] == expected[column], (method, path)
            if method != "GET" and told["status"] < 400:
                named = None


def test_without_a_key_no_batch_is_begun(keyed):
    server, keys = keyed
    for caller in ("no key", "wrong key"):
        with server.client(keys[caller]) as client:
            refused = client.post("/batch", json={"requests": [{"path": "/health"}]})
            assert (refused.status_code, refused.json()["code"]) == (401, "access_denied")


def test_a_tenant_sees_nothing_of_another(keyed):
    server, keys = keyed
    with server.client(keys["writer"]) as ours, server.client(keys["other tenant's key"]) as theirs:
        made = ours.post("/memory/user/lin", json={"content": "drinks tea", "category": "other"}).json()["id"]
        ours.post("/memory/user/lin", json={"content": "a nurse", "memory_layer": "profile"})
        ours.post("/events", json={"session_key": "s", "payload": {"text": "tea"}})
        assert ours.get("/memory/user/lin/events").json()["count"] == 1
        assert theirs.get("/memory/user/lin/events").json()["count"] == 0
        assert theirs.get("/memory/user/lin/profile").json()["count"] == 0
        assert theirs.get("/memory/user/lin/profile?as_of=2100-01-01").json()["count"] == 0
        assert theirs.get("/memory/user/lin/logs").json()["count"] == 0
        assert theirs.get(f"/memory/{made}/logs").json()["count"] == 0
        hidden, none = theirs.get(f"/memory/{made}"), theirs.get("/memory/nobody")
        assert (hidden.status_code, none.status_code) == (404, 404)
        assert hidden.text.replace(made, "nobody") == none.text  # nor that there is one
        asked = {"query": "tea", "everyone": True}
        assert theirs.post("/memory/query", json=asked).json()["count"] == 0
        assert theirs.get("/events").json()["count"] == 0
        assert theirs.get("/sessions").json()["count"] == 0
        assert theirs.get("/users").json() == {"count": 0, "users": []}
        assert theirs.get("/sessions/s/events").json()["count"] == 0
        assert theirs.get("/events?session=s").json()["count"] == 0
        assert theirs.get("/stats").json()["logs"]["total"] == 0
        assert ours.get("/stats").json()["logs"]["total"] == 2


def test_only_an_admin_may_ask_about_everyone(keyed):
    """And then about everyone of the tenant, of nobody else's."""
    server, keys = keyed
    with server.client(keys["writer"]) as ours:
        ours.post("/memory/user/lin", json={"content": "drinks tea", "category": "other"})
    everyone = {"query": "tea", "everyone": True}
    got = {}
    for caller in CALLERS:
        with server.client(keys[caller]) as client:
            answered = client.post("/memory/query", json=everyone)
            got[caller] = (answered.status_code, answered.json().get("count"))
            if answered.status_code == 403:
                assert "admin access" in answered.json()["detail"]
    assert got == dict(
        zip(CALLERS, [(401, None), (401, None), (200, 0), (403, None), (403, None), (200, 1)], strict=True)
    )


def test_how_a_key_is_shown(keyed):
    server, keys = keyed
    with server.client() as client:
        for headers, status in (
            ({"Authorization": f"Bearer {keys['reader']}"}, 200),
            ({"Authorization": f"bearer  {keys['reader']}"}, 200),
            ({"Authorization": f"Token {keys['reader']}"}, 200),
            ({"X-API-Key": keys["reader"]}, 200),
            ({"Authorization": f"Basic {keys['reader']}"}, 401),
            ({"Authorization": "Bearer"}, 401),
            ({"Authorization": "Bearer é".encode()}, 401),
            ({"X-API-Key": ""}, 401),
        ):
            assert client.get("/stats", headers=headers).status_code == status, headers
        assert client.get(f"/stats?key={keys['reader']}").status_code == 401
        for path in ("/health", "/openapi.json", "/docs"):
            assert client.get(path).status_code == 200
        assert client.get("/nothing").status_code == 401  # nobody without a key learns what there is


def test_two_keys_at_once(keyed):
    """Which of them a proxy in front looked at is not known here."""
    server, keys = keyed
    reader, admin = keys["reader"], keys["admin"]
    bearer = "Authorization"
    with server.client() as client:
        for headers, status in (
            ([(bearer, f"Bearer {reader}"), (bearer, f"Bearer {admin}")], 401),
            ([(bearer, f"Bearer {reader}"), ("X-API-Key", admin)], 401),
            ([(bearer, f"Bearer {reader}"), ("X-API-Key", reader)], 200),
            ([(bearer, "Basic bGluOng="), ("X-API-Key", reader)], 200),
        ):
            answered = client.get("/stats", headers=headers)
            assert answered.status_code == status
            assert reader not in answered.text
            assert admin not in answered.text


async def test_inside_another_application(store_url, settings_of):
    """What a path needs does not depend on where the application was put."""
    url = store_url("sqlite")
    async with open_store(url) as store:
        reader = (await Keys(store).create("reader")).key
    inner = create_app(settings_of(url, auth="on"))
    outer = Starlette(routes=[Mount("/octavo", app=inner)])
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/octavo") as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/stats")).status_code == 401
        client.headers["X-API-Key"] = reader
        assert (await client.get("/stats")).status_code == 200
        assert (
            await client.post("/memory/query", json={"query": "tea", "user_id": "lin"})
        ).status_code == 200
        assert (await client.get("/config")).status_code == 403
        assert (await client.post("/queue/replay")).status_code == 403
        assert (await client.get("/memory/user/a%2Fb/profile")).json()["user_id"] == "a/b"
    await inner.state.memories.close()


class Away(Wrap):
    """A store that cannot be reached while it is told so."""

    away = False

    async def find(self, query):
        if self.away:
            raise StoreUnavailable("away")
        return await self.inner.find(query)


async def test_keys_while_the_store_is_away(settings_of, monkeypatch):
    """One that was good is let in for a while, to write and nothing else; one that is known to be revoked never."""
    monkeypatch.setattr("octavo.assemble.open_store", lambda url: Away(open_store(url)))
    memories = TenantMemories(settings_of("memory://", auth="on", queue={"enabled": False}))
    seconds = 0.0
    memories.keys = Keys(memories.assembled.store, timer=lambda: seconds)
    door = Door(memories.settings, memories)

    async def enters(made, method="POST", path="/memory/user/lin"):
        return isinstance(await door.caller(method, path, [(b"x-api-key", made.key.encode())]), Caller)

    names = ("good", "revoked", "revoked here", "unseen")
    good, revoked, here, unseen = [await memories.keys.create(name, access="admin") for name in names]
    for key in (good, revoked, here):
        assert await enters(key)
    await Keys(memories.assembled.store).revoke(revoked.info.id)  # by another process
    seconds = 5.0
    assert not await enters(revoked)
    assert await enters(good)
    assert await enters(good, "GET", "/stats")
    await memories.keys.revoke(here.info.id)
    seconds = 20.0
    store = memories.assembled.store
    while not isinstance(store, Away):
        store = store.inner
    store.away = True
    assert await enters(good)
    assert await enters(good, "POST", "/batch")  # each of its parts is asked again
    for read in (
        ("GET", "/stats"),
        ("POST", "/memory/query"),
        ("GET", "/memory/user/lin/profile"),
        ("GET", "/queue"),
    ):
        with pytest.raises(StoreUnavailable):
            await enters(good, *read)
    assert not await enters(revoked)
    assert not await enters(here)
    with pytest.raises(StoreUnavailable):
        await enters(unseen)
    seconds = 5.0 + 901.0
    with pytest.raises(StoreUnavailable):
        await enters(good)
    await memories.close()


def test_a_key_that_has_ended(store_url, settings_of, serving, new_key):
    url = store_url("sqlite")
    key = new_key(url, expires=timedelta(microseconds=1)).key
    with serving(settings_of(url, auth="on")).client(key) as client:
        assert client.get("/stats").status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "access"),
    [
        ("GET", "/anything/new", "read"),
        ("POST", "/memory/query", "read"),
        ("POST", "/mcp", "read"),  # each of its tools needs what it needs: tests/server/test_server_mcp.py
        ("PATCH", "/anything/new", "write"),
        ("GET", "/queue/anything", "admin"),
    ],
)
def test_a_new_route_is_not_left_open(method, path, access):
    assert needed_access(method, path) == access


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8000"}, 200),
        ({"Host": "LOCALHOST."}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost@evil.example"}, 421),
        ({"Host": "[::1].evil.example"}, 421),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"X-Forwarded-For": "203.0.113.9"}, 421),
        ({"Forwarded": "for=203.0.113.9"}, 421),
        ({"X-Forwarded-Proto": "https"}, 421),
        ({"Via": "1.1 proxy"}, 421),
        ({"Origin": "http://[::1]:3000"}, 200),
        ({"Origin": "http://LocalHost"}, 200),
        ({"Host": "127.0.0.1:x"}, 421),
        ({"Host": "[::ffff:203.0.113.9]"}, 421),
    ],
)
def test_without_keys_only_this_machine_calls(sqlite_server, headers, status):
    with sqlite_server().client() as client:
        for path in ("/stats", "/health", "/openapi.json"):
            assert client.get(path, headers=headers).status_code == status, path


def test_no_page_is_told_that_it_may_call(sqlite_server):
    """A browser asks first, and gets no leave: not even a page of another server on this machine."""
    asked = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}
    with sqlite_server().client() as client:
        for origin, status in (("https://evil.example", 403), ("http://localhost:3000", 405)):
            answered = client.options("/memory/user/lin/profile", headers={"Origin": origin, **asked})
            assert answered.status_code == status
            assert not [name for name in answered.headers if name.startswith("access-control")]


def test_with_keys_any_host_will_do(keyed):
    server, keys = keyed
    elsewhere = {"Host": "memory.example", "Origin": "https://app.example", "X-Forwarded-For": "203.0.113.9"}
    with server.client(keys["reader"]) as client:
        assert client.get("/stats", headers=elsewhere).status_code == 200


def test_no_host_at_all(sqlite_server):
    """As HTTP/1.0 allows: no browser leaves it out."""
    address = re.fullmatch(r"http://(.*):(\d+)", sqlite_server().url)
    connection = http.client.HTTPConnection(address[1], int(address[2]))
    connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"
    connection.putrequest("GET", "/stats", skip_host=True)
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()


def test_the_document_asks_for_keys_where_they_are_needed(keyed, tmp_path):
    server, _ = keyed
    with server.client() as client:
        document = client.get("/openapi.json").json()
    assert set(document["components"]["securitySchemes"]) == {"bearer", "header"}
    assert "security" not in document["paths"]["/health"]["get"]
    assert document["paths"]["/stats"]["get"]["security"] == [{"bearer": []}, {"header": []}]


def test_which_servers_need_keys():
    assert not Server().needs_key
    assert Server(host="0.0.0.0").needs_key
    assert Server(auth="on").needs_key
