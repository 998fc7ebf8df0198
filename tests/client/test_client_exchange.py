"""What the client sends, what it sends again, and which error an answer is. Against a real socket, blocking and async."""

import asyncio
import inspect
import json
import pickle
import socket
import subprocess
import sys
import traceback
from datetime import UTC, datetime, timedelta, timezone

import pytest
from scripted_server import serving

from octavo.client import AsyncClient, Client
from octavo.errors import (
    AccessDenied,
    ConfigError,
    Conflict,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    OctavoError,
    StoreClosed,
    StoreError,
    StoreUnavailable,
)

KEY = "oct_0123456789abcdef_" + "5ec2e7" * 10 + "abcd"
MADE = {
    "id": "user_u_1.5",
    "status": "success",
    "created_at": "2026-03-01T12:00:00Z",
    "mode": "direct",
    "layer": "event",
    "category": "other",
}
NOBODY = {"user_id": "u", "layer": "profile", "count": 0, "memories": []}
BUSY = (503, {"Retry-After": "0"}, {"detail": "the store is away"})
FULL = (429, {"Retry-After": "0"}, {"detail": "come back"})
REFUSED = (503, {}, {"detail": "the store is away"})


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("OCTAVO_SERVER", "OCTAVO_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("octavo.client.exchange._SHORTEST_WAIT_SECONDS", 0.001)


@pytest.fixture(params=["blocking", "async"])
def call(request):
    """`call(url, "profile", user_id="u")` by one client or the other."""

    def blocking(url, name, *args, api_key=None, timeout=10, retries=2, **named):
        with Client(url, api_key=api_key, timeout=timeout, retries=retries) as client:
            return getattr(client, name)(*args, **named)

    def awaiting(url, name, *args, api_key=None, timeout=10, retries=2, **named):
        async def run():
            async with AsyncClient(url, api_key=api_key, timeout=timeout, retries=retries) as client:
                return await getattr(client, name)(*args, **named)

        return asyncio.run(run())

    return blocking if request.param == "blocking" else awaiting


def test_both_have_every_call():
    """Each is a coroutine of one client and a blocking method of the other, with the same signature and text."""
    calls = [name for name, _ in inspect.getmembers(AsyncClient, inspect.iscoroutinefunction)]
    calls = [name for name in calls if not name.startswith("_")]
    assert len(calls) == 29
    for name in calls:
        ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
        assert not inspect.iscoroutinefunction(ours), name
        assert inspect.signature(ours) == inspect.signature(theirs)
        assert ours.__doc__ == theirs.__doc__
        assert theirs.__doc__


def test_what_is_sent(call):
    """The key in a header, names as one part of the path, times in UTC, nothing that was not given."""
    with serving((200, {}, MADE)) as server:
        eight = timezone(timedelta(hours=8))
        made = call(
            server.url, "remember", "他是工程师", user_id="a/b ?#%é", layer="profile", api_key=KEY,
            expiry_date=datetime(2027, 3, 1, 12, tzinfo=eight), metadata={"n": 1},
        )  # fmt: skip
        assert made.id == MADE["id"]
        assert made.created_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
        (method, path, headers, body) = server.asked[0]
        assert (method, path) == ("POST", "/memory/user/a%2Fb%20%3F%23%25%C3%A9")
        assert headers["authorization" if "authorization" in headers else "Authorization"] == f"Bearer {KEY}"
        assert json.loads(body) == {
            "content": "他是工程师",
            "memory_layer": "profile",
            "metadata": {"n": 1},
            "expiry_date": "2027-03-01T04:00:00Z",
        }


def test_what_is_asked(call):
    with serving((200, {}, NOBODY)) as server:
        at = datetime(2026, 3, 1, tzinfo=UTC)
        assert call(server.url, "profile", agent_id="..", limit=0, as_of=at) == []
        method, path, headers, body = server.asked[0]
        assert (method, body) == ("GET", b"")
        assert path == "/memory/agent/%2E%2E/profile?limit=0&as_of=2026-03-01T00%3A00%3A00%2B00%3A00"
        assert not {name.lower() for name in headers} & {"authorization"}


def test_a_revision_sends_only_what_is_given(call):
    """None takes an expiry away; a field left out is not sent."""
    with serving((404, {}, {"detail": "no such memory"})) as server:
        with pytest.raises(NotFound, match="no such memory"):
            call(server.url, "revise", "m", user_id="u", layer="event", expiry_date=None, reason="why")
        assert json.loads(server.asked[0][3]) == {"expiry_date": None, "reason": "why"}


@pytest.mark.parametrize(
    ("status", "asking", "kind"),
    [
        (400, "profile", InvalidQuery),
        (401, "profile", AccessDenied),
        (403, "remember", AccessDenied),
        (404, "profile", NotFound),
        (409, "remember", Conflict),
        (413, "remember", InvalidRecord),
        (415, "remember", InvalidRecord),
        (421, "profile", AccessDenied),
        (422, "remember", InvalidRecord),
        (422, "profile", InvalidQuery),
        (429, "remember", StoreUnavailable),
        (503, "remember", StoreUnavailable),
        (500, "profile", StoreError),
        (302, "profile", StoreError),
    ],
)
def test_which_error(call, status, asking, kind):
    """The server's sentence is in it, with what was asked."""
    with serving((status, {}, {"detail": "因为 so"})) as server:
        args = ["text"] if asking == "remember" else []
        with pytest.raises(OctavoError) as caught:
            call(server.url, asking, *args, user_id="u", retries=0)
        assert type(caught.value) is kind
        assert "因为 so" in str(caught.value)
        assert str(status) in str(caught.value)
        assert len(server.asked) == 1


def test_a_proxy_that_sends_callers_on(call):
    """As from http to https; nothing is sent there, and the error says where that is."""
    with (
        serving((301, {"Location": "https://memory.example.com/search"}, b"")) as server,
        pytest.raises(StoreError, match=r"on to https://memory\.example\.com/search; give the server there"),
    ):
        call(server.url, "remember", "a", user_id="u")


def test_a_reason_that_is_no_sentence_is_told_as_it_is(call):
    """A server of another kind may refuse with a list."""
    wrong = [{"loc": ["body", "content"], "msg": "Field required"}]
    with (
        serving((422, {}, {"detail": wrong})) as server,
        pytest.raises(InvalidRecord, match=r'"content"\],"msg":"Field required"'),
    ):
        call(server.url, "remember", "a", user_id="u")


@pytest.mark.parametrize("said", [b"<html>hello</html>", b"", b"[1]", b'{"memories": 1}'])
def test_an_answer_of_another_server(call, said):
    with serving((200, {}, said)) as server, pytest.raises(StoreError, match="is it an Octavo server"):
        call(server.url, "profile", user_id="u")


@pytest.mark.parametrize("said", [b"<html>Bad Gateway</html>", b"", b"[]", b'{"detail": {"a": 1}}'])
def test_an_error_of_another_server(call, said):
    with serving((500, {}, said)) as server, pytest.raises(StoreError, match="500"):
        call(server.url, "profile", user_id="u")


@pytest.mark.parametrize(
    ("asking", "answers", "tries"),
    [
        # what the server says it did not do is asked again, whatever it is
        ("profile", [BUSY, BUSY, (200, {}, NOBODY)], 3),
        ("remember", [BUSY, FULL, (200, {}, MADE)], 3),
        # a read is asked again after anything that may pass
        ("profile", ["drop", REFUSED, (200, {}, NOBODY)], 3),
        ("profile", [(502, {}, b""), (504, {}, b""), (200, {}, NOBODY)], 3),
        ("query", ["drop", (200, {}, {"query": "茶", "count": 0, "memories": []})], 2),
        # a write that may have been done is not
        ("remember", ["drop", (200, {}, MADE)], 1),
        ("remember", [REFUSED, (200, {}, MADE)], 1),
        ("remember", [(504, {"Retry-After": "0"}, b""), (200, {}, MADE)], 1),
        # nor is a text, which the server keeps before it fails
        ("extract", [BUSY, (200, {}, {"source_id": "s"})], 1),
        ("extract", [FULL, (200, {}, {"source_id": "s"})], 2),
        # nor is anything for ever, or when the wait would be long
        ("profile", [BUSY], 3),
        ("remember", ["drop"], 1),
        ("profile", [(503, {"Retry-After": "3600"}, {"detail": "later"})], 1),
        # what is wrong stays wrong
        ("profile", [(500, {}, b""), (200, {}, NOBODY)], 1),
        ("profile", [(401, {}, {"detail": "who?"}), (200, {}, NOBODY)], 1),
    ],
)
def test_what_is_tried_again(call, asking, answers, tries):
    args = [] if asking == "profile" else ["text"]
    with serving(*answers) as server:
        worked = len(answers) == tries and answers[-1] != "drop" and answers[-1][0] == 200
        if worked:
            call(server.url, asking, *args, user_id="u")
        else:
            with pytest.raises(OctavoError):
                call(server.url, asking, *args, user_id="u")
        assert len(server.asked) == tries


def test_a_server_that_is_down_tells_how_it_is(call):
    """Its 503 is the answer to this question, and is not asked for again."""
    down = {"status": "down", "store": "down", "waiting": 0, "version": "1"}
    with serving((503, {}, down)) as server:
        assert call(server.url, "health").status == "down"
        assert len(server.asked) == 1


def test_a_lost_write_says_that_it_may_have_been_done(call):
    with (
        serving("drop") as server,
        pytest.raises(StoreUnavailable, match="whether the change was made is not known"),
    ):
        call(server.url, "remember", "a", user_id="u")


def test_nobody_there(call):
    """A refused connection is safe to try again, and is an error in the end that names the server."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer there
        port = held.getsockname()[1]
        with pytest.raises(StoreUnavailable, match=rf"no answer from http://127\.0\.0\.1:{port}") as caught:
            call(f"http://127.0.0.1:{port}", "remember", "a", user_id="u")
        assert "not known" not in str(caught.value)
        assert caught.value.__cause__ is not None


def test_a_server_that_hangs(call):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(StoreUnavailable, match=r"Timeout|timed out"):
            call(url, "profile", user_id="u", timeout=0.05, retries=1)


def test_the_key_is_never_said(call):
    """Not in what is printed, not in an error, not in its causes."""
    said = [repr(Client(api_key=KEY)), repr(AsyncClient(api_key=KEY))]
    with serving((401, {}, {"detail": "this API key is unknown"}), "drop") as server:
        for _ in range(2):
            with pytest.raises(OctavoError) as caught:
                call(server.url, "profile", user_id="u", api_key=KEY, retries=0)
            said.append("".join(traceback.format_exception(caught.value)))
            said.append(repr(pickle.loads(pickle.dumps(caught.value))))
    for bad in (f"{KEY}\n{KEY}", f"{KEY}é", f"a {KEY}"):
        with pytest.raises(ConfigError) as caught:
            Client(api_key=bad)
        said.append("".join(traceback.format_exception(caught.value)))
    assert "5ec2e7" not in "".join(said)


def test_a_password_in_the_address_is_not_said(call):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(StoreUnavailable) as caught:
            call(f"http://me:s3cret@127.0.0.1:{held.getsockname()[1]}", "health", retries=0)
    assert "s3cret" not in str(caught.value)


def test_the_environment(monkeypatch):
    """OCTAVO_SERVER and OCTAVO_API_KEY; arguments come first."""
    assert Client().base_url == "http://127.0.0.1:8000"
    with serving((200, {}, NOBODY)) as server:
        monkeypatch.setenv("OCTAVO_SERVER", f"{server.url}/")
        monkeypatch.setenv("OCTAVO_API_KEY", f"{KEY}\n")
        with Client() as client:
            assert client.base_url == server.url
            client.profile(user_id="u")
        sent = {name.lower(): value for name, value in server.asked[0][2].items()}
        assert sent["authorization"] == f"Bearer {KEY}"
    assert Client("https://memory.example/api/").base_url == "https://memory.example/api"


def test_a_server_below_a_path(call):
    with serving((200, {}, NOBODY)) as server:
        call(f"{server.url}/api/v1", "profile", user_id="u")
        assert server.asked[0][1] == "/api/v1/memory/user/u/profile"


@pytest.mark.parametrize(
    "given",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "sqlite:///octavo.db"},
        {"base_url": "http://"},
        {"base_url": ""},
        {"base_url": "http://host:port"},
        {"base_url": "http://host/?a=1"},
        {"timeout": 0},
        {"retries": -1},
    ],
)
def test_what_is_refused(given):
    for kind in (Client, AsyncClient):
        with pytest.raises(ConfigError):
            kind(**given)


@pytest.mark.parametrize(
    ("name", "args", "named"),
    [
        ("profile", [], {}),
        ("profile", [], {"user_id": "u", "agent_id": "a"}),
        ("profile", [], {"user_id": ""}),
        ("profile", [], {"user_id": "\ud800"}),
        ("get", [""], {}),
        ("logs", ["m"], {"user_id": "u"}),
        ("logs", [], {}),
        ("profile", [], {"user_id": 5}),
    ],
)
def test_a_question_with_no_meaning_is_not_sent(call, name, args, named):
    with serving((200, {}, NOBODY)) as server:
        with pytest.raises(InvalidQuery):
            call(server.url, name, *args, **named)
        assert server.asked == []


@pytest.mark.parametrize(
    ("content", "metadata"),
    [
        (b"tea", {}),
        ("\ud800", {}),
        ("tea", {"price": float("nan")}),
        ("tea", {"raw": [b"x"]}),
        ("tea", {"o": object()}),
    ],
)
def test_what_json_cannot_say_is_not_sent(call, content, metadata):
    """It is refused as without a server: NaN was kept as null, and bytes as another text."""
    with serving((200, {}, NOBODY)) as server:
        with pytest.raises(InvalidRecord, match="JSON"):
            call(server.url, "remember", content, user_id="u", metadata=metadata)
        assert server.asked == []


def test_after_close():
    with Client() as client:
        pass
    client.close()
    with pytest.raises(StoreClosed, match="Client was closed"):
        client.health()


async def test_after_close_async():
    async with AsyncClient() as client:
        pass
    await client.close()
    with pytest.raises(StoreClosed, match="AsyncClient was closed"):
        await client.health()


def test_without_httpx():
    """One sentence with the cure, on use and not on import."""
    program = (
        "import sys; sys.modules['httpx'] = None\n"
        "import octavo.client\n"
        "try:\n    octavo.client.Client()\n"
        "except octavo.ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "the client needs the package httpx: pip install 'octavo[client]'\n"
