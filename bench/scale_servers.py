"""What a database says of itself while it is measured: the pages it looked at, and the room it takes."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_NAME = "octavo-bench"  # of the connections to a PostgreSQL whose pages are counted
_PAGES_READ = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"
_TABLES = "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE %s"


def named_url(url: str) -> str:
    """The URL with which a store is opened whose pages are counted."""
    return f"{url}?application_name={_NAME}" if url.startswith("postgresql") else url


async def pages_seen(url: str) -> int | None:
    """How many pages a PostgreSQL or MariaDB has looked at so far, without those of connections to PostgreSQL that are open.

    What the server did beside, such as clearing up after a write, is counted too. None of other stores.
    """
    if url.startswith("mysql"):
        return int((await _ask_mariadb(url, _PAGES_READ))[1])
    if not url.startswith("postgresql"):
        return None
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        others = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 LIMIT 1"
        while await connection.fetchval(others, _NAME):  # what it did is counted when it has ended
            await asyncio.sleep(0.05)
        sql = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
        return int(await connection.fetchval(sql))
    finally:
        await connection.close()


async def bytes_kept(url: str) -> int | None:
    """What the database takes on disk, or a Redis in memory; of some stores nobody knows."""
    kind, _, path = url.partition("://")
    if kind == "postgresql":
        import asyncpg

        connection = await asyncpg.connect(url)
        try:
            return int(await connection.fetchval("SELECT pg_database_size(current_database())"))
        finally:
            await connection.close()
    if kind == "mysql":
        name = urlsplit(url).path.strip("/")
        return int((await _ask_mariadb(url, _TABLES, f"{name}/%"))[0] or 0)
    if kind == "redis":
        import redis.asyncio

        async with redis.asyncio.Redis.from_url(url) as client:
            return int((await client.info("memory"))["used_memory"])
    if kind == "sqlite":
        return sum(found.stat().st_size for found in Path(path).parent.glob(f"{Path(path).name}*"))
    if kind == "file":
        return sum(found.stat().st_size for found in Path(path).rglob("*") if found.is_file())
    return None


async def _ask_mariadb(url: str, sql: str, *values: object) -> Any:
    """The first row of the answer."""
    import asyncmy

    parts = urlsplit(url)
    place = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password}
    async with asyncmy.connect(**place) as connection, connection.cursor() as cursor:
        await cursor.execute(sql, values)
        return await cursor.fetchone()
