"""The search engines of the databases, called directly: the same terms, the same user, their own ranking, the ten best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import apsw

from octavo import Record
from octavo.kernel.terms.terms import terms

TOP = 10
_SAME = "Octavo's own terms, indexed beforehand, with the user's name among them; any of the terms may match; the texts of the ten best"


class RawTerms:
    """One engine. The terms are Octavo's, since the engines find no Chinese by themselves."""

    does = ""

    async def open(self) -> None:
        """Connect and create what is missing."""

    async def fill(self, records: Sequence[Record]) -> None:
        """Keep the records, indexed."""
        raise NotImplementedError

    async def ask(self, user: str, given: Sequence[str]) -> int:
        """Fetch the ten best of a user's records that hold any of the terms; answer how many there are."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go."""


def word(term: str) -> str:
    """A term as one word of ASCII that no engine takes apart, drops for its length or has on a list of stop words."""
    return f"tt{term}" if term.isascii() and term.isalnum() else f"tx{term.encode().hex()}"


def owner(user: str) -> str:
    return "uu" + user.replace("-", "")


def bag(record: Record) -> str:
    return " ".join([owner(record.scope.user or ""), *map(word, terms(record.text))])


class Fts5(RawTerms):
    """SQLite's FTS5 through apsw."""

    does = f"FTS5 with its bm25(), called synchronously. {_SAME}."

    def __init__(self, path: Path) -> None:
        self._db = apsw.Connection(str(path))

    async def open(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL").fetchall()
        self._db.execute("CREATE TABLE memory (number INTEGER PRIMARY KEY, id TEXT, body TEXT)")
        self._db.execute("CREATE VIRTUAL TABLE terms USING fts5(words, content='', tokenize='ascii')")

    async def fill(self, records: Sequence[Record]) -> None:
        with self._db:
            for number, record in enumerate(records):
                self._db.execute("INSERT INTO memory VALUES (?, ?, ?)", (number, record.id, record.text))
                self._db.execute("INSERT INTO terms (rowid, words) VALUES (?, ?)", (number, bag(record)))

    async def ask(self, user: str, given: Sequence[str]) -> int:
        match = f"{owner(user)} AND ({' OR '.join(map(word, given))})"
        rows = self._db.execute(
            "SELECT id, body FROM (SELECT rowid AS found, rank FROM terms WHERE terms MATCH ? ORDER BY rank LIMIT ?) "
            "JOIN memory ON number = found ORDER BY rank",
            (match, TOP),
        ).fetchall()
        return len(rows)

    async def close(self) -> None:
        self._db.close()


class Tsquery(RawTerms):
    """PostgreSQL's tsvector and GIN through asyncpg."""

    does = f"tsvector with a GIN index, ordered by ts_rank, on one connection. {_SAME}."

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        import asyncpg

        self._db = await asyncpg.connect(self._url)
        await self._db.execute("CREATE TABLE memory (id TEXT PRIMARY KEY, body TEXT, words TSVECTOR)")

    async def fill(self, records: Sequence[Record]) -> None:
        for start in range(0, len(records), 1000):
            some = records[start : start + 1000]
            await self._db.execute(
                "INSERT INTO memory SELECT i, b, to_tsvector('simple', w) "
                "FROM unnest($1::text[], $2::text[], $3::text[]) AS given(i, b, w)",
                [r.id for r in some],
                [r.text for r in some],
                [bag(r) for r in some],
            )
        await self._db.execute("CREATE INDEX ON memory USING GIN (words)")
        await self._db.execute("ANALYZE memory")

    async def ask(self, user: str, given: Sequence[str]) -> int:
        match = f"{owner(user)} & ({' | '.join(map(word, given))})"
        return len(
            await self._db.fetch(
                "SELECT id, body FROM memory, CAST($1::text AS tsquery) AS q WHERE words @@ q "
                "ORDER BY ts_rank(words, q) DESC LIMIT $2",
                match,
                TOP,
            )
        )

    async def close(self) -> None:
        await self._db.close()


class Fulltext(RawTerms):
    """InnoDB's FULLTEXT through asyncmy."""

    does = f"InnoDB FULLTEXT in boolean mode, ordered by its relevance, on one connection. {_SAME}."

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    async def open(self) -> None:
        import asyncmy

        url = self._url
        self._db = await asyncmy.connect(
            host=url.hostname or "127.0.0.1",
            port=url.port or 3306,
            user=unquote(url.username or ""),
            password=unquote(url.password or ""),
            db=url.path.lstrip("/"),
            charset="utf8mb4",
            autocommit=True,
        )
        await self._run(
            "CREATE TABLE memory (id VARCHAR(64) PRIMARY KEY, body TEXT, words TEXT CHARACTER SET ascii) "
            "ENGINE=InnoDB CHARACTER SET utf8mb4"
        )

    async def _run(self, sql: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        async with self._db.cursor() as cursor:
            await cursor.execute(sql, tuple(values))
            return await cursor.fetchall()

    async def fill(self, records: Sequence[Record]) -> None:
        for start in range(0, len(records), 1000):
            some = records[start : start + 1000]
            holes = ", ".join(["(%s, %s, %s)"] * len(some))
            await self._run(
                f"INSERT INTO memory VALUES {holes}",
                [value for r in some for value in (r.id, r.text, bag(r))],
            )
        await self._run("CREATE FULLTEXT INDEX by_word ON memory (words)")

    async def ask(self, user: str, given: Sequence[str]) -> int:
        match = f"+{owner(user)} +({' '.join(map(word, given))})"
        rows = await self._run(
            "SELECT id, body FROM memory WHERE MATCH (words) AGAINST (%s IN BOOLEAN MODE) "
            f"ORDER BY MATCH (words) AGAINST (%s IN BOOLEAN MODE) DESC LIMIT {TOP}",
            (match, match),
        )
        return len(rows)

    async def close(self) -> None:
        await self._db.ensure_closed()


class SortedSets(RawTerms):
    """Redis' sorted sets through redis-py."""

    does = (
        "a sorted set for each user and term, scored by how often the record holds it; ZUNION of the terms' sets, then one "
        f"HMGET. {_SAME}."
    )

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        from redis.asyncio import Redis

        self._redis = Redis.from_url(self._url, decode_responses=True)

    async def fill(self, records: Sequence[Record]) -> None:
        for start in range(0, len(records), 1000):
            async with self._redis.pipeline(transaction=False) as pipe:
                for record in records[start : start + 1000]:
                    pipe.hset("memory", record.id, record.text)
                    for term in terms(record.text):
                        pipe.zincrby(f"{owner(record.scope.user or '')}:{word(term)}", 1, record.id)
                await pipe.execute()

    async def ask(self, user: str, given: Sequence[str]) -> int:
        keys = [f"{owner(user)}:{word(term)}" for term in given]
        best = (await self._redis.zunion(keys))[::-1][:TOP]
        return len(await self._redis.hmget("memory", best)) if best else 0

    async def close(self) -> None:
        await self._redis.aclose()
