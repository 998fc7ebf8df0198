"""A database that really goes away: reads say so, direct writes wait on disk, and all is well when it is back."""

import asyncio
import time

import pytest

from octavo.errors import StoreUnavailable
from octavo.keys import Keys
from octavo.stores.sql import store as sqlite_store
from octavo.wraps.journal import log
from octavo.wraps.journal.delivery import PROBES
from sampled import sampled
from servers import fresh, running

USER = "/memory/user/lin"
PATIENCE = 60  # seconds


def eventually(ask, expected):
    ends = time.monotonic() + PATIENCE
    while (got := ask()) != expected:
        assert time.monotonic() < ends, f"still {got}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def own_postgres():
    """A server that only these tests use."""
    with running("postgres", durable=True) as server:
        yield server


@pytest.fixture
def database(own_postgres):
    """That server, up."""
    own_postgres.start()  # a test that failed may have left it stopped
    return own_postgres


@sampled("auth", ["on", "off"], share=2)
def test_an_outage(database, settings_of, serving, new_key, auth):
    with fresh("postgres", database.url) as url:
        settings = settings_of(
            url,
            auth=auth,
            queue={"backoff_max_seconds": 0.2},
            service={"timeout_seconds": 4.0},
        )
        key = new_key(url, "admin", settings.service.tenant).key
        with serving(settings).client(key) as client:

            def post(content):
                return client.post(USER, json={"content": content, "category": "other"}).json()

            eventually(lambda: client.get(f"{USER}/events").status_code, 200)  # the tables are there
            first = post("before")
            assert first["status"] == "success"
            assert client.get(f"{USER}/events").json()["count"] == 1
            database.stop()
            queued = post("while it is away")
            assert queued["status"] == "queued"
            read = client.get(f"{USER}/events")
            assert read.status_code == 503
            assert int(read.headers["retry-after"]) >= 1
            assert "octavo:" not in read.text  # no password
            change = client.put(f"{USER}/event/{first['id']}", json={"content": "x"})
            assert change.status_code == 503
            health = client.get("/health")
            assert (health.status_code, health.json()["status"]) == (200, "degraded")
            assert health.json()["waiting"] >= 1
            if auth == "off":  # nobody knows whether a key is still good: it may write, and soon nothing else
                waiting = client.get("/queue").json()
                assert (waiting["state"], waiting["waiting"] >= 1) == ("down", True)
                assert client.post("/queue/replay").json()["replayed"] == 0
            else:
                eventually(lambda: client.get("/queue").status_code, 503)
                assert post("still let in to write")["status"] == "queued"
            database.start()
            eventually(lambda: client.get("/health").json()["status"], "ok")
            eventually(lambda: client.get("/queue").json()["waiting"], 0)
            kept = client.get(f"{USER}/events").json()["memories"]
            assert [memory["id"] for memory in kept][-2:] == [queued["id"], first["id"]]
            assert client.get(f"/memory/{queued['id']}/logs").json()["count"] == 1


def test_a_server_that_starts_before_its_database(database, settings_of, serving):
    with fresh("postgres", database.url) as url:
        database.stop()
        settings = settings_of(url, queue={"backoff_max_seconds": 0.2}, service={"timeout_seconds": 4.0})
        with serving(settings).client() as client:
            made = client.post(USER, json={"content": "early", "category": "other"}).json()
            assert made["status"] == "queued"
            assert client.get("/health").json()["status"] == "degraded"
            database.start()
            eventually(lambda: client.get(f"{USER}/events").status_code, 200)
            assert client.get(f"{USER}/events").json()["count"] == 1


def test_without_a_queue_it_is_down(database, settings_of, serving):
    with fresh("postgres", database.url) as url:
        settings = settings_of(url, queue={"enabled": False}, service={"timeout_seconds": 4.0})
        with serving(settings).client() as client:
            assert client.get("/health").status_code == 200
            database.stop()
            # An answer about health may be half a second old.
            eventually(
                lambda: (client.get("/health").status_code, client.get("/health").json()["status"]),
                (503, "down"),
            )
            assert client.post(USER, json={"content": "x", "category": "other"}).status_code == 503
            database.start()
            eventually(lambda: client.get("/health").json()["status"], "ok")


def test_a_queue_folder_that_cannot_be_used(database, settings_of, serving, tmp_path):
    """A healthy store serves reads and writes, with a warning; health is 200 only while a write would be accepted."""
    (tmp_path / "occupied").write_text("")
    with fresh("postgres", database.url) as url:
        settings = settings_of(
            url,
            queue={"directory": str(tmp_path / "occupied"), "backoff_max_seconds": 0.2},
            service={"timeout_seconds": 4.0},
        )
        with serving(settings).client() as client:

            def post():
                return client.post(USER, json={"content": "x", "category": "other"}).status_code

            def health():
                answered = client.get("/health")
                return (answered.status_code, answered.json()["status"])

            assert post() in (200, 201)
            assert client.get(f"{USER}/events").json()["count"] == 1
            assert health() == (200, "ok")
            assert "failure queue" in client.get("/health").json()["warning"]
            assert str(tmp_path) not in client.get("/health").text
            database.stop()
            assert post() == 503
            eventually(health, (503, "down"))
            assert client.get(f"{USER}/events").status_code == 503
            database.start()
            eventually(health, (200, "ok"))
            eventually(post, 200)
            assert client.get(f"{USER}/events").json()["count"] >= 2


def test_reads_go_on_when_no_disk_has_room(settings_of, serving, store_url, monkeypatch):
    """A write is refused and health says so; what is stored is read; with room, all is well without a restart."""
    full = False
    room = sqlite_store.SQLStore.apply

    async def apply(self, ops):
        if full:
            raise StoreUnavailable("the disk is full")
        return await room(self, ops)

    append = log.write_all

    def write_all(fd, data, path):
        if full:
            raise OSError(28, "No space left on device")
        append(fd, data, path)

    monkeypatch.setattr(sqlite_store.SQLStore, "apply", apply)
    monkeypatch.setattr(log, "write_all", write_all)
    settings = settings_of(store_url("sqlite"), queue={"backoff_max_seconds": 0.2})
    with serving(settings).client() as client:
        assert client.post(USER, json={"content": "kept", "category": "other"}).status_code == 200
        full = True
        for _ in range(3):
            refused = client.post(USER, json={"content": "lost", "category": "other"})
            assert refused.status_code == 503
            assert client.get(f"{USER}/events").json()["count"] == 1
        eventually(lambda: client.get("/health").status_code, 503)
        assert client.get(f"{USER}/events").json()["count"] == 1
        full = False
        eventually(lambda: client.get("/health").json()["status"], "ok")
        assert client.get("/health").json()["warning"] == ""
        assert client.post(USER, json={"content": "kept too", "category": "other"}).status_code == 200


def test_writes_do_not_wait_while_the_store_catches_up(settings_of, serving, store_url, new_key, monkeypatch):
    """It is reachable again, and its queue not empty: a write with a known key is queued at once, as during the outage."""
    mood = "up"
    apply, look = sqlite_store.SQLStore.apply, Keys._look

    async def moody(self, ops):
        if mood == "down":
            raise StoreUnavailable("the store is down")
        records = [record for op in ops for record in getattr(op, "records", ())]
        while mood == "slow" and any(record.scope.tenant != PROBES for record in records):
            await asyncio.sleep(0.01)
        return await apply(self, ops)

    async def look_again(self, key_id):
        self._known.drop(key_id)  # as if it had been believed long enough
        return await look(self, key_id)

    monkeypatch.setattr(sqlite_store.SQLStore, "apply", moody)
    monkeypatch.setattr(Keys, "_look", look_again)
    url = store_url("sqlite")
    settings = settings_of(
        url, auth="on", queue={"backoff_max_seconds": 0.1}, service={"timeout_seconds": 20}
    )
    with serving(settings).client(new_key(url, "admin", settings.service.tenant).key) as client:

        def post():
            began = time.monotonic()
            status = client.post(USER, json={"content": "x", "category": "other"}).json()["status"]
            return status, time.monotonic() - began < 10

        assert post() == ("success", True)
        mood = "down"
        assert post() == ("queued", True)
        mood = "slow"
        eventually(lambda: client.get("/health").json()["store"], "recovering")
        assert [post() for _ in range(3)] == [("queued", True)] * 3
        mood = "up"
        eventually(lambda: client.get("/health").json()["status"], "ok")
        assert client.get(f"{USER}/events").json()["count"] == 5
