"""All that a database server holds, as bytes."""

from urllib.parse import urlsplit

import asyncmy
import asyncpg
import redis.asyncio


async def dump(kind, url) -> bytes:
    """Every row of every table, or every key with its value."""
    return await {"postgres": _postgres, "mysql": _mysql, "redis": _redis}[kind](url)


async def _postgres(url):
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = ANY(current_schemas(false))"
        )
        rows = [name[0].encode() for name in names]
        for name in names:
            rows += [
                repr(tuple(row)).encode() for row in await connection.fetch(f'SELECT * FROM "{name[0]}"')
            ]
        return b"\n".join(rows)
    finally:
        await connection.close()


async def _mysql(url):
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        host=parts.hostname, port=parts.port, user=parts.username, password=parts.password or "",
        database=parts.path.strip("/"), charset="utf8mb4",
    )  # fmt: skip
    try:
        async with connection.cursor() as cursor:
            await cursor.execute("SHOW TABLES")
            names = [row[0] for row in await cursor.fetchall()]
            rows = [name.encode() for name in names]
            for name in names:
                await cursor.execute(f"SELECT * FROM `{name}`")
                rows += [str(row).encode() for row in await cursor.fetchall()]
        return b"\n".join(rows)
    finally:
        connection.close()


async def _redis(url):
    client = redis.asyncio.from_url(url)
    try:
        rows = []
        async for key in client.scan_iter():
            kind = (await client.type(key)).decode()
            value = await {
                "hash": client.hgetall,
                "set": client.smembers,
                "string": client.get,
                "zset": lambda key: client.zrange(key, 0, -1),
                "list": lambda key: client.lrange(key, 0, -1),
            }[kind](key)
            rows += [key, repr(value).encode()]
        return b"\n".join(rows)
    finally:
        await client.aclose()
