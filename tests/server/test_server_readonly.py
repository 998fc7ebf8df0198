"""A store that can be read and not written to: without a queue no write is accepted, and health says so."""

import asyncio
import contextlib
import time

import apsw
import pytest
from redis import Redis

from octavo import open_store
from octavo.errors import StoreUnavailable
from octavo.layers import LayeredMemory
from octavo.stores.file.store import FileStore
from octavo.stores.sql.drivers.sqlite import translate_errors
from octavo.stores.sql.store import SQLStore
from servers import fresh, running
from servers.mysql import _execute as in_mysql
from servers.postgres import _execute as in_postgres

pytestmark = pytest.mark.every_store

USER = "/memory/user/lin"
TENANT = "default"


@contextlib.contextmanager
def read_only(kind, url, monkeypatch):
    """The store takes no writes, as its own engine would say it where that can be brought about."""
    turn = {"postgres": in_postgres_database, "mysql": in_mysql_server, "redis": in_redis}.get(kind)
    if turn is not None:
        turn(url, on=True)
        try:
            yield
        finally:
            turn(url, on=False)
        return

    async def refused(self, ops):
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(FileStore if kind == "file" else SQLStore, "apply", refused)
        yield


def in_postgres_database(url, *, on):
    """What a standby answers, or a primary that has become one; it drops its connections when it becomes the other."""
    name = url.rpartition("/")[2]
    elsewhere = url.replace(f"/{name}", "/postgres")
    statements = (
        f"ALTER DATABASE {name} SET default_transaction_read_only = {on}",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
    )
    for statement in statements:
        asyncio.run(in_postgres(elsewhere, statement))


def in_mysql_server(url, *, on):
    asyncio.run(in_mysql(url, f"SET GLOBAL tx_read_only = {on}"))


def in_redis(url, *, on):
    with Redis.from_url(url) as server:
        server.execute_command("REPLICAOF", *(("127.0.0.1", "1") if on else ("NO", "ONE")))


@pytest.fixture(scope="module", params=["file", "sqlite", "postgres", "mysql", "redis"])
def kind_and_server(request):
    """A kind, and a server of these tests' own where it needs one, since all of that is set to be read only."""
    if request.param in ("file", "sqlite"):
        yield request.param, None
    else:
        with running(request.param) as server:
            yield request.param, server


@pytest.fixture
def store(kind_and_server, tmp_path):
    """A kind, and a store of it with one memory."""
    kind, server = kind_and_server
    with contextlib.ExitStack() as stack:
        if server is None:
            url = f"file://{tmp_path}/store" if kind == "file" else f"sqlite:///{tmp_path}/o.db"
        else:
            url = stack.enter_context(fresh(kind, server.url))

        async def fill():
            async with open_store(url) as opened, LayeredMemory(opened, tenant=TENANT) as memory:
                await memory.remember("kept", layer="event", category="other", user_id="lin")

        asyncio.run(fill())
        yield kind, url


def told(client):
    answered = client.get("/health")
    return answered.status_code, answered.json()["status"], answered.json()["store"]


def test_health_says_that_no_write_would_be_accepted(store, settings_of, serving, monkeypatch):
    """What is kept is read, a write is refused, and health is 503; once writes are taken again it is 200."""
    kind, url = store
    settings = settings_of(url, queue={"enabled": False}, service={"tenant": TENANT})
    with read_only(kind, url, monkeypatch), serving(settings).client() as client:
        assert client.get(f"{USER}/events").json()["count"] == 1
        assert told(client) == (503, "down", "up")
        assert client.post(USER, json={"content": "x", "category": "other"}).status_code == 503
        assert client.get(f"{USER}/events").json()["count"] == 1
    with serving(settings).client() as client:
        assert told(client) == (200, "ok", "up")
        assert client.post(USER, json={"content": "x", "category": "other"}).status_code == 200
        counts = client.get("/stats").json()
        assert (counts["events"]["total"], counts["event"]["total"]) == (0, 2)  # health leaves nothing behind


def test_with_a_queue_the_write_waits(store, settings_of, serving, monkeypatch):
    """Such a store comes back: a write is kept on disk until then, so health is 200."""
    kind, url = store
    settings = settings_of(url, queue={"backoff_max_seconds": 0.2}, service={"tenant": TENANT})
    with read_only(kind, url, monkeypatch), serving(settings).client() as client:
        assert client.post(USER, json={"content": "x", "category": "other"}).json()["status"] == "queued"
        assert told(client)[:2] == (200, "degraded")
    with serving(settings).client() as client:
        ends = time.monotonic() + 60
        while client.get(f"{USER}/events").json().get("count") != 2:
            assert time.monotonic() < ends, "what was queued did not arrive"
            time.sleep(0.05)


def test_a_database_file_that_is_read_only_may_be_mended():
    with pytest.raises(StoreUnavailable, match="readonly"), translate_errors():
        raise apsw.ReadOnlyError("attempt to write a readonly database")
