"""A page has a number of bytes, not only of rows: every listing says how to go on, and nothing is lost on the way."""

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
from pathlib import Path

import httpx
import pytest

from octavo import Add, Record, Scope, open_store
from octavo.client import AsyncClient, Client
from octavo.server.routes.events import sessions_page
from running_server import octavo_process
from sampled import sampled

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
PAGE = 20_000
TEXT = "软件 " * 400  # 2,800 bytes


def url_of(kind, tmp_path, fresh_url):
    local = {
        "memory": "memory://",
        "file": f"file://{tmp_path}/store",
        "sqlite": f"sqlite:///{tmp_path}/o.db",
    }
    return local.get(kind) or fresh_url(kind)


@pytest.fixture(params=KINDS)
def client(request, tmp_path, settings_of, serving):
    """A client of a server with small pages, on one kind of store after the other."""
    fresh = request.getfixturevalue("fresh_url") if request.param in KINDS[3:] else None
    settings = settings_of(url_of(request.param, tmp_path, fresh), max_page_bytes=PAGE)
    with serving(settings).client() as client:
        yield client


def pages(client, path, name, **params):
    """All pages of a listing: the names of what is on each, read as the server says."""
    found, after = [], {}
    while True:
        reply = client.get(path, params={**params, **after})
        assert reply.status_code == 200, reply.text
        assert len(reply.content) < 2 * PAGE, "a page that is larger than a page may be"
        told = reply.json()
        assert told["count"] == len(told[name])
        found.append(told[name])
        if "next" not in told:
            return found
        after = {"after": told["next"]}
        assert len(found) < 100, "pages repeat"


def test_every_listing_is_cut_by_bytes_and_goes_on(client):
    """Whatever is listed: pages within their bytes that together are all there is, in order, each once."""
    said = [
        client.post("/memory/user/lin", json={"content": f"{n} {TEXT}", "memory_layer": "event"}).json()["id"]
        for n in range(20)
    ]
    known = [
        client.post("/memory/user/lin", json={"content": f"{n} {TEXT}", "memory_layer": "profile"}).json()[
            "id"
        ]
        for n in range(20)
    ]
    revised = [known[3], known[11]]
    for id_ in revised:
        assert (
            client.put(f"/memory/user/lin/profile/{id_}", json={"metadata": {"seen": True}}).status_code
            == 200
        )
    for n in range(20):
        body = {"session_key": f"s{n % 2}", "obs_id": str(n), "payload": {"text": f"{n} {TEXT}"}}
        assert client.post("/events", json=body).status_code == 200
    expected = {
        "/memory/user/lin/events": ("memories", "id", said[::-1]),
        "/memory/user/lin/profile": (
            "memories",
            "id",
            revised[::-1] + [one for one in known[::-1] if one not in revised],
        ),
        "/events": ("events", "obs_id", [str(n) for n in range(19, -1, -1)]),
        "/events?session=s1": ("events", "obs_id", [str(n) for n in range(19, -1, -2)]),
        "/sessions/s0/events": ("events", "obs_id", [str(n) for n in range(18, -1, -2)]),
    }
    for path, (name, key, meant) in expected.items():
        listed = (
            pages(client, path, name, limit=1000)
            if "?" not in path
            else pages(client, "/events", name, session="s1", limit=1000)
        )
        assert [one[key] for page in listed for one in page] == meant, path
        assert 2 < len(listed) < len(meant), path
        # By count they go on too: three by three.
        by_count = pages(
            client, path.partition("?")[0], name, limit=3, **({"session": "s1"} if "?" in path else {})
        )
        assert [one[key] for page in by_count for one in page] == meant, path
        assert all(len(page) <= 3 for page in by_count)
    logs = pages(client, "/memory/user/lin/logs", "logs", limit=1000)
    assert [row["memory_id"] for page in logs for row in page] == [*revised[::-1], *known[::-1], *said[::-1]]
    layered = pages(client, "/memory/user/lin/logs", "logs", limit=7, memory_layer="event")
    assert [row["memory_id"] for page in layered for row in page] == said[::-1]


def test_an_earlier_time_is_cut_by_bytes_too(client):
    """What was known then, page by page, though all of it has changed since or is gone."""
    for n in range(12):
        for layer in ("profile", "event"):
            body = {"content": f"{n} {TEXT}", "memory_layer": layer}
            assert client.post("/memory/user/lin", json=body).status_code == 200
    paths = {"/memory/user/lin/profile": "profile", "/memory/user/lin/events": "event"}
    then = {
        path: [one for page in pages(client, path, "memories", limit=100) for one in page] for path in paths
    }
    at = max(one["updated_at"] for listed in then.values() for one in listed)
    for path, layer in paths.items():
        for n, one in enumerate(then[path]):
            where = f"/memory/user/lin/{layer}/{one['id']}"
            reply = client.delete(where) if n % 3 == 0 else client.put(where, json={"content": f"new {TEXT}"})
            assert reply.status_code == 200
    for path in paths:
        for limit in (100, 5):
            listed = pages(client, path, "memories", limit=limit, as_of=at)
            assert [one for page in listed for one in page] == then[path]
            assert len(listed) > 1


def test_hits_that_do_not_fit_are_counted(client):
    """The best ones are answered; how many were left out is said."""
    for n in range(12):
        client.post("/memory/user/lin", json={"content": f"tea {n} {TEXT}", "memory_layer": "event"})
    reply = client.post("/memory/query", json={"query": "tea", "user_id": "lin", "top_k": 12})
    told = reply.json()
    assert len(reply.content) < 2 * PAGE
    assert told["count"] == len(told["memories"]) == 12 - told["left_out"]
    few = client.post("/memory/query", json={"query": "tea", "user_id": "lin", "top_k": 3}).json()
    assert (few["count"], "left_out" in few) == (3, False)


def test_one_record_that_is_larger_than_a_page(client):
    """It is answered all the same, alone."""
    large = "x" * (2 * PAGE)
    for n, text in enumerate(("small", large, "small", "small")):
        client.post("/events", json={"session_key": "s", "obs_id": str(n), "payload": {"text": text}})
    told = client.get("/events").json()
    assert [event["obs_id"] for event in told["events"]] == ["3", "2"]
    told = client.get("/events", params={"after": told["next"]}).json()
    assert [event["obs_id"] for event in told["events"]] == ["1"]
    told = client.get("/events", params={"after": told["next"]}).json()
    assert [event["obs_id"] for event in told["events"]] == ["0"]
    assert "next" not in told


def test_a_long_history_is_cut_too(client):
    """The newest changes of a memory come with it; the older ones are asked for."""
    id_ = client.post("/memory/user/lin", json={"content": f"0 {TEXT}", "memory_layer": "profile"}).json()[
        "id"
    ]
    for n in range(1, 12):
        assert (
            client.put(f"/memory/user/lin/profile/{id_}", json={"content": f"{n} {TEXT}"}).status_code == 200
        )
    versions, after = [], {}
    while True:
        reply = client.get(f"/memory/{id_}", params=after)
        assert len(reply.content) < 2 * PAGE
        told = reply.json()
        versions = [row["version"] for row in told["history"]] + versions
        if "next" not in told:
            break
        after = {"after": told["next"]}
    assert versions == list(range(1, 13))


def test_sessions_page_by_page(client):
    """The latest first, each once, whoever is in between."""
    for n in range(30):
        client.post("/events", json={"session_key": f"s{n % 7}", "obs_id": str(n), "payload": {"text": TEXT}})
    whole = client.get("/sessions").json()
    assert "next" not in whole
    latest = [f"s{n % 7}" for n in range(29, 22, -1)]
    assert [(one["session"], one["events"]) for one in whole["sessions"]] == [
        (name, 5 if name in ("s0", "s1") else 4) for name in latest
    ]
    listed = pages(client, "/sessions", "sessions", limit=2)
    assert [one["session"] for page in listed for one in page] == latest


async def test_every_session_comes_once_however_long_the_story_is():
    """More events than are looked through at once: sessions stand by their newest event, and none comes twice."""
    async with open_store("memory://") as store:
        names = [f"s{number * 7919 % 300}" for number in range(2500)]
        events = [Record(collection="observations", scope=Scope(session=name)) for name in names]
        others = [Record(collection="observations", scope=Scope(tenant="other", session="theirs"))]
        await store.apply([Add(events), Add(others)])
        rare = [
            Record(collection="observations", scope=Scope(session="rare"), created_at=events[3].created_at)
        ]
        await store.apply([Add(rare)])
        listed, after = [], None
        while True:
            page, after = await sessions_page(store, Scope(), 40, after)
            listed += page
            if after is None:
                break
        assert [one.session for one in listed] == [*dict.fromkeys(names[::-1]), "rare"]
        counted = {one.name: one for one in await store.names("observations", "session", limit=1000)}
        assert {one.session: (one.events, one.first_at, one.last_at) for one in listed} == {
            name: (one.total, one.first, one.last) for name, one in counted.items()
        }


@pytest.mark.parametrize("after", ["x", "e30", "", "A" * 5000])
def test_a_cursor_that_no_answer_gave_is_refused(sqlite_server, after):
    with sqlite_server().client() as client:
        for path in (
            "/events",
            "/sessions",
            "/memory/user/lin/events",
            "/memory/user/lin/profile",
            "/memory/user/lin/logs",
        ):
            reply = client.get(path, params={"after": after})
            assert (reply.status_code, "after" in reply.json()["detail"]) == (422, True), path


def test_the_clients_read_all_pages(client):
    """Who asks for fifty gets fifty, however many pages they take; no more are read."""
    for n in range(20):
        client.post("/events", json={"session_key": "s", "obs_id": str(n), "payload": {"text": TEXT}})
        client.post("/memory/user/lin", json={"content": f"{n} {TEXT}", "memory_layer": "profile"})
    id_ = client.get("/memory/user/lin/profile").json()["memories"][0]["id"]
    for n in range(8):
        client.put(f"/memory/user/lin/profile/{id_}", json={"content": f"{n} {TEXT}"})
    base = str(client.base_url)
    with Client(base) as whole:
        assert [event.obs_id for event in whole.recent_events(limit=15)] == [str(n) for n in range(19, 4, -1)]
        assert len(whole.profile(user_id="lin")) == 20
        assert [row.version for row in whole.history(id_)] == list(range(1, 10))
        assert len(whole.logs(user_id="lin", limit=25)) == 25

    async def awaited():
        async with AsyncClient(base) as other:
            return await other.recent_events(limit=15), await other.history(id_)

    events, history = asyncio.run(awaited())
    assert (len(events), len(history)) == (15, 9)


@contextlib.contextmanager
def stuck(server):
    """A store that gives no answer: told when it is asked, and when nobody waits for the answer any more."""
    asked, left = threading.Event(), threading.Event()

    async def find_within(query, max_bytes):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    server.app.state.memories.assembled.store.find_within = find_within
    yield asked, left


def test_a_caller_who_goes_away_is_not_read_for(store_url, settings_of, serving):
    server = serving(settings_of(store_url("sqlite"), service={"timeout_seconds": 300}))
    with stuck(server) as (asked, left):
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert asked.wait(30)
            assert not left.is_set()
        assert left.wait(30), "the read went on without anybody who waits for it"


def test_a_read_that_took_too_long_is_not_gone_on_with(store_url, settings_of, serving):
    settings = settings_of(store_url("sqlite"), service={"timeout_seconds": 300}, request_seconds=0.5)
    server = serving(settings)
    with stuck(server) as (_, left), server.client() as client:
        assert client.get("/events").status_code == 504
        assert left.wait(30), "the read went on without anybody who waits for it"


MANY, LARGE, AT_ONCE = 300, 100_000, 8
MEGA = 2**20


def resident(pid, field):
    """How many bytes of a process are in memory now (VmRSS), or were at most (VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(field))


@sampled("kind", ["file", "sqlite", "postgres", "mysql", "redis"], share=2)
def test_eight_who_read_much_at_once_share_little_memory(kind, tmp_path, request):
    """Thirty megabytes of events, asked for by eight at once: each has a page in memory, none has all."""
    fresh = request.getfixturevalue("fresh_url") if kind in KINDS[3:] else None
    url = url_of(kind, tmp_path, fresh)

    async def fill():
        async with open_store(url) as store:
            for start in range(0, MANY, 50):
                body = {"obs_id": "o", "payload": {"text": "软件" * (LARGE // 6)}}
                scopes = [Scope(session=f"s{number % 10}") for number in range(start, start + 50)]
                await store.apply(
                    [Add([Record(collection="observations", scope=one, data=body) for one in scopes])]
                )

    asyncio.run(fill())

    def read(path):
        with httpx.stream("GET", base + path, timeout=300, trust_env=False) as reply:
            return reply.status_code, sum(len(part) for part in reply.iter_bytes(65536))

    with octavo_process(url, tmp_path, env=PATIENT) as (base, pid):
        for path in ("/events?limit=1000", "/sessions?limit=1"):
            replies = little_memory(pid, path, read, path)
            assert all(status == 200 and size < 5 * MEGA for status, size in replies)


PATIENT = {"OCTAVO__SERVICE__TIMEOUT_SECONDS": "300", "OCTAVO__SERVER__REQUEST_SECONDS": "300"}


def little_memory(pid, what, call, given):
    """What eight at once are answered; the server must not grow by more than a few pages of each."""
    call(given)
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # forget the peak so far
    before = resident(pid, "VmRSS")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as callers:
        replies = list(callers.map(call, [given] * AT_ONCE))
    grown = resident(pid, "VmHWM") - before
    # A page of four megabytes is there a few times over while it is read, and once while it is sent.
    assert grown < AT_ONCE * 12 * MEGA, f"{grown / MEGA:.0f} MiB more for {what}"
    return replies


@pytest.mark.parametrize("letter", ["x", "软", '"'])
def test_a_text_of_a_megabyte_is_kept_and_the_answer_says_how_much_was_read(sqlite_server, letter):
    """As much as `content` may have, whatever JSON makes of it: over HTTP and through the client."""
    text = "I am a nurse. "
    text += letter * ((MEGA - len(text)) // len(letter.encode()))
    told = f"only the first 20,000 of {len(text):,} characters were read for facts; the text is kept whole"
    with sqlite_server().client() as client, Client(str(client.base_url)) as other:
        reply = client.post("/memory/user/lin", json={"content": text, "auto_extract": True})
        assert (reply.status_code, reply.json()["note"]) == (200, told)
        assert other.extract(text, user_id="ann").note == told
        assert client.post("/memory/user/lin", json={"content": text}).status_code == 200
        longer = {"content": text + "xxx", "auto_extract": True}
        assert client.post("/memory/user/lin", json=longer).status_code == 422


def test_a_profile_that_changes_while_it_is_read_loses_nothing(client):
    """Each row that was there when reading began is read once, as it was then; what was deleted before is not."""
    body = {"memory_layer": "profile", "category": "preference"}
    made = [client.post("/memory/user/lin", json={"content": f"{n}", **body}).json()["id"] for n in range(8)]
    path = "/memory/user/lin/profile"
    assert client.delete(f"{path}/{made.pop(1)}").status_code == 200
    first = client.get(path, params={"limit": 3}).json()
    assert client.put(f"{path}/{made[0]}", json={"content": "changed"}).status_code == 200
    client.post("/memory/user/lin", json={"content": "new", **body})
    second = client.get(path, params={"limit": 3, "after": first["next"]}).json()
    assert client.put(f"{path}/{made[0]}", json={"content": "changed again"}).status_code == 200
    third = client.get(path, params={"limit": 3, "after": second["next"]}).json()
    read = [one for page in (first, second, third) for one in page["memories"]]
    assert [one["id"] for one in read] == made[::-1]
    assert read[-1]["content"] == "0"
    assert "next" not in third
