"""SQLite called directly: through apsw, which Octavo stands on, and through Python's own sqlite3."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import apsw

from bench.rows import Row
from bench.subject import LAST, Subject, expect, spelled

TABLE = (
    "CREATE TABLE event (id TEXT PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL, kind TEXT NOT NULL, "
    "timestamp TEXT NOT NULL, data TEXT NOT NULL, metadata TEXT NOT NULL)"
)
INDEX = "CREATE INDEX event_session ON event (session, timestamp)"
INSERT = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)"
NEWEST = (
    "SELECT id, agent, session, kind, timestamp, data, metadata FROM event WHERE session = ? "
    f"ORDER BY timestamp DESC LIMIT {LAST}"
)
COUNTED = "SELECT kind, COUNT(*), MIN(timestamp), MAX(timestamp) FROM event GROUP BY kind"


class _Direct(Subject):
    does = (
        "one connection, called synchronously from the benchmark's own thread (no await, no thread), WAL and the same "
        "`synchronous` as Octavo; table (id primary key, agent, session, kind, timestamp, data, metadata) with one index on "
        "(session, timestamp); JSON by `json.dumps`; one autocommitted INSERT per row (also where Octavo has 50 appenders: one "
        "connection writes one row per transaction), `executemany` in one transaction for batches; a read decodes the JSON of "
        "its 50 rows and leaves the time as text; the tally is one GROUP BY."
    )

    _db: Any

    def __init__(self, total: int, path: Path, *, full: bool) -> None:
        super().__init__(total)
        self._path = str(path)
        self._synchronous = "FULL" if full else "NORMAL"

    async def open(self) -> None:
        self._db = self._connect()
        for statement in ("PRAGMA journal_mode=WAL", f"PRAGMA synchronous={self._synchronous}", TABLE, INDEX):
            self._db.execute(statement).fetchall()

    def _connect(self) -> Any:
        raise NotImplementedError

    async def append(self, given: list[Row]) -> None:
        execute = self._db.execute
        for row in given:
            execute(INSERT, _bound(row))

    async def last(self, given: list[str]) -> None:
        execute = self._db.execute
        for session in given:
            found = [
                (*row[:5], json.loads(row[5]), json.loads(row[6]))
                for row in execute(NEWEST, (session,)).fetchall()
            ][::-1]
            expect(len(found), LAST, self)

    async def tally(self, given: int) -> None:
        for _ in range(given):
            counted = self._db.execute(COUNTED).fetchall()
        expect(sum(row[1] for row in counted), self._written, self)

    async def close(self) -> None:
        self._db.close()


class Apsw(_Direct):
    """apsw."""

    def _connect(self) -> apsw.Connection:
        return apsw.Connection(self._path)

    async def batch(self, given: list[Row]) -> None:
        with self._db:
            self._db.executemany(INSERT, [_bound(row) for row in given])


class Sqlite3(_Direct):
    """The standard library's sqlite3."""

    does = "the same through the standard library's driver and SQLite."

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None)

    async def batch(self, given: list[Row]) -> None:
        with contextlib.closing(self._db.cursor()) as cursor:
            cursor.execute("BEGIN")
            cursor.executemany(INSERT, [_bound(row) for row in given])
            cursor.execute("COMMIT")


def _bound(row: Row) -> tuple[str, ...]:
    return (row.id, row.agent, row.session, row.kind, row.at.isoformat(), *spelled(row))
