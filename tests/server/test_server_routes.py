"""What each route answers, on each kind of database."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from octavo.client import Client
from octavo.service import MemoryService
from serving import bring_same_id

USER = "/memory/user/user123"
CAREER = "用户是一名软件工程师，毕业于北京大学"


def posted(client, path=USER, **body):
    answered = client.post(path, json=body)
    assert answered.status_code == 200, answered.text
    return answered.json()


def test_a_memory_is_kept_as_it_stands(client):
    made = posted(client, content=CAREER, memory_layer="profile")
    assert (made["status"], made["mode"], made["layer"]) == ("success", "direct", "profile")
    assert made["id"].startswith("user_user123_")
    assert datetime.fromisoformat(made["created_at"]).utcoffset() == timedelta(0)
    other = posted(client, content="用户今天下午参加了技术分享会", is_permanent=False)
    assert (other["layer"], other["category"]) == ("event", "meeting")

    profile = client.get(f"{USER}/profile").json()
    assert {name: profile[name] for name in ("user_id", "layer", "count")} == {
        "user_id": "user123", "layer": "profile", "count": 1,
    }  # fmt: skip
    [memory] = profile["memories"]
    assert (memory["id"], memory["content"], memory["version"]) == (made["id"], CAREER, 1)
    assert memory["is_permanent"] is True
    events = client.get(f"{USER}/events?limit=50").json()
    assert (events["layer"], events["count"], events["memories"][0]["id"]) == ("event", 1, other["id"])


def test_a_text_is_split_into_facts(client):
    text = "用户今天告诉我他是一名软件工程师，毕业于北京大学。他下午参加了技术分享会。"
    made = posted(client, content=text, auto_extract=True)
    assert (made["mode"], made["status"]) == ("auto_extract", "success")
    assert made["total_extracted"] == made["inserted"] == len(made["memories"]) == 3
    assert (made["profile_count"], made["event_count"]) == (2, 1)
    for fact in made["memories"]:
        assert client.get(f"/memory/{fact['id']}").json()["sources"] == [made["source_id"]]
    sources = client.get("/events", params={"session": "memory:user:user123"}).json()["events"]
    assert [event["event_id"] for event in sources] == [made["source_id"]]
    again = posted(client, content=text, auto_extract=True)
    assert (again["inserted"], again["ignored"]) == (0, again["total_extracted"])


def test_change_look_back_and_undo(client):
    made = posted(client, content=CAREER, memory_layer="profile")
    path = f"{USER}/profile/{made['id']}"
    before = datetime.now(UTC).isoformat()
    changed = client.put(path, json={"content": "用户是一名高级软件工程师", "reason": "补充了职级"}).json()
    assert (changed["content"], changed["version"]) == ("用户是一名高级软件工程师", 2)
    then = client.get(f"{USER}/profile", params={"as_of": before}).json()
    assert [memory["content"] for memory in then["memories"]] == [CAREER]

    whole = client.get(f"/memory/{made['id']}").json()
    assert [row["action"] for row in whole["history"]] == ["insert", "update"]
    assert whole["history"][1]["reason"] == "补充了职级"
    logs = client.get(f"/memory/{made['id']}/logs?memory_layer=profile").json()
    assert (logs["memory_id"], logs["count"]) == (made["id"], 2)
    assert [row["action"] for row in logs["logs"]] == ["update", "insert"]

    undone = client.post(f"/memory/logs/{logs['logs'][0]['id']}/undo", json={"reason": "记错了"}).json()
    assert (undone["action"], undone["version"], undone["reason"]) == ("update", 3, "记错了")
    assert client.get(f"/memory/{made['id']}").json()["content"] == CAREER
    late = client.post(f"/memory/logs/{logs['logs'][0]['id']}/undo")
    assert late.status_code == 409
    assert undone["id"] in late.json()["detail"]


def test_forget(client):
    made = posted(client, content="用户下午参加了会议")
    path = f"{USER}/event/{made['id']}"
    gone = client.delete(path, params={"reason": "不再需要"})
    assert (gone.status_code, gone.json()["id"]) == (200, made["id"])
    assert client.get(f"/memory/{made['id']}").status_code == 404
    assert client.delete(path).status_code == 404
    rows = client.get(f"{USER}/logs").json()
    assert (rows["user_id"], rows["count"]) == ("user123", 2)
    assert rows["logs"][0]["reason"] == "不再需要"
    assert client.get(f"/memory/{made['id']}/logs?limit=1").json()["logs"][0]["action"] == "delete"
    assert client.get(f"{USER}/logs?action=insert").json()["count"] == 1


def test_expiry(client):
    gone = posted(client, content="一会儿就忘", ttl_seconds=0.001)
    posted(client, content="以后再忘", expiry_date="2100-01-01T00:00:00+08:00")
    [kept] = client.get(f"{USER}/events").json()["memories"]
    assert kept["expiry_date"] == "2099-12-31T16:00:00Z"
    assert client.get(f"/memory/{gone['id']}").status_code == 404
    assert client.get("/stats").json()["event"]["total"] == 1
    path = f"{USER}/event/{kept['id']}"
    assert client.put(path, json={"expiry_date": None}).json()["expiry_date"] is None


def test_query(client):
    career = posted(client, content=CAREER, memory_layer="profile")
    posted(client, content="用户喜欢喝绿茶", memory_layer="profile")
    posted(client, "/memory/user/other", content="北京大学的校友会", memory_layer="event")
    found = client.post("/memory/query", json={"query": "北京大学", "user_id": "user123"}).json()
    assert found["query"] == "北京大学"
    assert [memory["id"] for memory in found["memories"]] == [career["id"]]
    assert found["count"] == 1
    assert found["memories"][0]["score"] > 0
    everyone = {"query": "北京大学", "everyone": True}
    assert client.post("/memory/query", json=everyone).json()["count"] == 2
    only = client.post("/memory/query", json={**everyone, "layer": "event", "top_k": 5}).json()
    assert [memory["entity_id"] for memory in only["memories"]] == ["other"]


def test_a_search_belongs_to_somebody(client):
    """A question that names nobody is 422 with a sentence, and shows nothing of anybody."""
    posted(client, content=CAREER, memory_layer="profile")
    for nobody in ({}, {"user_id": None}, {"everyone": False}, {"layer": "profile"}):
        refused = client.post("/memory/query", json={"query": "北京大学", **nobody})
        assert refused.status_code == 422
        assert 'give user_id or agent_id, or "everyone": true' in refused.json()["detail"]
        assert CAREER not in refused.text
    both = client.post("/memory/query", json={"query": "x", "user_id": "user123", "everyone": True})
    assert (both.status_code, "not both" in both.json()["detail"]) == (422, True)


def test_events_sessions_and_turns(client):
    event = {"session_key": "dm:lin/1", "payload": {"text": "我对花生过敏"}, "obs_id": "o1", "actor": "lin"}
    first = client.post("/events", json=event).json()
    assert (first["status"], first["payload"]) == ("stored", {"text": "我对花生过敏"})
    assert client.post("/events", json=event).json()["event_id"] == first["event_id"]
    client.post("/events", json={"session_key": "room", "obs_type": "alert", "payload": {"message": "hot"}})
    assert client.get("/events").json()["count"] == 2
    assert [e["obs_type"] for e in client.get("/events?limit=1").json()["events"]] == ["alert"]
    assert client.get("/events", params={"session": "dm:lin/1"}).json()["events"] == [first]
    assert (first["user_id"], client.get("/events?user_id=lin").json()["events"]) == ("lin", [first])
    ann = client.post("/events", json={**event, "obs_id": "o2", "session_key": "s", "user_id": "ann"}).json()
    assert client.get("/events?user_id=ann").json()["events"] == [ann]
    assert client.get("/events?user_id=ann&session=room").json()["count"] == 0
    client.post("/events", json={"session_key": "room", "payload": {"message": "hotter"}})
    session = quote("dm:lin/1", safe="")
    assert client.get(f"/sessions/{session}/events").json()["events"] == [first]
    assert client.get(f"/sessions/{session}/turns").json() == {"session": "dm:lin/1", "count": 0, "turns": []}
    sessions = client.get("/sessions").json()
    assert [(each["session"], each["events"]) for each in sessions["sessions"]] == [
        ("room", 2),
        ("s", 1),
        ("dm:lin/1", 1),
    ]
    assert client.get("/sessions?limit=1").json()["count"] == 1


@pytest.mark.parametrize(
    "field", ["evidence", "quality_flags", "confidence", "tags", "source_kind", "received_at"]
)
def test_a_field_of_an_event_that_is_not_known_is_named(sqlite_server, field):
    """It is refused rather than left out: nothing of what a caller sends is lost without a word."""
    with sqlite_server().client() as client:
        refused = client.post("/events", json={"session_key": "s", "payload": {}, field: "x"})
        assert refused.status_code == 422
        assert field in refused.json()["detail"]
        assert client.get("/events").json()["count"] == 0


def test_an_event_is_answered_whole(tmp_path, settings_of, serving):
    """Fields that a program of the same store gave beside the known ones are told to HTTP callers too."""
    settings = settings_of(f"sqlite:///{tmp_path}/octavo.db")
    with MemoryService.from_settings(settings) as memory:
        memory.append_event({"obs_type": "alert", "payload": {}, "confidence": 0.5}, "s")
    url = serving(settings).url
    with Client(url) as client:
        [event] = client.recent_events("s")
    assert event.extra == {"confidence": 0.5}


def test_numbers_and_settings(client):
    posted(client, content=CAREER, memory_layer="profile", category="career")
    stats = client.get("/stats").json()
    assert stats["profile"]["by_kind"] == {"career": 1}
    assert stats["logs"]["by_kind"] == {"insert": 1}
    assert stats["event"] == {"total": 0, "by_kind": {}, "first_at": None, "last_at": None}
    health = client.get("/health").json()
    assert (health["status"], health["store"], health["waiting"]) == ("ok", "up", 0)
    queue = client.get("/queue").json()
    assert (queue["state"], queue["waiting"]) == ("up", 0)
    assert client.post("/queue/replay").json() == {"replayed": 0, "waiting": 0}
    shown = client.get("/config").json()["sections"]
    assert shown["server"]["max_body_bytes"] == 7_340_032
    assert ":octavo@" not in shown["database"]["dsn"]


@pytest.mark.parametrize("name", ["李雷", "a/b", "%2F", "a b?c#d", "..x", "🍵", "'; DROP TABLE x; --"])
def test_an_id_may_be_any_text(sqlite_server, name):
    with sqlite_server().client() as client:
        path = f"/memory/user/{quote(name, safe='')}"
        made = posted(client, path, content="likes tea", memory_layer="profile")
        assert client.get(f"{path}/profile").json()["user_id"] == name
        own = f"{path}/profile/{quote(made['id'], safe='')}"
        assert client.put(own, json={"content": "likes coffee"}).json()["entity_id"] == name
        assert client.get(f"/memory/{quote(made['id'], safe='')}/logs").json()["count"] == 2


@pytest.mark.parametrize(
    "path", ["/memory/user/%E9/profile", "/memory/user/a%2F%E9/profile", "/users?after=%E9"]
)
def test_an_address_that_is_no_utf8_is_refused(sqlite_server, path):
    """Or all names of Latin-1 would be one: each such byte is read as the same character."""
    with sqlite_server().client() as client:
        answered = client.get(path)
        assert (answered.status_code, answered.json()["code"]) == (422, "invalid")


def test_a_plus_in_an_address_is_a_space(sqlite_server):
    with sqlite_server().client() as client:
        refused = client.get("/memory/user/lin/profile?as_of=2026-01-01T00:00:00+08:00")
        assert (refused.status_code, "%2B" in refused.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "content"),
        ({"content": ""}, "content"),
        ({"content": " \n"}, "content"),
        ({"content": "x" * 1_048_577}, "content"),
        ({"content": "好" * 350_000}, "1,048,576 bytes"),
        ({"content": "a\0b"}, "NUL"),
        ({"content": "x", "memory_layer": "events"}, "memory_layer"),
        ({"content": "x", "memory_layer": "event", "category": "career"}, "category"),
        ({"content": "x", "tags": []}, "tags"),
        ({"content": "x", "is_permanent": "yes"}, "is_permanent"),
        ({"content": "x", "ttl_seconds": 0}, "ttl_seconds"),
        ({"content": "x", "ttl_seconds": 5, "expiry_date": "2100-01-01"}, "not both"),
        ({"content": "x", "expiry_date": "tomorrow"}, "expiry_date"),
        ({"content": "x", "expiry_date": "9999-12-31T23:59:59-14:00"}, "expiry_date"),
        ({"content": "x", "expiry_date": 5}, "expiry_date"),
        ({"content": "x", "auto_extract": True, "category": "career"}, "auto_extract"),
        (
            {"content": "x", "auto_extract": True, "memory_layer": "profile"},
            "memory_layer is decided for each",
        ),
        ({"contnet": "x"}, "contnet: is not known here; did you mean content?"),
        ({"content": "x", "metadata": {"a": float("inf")}}, "metadata holds inf, which JSON cannot say"),
        ({"content": "x", "expiry_date": "2001-01-01"}, "is in the past; give a time to come"),
    ],
)
def test_what_does_not_fit_is_named(sqlite_server, body, named):
    with sqlite_server().client() as client:
        refused = client.post(
            USER, content=json.dumps(body), headers={"content-type": "application/json"}
        )  # which spells what JSON cannot say
        assert refused.status_code == 422
        assert named in refused.json()["detail"]
        assert "record" not in refused.json()["detail"]
        assert client.get(f"{USER}/logs").json()["count"] == 0


def test_bodies_that_cannot_be_read(sqlite_server):
    with sqlite_server().client() as client:
        as_json = {"Content-Type": "application/json"}
        for body, status in (
            (b'{"content": ', 400),
            (b'{"content": "x"} and more', 400),
            (b"not JSON", 400),
            (b'{"content": "\\ud800"}', 422),
            (b'{"content": "x", "metadata": {"n": NaN}}', 422),
            (b'{"content": "x", "metadata": {"\\udfff": 1}}', 422),
            (b'{"content": "x", "\\udfff": 1}', 422),
            (b'{"content": "\xff"}', 400),
            (b'{"content": "x", "content": "y"}', 400),
            (b'{"content": "x", "metadata": {"n": [{"a": 1, "b": 2, "a": 3}]}}', 400),
            (b"[" * 100_000, 400),
            (b'{"content": "x", "metadata": ' + b'{"a":' * 100 + b"1" + b"}" * 101, 422),
            (b"", 422),
        ):
            answered = client.post(USER, content=body, headers=as_json)
            code = "invalid" if status == 422 else "unreadable"
            assert (answered.status_code, answered.json().get("code")) == (status, code), body[:40]
        assert (
            "at character 12" in client.post(USER, content=b'{"content": ', headers=as_json).json()["detail"]
        )
        twice = client.post(USER, content=b'{"content": "x", "content": "y"}', headers=as_json)
        assert twice.json()["detail"] == "the body names 'content' twice in one object; keep one"
        for form in client.post(USER, data={"content": "x"}), client.post(USER, content=b'{"content": "x"}'):
            assert form.status_code == 415
            assert "application/json" in form.json()["detail"]
        assert client.get(f"{USER}/events").json()["count"] == 0


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (f"{USER}/profile?limit=-1", "got '-1'"),
        (f"{USER}/events?limit=x", "got 'x'"),
        (f"{USER}/events?limt=5", "limt: is not known here; did you mean limit?"),
        (f"{USER}/events?limit=5&limit=50", "limit: is given twice; keep one"),
        (f"{USER}/events?since=yesterday", "2026-01-31T12:00:00Z; got 'yesterday'"),
        (f"{USER}/profile?category=meeting", "'meeting'"),
        (f"/memory/user/{'x' * 256}/profile", "entity_id"),
        ("/memory/user/%00/profile", "NUL"),
        ("/memory/x/logs?memory_layer=events", "'profile' or 'event'; got 'events'"),
        ("/sessions?limit=1001", "1000; got '1001'"),
    ],
)
def test_parameters_that_do_not_fit(sqlite_server, path, named):
    """The value is named with what would do, unless it may be personal."""
    with sqlite_server().client() as client:
        refused = client.get(path)
        assert refused.status_code == 422
        assert named in refused.json()["detail"]


def test_a_change_that_says_nothing(sqlite_server):
    with sqlite_server().client() as client:
        made = posted(client, content=CAREER, memory_layer="profile")
        path = f"{USER}/profile/{made['id']}"
        for body in (None, {}, {"reason": "why"}, {"content": None}, {"content": " "}, {"id": "x"}):
            assert client.put(path, json=body).status_code == 422, body
        assert client.put(path).status_code == 422
        assert client.get(f"/memory/{made['id']}").json()["version"] == 1


def test_what_has_a_body_takes_no_parameters(sqlite_server):
    """A reason in the address would be lost without a word."""
    with sqlite_server().client() as client:
        refused = client.post(f"{USER}?reason=x", json={"content": "tea", "category": "other"})
        assert refused.status_code == 422
        assert refused.json()["detail"] == "reason: is not known here; leave it out"
        assert client.get(f"{USER}/logs").json()["count"] == 0


def test_head_is_answered_as_get_is(sqlite_server):
    """Whoever watches a server asks so; what sends the answer leaves the body out."""
    with sqlite_server().client() as client:
        for path in ("/health", f"{USER}/profile", "/docs", "/metrics"):
            asked, told = client.head(path), client.get(path)
            assert (asked.status_code, asked.headers["content-type"]) == (200, told.headers["content-type"])
        assert client.head("/search").status_code == 405
        assert client.head("/memory/user_nobody_1.1").status_code == 404


def test_what_there_is_not(sqlite_server):
    with sqlite_server().client() as client:
        assert client.get("/nothing").json() == {
            "detail": "there is no such path; /docs lists what there is", "code": "not_found",
        }  # fmt: skip
        assert client.get(f"{USER}/profile/").status_code == 404
        assert client.get("/memory/robot/x/profile").status_code == 404
        refused = client.post("/stats")
        assert (refused.status_code, refused.json()["detail"]) == (405, "this path takes GET")
        assert client.delete("/events").headers["allow"] == "GET, POST"
        assert client.post("/memory/some_id/logs").headers["allow"] == "GET"
        assert client.get("/memory/user_nobody_1.1").status_code == 404
        assert client.get("/memory/user_nobody_1.1/logs").json() == {
            "memory_id": "user_nobody_1.1", "count": 0, "logs": [],
        }  # fmt: skip
        assert client.post("/memory/logs/log_x_1/undo").status_code == 404


def test_without_a_failure_queue(store_url, settings_of, serving):
    settings = settings_of(store_url("sqlite"), queue={"enabled": False})
    with serving(settings).client() as client:
        assert client.get("/queue").status_code == 404
        assert "failure_queue" in client.post("/queue/replay").json()["detail"]
        assert client.get("/health").json()["status"] == "ok"


def test_an_id_that_two_users_brought_along(sqlite_server, store_url, tmp_path):
    """An id that came with an import is unique only within its user: who names none is told whose there are."""

    asyncio.run(bring_same_id(store_url("sqlite"), tmp_path))
    with sqlite_server().client() as client:
        both = "the id '1' belongs to user 'm0' and user 'm1': give the user or agent that is meant"
        for path in ("/memory/1", "/memory/1/logs"):
            refused = client.get(path)
            assert (refused.status_code, refused.json()["detail"]) == (422, both)
            assert client.get(f"{path}?user_id=m1").status_code == 200
        assert client.get("/memory/1?user_id=m1").json()["content"] == "m1 sews"
        assert client.delete("/memory/user/m0/profile/1").status_code == 200
        assert client.delete("/memory/user/m1/profile/1").status_code == 200
        row = client.get("/memory/1/logs?user_id=m1").json()["logs"][0]["id"]
        assert client.post(f"/memory/logs/{row}/undo").status_code == 422
        assert client.post(f"/memory/logs/{row}/undo?user_id=m1").json()["action"] == "insert"
        left = client.get("/memory/1").json()  # by now of one user, and with his history alone
        assert (left["entity_id"], len(left["history"])) == ("m1", 3)
        assert client.get("/memory/1?user_id=m1&agent_id=x").status_code == 422


def test_a_session_is_somebodys(sqlite_server):
    """Sessions of two users may have one name: who names no user is told to, and sees nothing of theirs."""
    with sqlite_server().client() as client:
        said = {"session_key": "s", "payload": {"text": "I took the ferry to Bari"}, "user_id": "lin"}
        assert client.post("/events", json=said).status_code == 200
        refused = client.post("/search", json={"query": "ferry"}).json()["detail"]
        assert "give user_id or agent_id, with session_id for one of their sessions" in refused
        assert client.post("/search", json={"query": "ferry", "session_id": "s"}).json()["count"] == 0
        found = client.post("/search", json={"query": "ferry", "session_id": "s", "user_id": "lin"}).json()
        assert found["count"]
