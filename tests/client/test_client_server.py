"""The client against a running server: every call, both ways of calling, keys, and names of any characters."""

import asyncio
import json
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from octavo.client import AsyncClient, Client, answers
from octavo.errors import AccessDenied, Conflict, InvalidQuery, InvalidRecord, NotFound, StoreUnavailable
from octavo.layers.values import Extracted, Fact, Found, LogEntry
from octavo.service.records import EventRecord, TurnRecord
from running_server import octavo_serves
from warm import programs


class Blocking:
    """An AsyncClient that is called as if it were the other: each call on one loop, waited for."""

    def __init__(self, url, **named):
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._made(url, named))

    async def _made(self, url, named):
        return AsyncClient(url, **named)

    def __getattr__(self, name):
        return lambda *args, **named: self._runner.run(getattr(self._client, name)(*args, **named))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server that needs no key."""
    folder = tmp_path_factory.mktemp("client")
    with octavo_serves(f"sqlite:///{folder}/memory.db", folder, "--quiet") as url:
        yield url


@pytest.fixture(params=[Client, Blocking], ids=["blocking", "async"])
def client(request, served, monkeypatch):
    for name in ("OCTAVO_SERVER", "OCTAVO_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with request.param(served) as opened:
        opened.kind = request.param.__name__
        yield opened


@pytest.fixture
def user(request):
    """A user of this test alone."""
    return re.sub(r"\W", "-", request.node.name)


def test_a_memory_from_its_making_to_its_end(client, user):
    made = client.remember(
        "用户是一名软件工程师", user_id=user, layer="profile", metadata={"a": 1}, reason="他说的"
    )
    assert (made.status, made.layer, made.category) == ("success", "profile", "career")
    (memory,) = client.profile(user_id=user)
    assert type(memory) is Fact
    assert (memory.id, memory.content, memory.metadata) == (made.id, "用户是一名软件工程师", {"a": 1})
    assert memory.created_at == made.created_at
    assert memory.created_at.tzinfo is not None
    before = datetime.now(UTC)

    revised = client.revise(
        made.id, user_id=user, layer="profile", content="用户是一名高级软件工程师", reason="升职"
    )
    assert (revised.version, revised.content, revised.metadata) == (2, "用户是一名高级软件工程师", {"a": 1})
    assert client.profile(user_id=user, as_of=before) == [memory]
    [then, *_] = client.search("软件工程师", user_id=user, as_of=before)
    assert then.text == "用户是一名软件工程师"
    assert "高级" not in client.context("软件工程师", user_id=user, as_of=before).text
    dry = client.undo_all(user_id=user, since=before, dry_run=True)
    assert ([row.version for row in dry.changes], dry.dry_run) == ([2], True)
    got = client.get(made.id)
    assert msgspec.convert(got, Fact, from_attributes=True) == revised
    assert [row.action for row in got.history] == ["insert", "update"]
    assert client.history(made.id) == got.history
    assert client.logs(made.id) == got.history[::-1]
    assert [row.reason for row in client.logs(user_id=user, action="update")] == ["升职"]

    undone = client.undo(got.history[-1].id, reason="错了")
    assert type(undone) is LogEntry
    assert (undone.reason, client.profile(user_id=user)[0].content) == ("错了", "用户是一名软件工程师")
    with pytest.raises(Conflict):
        client.undo(got.history[0].id)

    client.forget(made.id, user_id=user, layer="profile", forever=True)
    assert client.extract("他是一名软件工程师", user_id=user).inserted == 0
    client.allow(made.id, user_id=user)
    with pytest.raises(NotFound):
        client.allow(made.id, user_id=user)
    client.undo(client.logs(made.id, limit=1)[0].id)

    gone = client.forget(made.id, user_id=user, layer="profile", reason="不需要了")
    assert (gone.id, gone.content) == (made.id, "用户是一名软件工程师")
    assert client.profile(user_id=user) == []
    assert client.logs(made.id, limit=1)[0].reason == "不需要了"
    for lost in (
        lambda: client.get(made.id),
        lambda: client.history(made.id),
        lambda: client.forget(made.id, user_id=user, layer="profile"),
    ):
        with pytest.raises(NotFound):
            lost()


def test_events_and_time(client, user):
    at = datetime.now(UTC)
    for number in range(3):
        client.remember(f"参加了第 {number} 次例会", agent_id=user, ttl_seconds=3600)
    listed = client.events(agent_id=user, limit=2)
    assert [each.content for each in listed] == ["参加了第 2 次例会", "参加了第 1 次例会"]
    assert all(each.expiry_date > at for each in listed)
    assert client.events(agent_id=user, since=at, until=at + timedelta(days=1), category="meeting")
    assert client.events(agent_id=user, until=at) == []
    later = client.revise(listed[0].id, agent_id=user, layer="event", expiry_date=None, is_permanent=True)
    assert (later.expiry_date, later.is_permanent, later.content) == (None, True, listed[0].content)


def test_extraction_and_questions(client, user):
    made = client.extract("他是一名软件工程师，毕业于北京大学。", user_id=user)
    assert type(made) is Extracted
    assert (made.inserted, made.profile_count, made.ignored) == (2, 2, 0)
    assert client.extract("他毕业于北京大学。", user_id=user).ignored == 1
    found = client.query("北京大学", user_id=user, layer="profile", top_k=1)
    assert [type(each) for each in found] == [Found]
    assert "北京大学" in found[0].memory.content
    assert type(found[0].memory) is Fact
    assert found[0].memory in client.profile(user_id=user)


def test_a_search_belongs_to_somebody(client, user):
    client.remember(f"{user} drinks green tea", user_id=user, category="preference", layer="profile")
    with pytest.raises(InvalidQuery, match="give user_id or agent_id"):
        client.query(f"{user} tea")
    assert user in {found.memory.entity_id for found in client.query(f"{user} tea", everyone=True)}


def test_observations(client, user):
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    event = client.append_event(
        {"text": "我对花生过敏"}, session=user, actor="lin", obs_id="o1", timestamp=at, meta={"m": 1}
    )
    assert (event.session_key, event.payload, event.timestamp) == (user, {"text": "我对花生过敏"}, at)
    assert client.append_event({"text": "我对花生过敏"}, session=user, obs_id="o1").event_id == event.event_id
    assert [each.event_id for each in client.recent_events(user)] == [event.event_id]
    assert event.event_id in [each.event_id for each in client.recent_events(limit=1000)]
    whose = f"the user of {user}"
    own = client.append_event({"text": "hi"}, session=f"{user}-2", actor="phone", user_id=whose)
    assert (own.user_id, client.recent_events(user_id=whose)) == (whose, [own])
    assert user in [each.session for each in client.sessions()]
    assert client.turns(user) == []


def test_upkeep(client):
    assert client.health().status == "ok"
    assert client.stats().profile.total >= 0
    assert client.queue()["waiting"] == 0
    assert client.replay().waiting == 0
    assert "dsn" in client.config()["database"]


@pytest.mark.parametrize(
    "name",
    ["a/b", "..", ".", "a b", "林", "100%", "%2F", "a?b#c", "a+b", "é&=;", "profile", "logs", '"', "a\\b"],
)
def test_names_of_any_characters(client, name):
    """What goes in as a name comes back as one."""
    made = client.remember("喜欢喝茶", user_id=name, layer="profile", metadata={"by": client.kind})
    mine = [each for each in client.profile(user_id=name) if each.id == made.id]
    assert [each.entity_id for each in mine] == [name]
    assert client.get(made.id).entity_id == name
    assert client.forget(made.id, user_id=name, layer="profile").id == made.id


def test_mistakes_are_the_same_errors_as_without_a_server(client, user):
    with pytest.raises(InvalidRecord, match="content"):
        client.remember(" ", user_id=user)
    with pytest.raises(InvalidRecord, match="meeting"):
        client.remember("a", user_id=user, layer="profile", category="meeting")
    with pytest.raises(InvalidQuery, match="limit"):
        client.events(user_id=user, limit=-1)
    with pytest.raises(InvalidQuery):
        client.query("", user_id=user)
    with pytest.raises(NotFound):
        client.revise("nothing", user_id=user, layer="event", content="a")
    with pytest.raises(InvalidRecord, match="1,048,576"):
        client.remember("a" * 1_048_577, user_id=user)


def test_a_server_without_its_store(tmp_path):
    """A new memory waits on the server's disk; a question says that it cannot be answered."""
    down = "postgresql://octavo:s3cret-word@127.0.0.1:1/octavo"
    with octavo_serves(down, tmp_path, "--quiet") as url, Client(url, retries=0) as client:
        assert client.remember("喜欢喝茶", user_id="u", layer="profile").status == "queued"
        assert client.health().status == "degraded"
        with pytest.raises(StoreUnavailable) as caught:
            client.profile(user_id="u")
        assert "s3cret-word" not in str(caught.value)


def test_keys(tmp_path, monkeypatch):
    """With keys: none and a wrong one are refused, each access does what it may, each tenant sees its own."""
    monkeypatch.delenv("OCTAVO_API_KEY", raising=False)
    store = f"sqlite:///{tmp_path}/memory.db"

    def key(*more):
        command = [
            f"{programs()}/octavo",
            "keys",
            "create",
            "test",
            "-q",
            "--store",
            store,
            *more,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    reader, writer, admin = key(), key("--access", "write"), key("--access", "admin")
    other = key("--access", "write", "--tenant", "acme")
    with octavo_serves(store, tmp_path, "--quiet", env={"OCTAVO__SERVER__AUTH": "on"}) as url:
        for wrong in (None, "oct_no", f"{reader[:-1]}z"):
            with Client(url, api_key=wrong) as client:
                assert client.health().status == "ok"
                with pytest.raises(AccessDenied):
                    client.profile(user_id="u")
        with Client(url, api_key=writer) as client:
            client.remember("喜欢喝茶", user_id="u", layer="profile")
            with pytest.raises(AccessDenied, match="admin"):
                client.config()
        with Client(url, api_key=reader) as client:
            assert len(client.profile(user_id="u")) == len(client.query("喝茶", user_id="u")) == 1
            with pytest.raises(AccessDenied, match="write"):
                client.remember("喜欢喝咖啡", user_id="u")
        with Client(url, api_key=other) as client:
            assert client.profile(user_id="u") == []
        command = [f"{programs()}/octavo", "keys", "revoke", reader, "--store", store]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        with Client(url, api_key=reader) as client, pytest.raises(AccessDenied, match="revoked"):
            for _ in range(600):  # another process has revoked it: the server learns of it by itself
                client.profile(user_id="u")
                time.sleep(0.1)
        monkeypatch.setenv("OCTAVO_API_KEY", admin)
        with Client(url) as client:
            assert client.queue()["waiting"] == 0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (answers.Event, EventRecord),
        (answers.Turn, TurnRecord),
    ],
    ids=lambda each: each.__name__,
)
def test_the_answers_are_the_servers(ours, theirs):
    """Whatever the client reads, the server says; the other answers are the very same structs."""
    said = {each.encode_name for each in msgspec.structs.fields(theirs)}
    read = {each.encode_name for each in msgspec.structs.fields(ours)}
    assert read <= said
    assert said - read <= {"written"}


def test_every_route_has_its_call():
    """A route that the client cannot reach is one that its users do not have."""
    source = "".join(path.read_text() for path in (Path(answers.__file__).parent).glob("client.py"))
    from octavo.config import Settings
    from octavo.server import create_app

    paths = set(create_app(Settings()).openapi()["paths"])
    assert len(paths) >= 15
    plain = {re.sub(r"\{[^}]*\}", "{}", path) for path in paths}
    written = set(re.findall(r'"(/[^"]*)"', re.sub(r"\{[^}]*\}", "{}", source)))
    owned = {
        f"/memory/{{}}/{{}}{tail}"
        for tail in ("", "/profile", "/events", "/logs", "/undo", "/allow/{}", "/{}/{}")
    }
    # The events of a session are also /events?session=, which is the one that is called.
    # Supervisors and load balancers ask for the probes.
    probes = {"/health/live", "/health/ready"}
    assert plain - written - owned == {"/sessions/{}/events", *probes}
    assert callable(Client.recent_events)


def test_everything_of_a_user(client, user, tmp_path):
    """The lines are those of an export, and the page is for people; of nobody there is nothing."""
    client.remember("用户喜欢喝绿茶", user_id=user, layer="profile")
    size = client.export(tmp_path / "all.jsonl", user_id=user)
    lines = (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
    assert size == (tmp_path / "all.jsonl").stat().st_size
    assert [json.loads(line).get("collection") for line in lines] == [None, "profile", "log", None]
    client.export(tmp_path / "all.md", user_id=user, page=True)
    assert "用户喜欢喝绿茶" in (tmp_path / "all.md").read_text("utf-8")
    client.export(tmp_path / "none.jsonl", user_id="nobody at all")
    assert len((tmp_path / "none.jsonl").read_text().splitlines()) == 2
