"""Pages of other sites: those that are named may call from a browser, with a key of their own, and no others."""

import pytest

from octavo.config import Server
from octavo.errors import ConfigError

SITE, OTHER = "https://app.example", "https://evil.example"
ALLOWED = "access-control-allow-origin"


def leave(origin, method="POST", headers="authorization, content-type"):
    """What a browser asks before a page's own request."""
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": headers,
    }


def test_leave_is_given_without_a_key(sqlite_server):
    """To the sites that are named, for what the routes take; a refusal has the shape of every other."""
    with sqlite_server(auth="on", cors_origins=[SITE]).client() as client:
        given = client.options("/memory/user/lin", headers=leave(SITE))
        assert (given.status_code, given.headers[ALLOWED]) == (200, SITE)
        assert "authorization" in given.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-credentials" not in given.headers
        for asked in (leave(OTHER), leave(SITE, "PATCH"), leave(SITE, headers="x-other")):
            refused = client.options("/memory/user/lin", headers=asked)
            assert (refused.status_code, refused.json()["code"]) == (403, "access_denied")
            assert ALLOWED not in refused.headers


def test_every_answer_names_the_site(store_url, settings_of, serving, new_key, monkeypatch):
    """Errors too, of the gate, of a route and of the server itself: a browser hides those that do not."""
    url = store_url("sqlite")
    key = new_key(url, "read").key
    server = serving(settings_of(url, auth="on", cors_origins=[SITE]))

    async def broken(self):
        raise ZeroDivisionError

    monkeypatch.setattr("octavo.server.app.TenantMemories.health", broken)
    with server.client() as client:
        client.headers["Connection"] = "close"  # as it is after a failure
        for path, headers, status in (
            ("/stats", {"X-API-Key": key}, 200),
            ("/stats", {}, 401),
            ("/config", {"X-API-Key": key}, 403),
            ("/nothing", {"X-API-Key": key}, 404),
            ("/events?limit=x", {"X-API-Key": key}, 422),
            ("/health", {}, 500),
        ):
            answered = client.get(path, headers={"Origin": SITE, **headers})
            assert (answered.status_code, answered.headers.get(ALLOWED)) == (status, SITE), path
            assert "origin" in answered.headers["vary"].lower()
            assert "X-Request-ID" in answered.headers["access-control-expose-headers"]
            assert ALLOWED not in client.get(path, headers={"Origin": OTHER, **headers}).headers
            assert ALLOWED not in client.get(path, headers=headers).headers


def test_without_keys_only_the_sites_that_are_named(sqlite_server):
    """Which leaves the other rules as they are: no name but this machine's, and no proxy."""
    with sqlite_server(cors_origins=[SITE]).client() as client:
        answered = client.get("/stats", headers={"Origin": SITE})
        assert (answered.status_code, answered.headers[ALLOWED]) == (200, SITE)
        assert client.get("/stats", headers={"Origin": OTHER}).status_code == 403
        assert client.get("/stats", headers={"Origin": f"{SITE}.evil.example"}).status_code == 403
        assert client.get("/stats", headers={"Origin": SITE, "Host": "evil.example"}).status_code == 421


def test_every_site_with_a_key(sqlite_server):
    with sqlite_server(auth="on", cors_origins=["*"]).client() as client:
        assert client.options("/stats", headers=leave(OTHER, "GET")).headers[ALLOWED] == "*"
        refused = client.get("/stats", headers={"Origin": OTHER})
        assert (refused.status_code, refused.headers[ALLOWED]) == (401, "*")
        assert "access-control-allow-credentials" not in refused.headers


def test_every_site_without_a_key_is_refused():
    for auth in ("auto", "off"):
        with pytest.raises(ConfigError, match=r"server\.auth: on"):
            Server(auth=auth, cors_origins=["*"])
    assert Server(host="0.0.0.0", cors_origins=["*"]).needs_key


@pytest.mark.parametrize(
    "origin",
    [
        "app.example",
        "https://app.example/",
        "https://App.example",
        "null",
        "https://*.example",
        "file://x",
        "",
    ],
)
def test_what_is_no_site(origin):
    with pytest.raises(ConfigError, match="cors_origins"):
        Server(cors_origins=[origin])


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://a-b.example", "http://[::1]:3000"])
def test_what_is_a_site(origin):
    assert Server(cors_origins=[origin]).cors_origins == (origin,)
