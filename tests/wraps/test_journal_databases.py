"""The Journal before real databases that go away and come back."""

import asyncio
from urllib.parse import urlsplit

import apsw
import asyncpg
import pytest
import redis.asyncio as redis
from cut_wire import Wire
from outages import Unsteady, add, event, ids, remove, those

from octavo import Add, Change, Indexed, StoreUnavailable, open_store, open_vectors
from octavo.testing.embedding import HashEmbedder
from octavo.wraps import Deduped, Journal
from octavo.wraps.journal import inspect
from servers import running

pytestmark = pytest.mark.every_store

BACKOFF = (0.01, 0.1)


async def back(journal):
    """Wait for the store to be up again; the test's own time-out is the limit."""
    while journal.status().state != "up":
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_a_database_that_goes_away_and_comes_back(fresh_url, tmp_path, kind):
    """Every event is there once, in order, with no restart; a change queued behind its event finds it."""
    url = fresh_url(kind)
    async with (
        Wire(url) as wire,
        Journal(Deduped(open_store(wire.url)), tmp_path, backoff=BACKOFF) as journal,
    ):
        written = [f"{number:03}" for number in range(120)]
        statuses = []
        for number, name in enumerate(written):
            if number == 30:
                await wire.cut()
            if number == 80:
                await wire.mend()
            merge = Change(query=those(ids=(name,)), merge={"turn": number})
            statuses.append((await journal.write([add(name)])).status)
            await journal.write([merge])
            if number == 40:
                with pytest.raises(StoreUnavailable):
                    await asyncio.wait_for(journal.find(those()), 60)
        assert statuses[:30] == ["stored"] * 30
        assert statuses[30:80] == ["queued"] * 50
        await back(journal)
        assert (await journal.write([add("last")])).status == "stored"
        found = await journal.find(those())
        assert [record.id for record in found] == [*written, "last"]
        assert [record.data["turn"] for record in found[:-1]] == list(range(120))
        assert journal.status().dead == 0
    async with open_store(url) as store:
        assert await ids(store) == [*written, "last"]


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_the_service_is_started_first_and_the_database_later(fresh_url, tmp_path, kind):
    """It starts, queues, and brings everything when the database is there."""
    async with Wire(fresh_url(kind)) as wire:
        await wire.cut()
        async with Journal(open_store(wire.url), tmp_path, backoff=BACKOFF) as journal:
            for number in range(20):
                assert (await journal.write([add(f"{number:02}")])).status == "queued"
            await wire.mend()
            await back(journal)
            assert await ids(journal) == [f"{number:02}" for number in range(20)]


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_a_database_that_does_not_answer(fresh_url, tmp_path, kind):
    """A write that hangs is queued; done late or not at all, it is there once, and what came after it came after it."""
    async with Wire(fresh_url(kind)) as wire:
        async with Journal(open_store(wire.url), tmp_path, timeout=1.0, backoff=BACKOFF) as journal:
            await journal.write([add("a")])
            wire.hold()
            assert (await journal.write([add("b", "c")])).status == "queued"
            assert (await journal.write([remove("b")])).status == "queued"
            with pytest.raises(StoreUnavailable):
                await journal.find(those())
            await wire.mend()
            await back(journal)
            assert await ids(journal) == ["a", "c"]
            wire.hold()
            assert (await journal.write([add("d")])).status == "queued"
        await wire.mend()
        async with Journal(open_store(wire.url), tmp_path, backoff=BACKOFF) as journal:
            await back(journal)
            assert await ids(journal) == ["a", "c", "d"]
    assert inspect(tmp_path).waiting == 0


async def test_a_sqlite_file_that_somebody_has_locked(tmp_path):
    """Writes are queued while another program holds the file, and are in it when it lets go."""
    path = tmp_path / "records.db"
    url = f"sqlite:///{path}?timeout=0.05"
    async with Journal(open_store(url), tmp_path / "queue", backoff=BACKOFF) as journal:
        await journal.write([add("a")])
        other = apsw.Connection(
            str(path)
        )  # not sqlite3: two libraries in one process do not see each other's locks
        other.execute("BEGIN IMMEDIATE")
        for name in ("b", "c"):
            assert (await journal.write([add(name)])).status == "queued"
        other.execute("ROLLBACK")
        other.close()
        await back(journal)
        assert await ids(journal) == ["a", "b", "c"]


async def test_vectors_follow_what_was_queued(tmp_path):
    """An Indexed store inside has its markers written with the replayed records, and finds them by meaning."""
    path = tmp_path / "records.db"
    store = Indexed(
        open_store(f"sqlite:///{path}?timeout=0.05"),
        open_vectors("memory://"),
        HashEmbedder(),
        collections=("observations",),
    )
    async with Journal(Deduped(store), tmp_path / "queue", backoff=BACKOFF) as journal:
        await journal.write([Add([event("a")])])
        other = apsw.Connection(str(path))
        other.set_busy_timeout(10_000)  # what is indexed is noted just now
        other.execute("BEGIN IMMEDIATE")
        assert (await journal.write([Add([event("owl")])])).status == "queued"
        other.execute("ROLLBACK")
        other.close()
        await back(journal)
        await store.settle(60)
        near = await journal.resembling("event owl", those().scope, ("observations",), 1)
        assert [found.key.id for found in near] == ["owl"]


@pytest.mark.parametrize(
    ("sick", "well"),
    [(("min-replicas-to-write", 1), ("min-replicas-to-write", 0)), (("maxmemory", 1), ("maxmemory", 0))],
)
async def test_a_redis_that_answers_and_takes_no_write(tmp_path, sick, well):
    """It is down, however often it is tried: nobody's write is to blame, none becomes a dead letter, and health says so."""
    with running("redis") as server:
        client = redis.Redis.from_url(server.url)
        await client.config_set("maxmemory-policy", "noeviction")
        async with Journal(open_store(server.url), tmp_path, backoff=BACKOFF, max_retries=1) as journal:
            await journal.write([add("a")])
            await client.config_set(*sick)
            for name in ("b", "c"):
                assert (await journal.write([add(name)])).status == "queued"
            for _ in range(3):
                assert await journal.replay_now() == 0
                assert journal.status().state == "down"
                assert await ids(journal) == ["a", "b", "c"]  # it answers, and what is queued is counted in
            assert (journal.status().waiting, journal.status().dead) == (2, 0)
            await client.config_set(*well)
            await back(journal)
            assert await ids(journal) == ["a", "b", "c"]
            assert await client.keys("*octavo-health*") == []
        await client.aclose()


async def test_a_database_that_becomes_read_only(fresh_postgres, tmp_path):
    """As one that was demoted: it is read with what is queued, and has all of it once it is written to again."""
    name = urlsplit(fresh_postgres).path[1:]
    admin = await asyncpg.connect(fresh_postgres)
    async with Journal(open_store(fresh_postgres), tmp_path, backoff=BACKOFF) as journal:
        await journal.write([add("a", "b")])
        for read_only in ("on", "off"):
            await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {read_only}")
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid != pg_backend_pid()"
            await admin.execute(others, name)
            if read_only == "on":
                assert (await journal.write([add("c"), remove("a")])).status == "queued"
                assert await ids(journal) == ["b", "c"]
                assert (await journal.tally(those())).total == 2
        await back(journal)
        assert await ids(journal) == ["b", "c"]
    await admin.close()


@pytest.mark.parametrize("kind", ["memory", "file", "sqlite", "postgres", "mysql", "redis"])
async def test_finding_out_leaves_nothing_behind(place, tmp_path, kind):
    """A store that is tried after an outage holds what was written to it, and no tenant that nobody knows."""
    store = Unsteady(open_store(place(kind)))
    async with Journal(store, tmp_path / "queue", backoff=BACKOFF) as journal:
        await journal.write([add("a")])
        store.turn("down")
        await journal.write([add("b")])
        store.turn("up")
        await back(journal)
        assert await ids(journal) == ["a", "b"]
        assert await journal.tenants() == [""]
