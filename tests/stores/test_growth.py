"""What one user has is found by an index of users or sessions, never by walking through what all users have in common."""

import asyncio
from urllib.parse import urlsplit

import apsw
import asyncmy
import pytest

from octavo import Add, Query, Record, Scope, open_store
from octavo.kernel.shapes import SHAPES
from octavo.stores.sql.compile import count, select
from octavo.stores.sql.dialects.mysql import MySQL
from octavo.stores.sql.dialects.sqlite import SQLite
from octavo.stores.sql.schema import Table
from octavo.stores.sql.term_index import scope_tags

BY_USER = [name for name, shape in SHAPES.items() if ("user",) in shape.axes]
BY_SESSION = [name for name, shape in SHAPES.items() if ("session",) in shape.axes]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A SQLite file with a record in every table, and without statistics."""
    path = tmp_path_factory.mktemp("growth") / "memory.db"

    async def fill():
        async with open_store(f"sqlite:///{path}") as store:
            for collection in SHAPES:
                scope = Scope(user="lin", agent="helper")
                await store.apply([Add([Record(collection=collection, scope=scope)])])

    asyncio.run(fill())
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def used_indexes(database, collection, scope):
    """What the records, the last of them and their number are looked up by."""
    table = Table(SHAPES[collection], SQLite(), "")
    query = Query(collection=collection, scope=scope)
    last = Query(collection=collection, scope=scope, newest_first=True, limit=50)
    asked = [select(table, query, "rowno"), select(table, last, "rowno"), count(table, query)]
    return {
        next(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {one.sql}", one.values)) for one in asked
    }


@pytest.mark.parametrize("agent", ["helper", ""])
@pytest.mark.parametrize("collection", BY_USER)
def test_a_user_with_an_agent_of_many_users(database, collection, agent):
    used = used_indexes(database, collection, Scope(user="lin", agent=agent))
    assert all("_by_user" in step for step in used), used


@pytest.mark.parametrize("user", [None, ""])
@pytest.mark.parametrize("collection", BY_SESSION)
def test_a_session_with_an_agent_of_many_sessions(database, collection, user):
    scope = Scope(user=user, agent="helper", session="monday")
    if not (scope.exact and ("scope_key",) in SHAPES[collection].axes):  # which is looked up by itself
        used = used_indexes(database, collection, scope)
        assert all("_by_session" in step for step in used), used


async def test_the_work_for_one_user_does_not_grow_with_the_others(tmp_path):
    """Ten times as many users of the same agent: as many rows are looked at for one of them."""
    steps = []
    for users in (100, 1000):
        path = tmp_path / f"{users}.db"
        async with open_store(f"sqlite:///{path}") as store:
            facts = [
                Record(
                    collection="profile", scope=Scope(user=f"user-{n % users}", agent="helper"), text="tea"
                )
                for n in range(5 * users)
            ]
            await store.apply([Add(facts)])
        table = Table(SHAPES["profile"], SQLite(), "")
        query = Query(collection="profile", scope=Scope(user="user-7", agent="helper"))
        asked = select(table, query, "rowno")
        with apsw.Connection(str(path)) as connection:
            told = []
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, told.append)
            assert len(connection.execute(asked.sql, asked.values).fetchall()) == 5
            connection.trace_v2(0, None)
        connection.close()
        steps.append(told[-1]["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])
    assert steps[1] <= 1.2 * steps[0], steps


async def rows_read(url, statements):
    """What each statement answers, and how many rows a MariaDB reads for all of them."""
    at = urlsplit(url)
    login = {"host": at.hostname, "port": at.port, "user": at.username, "password": at.password}
    async with (
        asyncmy.connect(**login, db=at.path.strip("/")) as connection,
        connection.cursor() as cursor,
    ):
        await cursor.execute("FLUSH STATUS")
        answers = []
        for statement in statements:
            await cursor.execute(statement)
            answers += [row[0] for row in await cursor.fetchall()]
        await cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return answers, sum(int(count) for _, count in await cursor.fetchall())


@pytest.mark.parametrize("words", [["tea"], ["tea", "cake"]])
async def test_a_common_word_within_one_user(fresh_mysql, words):
    """On MariaDB the list of a word that everybody uses is not read for a user who has five records."""
    index = Table(SHAPES["messages"], MySQL(), "").index
    lin = scope_tags(Scope(user="lin"))
    asked = [
        f"SELECT COUNT(*) FROM {index.candidates([], lin, words)[0]}",
        f"SELECT {index.count([], lin, words, [], 100)}",
    ]
    read = []
    async with open_store(fresh_mysql) as store:
        users = ["lin"] * 5
        for others in (100, 2000):
            users += [f"user-{n}" for n in range(others)]
            await store.apply(
                [
                    Add([Record(collection="messages", scope=Scope(user=user), text="tea and cake")])
                    for user in users
                ]
            )
            users = []
            await store.reindex("messages")
            answers, rows = await rows_read(fresh_mysql, asked)
            assert answers == [5, 5]
            read.append(rows)
    assert read[1] <= 1.2 * read[0], read
