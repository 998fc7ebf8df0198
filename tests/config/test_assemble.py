"""`assemble` puts a memory together from settings, in the right order, and touches nothing before its first use."""

import inspect
import socket
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from octavo import Add, ConfigError, Query, Record, Scope
from octavo.assemble import assemble, limit_pool
from octavo.config import Database, FailureQueue, Rerank, Service, Settings, Telemetry, Vector
from octavo.kernel.ports import Reranks, Resembles, Searches
from octavo.stores.sql import SQLStore
from octavo.wraps import Indexed, Metered
from octavo.wraps.deduped import Deduped
from octavo.wraps.journal import Journal

HERE = Scope(session="s1")
BY_HASH = Vector(enabled=True, embedder="hash-for-tests", collections=("messages",))
SETTLED = 60  # seconds, after which a test fails rather than hang


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Relative paths are relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(text, **more):
    return Add([Record(collection="messages", kind="user", scope=HERE, text=text, **more)])


def unreachable(scheme):
    """The URL of a database at a port of this machine that nobody listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"{scheme}://bob:sesame@127.0.0.1:{taken.getsockname()[1]}/app"


def everything(path):
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


async def test_the_order_of_the_wraps():
    """A write is measured as its caller waits for it, queued, spared if it is known, marked for its vector, and stored."""
    memory = assemble(Settings(vector=BY_HASH))
    assert type(memory.store) is Metered
    assert memory.store.meter is memory.meter
    assert memory.store.inner is memory.journal
    assert type(memory.journal) is Journal
    assert type(memory.journal.inner) is Deduped
    assert type(memory.journal.inner.inner) is type(memory.indexed) is Indexed
    assert type(memory.indexed.inner) is SQLStore
    assert memory.recall.store is memory.store
    assert isinstance(memory.store, Resembles)
    assert isinstance(memory.store, Searches)
    await memory.close()


async def test_what_is_switched_off_is_not_there():
    memory = assemble(
        Settings(
            failure_queue=FailureQueue(enabled=False),
            service=Service(dedup_window=0),
            telemetry=Telemetry(metrics=False),
        )
    )
    assert type(memory.store) is SQLStore
    assert memory.journal is memory.indexed is memory.meter is None
    await memory.close()


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "redis"])
async def test_nothing_is_touched_before_the_first_use(folder, scheme):
    """No file, no folder, no connection: a memory that is put together can be thrown away, or its database be down."""
    url = unreachable(scheme).removesuffix("/app") if scheme == "redis" else unreachable(scheme)
    memory = assemble(
        Settings(database=Database(dsn=url), vector=msgspec.structs.replace(BY_HASH, url="memory://"))
    )
    assert everything(folder) == []
    await memory.close()
    assert assemble(Settings()).settings == Settings()
    assert everything(folder) == []


async def test_the_default_settings_work_alone(folder):
    """Embedded, in the working directory, with words to recall by; what was written is there the next time."""
    async with assemble(Settings()) as memory:
        assert await memory.store.apply([said("the violin is from Lyon"), said("gut strings")]) == [1, 1]
        [hit] = await memory.recall.recall("where is the violin from?", HERE, limit=1)
        assert hit.record.text == "the violin is from Lyon"
    assert (folder / "octavo.db").exists()
    again = assemble(Settings())
    assert len(await again.store.find(Query(collection="messages"))) == 2
    await again.close()
    await again.close()


async def test_it_starts_when_the_database_is_down(folder):
    """A write is queued where the settings say, and found there by the next one."""
    settings = Settings(
        database=Database(dsn=unreachable("postgresql")), failure_queue=FailureQueue(directory="deep/queue")
    )
    memory = assemble(settings)
    written = await memory.journal.write([said("do not lose this", id="m1")])
    assert written.status == "queued"
    assert memory.journal.status().waiting == 1
    await memory.close()
    assert "do not lose this" in (folder / "deep/queue/failed_events.jsonl").read_text()
    async with assemble(settings) as memory:
        assert memory.journal.status().waiting == 1
    other = msgspec.structs.replace(settings, database=Database(dsn="sqlite:///other.db"))
    async with assemble(other) as memory:  # for which it was not meant
        assert await memory.store.find(Query(collection="messages")) == []


async def test_vectors_are_found_by_meaning_through_all_wraps():
    async with assemble(Settings(vector=BY_HASH, database=Database(dsn="memory://"))) as memory:
        await memory.store.apply([said("gut strings sound warmer", id="m1"), said("rain", id="m2")])
        await memory.indexed.settle(SETTLED)
        near = await memory.store.resembling("gut strings", HERE, ["messages"], 1)
        assert [found.key.id for found in near] == ["m1"]


@pytest.mark.parametrize(
    ("dsn", "url", "index"),
    [
        ("sqlite:///octavo.db", "", "SqliteVecIndex"),
        ("sqlite+aiosqlite:////tmp/octavo.db", "", "SqliteVecIndex"),
        ("sqlite:///:memory:", "", "ExactIndex"),
        ("sqlite+pysqlite:///:memory:", "", "ExactIndex"),
        ("sqlite:///:memory:?timeout=3", "", "ExactIndex"),
        ("postgresql+asyncpg://u:p@h/d", "", "PgVectorIndex"),
        ("postgres://u:p@h/d?pool_size=3", "", "PgVectorIndex"),
        ("mysql+pymysql://u:p@h/d", "", "ExactIndex"),
        ("redis://h/0", "", "ExactIndex"),
        ("memory://", "", "ExactIndex"),
        ("mysql://u:p@h/d", "sqlite:///vectors.db", "SqliteVecIndex"),
        ("sqlite:///octavo.db", "qdrant://:memory:", "QdrantIndex"),
        ("memory://", "exact+mysql://u:p@h/d", "ExactIndex"),
    ],
)
async def test_vectors_stand_beside_the_records_unless_told_otherwise(dsn, url, index):
    """In the same database where it can hold vectors, and in the same store, over the same connections, where not."""
    settings = Settings(database=Database(dsn=dsn), vector=msgspec.structs.replace(BY_HASH, url=url))
    memory = assemble(settings)
    made = memory.indexed._index
    assert type(made).__name__ == index
    if index == "ExactIndex" and not url:
        assert made._store is memory.indexed.inner
    await memory.close()


@pytest.mark.parametrize(
    ("dsn", "spelled"),
    [
        ("postgresql://h/d", "postgresql://h/d?pool_size=15"),
        ("postgresql+asyncpg://h/d?sslmode=require", "postgresql+asyncpg://h/d?sslmode=require&pool_size=15"),
        ("mysql+pymysql://h/d?charset=utf8mb4", "mysql+pymysql://h/d?charset=utf8mb4&pool_size=15"),
        ("MySQL://h/d?", "MySQL://h/d?pool_size=15"),
        ("mariadb://h/d", "mariadb://h/d?pool_size=15"),
        ("postgres://h/d?pool_size=2", "postgres://h/d?pool_size=2"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("sqlite:///mysql://a.db", "sqlite:///mysql://a.db"),
        ("redis://h/0", "redis://h/0"),
        ("memory://", "memory://"),
        ("file:///tmp/f?format=json", "file:///tmp/f?format=json"),
    ],
)
def test_the_pool_goes_where_a_store_has_one(dsn, spelled):
    """pool_size + max_overflow, unless the URL has its own mind."""
    assert limit_pool(dsn, 15) == spelled


async def test_the_pool_has_as_many_connections_as_the_settings_say():
    def size(memory):
        return memory.store._driver._pool_size

    off = {
        "failure_queue": FailureQueue(enabled=False),
        "service": Service(dedup_window=0),
        "telemetry": Telemetry(metrics=False),
    }
    for dsn in ("postgresql://u@h/d", "mysql://u@h/d"):
        assert size(assemble(Settings(database=Database(dsn=dsn), **off))) == 15
        assert size(assemble(Settings(database=Database(dsn=dsn, pool_size=2, max_overflow=1), **off))) == 3
        assert size(assemble(Settings(database=Database(dsn=f"{dsn}?pool_size=4"), **off))) == 4


def test_every_setting_of_the_queue_reaches_it(monkeypatch):
    """Under the name the parts have for it, and in their units."""
    given = {}

    def recorded(made):
        taken = inspect.signature(made)

        def make(*args, **kwargs):
            given[made.__name__] = taken.bind(*args, **kwargs).arguments
            return made(*args, **kwargs)

        return make

    for part in ("wraps.journal.Spool", "wraps.journal.Journal", "wraps.deduped.Deduped"):
        module, _, name = f"octavo.{part}".rpartition(".")
        monkeypatch.setattr(f"{module}.{name}", recorded(getattr(__import__(module, fromlist=[name]), name)))
    assemble(
        Settings(
            database=Database(dsn="memory://"),
            failure_queue=FailureQueue(
                directory="q",
                durability="flush",
                max_in_memory=11,
                spill_batch_size=7,
                max_dump_file_size_mb=0.5,
                max_dump_backups=3,
                max_retries=4,
                max_age_hours=36,
                backoff_min_seconds=0.2,
                backoff_max_seconds=9,
            ),
            service=Service(timeout_seconds=2.5, dedup_window=12, dedup_seconds=13),
        )
    )
    spool, journal, deduped = given["Spool"], given["Journal"], given["Deduped"]
    assert Path(spool.pop("directory")) == Path("q")
    assert spool == {
        "store": "memory://",
        "max_in_memory": 11,
        "spill_batch_size": 7,
        "max_file_bytes": 2**19,
        "max_backups": 3,
        "durability": "flush",
    }
    assert journal["timeout"] == 2.5
    assert journal["max_retries"] == 4
    assert journal["max_age"] == timedelta(hours=36)
    assert journal["backoff"] == (0.2, 9)
    assert (deduped["window"], deduped["seconds"]) == (12, 13)


def test_a_queue_without_an_age(monkeypatch):
    """null: nothing becomes a dead letter for being old."""
    given = {}

    def made(*args, **kwargs):
        given.update(kwargs)
        return Journal(*args, **kwargs)

    monkeypatch.setattr("octavo.wraps.journal.Journal", made)
    assemble(Settings(database=Database(dsn="memory://"), failure_queue=FailureQueue(max_age_hours=None)))
    assert given["max_age"] is None


async def test_key_and_server_go_to_an_openai_model_only(monkeypatch):
    """The model before may be of another kind, and knows neither."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    vector = Vector(
        enabled=True,
        embedder="openai:small",
        api_key="k",
        base_url="http://127.0.0.1:9/v1",
        previous_embedder="hash-for-tests",
        cache_entries=0,
    )
    memory = assemble(Settings(database=Database(dsn="memory://"), vector=vector))
    assert memory.indexed._embedder._server._api_key == "k"
    assert memory.indexed._embedder._server.base_url == "http://127.0.0.1:9/v1"
    assert memory.indexed._previous.name == "hash-for-tests:64"
    await memory.close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Settings(database=Database(dsn="oracle://h/d")), r"^database\.dsn: unknown store scheme 'oracle'; known:"),
        (Settings(database=Database(dsn="octavo.db")), r"^database\.dsn: 'octavo\.db' is not the URL of a store"),
        (Settings(vector=Vector(enabled=True, embedder="word2vec:x")), r"^vector\.embedder: unknown embedder 'word2vec'"),
        (Settings(vector=msgspec.structs.replace(BY_HASH, previous_embedder="none")), r"^vector\.previous_embedder: 'none' names no model"),
        (Settings(vector=msgspec.structs.replace(BY_HASH, url="mysql://h/d")), r"^vector\.url: unknown vector index scheme 'mysql'"),
    ],
)  # fmt: skip
def test_a_setting_that_can_never_work_is_refused_at_once(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        assemble(settings)


async def test_a_second_model_reads_the_best_hits():
    """It is off unless it is named; then it stands below every other wrap, with what the settings say."""
    database = Database(dsn="memory://")
    assert not isinstance(assemble(Settings(database=database)).store, Reranks)
    rerank = Rerank(model="openai:judge", base_url="http://127.0.0.1:9/v1", api_key="k", top=7)
    memory = assemble(Settings(database=database, rerank=rerank))
    assert isinstance(memory.store, Reranks)
    assert memory.store.most_reranked() == 7
    await memory.close()
    for wrong in ("judge", "openai:judge", "fastembed:./nowhere"):
        with pytest.raises(ConfigError, match=r"^rerank\.model: "):
            assemble(Settings(database=database, rerank=Rerank(model=wrong)))


def _without_sqlite_vec(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlite_vec", None)
    monkeypatch.delitem(sys.modules, "octavo.vectors.sqlite_vec", raising=False)


def test_a_misspelt_embedder_is_named_and_not_the_database(monkeypatch, tmp_path):
    """Also where what an index of vectors needs is not installed."""
    _without_sqlite_vec(monkeypatch)
    given = Settings(
        database=Database(dsn=f"sqlite:///{tmp_path}/a.db"), vector=Vector(enabled=True, embedder="zzz")
    )
    with pytest.raises(ConfigError, match=r"^vector\.embedder: unknown embedder 'zzz'"):
        assemble(given)


def test_what_vectors_need_is_not_blamed_on_the_database(monkeypatch, tmp_path):
    _without_sqlite_vec(monkeypatch)
    vector = Vector(enabled=True, embedder="openai:x", base_url="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"^vector\.enabled: .*sqlite_vec"):
        assemble(Settings(database=Database(dsn=f"sqlite:///{tmp_path}/a.db"), vector=vector))
