"""Many servers, one memory: docs/behind-a-proxy.md's HAProxy before three `octavo serve` on one PostgreSQL."""

import asyncio
import re
import time
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from cluster_load import FULL, UNLIMITED, compare, loaded, times
from light_http import Caller
from server_fleet import CURRENT, OLDER, SECONDS, WORKERS, Fleet

from octavo import Add, Query, Record, Scope, open_store
from octavo.kernel.shapes import SHAPES
from octavo.keys import Keys
from octavo.stores.sql import migrations
from sampled import only_torture
from servers import fresh
from servers.aside import run_aside

pytestmark = only_torture
SCHEMA_1 = Path(__file__).parents[1] / "stores" / "schema_1" / "postgresql.sql"
KEPT = 50
ENV = {
    **UNLIMITED,
    "OCTAVO__SERVICE__TIMEOUT_SECONDS": "60",  # a machine that is busy is no outage
    "OCTAVO__LAYERS__SWEEP_SECONDS": "1",
    "OCTAVO__RETENTION__EVERY_SECONDS": "1",
    "OCTAVO__RETENTION__EVENTS_MOST": str(KEPT),
    "OCTAVO__PRIVACY__DIGEST_KEY": "the same on every server, and long enough",
}
BEFORE = {f"before the upgrade {number}" for number in range(20_000 if FULL else 2_000)}
FRESH_SECONDS = 5.0  # for which a server believes what it has read about a key


async def _make_schema_1(url):
    """The database as version 1 of the schema has left it, with records and a key for the servers."""
    import asyncpg

    connection = await asyncpg.connect(url, timeout=60)
    try:
        await connection.execute(SCHEMA_1.read_text())
        await connection.execute(
            'CREATE TABLE octavo_tables (name TEXT COLLATE "C" PRIMARY KEY, version INTEGER NOT NULL);'
            'CREATE TABLE octavo_counts (counter TEXT COLLATE "C" NOT NULL, kind TEXT COLLATE "C" NOT NULL, '
            "slot INTEGER NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (counter, kind, slot))"
        )
        tables = [(shape.table,) for shape in SHAPES.values()]
        await connection.executemany("INSERT INTO octavo_tables VALUES ($1, 1)", tables)
    finally:
        await connection.close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        async with open_store(url) as store:
            scope = Scope(session="session-before")
            records = [Record(collection="observations", scope=scope, text=text) for text in BEFORE]
            await store.apply([Add(records)])
            return (await Keys(store).create("fleet", access="admin")).key


@pytest.fixture(scope="module")
def database(server_url):
    with fresh("postgres", server_url("postgres")) as url:
        yield url


@pytest.fixture(scope="module")
def key(database):
    return run_aside(_make_schema_1(database))


@pytest.fixture(scope="module")
def fleet(database, key, tmp_path_factory):
    """Servers of the version before, at first."""
    fleet = Fleet(f"{database}?pool_size=3", tmp_path_factory.mktemp("fleet"), ENV)
    try:
        yield fleet.start(OLDER)
    finally:
        fleet.close()


@asynccontextmanager
async def through_haproxy(fleet, key):
    """Writes through the proxy, each read again through it, perhaps from another server; with what went wrong."""
    caller, failed = Caller(fleet.proxy.url, key), []

    async def ask(method, path, body=None):
        try:
            status, answer = await caller.ask(method, path, body)
        except OSError as error:
            status, answer = 0, repr(error)
        if status != 200:
            failed.append((method, status, answer))
            return {}
        return answer

    async def write(session, text):
        body = {"session_key": session, "obs_type": "message", "payload": {"text": text}}
        told = await ask("POST", "/events", body)
        if told.get("status") == "stored":
            found = await ask("GET", f"/sessions/{session}/events?limit=100")
            if text not in {event["payload"]["text"] for event in found.get("events", ())}:
                failed.append(("not found", text))
        return bool(told)

    yield write, failed
    await caller.close()


async def _versions(url):
    async with open_store(url) as store:
        await store.tally(Query(collection="messages"))
        async with store._driver.connection() as connection:
            rows = await connection.fetch("SELECT name, version FROM octavo_tables")
        return {row["name"]: row["version"] for row in rows}


@pytest.mark.timeout(2700)
@pytest.mark.skipif(not FULL, reason="replaces servers one by one, which takes minutes: by make torture only")
async def test_a_rolling_upgrade(fleet, key, database, monkeypatch, capsys):
    """Servers of two versions on one schema, one replaced after the other under load: no request fails, nothing is lost.

    The first of the new version migrates the tables; one of the version before is started again on what it made.
    """
    monkeypatch.setattr("cluster_load.PER_SECOND", 100 if FULL else 20)
    rounds, newest = [CURRENT, OLDER, CURRENT], len(migrations.MIGRATIONS)
    async with through_haproxy(fleet, key) as (write, failed), loaded(write) as load:
        began = time.monotonic()
        for member, program in zip(fleet.members, rounds, strict=True):
            found = newest - 1 if member is fleet.members[0] else newest
            assert found in (await _versions(database)).values()
            await asyncio.to_thread(fleet.restart, member, program)
        # And as often as asked for, all of them, as a rolling restart.
        for member in fleet.members * (times() if FULL else 0):
            await asyncio.to_thread(fleet.restart, member, CURRENT)
        lasted = time.monotonic() - began
    assert failed == []
    assert load.count > 100
    load.acknowledged["session-before"] = BEFORE
    assert await compare(database, load) == ([], [])
    assert (await _versions(database))["events"] == newest
    async with open_store(database) as store:
        lexicon = await store.verify("observations")
    assert (lexicon.missing, lexicon.stray) == ((), 0)
    assert [line for member in fleet.members for line in member.complaints()] == []
    restarts = len(rounds) + (3 * times() if FULL else 0)
    with capsys.disabled():
        print(
            f"\n| three servers, HAProxy, PostgreSQL | server restarted × {restarts} | 0 of {load.count:,} "
            f"({load.count / lasted:.0f}/s, each read again) | 0 | 0 failed requests | {lasted / restarts:.0f} s each |"
        )


def _connected(member, key):
    """A client for each worker of a server, with a connection to it that has shown its key."""
    by_worker = {}
    for _ in range(500):
        client = httpx.Client(
            base_url=member.url, headers={"X-API-Key": key}, timeout=SECONDS, trust_env=False
        )
        answer = client.get("/stats")
        assert answer.status_code == 200, answer.text
        worker = member.worker_of(answer.extensions["network_stream"].get_extra_info("client_addr")[1])
        if by_worker.setdefault(worker, client) is not client:
            client.close()
        if len(by_worker) == WORKERS:
            break
    return by_worker


def _revoke(member, key, key_id):
    """Revoke a key on the console of one server."""
    with httpx.Client(
        base_url=member.url, headers={"X-API-Key": key}, timeout=SECONDS, trust_env=False
    ) as admin:
        page = admin.get("/console/access")
        token = re.findall(r'name="token" value="([^"]+)"', page.text)[0]
        done = admin.post(f"/console/access/keys/{key_id}/revoke", data={"token": token})
        assert done.status_code == 303, done.text


async def test_a_revoked_key(fleet, key, database):
    """Revoked at one server, it is refused by every worker of all: none lets in a request that begins 5 seconds later."""
    async with open_store(database) as store:
        created = await Keys(store).create("to be revoked")
    clients = [client for member in fleet.members for client in _connected(member, created.key).values()]
    assert len(clients) == WORKERS * len(fleet.members)
    _revoke(fleet.members[0], key, created.info.id)
    revoked = time.monotonic()
    deadline = revoked + SECONDS
    let_in = 0.0
    good = list(clients)
    while good:
        for client in list(good):
            began = time.monotonic()
            if client.get("/stats").status_code == 401:
                good.remove(client)
            else:
                let_in = max(let_in, began - revoked)
            assert began < deadline
    for client in clients:
        assert client.get("/stats").status_code == 401
        client.close()
    assert let_in < FRESH_SECONDS


async def _until(holds):
    async with asyncio.timeout(SECONDS):
        while not await holds():
            await asyncio.sleep(0.05)


async def test_expired_memories_are_swept_once(fleet, key, database):
    """By whichever of the six workers: one row in the log for each, and no server complains."""
    caller, count = Caller(fleet.proxy.url, key), 30
    for number in range(count):
        body = {"content": f"Saw film number {number}", "memory_layer": "event", "ttl_seconds": 0.5}
        assert (await caller.ask("POST", "/memory/user/short", body))[0] == 200
    await caller.close()
    scope = Scope(user="short")
    async with open_store(database) as store:

        async def swept():
            return (await store.tally(Query(collection="episodes", scope=scope))).total == 0

        await _until(swept)
        logged = await store.find(Query(collection="log", kinds=("expire",), scope=scope))
    assert len({row.data.get("memory_id", row.id) for row in logged}) == len(logged) == count
    assert [line for member in fleet.members for line in member.complaints()] == []


async def test_retention_keeps_as_many_as_asked(fleet, database):
    """Six workers prune every second, at the same time: the newest stay, all of them."""
    async with open_store(database) as store:
        for number in range(0, 3000, 1000):
            ids = [f"{each:05}" for each in range(number, number + 1000)]
            await store.apply([Add([Record(collection="events", id=each) for each in ids])])

            async def pruned():
                return (await store.tally(Query(collection="events"))).total <= KEPT

            await _until(pruned)
            left = [record.id for record in await store.find(Query(collection="events"))]
            assert left == ids[-KEPT:]
    assert [line for member in fleet.members for line in member.complaints()] == []


async def test_a_user_is_forgotten_by_all_at_once(fleet, key, database):
    """Asked of three servers in the same moment: all succeed, what was removed is counted once, and nothing is left."""
    callers = [Caller(member.url, key) for member in fleet.members]
    for number in range(20):
        body = {"content": f"Read book number {number}", "memory_layer": "event"}
        assert (await callers[number % 3].ask("POST", "/memory/user/gone", body))[0] == 200
    told = await asyncio.gather(*(caller.ask("DELETE", "/users/gone") for caller in callers))
    assert [status for status, _ in told] == [200] * 3, told
    assert sum(answer["removed"].get("episodes", 0) for _, answer in told) == 20
    for caller in callers:
        assert (await caller.ask("GET", "/memory/user/gone/events"))[1]["count"] == 0
        await caller.close()
    async with open_store(database) as store:
        for collection in ("episodes", "log"):
            assert (await store.tally(Query(collection=collection, scope=Scope(user="gone")))).total == 0
