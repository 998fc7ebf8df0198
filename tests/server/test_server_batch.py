"""Several requests in one: each is answered as it would be alone, with the same access, quotas and checks."""

import asyncio
import json
import logging
import re

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from octavo.client import AsyncClient, Client
from octavo.config import Database, Server, Settings
from octavo.server import create_app
from octavo.server.problems import access_log

USER = "/memory/user/lin"
TEA = {"content": "drinks tea", "category": "other"}


def batch(client, *requests):
    """The answers to these requests, sent as one."""
    answered = client.post("/batch", json={"requests": list(requests)})
    assert answered.status_code == 200, answered.text
    told = answered.json()
    assert told["count"] == len(told["answers"]) == len(requests)
    return told["answers"]


def posted(path, body):
    return {"method": "POST", "path": path, "body": body}


def test_each_is_answered_in_order(sqlite_server):
    """A write is there for the read behind it, and one that fails does not stop the others."""
    with sqlite_server().client() as client:
        made, wrong, none, listed, event = batch(
            client,
            posted(USER, TEA),
            posted(USER, {"content": ""}),
            {"path": "/memory/nobody"},
            {"path": f"{USER}/events?limit=5&category=other"},
            posted("/events", {"session_key": "s", "payload": {"text": "你好"}}),
        )
        assert (made["status"], made["body"]["status"]) == (200, "success")
        assert (wrong["status"], wrong["body"]["code"]) == (422, "invalid")
        assert (none["status"], none["body"]["code"]) == (404, "not_found")
        assert [each["id"] for each in listed["body"]["memories"]] == [made["body"]["id"]]
        assert event["body"]["payload"] == {"text": "你好"}
        path = f"{USER}/event/{made['body']['id']}"
        changed, gone, after = batch(
            client,
            {"method": "PUT", "path": path, "body": {"content": "drinks coffee"}},
            {"method": "DELETE", "path": f"{path}?reason=记错了"},
            {"path": f"/memory/{made['body']['id']}/logs?limit=1"},
        )
        assert (changed["body"]["version"], gone["status"]) == (2, 200)
        assert after["body"]["logs"][0]["reason"] == "记错了"


@pytest.mark.parametrize(
    ("part", "status"),
    [
        ({"path": "/memory/user/李雷/profile"}, 200),
        ({"path": "/memory/user/a%2Fb/profile"}, 200),
        ({"path": "/memory/user/100%/profile"}, 200),
        ({"path": "/memory/user/%E6%9D%8E%E9%9B%B7/profile"}, 200),
        ({"path": "/events?session=a%26b&limit=3"}, 200),
        ({"path": "/events?session=李雷"}, 200),
        ({"path": "/events?limit=x"}, 422),
        ({"path": "/health"}, 200),
        ({"path": "/nothing"}, 404),
        ({"path": "/stats/"}, 404),
        ({"path": "/stats#part"}, 404),
        ({"method": "DELETE", "path": "/stats"}, 405),
        (posted(USER, None), 422),
        (posted(USER, []), 422),
        (posted(USER, {"content": "half \ud800"}), 422),
        (posted(USER, {"content": "x", "metadata": {"n": float("nan")}}), 422),
        ({"method": "POST", "path": USER}, 422),
        (posted("/memory/query", {"query": "tea", "user_id": "lin"}), 200),
    ],
)
def test_as_if_it_were_sent_alone(sqlite_server, part, status):
    """The same status and the same body."""
    with sqlite_server().client() as client:
        json_kind = {"Content-Type": "application/json"}
        whole = json.dumps({"requests": [part]}).encode()
        [inside] = client.post("/batch", content=whole, headers=json_kind).json()["answers"]
        said = {"content": json.dumps(part["body"]), "headers": json_kind} if "body" in part else {}
        alone = client.request(part.get("method", "GET"), part["path"].partition("#")[0], **said)
        assert inside["status"] == status
        if "#" not in part["path"]:  # which no client sends
            made = re.compile(r"\d+\.\d+")  # an id tells when it was made
            told, expected = (made.sub("…", json.dumps(each)) for each in (inside["body"], alone.json()))
            assert (told, alone.status_code) == (expected, status)


def test_the_page_for_people_is_a_text(sqlite_server):
    with sqlite_server().client() as client:
        [page] = batch(client, {"path": "/docs"})
        assert page["body"].startswith("<!doctype html>")


@pytest.mark.parametrize("path", ["/batch", "/%62atch", "/batch?x=1"])
def test_a_batch_holds_no_batch(sqlite_server, path):
    with sqlite_server().client() as client:
        inner = posted(path, {"requests": [posted(USER, TEA)]})
        [told] = batch(client, inner)
        assert (told["status"], told["body"]["code"]) == (422, "invalid")
        assert client.get(f"{USER}/events").json()["count"] == 0


def test_each_counts_as_a_request_of_its_key(store_url, settings_of, serving, new_key):
    """The parts that are too many are refused one by one; the others are done."""
    url = store_url("sqlite")
    key = new_key(url, "read").key
    with serving(settings_of(url, auth="on", requests_per_minute=10)).client(key) as client:
        told = batch(client, *[{"path": "/stats"}] * 12)
    statuses = [each["status"] for each in told]
    assert statuses == [200] * 9 + [429] * 3  # the batch itself is the first of the ten
    assert told[-1]["body"]["code"] == "too_many"


def test_a_batch_takes_one_place(sqlite_server):
    """Or one on a small server would be refused its own parts."""
    with sqlite_server(max_concurrent=1, max_connections=2).client() as client:
        assert [each["status"] for each in batch(client, {"path": "/stats"}, {"path": "/users"})] == [
            200,
            200,
        ]


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ([], "requests"),
        ([{"path": "/stats"}] * 6, "at most 5 requests (server.max_batch); got 6"),
        ([{"path": "stats"}], "must begin with /"),
        ([{"path": "http://other/stats"}], "must begin with /"),
        ([{"path": "/stats", "method": "PATCH"}], "method"),
        ([{"path": "/stats", "headers": {}}], "headers: is not known here"),
        ([{"path": "/" + "x" * 9000}], "8192"),
        (["/stats"], "requests.0"),
        (None, "requests"),
    ],
)
def test_what_is_no_batch(sqlite_server, requests, named):
    """Nothing of it is begun."""
    with sqlite_server(max_batch=5).client() as client:
        refused = client.post("/batch", json={"requests": requests})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        assert named in refused.json()["detail"]


def test_answers_that_take_too_much_room(sqlite_server):
    """What would come after them is not begun, and says so."""
    with sqlite_server(max_body_bytes=20_000).client() as client:
        for n in range(8):
            assert client.post(USER, json={**TEA, "content": f"{n} " + "x" * 9000}).status_code == 200
        read = {"path": f"{USER}/events?limit=1"}
        told = batch(client, read, read, read, posted(USER, TEA))
        assert [each["status"] for each in told] == [200, 200, 200, 413]
        assert told[-1]["body"]["code"] == "too_large"
        assert client.get(f"{USER}/events").json()["count"] == 8


def test_parts_that_there_is_no_time_for(sqlite_server, monkeypatch):
    """Those that were done are answered within the time of a request; the others say that they were not begun."""
    monkeypatch.setattr("octavo.server.routes.batch._TIME_SHARE", -1.0)
    with sqlite_server().client() as client:
        [told] = batch(client, posted(USER, TEA))
        assert (told["status"], told["body"]["code"]) == (504, "timeout")
        assert client.get(f"{USER}/events").json()["count"] == 0


def test_a_part_that_fails_is_one_answer(sqlite_server, monkeypatch, caplog):
    """The log says why, and the others are done."""

    async def broken(self):
        raise ZeroDivisionError

    server = sqlite_server()
    monkeypatch.setattr("octavo.server.app.TenantMemories.health", broken)
    with server.client() as client, caplog.at_level(logging.ERROR, "octavo.server"):
        told = batch(client, {"path": "/health"}, {"path": "/stats"})
    assert [each["status"] for each in told] == [500, 200]
    assert told[0]["body"]["code"] == "failed"
    assert "ZeroDivisionError" in caplog.text


def test_every_part_is_a_line_of_the_log(sqlite_server, caplog):
    with sqlite_server().client() as client, caplog.at_level(logging.INFO, access_log.name):
        client.headers["X-Request-ID"] = "r-1"
        batch(client, {"path": "/stats"}, {"path": "/memory/nobody"})
    lines = [record.args for record in caplog.records if record.name == access_log.name]
    assert [(line["route"], line["status"], line["request_id"]) for line in lines[:2]] == [
        ("/stats", 200, "r-1-1"),
        ("/memory/{memory_id}", 404, "r-1-2"),
    ]


async def test_inside_another_application(store_url, settings_of):
    """A part's path begins where the application does."""
    inner = create_app(settings_of(store_url("sqlite")))
    outer = Starlette(routes=[Mount("/octavo", app=inner)])
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/octavo") as client:
        parts = [{"path": "/stats"}, {"path": "/memory/user/a%2Fb/profile"}, {"path": "/octavo/stats"}]
        told = (await client.post("/batch", json={"requests": parts})).json()["answers"]
        assert [each["status"] for each in told] == [200, 200, 404]
        assert told[1]["body"]["user_id"] == "a/b"
    await inner.state.memories.close()


def test_the_clients_send_batches(sqlite_server):
    server = sqlite_server()
    requests = [posted(USER, TEA), {"path": "/memory/nobody"}]
    with Client(server.url) as client:
        made, none = client.batch(requests)
        assert (made.status, made.body["mode"], none.status) == (200, "direct", 404)

    async def awaited():
        async with AsyncClient(server.url) as client:
            return await client.batch([{"path": f"{USER}/events"}])

    [listed] = asyncio.run(awaited())
    assert listed.body["count"] == 1


def test_how_many_is_a_setting():
    settings = Settings(database=Database(dsn="memory://"), server=Server(max_batch=7))
    document = create_app(settings).openapi()
    assert document["components"]["schemas"]["Batch"]["properties"]["requests"]["maxItems"] == 7
