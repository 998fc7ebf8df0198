"""How much, how many, how long and how often."""

import asyncio
import http.client
import itertools
import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from octavo.assemble import assemble
from octavo.server.gate import Gate, Shares
from octavo.wraps import Wrap

USER = "/memory/user/lin"


class Held(Wrap):
    """A store whose callers' reads wait until they are let go; what a server looks after by itself is nobody's request."""

    def __init__(self, store):
        super().__init__(store)
        self.free = threading.Event()
        self.waiting = 0

    async def find(self, query):
        if query.expired_at is None and query.collection != "erasures":
            self.waiting += 1
            while not self.free.is_set():
                await asyncio.sleep(0.01)
        return await self.inner.find(query)


@pytest.fixture
def held(settings_of, serving, monkeypatch):
    """`held(max_concurrent=1)`: a server whose reads wait, and the store that lets them go."""
    stores = []

    def made(**server):
        from octavo import open_store

        def opening(url):
            stores.append(Held(open_store(url)))
            return stores[-1]

        monkeypatch.setattr("octavo.assemble.open_store", opening)
        settings = settings_of(
            "memory://", queue={"enabled": False}, service={"timeout_seconds": 60.0}, **server
        )
        return serving(settings, assembled=assemble(settings)), stores[-1]

    yield made
    for store in stores:
        store.free.set()


def test_a_body_that_is_too_large(sqlite_server):
    with sqlite_server(max_body_bytes=2048).client() as client:
        body = {"content": "x" * 1000, "category": "other"}
        assert client.post(USER, json=body).status_code == 200
        refused = client.post(USER, json={**body, "content": "x" * 3000})
        assert refused.status_code == 413
        assert "2,048 bytes" in refused.json()["detail"]
        assert client.request("GET", "/stats", content=b"x" * 3000).status_code == 413
        assert client.get("/stats").json()["logs"]["total"] == 1


def test_a_body_without_a_length(sqlite_server):
    """A chunked body is counted as it comes, and none of it is kept."""
    with sqlite_server(max_body_bytes=2048).client() as client:
        as_json = {"Content-Type": "application/json"}

        def chunks(count):
            yield b'{"category": "other", "content": "'
            for _ in range(count):
                yield b"x" * 100
            yield b'"}'

        assert client.post(USER, content=chunks(10), headers=as_json).status_code == 200
        refused = client.post(USER, content=chunks(40), headers=as_json)
        assert (refused.status_code, "2,048 bytes" in refused.text) == (413, True)
        assert client.get("/stats").json()["logs"]["total"] == 1


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json"}, 413),
        ({"Content-Type": "application/json", "Transfer-Encoding": "chunked"}, 413),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_a_refusal_reaches_a_caller_who_is_still_sending(sqlite_server, headers, status, closing):
    """A connection that is closed with something unread is reset, and the answer is lost with it."""
    at = urlsplit(sqlite_server(max_body_bytes=2**20).url)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
    more = {"Connection": "close"} if closing else {}
    chunked = "Transfer-Encoding" in headers
    body = itertools.repeat(b"x" * 1000, 2000) if chunked else b"x" * 2_000_000
    try:
        connection.request("POST", USER, body=body, headers={**headers, **more}, encode_chunked=chunked)
        answered = connection.getresponse()
        assert answered.status == status
        assert set(json.loads(answered.read())) == {"detail", "code"}
    finally:
        connection.close()


def test_nobody_may_go_on_sending(sqlite_server, monkeypatch):
    """The refusal comes before the body, and of the body only so much is taken."""
    monkeypatch.setattr("octavo.server.gate._DRAINED_BYTES", 100_000)
    at = urlsplit(sqlite_server().url)
    with socket.create_connection((at.hostname, at.port), timeout=30) as sock:
        sock.sendall(
            b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000\r\n\r\n"
        )
        assert sock.recv(100).startswith(b"HTTP/1.1 413 ")
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                sock.sendall(b"x" * 1_000_000)


def test_a_body_that_never_comes(sqlite_server):
    """Whoever announces a body and sends none is let go in time."""
    server = sqlite_server(request_seconds=0.2)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(
            b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )
        assert sock.recv(100).startswith(b"HTTP/1.1 504 ")


def test_too_many_at_once(held):
    """A caller may have as many under way as are left: of four places two, and the others are for others."""
    server, store = held(max_concurrent=4)
    with server.client() as client:
        asking = [threading.Thread(target=client.get, args=("/events",)) for _ in range(2)]
        for thread in asking:
            thread.start()
        while store.waiting < 2:
            pass
        refused = client.get("/stats")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert client.get("/openapi.json").status_code == 200
        store.free.set()
        for thread in asking:
            thread.join()
        assert client.get("/stats").status_code == 200


def test_callers_who_wait_for_their_key_are_counted_and_timed(held):
    """A store that hangs must not gather callers without end, let in or not."""
    server, store = held(max_concurrent=4, request_seconds=1.0, auth="on")
    keys = ["oct_" + digit * 16 + "_" + "0" * 64 for digit in "123"]
    statuses = []
    with server.client() as client:

        def ask(key):
            statuses.append(client.get("/stats", headers={"X-API-Key": key}).status_code)

        asking = [threading.Thread(target=ask, args=(key,)) for key in keys[:2]]
        for thread in asking:
            thread.start()
        while store.waiting < 2:
            pass
        ask(keys[2])
        for thread in asking:
            thread.join()
        assert statuses == [503, 504, 504]
        store.free.set()
        ask(keys[2])
        assert statuses[-1] == 401


def test_what_takes_too_long(held):
    server, store = held(request_seconds=0.1)
    with server.client() as client:
        late = client.get("/events")
        assert (late.status_code, late.headers["retry-after"]) == (504, "1")
        assert "0.1 s" in late.json()["detail"]
        store.free.set()
        assert client.get("/events").status_code == 200


def test_too_often(store_url, settings_of, serving, new_key):
    url = store_url("sqlite")
    keys = [new_key(url, "read").key for _ in range(2)]
    with serving(settings_of(url, auth="on", requests_per_minute=3)).client() as client:

        def ask(key):
            return client.get("/stats", headers={"X-API-Key": key})

        assert [ask(keys[0]).status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = ask(keys[0])
        assert 1 <= int(refused.headers["retry-after"]) <= 21
        assert "3 requests a minute" in refused.json()["detail"]
        assert ask(keys[1]).status_code == 200
        assert client.get("/health").status_code == 200


def test_shares_leave_some_for_the_next_one():
    """However many callers take all they can get; and what is given back can be taken again."""
    shares = Shares(64)
    got = {}
    for caller in "abcde":
        while shares.take(caller):
            got[caller] = got.get(caller, 0) + 1
    assert got == {"a": 32, "b": 16, "c": 8, "d": 4, "e": 2}
    for _ in range(32):
        shares.give_back("a")
    assert shares.take("b", 9)
    assert not shares.take("b", 9)
    for caller, amount in (("b", 25), ("c", 8), ("d", 4), ("e", 2)):
        shares.give_back(caller, amount)
    assert shares.take("z", 32)
    assert shares._by_caller == {"z": 32}  # nobody who left is remembered


async def test_a_connection_that_is_no_request_passes():
    """The gate is for HTTP; the lifespan goes through it."""
    passed = []

    async def app(scope, receive, send):
        passed.append(scope["type"])

    gate = Gate.__new__(Gate)
    gate.app = app
    await gate({"type": "lifespan"}, None, None)
    assert passed == ["lifespan"]


def test_names_of_requests(sqlite_server):
    with sqlite_server().client() as client:
        assert (
            client.get("/health", headers={"X-Request-ID": "abc-1.2_3"}).headers["x-request-id"]
            == "abc-1.2_3"
        )
        for odd in ("a b", "x" * 65, "é", "oct_0123456789abcdef_00"):
            answered = client.get("/health", headers={"X-Request-ID": odd.encode()})
            assert answered.headers["x-request-id"] != odd
            assert len(answered.headers["x-request-id"]) == 16
        assert client.get("/stats").headers["cache-control"] == "no-store"
