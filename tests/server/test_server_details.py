"""What an answer may tell: never where the store is to a caller who is no admin, and never more than fits on a screen."""

import io
import json
import logging
import time
from urllib.parse import quote

import pytest

from octavo import open_store
from octavo.assemble import assemble
from octavo.errors import ModelError, StoreClosed, StoreUnavailable
from octavo.server.problems import JsonLines, Secrets, write_logs
from octavo.wraps import Wrap

USER = "/memory/user/lin"
INSIDE = "cannot reach db-7.internal:5432 through /run/octavo/db.sock"
PRIVATE = ("db-7", "internal", "5432", "/run")


class Failing(Wrap):
    """A store whose memories cannot be read; its keys can, unless it is told otherwise."""

    kind = StoreUnavailable
    spared = ("keys",)

    async def find(self, query):
        if query.collection not in self.spared:
            raise self.kind(INSIDE)
        return await self.inner.find(query)


@pytest.fixture
def failing(store_url, settings_of, serving, new_key, monkeypatch):
    """`failing(kind, spared)`: a server that needs keys over such a store, and its keys."""

    def made(kind=StoreUnavailable, spared=("keys",), **server):
        url = store_url("sqlite")
        keys = {access: new_key(url, access).key for access in ("read", "write", "admin")}

        def opening(given):
            store = Failing(open_store(given))
            store.kind, store.spared = kind, spared
            return store

        monkeypatch.setattr("octavo.assemble.open_store", opening)
        settings = settings_of(url, queue={"enabled": False}, **{"auth": "on", **server})
        return serving(settings, assembled=assemble(settings)), keys

    return made


@pytest.fixture
def logged():
    """All that the server logs, as text."""
    stream = io.StringIO()
    before = logging.getLogger("octavo").level
    yield lambda settings: write_logs(Secrets(settings), stream=stream) or stream
    logging.getLogger("octavo").setLevel(before)
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each.formatter, JsonLines)]


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreClosed, ModelError])
def test_only_an_admin_is_told_where_the_store_is(failing, logged, kind):
    """Others get a sentence and the id under which the log says the rest."""
    server, keys = failing(kind)
    stream = logged(server.settings)
    for access in ("read", "write"):
        with server.client(keys[access]) as client:
            answered = client.get(f"{USER}/profile", headers={"X-Request-ID": f"from-{access}"})
        assert answered.status_code == 503
        assert int(answered.headers["retry-after"]) >= 1
        assert not [word for word in PRIVATE if word in answered.text]
        assert f"request_id from-{access}" in answered.json()["detail"]
    with server.client(keys["admin"]) as client:
        assert INSIDE in client.get(f"{USER}/profile").json()["detail"]
        assert not [word for word in PRIVATE if word in client.get("/health").text]
    told = [
        line for line in map(json.loads, stream.getvalue().splitlines()) if INSIDE in line.get("message", "")
    ]
    for access in ("read", "write"):
        assert [line for line in told if f"from-{access}" in line["message"]]


def test_who_cannot_be_known_is_told_nothing(failing):
    """While the keys cannot be read, nobody is an admin."""
    server, keys = failing(spared=())
    for shown in (*keys.values(), "oct_0123456789abcdef_" + "0" * 64):
        with server.client(shown) as client:
            answered = client.get(f"{USER}/profile")
        assert answered.status_code == 503
        assert not [word for word in PRIVATE if word in answered.text]


def test_without_keys_the_details_are_told(failing):
    """Only this machine's own programs can call, and they could look at the settings."""
    server, _ = failing(auth="off")
    with server.client() as client:
        assert INSIDE in client.get(f"{USER}/profile").json()["detail"]


MANY = {f"unknown{n}": n for n in range(15_000)}
TOO_MANY = {f"other{n}": n for n in range(80_000)}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", USER, {"content": "x", **MANY}),
        ("POST", USER, MANY),
        ("PUT", f"{USER}/event/x", MANY),
        ("POST", "/memory/query", {"query": "x", "user_id": "lin", **MANY}),
        ("POST", "/events", {"session_key": "s", "payload": {}, **MANY}),
        ("POST", "/memory/logs/x/undo", MANY),
        ("POST", USER, {"content": "x", **{f"{n}" + "长" * 40_000: n for n in range(10)}}),
        ("POST", USER, {"content": "x", "memory_layer": "y" * 500_000, "category": "z" * 500_000}),
        ("POST", USER, [MANY]),
        ("POST", USER, TOO_MANY),
        ("POST", USER, {"content": MANY, "metadata": [MANY]}),
    ],
)
def test_errors_are_bounded(sqlite_server, method, path, body):
    """However much of a request does not fit, the refusal is short and says how many more there were."""
    with sqlite_server().client() as client:
        refused = client.request(method, path, json=body)
        assert refused.status_code in (400, 422)
        assert len(refused.content) < 4096
        if isinstance(body, dict) and "unknown0" in body:
            assert "15,000 fields are not known here" in refused.json()["detail"]
            assert "unknown0" in refused.json()["detail"]


def test_errors_of_parameters_are_bounded(sqlite_server):
    with sqlite_server().client() as client:
        for names in ([f"p{n}=1" for n in range(1500)], [f"{n}{quote('长' * 200)}=1" for n in range(6)]):
            for method, path in (("GET", f"{USER}/events"), ("POST", "/memory/query")):
                refused = client.request(method, f"{path}?{'&'.join(names)}")
                assert refused.status_code == 422
                assert len(refused.content) < 4096
                assert len(names) == 6 or "more" in refused.json()["detail"]


def test_a_few_mistakes_are_all_named(sqlite_server):
    with sqlite_server().client() as client:
        told = client.post(USER, json={"x": 1, "y": 2, "memory_layer": "z"}).json()["detail"]
        for name in (
            "x: is not known here",
            "y: is not known here",
            "memory_layer",
            "content: Field required",
        ):
            assert name in told


def test_the_work_for_errors_is_bounded():
    """Not 80,000 errors that are made and thrown away."""
    from pydantic import ValidationError

    from octavo.server.requests import NewMemory

    with pytest.raises(ValidationError) as caught:
        NewMemory.model_validate({"content": "x", **MANY})
    assert caught.value.error_count() == 1


def test_a_body_of_too_many_values_is_not_even_parsed(sqlite_server):
    """To make a million values of a body would hold up everybody; what stands inside a text is no value."""
    as_json = {"Content-Type": "application/json"}
    with sqlite_server().client() as client:
        for inside in (
            b"[]," * 300_000,
            b"1," * 20_000,
            b'"a",' * 20_000,
            b'{"a":1},' * 10_000,
            b'"\\"",' * 20_000,
        ):
            body = b'{"content": "x", "category": "other", "metadata": {"a": [' + inside + b"1]}}"
            refused = client.post(USER, content=body, headers=as_json)
            assert (refused.status_code, "20,000 values" in refused.json()["detail"]) == (400, True), inside[
                :9
            ]
        for text in (b"[1,2]," * 80_000, b'\\"a\\",' * 110_000, b"\\\\," * 110_000, b'\\\\\\",{' * 70_000):
            body = b'{"content": "x", "category": "other", "metadata": {"a": "' + text + b'"}}'
            kept = client.post(USER, content=body, headers=as_json)
            assert kept.status_code == 200, (text[:9], kept.text)


@pytest.mark.parametrize(
    "body",
    [b'{"content": "\xff"}', b'{"content": ' + b"9" * 5000 + b"}", b'{"metadata": ' + b"[" * 15_000, b"{"],
    ids=["no UTF-8", "a long number", "deep", "half"],
)
def test_a_body_that_cannot_be_read_is_the_callers_mistake(sqlite_server, body):
    with sqlite_server().client() as client:
        refused = client.post(USER, content=body, headers={"Content-Type": "application/json"})
        assert refused.status_code in (400, 422)
        assert refused.json()["detail"]


def test_content_may_have_a_mebibyte(client):
    """However its characters are spelled in JSON; one byte more is refused in words that name the setting."""
    as_json = {"Content-Type": "application/json"}
    most = 2**20
    for letter in ("a", "é", "好", "🍵", '"', "\x01"):
        content = letter * (most // len(letter.encode()))
        if not content.isprintable():
            content = f"x{content[1:]}"
        for ascii_only in (True, False):
            body = json.dumps({"content": content, "category": "other"}, ensure_ascii=ascii_only)
            made = client.post(USER, content=body.encode(), headers=as_json)
            assert made.status_code == 200, (letter, made.text)
        assert client.get(f"/memory/{made.json()['id']}").json()["content"] == content
        refused = client.post(USER, json={"content": content + "aaaa", "category": "other"})
        assert refused.status_code == 422
        assert "1,048,576 bytes in UTF-8 (server.max_content_bytes)" in refused.json()["detail"]
    escaped = b'{"category": "other", "content": "' + b"\\u0061" * most + b'"}'
    assert client.post(USER, content=escaped, headers=as_json).status_code == 200


def test_a_mebibyte_is_changed_and_asked_about(sqlite_server):
    with sqlite_server().client() as client:
        made = client.post(USER, json={"content": "tea", "category": "other"}).json()
        path = f"{USER}/event/{made['id']}"
        for letter in ("b", "c"):
            content = letter * 2**20
            assert client.put(path, json={"content": content}).json()["content"] == content
        assert client.put(path, json={"content": "d" * (2**20 + 1)}).status_code == 422
        log = client.get(f"/memory/{made['id']}/logs?limit=1").json()["logs"][0]
        assert client.post(f"/memory/logs/{log['id']}/undo").status_code == 200
        assert client.post("/memory/query", json={"query": "x" * 65_537, "user_id": "lin"}).status_code == 422


def test_a_long_text_is_extracted_from(sqlite_server):
    """The text is kept whole, and facts are found in it."""
    text = "I am a nurse. " + "The rain in Spain stays mainly in the plain. " * 20_000
    with sqlite_server().client() as client:
        began = time.monotonic()
        made = client.post(USER, json={"content": text, "auto_extract": True})
        assert made.status_code == 200, made.text
        assert time.monotonic() - began < 60


def test_the_limit_of_content_is_a_setting(sqlite_server):
    with sqlite_server(max_content_bytes=2000).client() as client:
        assert client.post(USER, json={"content": "x" * 2000, "category": "other"}).status_code == 200
        refused = client.post(USER, json={"content": "x" * 2001, "category": "other"})
        assert (refused.status_code, "2,000 bytes" in refused.json()["detail"]) == (422, True)
        assert client.get("/config").json()["sections"]["server"]["max_content_bytes"] == 2000
