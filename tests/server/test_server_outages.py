"""A database that really goes away: reads say so, direct writes wait on disk, and all is well when it is back."""

import time

import pytest

from servers import fresh, running

USER = "/memory/user/lin"
PATIENCE = 60  # seconds


def eventually(ask, expected):
    ends = time.monotonic() + PATIENCE
    while (got := ask()) != expected:
        assert time.monotonic() < ends, f"still {got}"
        time.sleep(0.1)


@pytest.mark.parametrize("auth", ["off", "on"])
def test_an_outage(settings_of, serving, new_key, auth):
    with running("postgres", durable=True) as database, fresh("postgres", database.url) as url:
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
            waiting = client.get("/queue").json()
            assert (waiting["state"], waiting["waiting"] >= 1) == ("down", True)
            assert client.post("/queue/replay").json()["replayed"] == 0
            database.start()
            eventually(lambda: client.get("/health").json()["status"], "ok")
            eventually(lambda: client.get("/queue").json()["waiting"], 0)
            kept = client.get(f"{USER}/events").json()["memories"]
            assert [memory["id"] for memory in kept] == [queued["id"], first["id"]]
            assert client.get(f"/memory/{queued['id']}/logs").json()["count"] == 1


def test_a_server_that_starts_before_its_database(settings_of, serving):
    with running("postgres", durable=True) as database, fresh("postgres", database.url) as url:
        database.stop()
        settings = settings_of(url, queue={"backoff_max_seconds": 0.2}, service={"timeout_seconds": 4.0})
        with serving(settings).client() as client:
            made = client.post(USER, json={"content": "early", "category": "other"}).json()
            assert made["status"] == "queued"
            assert client.get("/health").json()["status"] == "degraded"
            database.start()
            eventually(lambda: client.get(f"{USER}/events").status_code, 200)
            assert client.get(f"{USER}/events").json()["count"] == 1


def test_without_a_queue_it_is_down(settings_of, serving):
    with running("postgres", durable=True) as database, fresh("postgres", database.url) as url:
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
