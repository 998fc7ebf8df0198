"""What is particular to SQL: documented names, migrations, group commit, plans, and a caller's own transaction."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from octavo import Add, Change, ConfigError, Query, Record, Remove, Scope, StoreError, open_store
from octavo.kernel.shapes import SHAPES
from octavo.stores.sql import SQLAlchemyStore, migrations
from octavo.stores.sql.compile import READ, select
from octavo.stores.sql.dialects.mysql import MySQL
from octavo.stores.sql.dialects.postgresql import PostgreSQL
from octavo.stores.sql.dialects.sqlite import SQLite
from octavo.stores.sql.drivers import sqlite
from octavo.stores.sql.reading import find
from octavo.stores.sql.schema import Table
from octavo.stores.sql.statements import Do, Fetch

pytestmark = pytest.mark.every_store
SCHEMAS = Path(__file__).with_name("schema_1")
DOCUMENTED = {
    "agent_events": {"event_id", "agent_name", "session_id", "event_type", "timestamp", "data", "metadata"},
    "profile_memories": {
        "id", "memory_type", "entity_id", "content", "metadata", "embedding_id", "created_at", "updated_at",
    },
    "event_memories": {
        "id", "memory_type", "entity_id", "content", "metadata", "embedding_id", "is_permanent", "expiry_date",
        "created_at", "updated_at",
    },
    "memory_logs": {"id", "memory_id", "memory_layer", "action", "reason", "metadata", "created_at"},
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return request.getfixturevalue(f"fresh_{request.param}")


def record(**more):
    return Record(collection="events", scope=Scope(agent="a", session="s"), **more)


def ask(store, sql, values=()):
    def script():
        return (yield Fetch(sql, values))

    return store._driver.read(script)


def do(store, *statements):
    def script():
        for sql in statements:
            yield Do(sql)

    return store._driver.write(script)


async def columns(store, table):
    if store._driver.dialect.name == "sqlite":
        return {row[1] for row in await ask(store, f"PRAGMA table_info({table})")}
    placeholder = store._driver.dialect.placeholder(1)
    where = "table_schema = DATABASE() AND " if store._driver.dialect.name == "mysql" else ""
    sql = f"SELECT column_name FROM information_schema.columns WHERE {where}table_name = {placeholder}"
    return {row[0] for row in await ask(store, sql, (table,))}


async def test_documented_names(url):
    """Tables and columns have the names people were promised, and carry the record's values."""
    async with open_store(url) as store:
        for collection in SHAPES:
            await store.apply(
                [
                    Add(
                        [
                            Record(
                                collection=collection,
                                scope=Scope(user="u"),
                                text="t",
                                data={"memory_layer": "profile"},
                            )
                        ]
                    )
                ]
            )
        for table, expected in DOCUMENTED.items():
            assert expected <= await columns(store, table)
        for shape in SHAPES.values():
            assert await columns(store, shape.table)
        rows = await ask(store, "SELECT memory_type, entity_id, content, is_permanent FROM event_memories")
        assert [tuple(row) for row in rows] == [("user", "u", "t", True)]
        rows = await ask(store, "SELECT memory_layer, reason FROM memory_logs")
        assert [tuple(row) for row in rows] == [("profile", "t")]


async def test_extra_columns_follow_changes(url):
    """A column that repeats part of the record is right after a change, and never the reason to refuse one."""
    async with open_store(url) as store:
        await store.apply(
            [
                Add(
                    [
                        Record(
                            collection="profile",
                            id="m",
                            scope=Scope(user="u"),
                            data={"embedding_id": "x" * 300},
                        )
                    ]
                )
            ]
        )
        assert (await ask(store, "SELECT embedding_id FROM profile_memories"))[0][0] is None
        await store.apply([Change(query=Query(collection="profile"), merge={"embedding_id": "v1"})])
        assert (await ask(store, "SELECT embedding_id FROM profile_memories"))[0][0] == "v1"


async def test_a_strangers_table(url):
    """A table of the same name that is not Octavo's is left alone, and the error names the cure."""
    async with open_store(url) as store:
        await do(store, "CREATE TABLE agent_events (mine INTEGER)")
        with pytest.raises(StoreError, match=r"agent_events.*not Octavo's.*prefix"):
            await store.apply([Add([record()])])
    async with open_store(f"{url}?prefix=mem_") as store:
        assert await store.apply([Add([record(id="x")])]) == [1]
        assert [found.id for found in await store.find(Query(collection="events"))] == ["x"]
        assert "event_id" in await columns(store, "mem_agent_events")


async def test_unused_collections_are_looked_for_together(url, monkeypatch):
    """A search of many collections that nobody uses asks the database once, and finds what another process begins."""
    unused = [name for name in SHAPES if name != "events"]
    async with open_store(url) as store, open_store(url) as other:
        await store.apply([Add([record()])])

        async def find_all():
            asked = [Query(collection=name, scope=Scope(agent="a")) for name in unused]
            return sum(map(len, await asyncio.gather(*map(store.find, asked))))

        assert await find_all() == 0
        reads = []
        read = store._driver.read
        monkeypatch.setattr(store._driver, "read", lambda script: reads.append(script) or read(script))
        assert await find_all() == 0
        assert len(reads) == 1
        await other.apply([Add([Record(collection="turns", scope=Scope(agent="a"))])])
        assert await find_all() == 1
        assert await find_all() == 1


async def test_a_newer_schema(url):
    """A database written by a newer Octavo is refused with the version it has and what to do."""
    async with open_store(url) as store:
        await store.apply([Add([record()])])
        await do(store, "UPDATE octavo_tables SET version = 100")
    async with open_store(url) as store:
        with pytest.raises(ConfigError, match=r"agent_events.*100.*upgrade octavo"):
            await store.find(Query(collection="events"))


async def test_a_newer_schema_that_only_adds(url, monkeypatch):
    """A store of the version before reads and writes what a newer one has migrated, and leaves its version as it is."""
    before = migrations.MIGRATIONS

    def add_column(table):
        yield Do(f"ALTER TABLE {table.name} ADD COLUMN later INTEGER NOT NULL DEFAULT 7")

    async with open_store(url) as running:
        await running.apply([Add([record(id="old")])])
        monkeypatch.setattr(migrations, "MIGRATIONS", (*before, add_column))
        async with open_store(url) as newer:
            await newer.apply([Add([record(id="new")])])
        monkeypatch.setattr(migrations, "MIGRATIONS", before)
        await running.apply([Add([record(id="goes on")])])
        async with open_store(url) as started:
            await started.apply([Add([record(id="started again")])])
            found = {one.id for one in await started.find(Query(collection="events"))}
            assert found == {"old", "new", "goes on", "started again"}
            assert (await running.tally(Query(collection="events"))).total == 4
            version = await ask(started, "SELECT version FROM octavo_tables WHERE name = 'agent_events'")
            assert [tuple(row) for row in version] == [(len(before) + 1,)]
            assert {tuple(row) for row in await ask(started, "SELECT later FROM agent_events")} == {(7,)}


def statements_of(script):
    """What a script sends, to a database in which nothing is found."""
    sent = []
    with contextlib.suppress(StopIteration):
        statement = next(script)
        while True:
            if isinstance(statement, Do):
                sent.append(statement.sql)
            statement = script.send([])
    return sent


def schema_of(dialect, prefix=""):
    """Every statement that makes every table."""
    tables = [Table(shape, dialect, prefix) for shape in SHAPES.values()]
    return [sql for table in tables for sql in statements_of(migrations._create(table))]


@pytest.mark.parametrize("dialect", [SQLite(), PostgreSQL(), MySQL()], ids=lambda dialect: dialect.name)
def test_version_1_of_the_schema(dialect):
    """It is what the file says: a database of that version may be anywhere. Change it by a migration, not here."""
    assert schema_of(dialect) == (SCHEMAS / f"{dialect.name}.sql").read_text().split(";\n")[:-1]


async def test_from_every_older_version(url, monkeypatch):
    """Opening a database of any older version brings its tables to the current one and keeps their records."""

    def add_column(table):
        yield Do(f"ALTER TABLE {table.name} ADD COLUMN later INTEGER")

    async with open_store(url) as store:
        await store.apply([Add([Record(collection="messages", id="old"), record(id="old")])])
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, add_column))
    async with open_store(url) as one, open_store(url) as two:
        counts = await asyncio.gather(
            one.apply([Add([record(id="new")])]), two.apply([Add([record(id="also")])])
        )
        assert counts == [[1], [1]]
        assert {found.id for found in await one.find(Query(collection="events"))} == {"old", "new", "also"}
        assert [found.id for found in await two.find(Query(collection="messages"))] == ["old"]
        assert "later" in await columns(one, "agent_events")
        assert "later" in await columns(one, "messages")


async def indexes(store, table):
    """The columns of each index of a table that was given a name, by that name."""
    dialect = store._driver.dialect.name
    if dialect == "sqlite":
        named = [row[1] for row in await ask(store, f"PRAGMA index_list({table})") if row[3] == "c"]
        return {name: [row[2] for row in await ask(store, f"PRAGMA index_info({name})")] for name in named}
    if dialect == "mysql":
        sql = (
            "SELECT index_name, column_name FROM information_schema.statistics "
            "WHERE table_schema = DATABASE() AND table_name = %s ORDER BY index_name, seq_in_index"
        )
    else:
        sql = (
            "SELECT i.relname, a.attname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid "
            "JOIN pg_class t ON t.oid = x.indrelid CROSS JOIN unnest(x.indkey) WITH ORDINALITY AS k(number, nth) "
            "JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number "
            "WHERE t.relname = $1 ORDER BY i.relname, k.nth"
        )
    found = {}
    for name, column in await ask(store, sql, (table,)):
        found.setdefault(name, []).append(column)
    return found


async def test_version_2_indexes_users(url, monkeypatch):
    """A database of version 1 gets an index of users for every table that people's records are in; its rows stay as they are."""
    new, first = Scope(user="lin", agent="a", session="s"), migrations.MIGRATIONS[:1]
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", first)
        async with open_store(url) as store:
            old = [Record(collection=name, id="old", scope=Scope(session="s")) for name in SHAPES]
            await store.apply([Add(old)])
            assert "agent_events_by_user" not in await indexes(store, "agent_events")
    async with open_store(url) as store:
        await store.apply([Add([Record(collection=name, id="new", scope=new) for name in SHAPES])])
        for name, shape in SHAPES.items():
            by_user = (await indexes(store, shape.table)).get(f"{shape.table}_by_user", [])
            assert by_user[:2] == ([] if name in ("keys", "pending", "erasures") else ["tenant", "user_id"])
            assert [r.id for r in await store.find(Query(collection=name, scope=Scope(user="lin")))] == [
                "new"
            ]
            assert {r.id: r.scope for r in await store.find(Query(collection=name))} == {
                "old": Scope(session="s"), "new": new,
            }  # fmt: skip
        made_whole = await indexes(store, "events")
    if url.startswith(
        "mysql"
    ):  # which commits an index by itself: whoever made it may have died before noting it
        async with open_store(url) as store:
            await do(store, "UPDATE octavo_tables SET version = 1 WHERE name = 'events'")
        async with open_store(url) as store:
            assert len(await store.find(Query(collection="observations"))) == 2
            assert await indexes(store, "events") == made_whole


async def test_version_3_indexes_actions(url, monkeypatch):
    """A database of version 2 gets an index of the log's actions, and of no other table's kinds; its rows stay as they are."""
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:2])
        async with open_store(url) as store:
            await store.apply([Add([Record(collection=name, id="old", kind="insert") for name in SHAPES])])
            assert "memory_logs_by_kind" not in await indexes(store, "memory_logs")
    async with open_store(url) as store:
        await store.apply([Add([Record(collection=name, id="new", kind="delete") for name in SHAPES])])
        made = {shape.table: await indexes(store, shape.table) for shape in SHAPES.values()}
        assert [name for name, each in made.items() if f"{name}_by_kind" in each] == ["memory_logs"]
        assert made["memory_logs"]["memory_logs_by_kind"][:3] == ["tenant", "action", "created_at"]
        for kind, id_ in (("insert", "old"), ("delete", "new")):
            assert [r.id for r in await store.find(Query(collection="log", kinds=(kind,), limit=5))] == [id_]


async def test_an_action_is_looked_up_by_its_index(tmp_path):
    """Of a whole tenant; what one owner has is the shorter way in, and several actions are read in the order of all."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add([Record(collection="log", kind="insert", scope=Scope(user="lin"))])])
        table = store._tables["log"]
        for scope, kinds, index in (
            (Scope(), ("delete",), "by_kind"),
            (Scope(), ("delete", "update"), "by_time"),
            (Scope(user="lin"), ("delete",), "by_user"),
            (Scope(session="m"), ("delete", "update"), "by_session"),
        ):
            query = Query(collection="log", scope=scope, kinds=kinds, newest_first=True, limit=10)
            asked = select(table, query, table.select_list(READ), order=2)
            plan = str(await ask(store, f"EXPLAIN QUERY PLAN {asked.sql}", asked.values))
            assert index in plan, (scope, kinds, plan)
            assert "TEMP B-TREE" not in plan, (scope, kinds, plan)


async def test_more_names_than_one_statement_finds(url, monkeypatch):
    """All are listed in order, each once, however many a statement steps through."""
    monkeypatch.setattr("octavo.stores.sql.reading._STEPS", 3)
    async with open_store(url) as store:
        named = [Record(collection="profile", scope=Scope(user=f"u{number // 2}")) for number in range(20)]
        await store.apply([Add(named)])
        for limit in (1, 2, 3, 4, 9, 10, 50):
            found = await store.names("profile", "user", limit=limit)
            assert [(one.name, one.total) for one in found] == [(f"u{n}", 2) for n in range(min(limit, 10))]


async def test_a_table_half_made(url):
    """A process that died while making a table, where CREATE cannot be undone, does not block the next one."""
    async with open_store(url) as store:
        await store.apply([Add([Record(collection="messages", marks=("m",))])])
        await do(
            store, "UPDATE octavo_tables SET version = 0 WHERE name = 'messages'", "DROP TABLE message_marks"
        )
    async with open_store(url) as store:
        assert await store.apply([Add([Record(collection="messages", id="x", marks=("m",))])]) == [1]
        assert [found.id for found in await store.find(Query(collection="messages"))] == ["x"]


async def test_group_commit(tmp_path, monkeypatch):
    """Fifty concurrent writers share a handful of transactions, and each has its own count."""
    commits = []
    real = sqlite.transact
    monkeypatch.setattr(sqlite, "transact", lambda c, work: (commits.append(1), real(c, work))[1])
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add([record(id="0")])])
        commits.clear()
        counts = await asyncio.gather(*(store.apply([Add([record(id=str(i // 2))])]) for i in range(100)))
        assert sum(count for [count] in counts) == 49
        assert len(commits) <= 10


async def test_duplicates_inside_a_large_batch(url):
    """A batch that holds known and new ids adds exactly the new ones, however it is cut into statements."""
    async with open_store(url) as store:
        await store.apply([Add([record(id=str(i)) for i in range(0, 3000, 3)])])
        assert await store.apply([Add([record(id=str(i)) for i in range(3000)])]) == [2000]
        assert (await store.tally(Query(collection="events", scope=Scope(agent="a")))).total == 3000


async def test_counters_never_drift(url):
    """Counters and rows agree after adds, changes of kind and removals in every order, also after row numbers are reused."""
    async with open_store(url) as store:
        for turn in range(4):
            await store.apply([Add([record(id=f"{turn}-{i}", kind=f"k{i % 3}") for i in range(700)])])
            await store.apply([Change(query=Query(collection="events", kinds=("k0",), limit=50), kind="k9")])
            await store.apply([Remove(Query(collection="events", limit=300))])
            await store.apply(
                [
                    Add([record(id=f"{turn}-x", kind="k1")]),
                    Remove(Query(collection="events", kinds=("k2",), limit=5)),
                    Add([record(id=f"{turn}-y", kind="k2")]),
                    Remove(Query(collection="events", ids=(f"{turn}-x",))),
                ]
            )
            for scope in (Scope(), Scope(agent="a"), Scope(session="s")):
                counted = await store.tally(Query(collection="events", scope=scope))
                rows = await ask(store, "SELECT event_type, COUNT(*) FROM agent_events GROUP BY event_type")
                assert counted.by_kind == {row[0]: row[1] for row in rows}


async def test_a_users_records_are_looked_up_by_user(tmp_path):
    """Also in a session, which all users may share; what is nobody's is looked up by its session."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add([Record(collection="observations", scope=Scope(user="lin", session="s"))])])
        table = store._tables["observations"]
        for user, index in (("lin", "by_user"), ("", "by_session")):
            query = Query(collection="observations", scope=Scope(user=user, session="s"), limit=10)
            asked = select(table, query, table.select_list(READ))
            plan = await ask(store, f"EXPLAIN QUERY PLAN {asked.sql}", asked.values)
            assert index in str(plan), plan


async def test_last_of_a_session_needs_no_sort(tmp_path):
    """The newest of a session come straight off an index: nothing is sorted and nothing else is read."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add([record()])])
        for collection, scope in (
            ("events", Scope(session="s")),
            ("messages", Scope(user="u", agent="", session="s")),
        ):
            await store.apply([Add([Record(collection=collection)])])
            table = Table(SHAPES[collection], SQLite(), "")
            asked = next(find(table, Query(collection=collection, scope=scope, limit=50)))
            plan = " ".join(
                str(row) for row in await ask(store, f"EXPLAIN QUERY PLAN {asked.sql}", asked.values)
            )
            assert "USING INDEX" in plan
            assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("dialect", [SQLite(), PostgreSQL(), MySQL()], ids=lambda dialect: dialect.name)
def test_values_are_always_bound(dialect):
    """Nothing a caller can choose becomes part of the SQL text."""
    evil = "'; DROP TABLE x; --"
    query = Query(
        collection="messages", ids=(evil,), kinds=(evil,), scope=Scope(tenant=evil, user=evil, agent=evil, session=evil),
        marks=(evil,), without=(evil,), text=evil, where={evil: evil}, limit=7, offset=3,
    )  # fmt: skip
    for scope in (query.scope, Scope(tenant=evil)):
        asked = Query(**{f: getattr(query, f) for f in query.__struct_fields__} | {"scope": scope})
        sent = next(find(Table(SHAPES["messages"], dialect, ""), asked))
        assert "DROP" not in sent.sql
        assert "drop" not in sent.sql


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("sqlite:///x.db?durability=maybe", "durability.*full, fast"),
        ("sqlite:///x.db?durabilty=full", "unknown option durabilty"),
        ("sqlite:///x.db?timeout=soon", "bad value 'soon' for timeout"),
        ("sqlite:///x.db?prefix=a;b", "bad prefix"),
        ("sqlite://x.db", "three slashes"),
        ("mysql://u:secret@h/", "names no database"),
        ("mysql://u:secret@h/d?nonsense=1", "unknown option nonsense"),
        ("postgresql://u:secret@h:port/d", "not a usable database URL"),
        ("postgresql://u:secret@h/d?pool_size=many", "bad value 'many'"),
    ],
)
def test_bad_urls(bad, says):
    """A bad URL is refused when it is opened, by name and value, without showing the password."""
    with pytest.raises(ConfigError, match=says) as caught:
        open_store(bad)
    assert "secret" not in str(caught.value)


async def test_sqlalchemy_spellings(fresh_postgres, fresh_mysql, tmp_path):
    """The URLs people already have for SQLAlchemy open the same stores."""
    spelled = [
        f"sqlite+aiosqlite:///{tmp_path}/a.db",
        fresh_postgres.replace("postgresql://", "postgresql+asyncpg://"),
        fresh_mysql.replace("mysql://", "mysql+aiomysql://") + "?charset=utf8mb4",
    ]
    for url in spelled:
        async with open_store(url) as store:
            assert await store.apply([Add([record()])]) == [1]


@pytest.fixture
async def engine(url):
    driver = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}
    scheme, _, rest = url.partition("://")
    made = create_async_engine(f"{driver[scheme]}://{rest}")
    yield made
    await made.dispose()


async def test_a_session_is_the_callers(engine, url):
    """Given a session, writes join the caller's transaction: rolled back with it, kept when it commits, never closed."""
    async with AsyncSession(engine) as session:
        store = SQLAlchemyStore(session)
        assert await store.apply([Add([record(id="gone")])]) == [1]
        assert len(await store.find(Query(collection="events"))) == 1
        await session.rollback()
        assert await store.find(Query(collection="events")) == []
        await store.apply([Add([record(id="kept")])])
        with pytest.raises(StoreError):
            await store._driver.write(
                lambda: (yield Do("INSERT INTO nowhere VALUES (1)"))
            )  # fails inside a savepoint
        await store.apply([Add([record(id="also")])])
        await session.commit()
        await store.close()
        assert (await session.execute(text("SELECT 1"))).scalar() == 1
    async with open_store(url) as other:
        assert {found.id for found in await other.find(Query(collection="events"))} == {"kept", "also"}


async def test_a_sessions_own_rows_and_ours_commit_together(engine, url):
    """Octavo's first table, made inside the caller's transaction, neither commits nor loses what the caller wrote."""
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE mine (n INTEGER)"))
    async with AsyncSession(engine) as session:
        await session.execute(text("INSERT INTO mine VALUES (1)"))
        await SQLAlchemyStore(session).apply([Add([record()])])
        await session.rollback()
        assert (await session.execute(text("SELECT COUNT(*) FROM mine"))).scalar() == 0


async def test_an_engine_stays_open(engine):
    """Given an engine, the store opens connections from it and gives all of them back."""
    async with SQLAlchemyStore(engine) as store:
        await asyncio.gather(*(store.apply([Add([record(id=str(i))])]) for i in range(50)))
        assert (await store.tally(Query(collection="events"))).total == 50
    assert engine.pool.checkedout() == 0
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT COUNT(*) FROM agent_events"))).scalar() == 50


def test_other_drivers_are_refused():
    """An engine on a driver that was never tried is refused by name."""

    class Fake:
        class dialect:  # noqa: N801
            driver, name = "pyodbc", "mssql"

    with pytest.raises(ConfigError, match="pyodbc"):
        SQLAlchemyStore(Fake())


async def test_a_few_ids_are_looked_up_by_id(tmp_path):
    """Records asked for by id in a wide scope come off the key's index: nobody walks the tenant for them."""
    async with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        await store.apply([Add([record()])])
        for scope in (Scope(), Scope(user="u")):
            table = Table(SHAPES["messages"], SQLite(), "")
            asked = select(
                table, Query(collection="messages", scope=scope, ids=("a", "b")), table.select_list(READ)
            )
            await store.apply([Add([Record(collection="messages")])])
            plan = await ask(store, f"EXPLAIN QUERY PLAN {asked.sql}", asked.values)
            assert "id=?" in str(plan), plan
