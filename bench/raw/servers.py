"""asyncpg, asyncmy and redis-py called directly."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.rows import KINDS, Row
from bench.subject import CROWD, LAST, Subject, expect, spelled

CONNECTIONS = 10
COLUMNS = "id, agent, session, kind, timestamp, data, metadata"
COUNTED = "SELECT kind, COUNT(*), MIN(timestamp), MAX(timestamp) FROM event GROUP BY kind"
_SAME = (
    "table (id primary key, agent, session, kind, timestamp, data, metadata) with one index on (session, timestamp); "
    "JSON by `json.dumps`; one autocommitted INSERT per row, on one connection or from 50 tasks over a pool of 10; "
    "`executemany` in one transaction for batches; a read decodes the JSON of its 50 rows; the tally is one GROUP BY."
)


class Asyncpg(Subject):
    """PostgreSQL through asyncpg."""

    does = f"{_SAME} JSON columns are `jsonb`."

    INSERT = f"INSERT INTO event ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    NEWEST = f"SELECT {COLUMNS} FROM event WHERE session = $1 ORDER BY timestamp DESC LIMIT {LAST}"

    def __init__(self, total: int, url: str) -> None:
        super().__init__(total)
        self._url = url

    async def open(self) -> None:
        import asyncpg

        self._pool = await asyncpg.create_pool(self._url, min_size=CONNECTIONS, max_size=CONNECTIONS)
        await self._pool.execute(
            "CREATE TABLE event (id TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, kind TEXT NOT NULL, "
            "timestamp TIMESTAMPTZ NOT NULL, data JSONB NOT NULL, metadata JSONB NOT NULL)"
        )
        await self._pool.execute("CREATE INDEX event_session ON event (session, timestamp)")

    async def append(self, given: list[Row]) -> None:
        async with self._pool.acquire() as connection:
            for row in given:
                await connection.execute(self.INSERT, *_bound(row))

    async def crowd(self, given: list[Row]) -> None:
        async def appender(mine: list[Row]) -> None:
            for row in mine:
                await self._pool.execute(self.INSERT, *_bound(row))

        await asyncio.gather(*(appender(given[at::CROWD]) for at in range(CROWD)))

    async def batch(self, given: list[Row]) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.executemany(self.INSERT, [_bound(row) for row in given])

    async def last(self, given: list[str]) -> None:
        async with self._pool.acquire() as connection:
            for session in given:
                _decoded(await connection.fetch(self.NEWEST, session), self)

    async def tally(self, given: int) -> None:
        for _ in range(given):
            counted = await self._pool.fetch(COUNTED)
        expect(sum(row[1] for row in counted), self._written, self)

    async def close(self) -> None:
        await self._pool.close()


class Asyncmy(Subject):
    """MariaDB or MySQL through asyncmy."""

    does = f"{_SAME} asyncmy's `executemany` sends multi-row INSERTs."

    INSERT = f"INSERT INTO event ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
    NEWEST = f"SELECT {COLUMNS} FROM event WHERE session = %s ORDER BY timestamp DESC LIMIT {LAST}"

    def __init__(self, total: int, url: str) -> None:
        super().__init__(total)
        self._url = urlsplit(url)

    async def open(self) -> None:
        import asyncmy

        url = self._url
        self._pool = await asyncmy.create_pool(
            host=url.hostname or "127.0.0.1",
            port=url.port or 3306,
            user=unquote(url.username or ""),
            password=unquote(url.password or ""),
            db=url.path.lstrip("/"),
            charset="utf8mb4",
            autocommit=True,
            minsize=CONNECTIONS,
            maxsize=CONNECTIONS,
        )
        async with self._cursor() as cursor:
            await cursor.execute(
                "CREATE TABLE event (id VARCHAR(64) PRIMARY KEY, agent VARCHAR(64) NOT NULL, session VARCHAR(64) NOT NULL, "
                "kind VARCHAR(64) NOT NULL, timestamp DATETIME(6) NOT NULL, data JSON NOT NULL, metadata JSON NOT NULL, "
                "INDEX event_session (session, timestamp)) ENGINE=InnoDB CHARACTER SET utf8mb4"
            )

    @asynccontextmanager
    async def _cursor(self):
        async with self._pool.acquire() as connection, connection.cursor() as cursor:
            yield cursor

    async def append(self, given: list[Row]) -> None:
        async with self._cursor() as cursor:
            for row in given:
                await cursor.execute(self.INSERT, _bound(row))

    async def crowd(self, given: list[Row]) -> None:
        async def appender(mine: list[Row]) -> None:
            for row in mine:
                async with self._cursor() as cursor:
                    await cursor.execute(self.INSERT, _bound(row))

        await asyncio.gather(*(appender(given[at::CROWD]) for at in range(CROWD)))

    async def batch(self, given: list[Row]) -> None:
        async with self._pool.acquire() as connection, connection.cursor() as cursor:
            await connection.begin()
            await cursor.executemany(self.INSERT, [_bound(row) for row in given])
            await connection.commit()

    async def last(self, given: list[str]) -> None:
        async with self._cursor() as cursor:
            for session in given:
                await cursor.execute(self.NEWEST, (session,))
                _decoded(await cursor.fetchall(), self)

    async def tally(self, given: int) -> None:
        async with self._cursor() as cursor:
            for _ in range(given):
                await cursor.execute(COUNTED)
                counted = await cursor.fetchall()
        expect(sum(row[1] for row in counted), self._written, self)

    async def close(self) -> None:
        self._pool.close()
        await self._pool.wait_closed()


class RedisPy(Subject):
    """Redis through redis-py."""

    does = (
        "one hash per event (HSET) and one sorted set per session (ZADD), both in one MULTI/EXEC pipeline per row, on one "
        "connection or from 50 tasks over a pool of 10; one pipeline for batches; a read is ZREVRANGE, then one pipeline of 50 "
        "HGETALL, decoding the JSON; the tally scans the keys and fetches kind and time of each. JSON by `json.dumps`."
    )

    def __init__(self, total: int, url: str) -> None:
        super().__init__(total)
        self._url = url

    async def open(self) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis

        pool = BlockingConnectionPool.from_url(self._url, max_connections=CONNECTIONS, decode_responses=True)
        self._redis = Redis.from_pool(pool)

    @staticmethod
    def _put(pipe: Any, row: Row) -> None:
        data, metadata = spelled(row)
        body = {
            "id": row.id, "agent": row.agent, "session": row.session, "kind": row.kind,
            "timestamp": row.at.isoformat(), "data": data, "metadata": metadata,
        }  # fmt: skip
        pipe.hset(f"event:{row.id}", mapping=body)
        pipe.zadd(f"session:{row.session}", {row.id: row.at.timestamp()})

    async def append(self, given: list[Row]) -> None:
        for row in given:
            async with self._redis.pipeline() as pipe:
                self._put(pipe, row)
                await pipe.execute()

    async def crowd(self, given: list[Row]) -> None:
        await asyncio.gather(*(self.append(given[at::CROWD]) for at in range(CROWD)))

    async def batch(self, given: list[Row]) -> None:
        async with self._redis.pipeline() as pipe:
            for row in given:
                self._put(pipe, row)
            await pipe.execute()

    async def last(self, given: list[str]) -> None:
        for session in given:
            names = await self._redis.zrevrange(f"session:{session}", 0, LAST - 1)
            async with self._redis.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.hgetall(f"event:{name}")
                bodies = await pipe.execute()
            found = [
                body | {"data": json.loads(body["data"]), "metadata": json.loads(body["metadata"])}
                for body in bodies
            ]
            expect(len(found), LAST, self)

    async def tally(self, given: int) -> None:
        for _ in range(given):
            counts = dict.fromkeys(KINDS, 0)
            times = []
            cursor = None
            while cursor != 0:
                cursor, keys = await self._redis.scan(cursor or 0, match="event:*", count=5000)
                async with self._redis.pipeline(transaction=False) as pipe:
                    for key in keys:
                        pipe.hmget(key, "kind", "timestamp")
                    for kind, at in await pipe.execute() if keys else ():
                        counts[kind] += 1
                        times.append(at)
            _ends = min(times), max(times)
        expect(sum(counts.values()), self._written, self)

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()


def _bound(row: Row) -> tuple[Any, ...]:
    return (row.id, row.agent, row.session, row.kind, row.at, *spelled(row))


def _decoded(found: list[Any], who: Subject) -> None:
    decoded = [(*row[:5], json.loads(row[5]), json.loads(row[6])) for row in found][::-1]
    expect(len(decoded), LAST, who)
