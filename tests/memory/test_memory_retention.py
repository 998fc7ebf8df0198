"""What is kept no longer than the settings say: by age and by count, on every store; what waits stays."""

import logging
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from octavo import Add, Record, open_store
from octavo.config import Database, FailureQueue, Service, Settings, Vault
from octavo.config import Retention as Kept
from octavo.kernel.model import Query, Scope
from octavo.layers import LayeredMemory
from octavo.memory.pending import note_for
from octavo.memory.retention import DEAD_LETTERS, LIMITED, RetentionSweep
from octavo.server import create_app
from octavo.wraps.journal import Spool, Waiting

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 20


def _records(collection, tenant):
    """One record of each of the last days, the newest first."""
    return [
        Record(
            collection=collection,
            id=f"{collection}-{day}",
            kind="user",
            scope=Scope(tenant=tenant, user=f"u{day % 3}", session=f"s{day % 2}"),
            created_at=NOW - timedelta(days=day, hours=1),
        )
        for day in range(DAYS)
    ]


async def _days(store, collection, tenant):
    found = await store.find(Query(collection=collection, scope=Scope(tenant=tenant)))
    return [int(record.id.rpartition("-")[2]) for record in reversed(found)]


def _retention(store, tenant, folder, clock=lambda: NOW, **kept):
    settings = Settings(
        retention=Kept(**kept),
        service=Service(tenant=tenant),
        failure_queue=FailureQueue(directory=str(folder)),
    )
    return RetentionSweep(LayeredMemory(store, tenant=tenant, clock=clock), settings, clock)


@pytest.fixture
async def own(store, tenant):
    """A store that others use too, seen by one tenant."""

    class Own:
        find, tally, apply = store.find, store.tally, store.apply

        async def tenants(self):
            return [tenant]

    return Own()


@pytest.mark.parametrize("collection", LIMITED)
async def test_by_age_and_by_count(own, store, tenant, tmp_path, collection, caplog):
    """Nothing but the oldest goes, of this collection alone; a dry run counts, and one line of the log says it."""
    await store.apply([Add(_records(collection, tenant)), Add(_records("exchanges", tenant))])
    await store.apply([Add(_records(collection, f"{tenant} other"))])
    none = _retention(own, tenant, tmp_path)
    assert not none.limits
    assert not any((await none.prune()).values())
    by_age = _retention(own, tenant, tmp_path, **{f"{collection}_days": 10})
    assert by_age.limits
    assert (await by_age.prune(dry_run=True))[collection] == 10
    assert await _days(store, collection, tenant) == list(range(DAYS))
    told = []
    with caplog.at_level(logging.INFO, "octavo.memory"):
        removed = await by_age.prune(progress=lambda done, total: told.append((done, total)))
    assert (removed[collection], told) == (10, [(10, None)])
    assert f"retention removed 10 {collection}" in caplog.text
    assert await _days(store, collection, tenant) == list(range(10))
    by_count = _retention(own, tenant, tmp_path, **{f"{collection}_most": 4, f"{collection}_days": 9})
    assert (await by_count.prune())[collection] == 6
    assert await _days(store, collection, tenant) == [0, 1, 2, 3]
    assert not any((await by_count.prune()).values())
    assert len(await _days(store, "exchanges", tenant)) == DAYS
    assert len(await _days(store, collection, f"{tenant} other")) == DAYS


async def test_what_waits_stays(own, store, tenant, tmp_path):
    """A message whose facts are still to be found is not removed, however old it is."""
    messages = _records("messages", tenant)
    note = note_for(messages[15], {"user_id": "u0"}, {})
    await store.apply([Add(messages), Add([note])])
    await _retention(own, tenant, tmp_path, messages_days=10, log_most=0).prune()
    assert await _days(store, "messages", tenant) == [*range(10), 15]


async def test_more_than_fits_into_one_write(own, store, tenant, tmp_path, monkeypatch):
    monkeypatch.setattr("octavo.memory.retention._AT_ONCE", 3)
    await store.apply([Add(_records("messages", tenant))])
    told = []
    retention = _retention(own, tenant, tmp_path, messages_most=5)
    assert (await retention.prune(progress=lambda done, _: told.append(done)))["messages"] == 15
    assert told == [3, 6, 9, 12, 15]
    assert await _days(store, "messages", tenant) == list(range(5))


@pytest.mark.parametrize("verb", ["find", "tally"])
async def test_two_servers_prune_at_once(store, tenant, tmp_path, monkeypatch, verb):
    """Whatever one has just read when the other removes it, the newest stay: it counts anew."""
    monkeypatch.setattr("octavo.memory.retention._AT_ONCE", 3)
    await store.apply([Add(_records("messages", tenant))])
    kept = {"messages_most": 12, "messages_days": 15}
    removed, read = [], 0

    class Own:
        find, tally, apply = store.find, store.tally, store.apply

        async def tenants(self):
            return [tenant]

    class Overtaken(Own):
        """After its second look, another server prunes all there is to prune."""

    async def look(self, query):
        nonlocal read
        answer = await getattr(store, verb)(query)
        read += query.collection == "messages"
        if read == 2 and not removed:
            removed.append(
                (await _retention(Own(), tenant, tmp_path, lambda: NOW, **kept).prune())["messages"]
            )
        return answer

    setattr(Overtaken, verb, look)
    own = (await _retention(Overtaken(), tenant, tmp_path, lambda: NOW, **kept).prune())["messages"]
    assert removed
    assert own + removed[0] == 8
    assert await _days(store, "messages", tenant) == list(range(12))


async def test_dead_letters(own, tenant, tmp_path):
    """Those that died long ago, or are more than enough; what waits in the same queue stays."""
    folder = tmp_path / "queue"
    with Spool(folder) as spool:
        ops = [Add([Record(collection="messages", scope=Scope(tenant=tenant))])]
        spool.put([Waiting(id=f"q{n}", ops=ops, queued_at=NOW) for n in range(7)])
        assert len(spool.head(7)) == 7
        spool.bury([f"q{n}" for n in range(6)], "no")
    assert (await _retention(own, tenant, folder, dead_letters_most=4).prune(dry_run=True))[DEAD_LETTERS] == 2
    assert (await _retention(own, tenant, folder, dead_letters_most=4).prune())[DEAD_LETTERS] == 2
    with Spool(folder) as spool:
        assert [letter.id for letter in spool.dead] == ["q2", "q3", "q4", "q5"]
        assert spool.waiting == 1
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    later = _retention(own, tenant, folder, lambda: tomorrow, dead_letters_days=0.5)
    assert (await later.prune())[DEAD_LETTERS] == 4


async def test_a_server_prunes(tmp_path):
    """By itself, when it starts and then now and then."""
    url = f"sqlite:///{tmp_path}/octavo.db"
    old = datetime.now(UTC) - timedelta(days=30)
    async with open_store(url) as store:
        await store.apply([Add([Record(collection="messages", id="old", created_at=old)])])
        await store.apply([Add([Record(collection="messages", id="new")])])
    settings = Settings(
        database=Database(dsn=url),
        failure_queue=FailureQueue(directory=str(tmp_path / "queue")),
        vault=Vault(enabled=False),
        retention=Kept(messages_days=7),
    )
    app = create_app(settings)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        open_store(url) as store,
    ):
        for _ in range(500):
            left = await store.find(Query(collection="messages"))
            if len(left) == 1:
                break
            await client.get("/health")
        assert [record.id for record in left] == ["new"]
