"""database.dsn takes the spellings that users of SQLAlchemy have, on real databases."""

import pytest

from octavo import Add, ConfigError, Query, Record
from octavo.assemble import assemble
from octavo.config import Database, FailureQueue, Settings, local_path


async def kept(dsn):
    """How many records are there after one was written."""
    async with assemble(
        Settings(database=Database(dsn=dsn), failure_queue=FailureQueue(enabled=False))
    ) as memory:
        await memory.store.apply([Add([Record(collection="messages", text="it is kept")])])
        return (await memory.store.tally(Query(collection="messages"))).total


@pytest.mark.parametrize(
    "spelling", ["sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite+aiosqlite:///{}?check_same_thread=false"]
)
async def test_sqlite(tmp_path, spelling):
    assert await kept(spelling.format(tmp_path / "octavo.db")) == 1
    assert (tmp_path / "octavo.db").exists()


@pytest.mark.parametrize("driver", ["", "+pymysql", "+aiomysql", "+asyncmy", "+mysqldb", "+mysqlconnector"])
async def test_mysql(fresh_mysql, driver):
    """With the charset that everybody writes into it."""
    bare, mark, options = fresh_mysql.partition("?")
    dsn = (
        bare.replace("mysql://", f"mysql{driver}://") + "?charset=utf8mb4" + mark.replace("?", "&") + options
    )
    assert await kept(dsn) == 1


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2", "postgresql+asyncpg"])
async def test_postgresql(fresh_postgres, scheme):
    assert await kept(f"{scheme}://{fresh_postgres.partition('://')[2]}") == 1


async def test_an_option_nobody_knows_is_still_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"database\.dsn: unknown option isolation in the sqlite URL"):
        await kept(f"sqlite:///{tmp_path}/a.db?isolation=none")


@pytest.mark.parametrize(
    ("dsn", "path"),
    [
        ("sqlite:///octavo.db", "octavo.db"),
        ("sqlite:////data/octavo.db", "/data/octavo.db"),
        ("sqlite:///:memory:", ""),
        ("file:///data/files?sync=fsync", "/data/files"),
        ("file://./data", "./data"),
        ("file://data/my%20files", "data/my files"),
        ("memory://", ""),
        ("postgresql://host/database", None),
    ],
)
def test_where_on_this_disk(dsn, path):
    """A folder that is named from here is on this disk, too: it is scrubbed, and looked for before it is read."""
    assert local_path(dsn) == path
