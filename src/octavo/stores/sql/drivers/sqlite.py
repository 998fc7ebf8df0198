"""SQLite through apsw: small work at once, the rest in one thread that writes and a few that read."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import apsw

from octavo.errors import StoreClosed
from octavo.ports import Finding
from octavo.stores.sql.dialects import Dialect, SQLite
from octavo.stores.sql.drivers.port import ApplyAll, Batch
from octavo.stores.sql.drivers.sqlite_front import PAGES, Front
from octavo.stores.sql.drivers.sqlite_thread import Call, Worker, run, transact, transact_reading
from octavo.stores.sql.statements import Script

T = TypeVar("T")
_SYNCHRONOUS = {"full": "FULL", "fast": "NORMAL"}


class SQLiteDriver:
    """A database file, or one in memory; `durability` full survives power loss, fast survives kill -9."""

    joins = False
    alone = False

    def __init__(self, path: str, durability: str = "full", timeout: float = 60.0, readers: int = 2) -> None:
        self.dialect: Dialect = SQLite()
        self.path = path
        self.durability = durability
        self.timeout = timeout
        self._reader_count = readers
        self._writer: Worker | None = None
        self._readers: list[Worker] = []
        self._front: Front | None = None
        self._turn = itertools.count()

    async def open(self) -> None:
        self._writer = Worker(self._connect, "octavo-sqlite-writer")
        if self.path == ":memory:":  # belongs to its connection, so that one does everything
            self._readers = [self._writer]
        try:
            await self._writer.run(lambda _: None)  # a file that cannot be opened must fail here, not later
            if not self._readers:
                self._front = Front(await self._writer.run(lambda _: self._connect()), self._writer)
        except BaseException:  # cancelled too: the thread would stay
            await self.close()
            raise
        if not self._readers:
            self._readers = [Worker(self._connect, "octavo-sqlite-reader") for _ in range(self._reader_count)]

    def commit(self, batch: Batch, apply_all: ApplyAll) -> Coroutine[Any, Any, list[int]]:
        # No coroutine of its own around the front's: there is one for each append.
        return self._front.commit(batch, apply_all) if self._front else self._commit(batch, apply_all)

    async def _commit(self, batch: Batch, apply_all: ApplyAll) -> list[int]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[int]] = loop.create_future()
        self._worker().take([Call(batch, apply_all, loop, answer)])
        return await answer

    async def write(self, script: Callable[[], Script[T]]) -> T:
        return await self._worker().run(lambda connection: transact(connection, lambda c: run(c, script())))

    async def migrate(self, script: Callable[[], Script[T]]) -> T:
        return await self.write(script)

    async def make(self, name: str, script: Callable[[], Script[bool]]) -> bool:
        del name  # a store makes each once
        await self.write(script)
        return False

    async def aside(self, script: Callable[[], Script[T]]) -> T | None:
        del script  # there is no caller's transaction
        return None

    async def read(self, script: Callable[[], Script[T]], *, small: bool = False) -> T:
        self._worker()
        if small and self._front is not None and (answer := self._front.read(script)) is not None:
            return answer[0]
        reader = self._readers[next(self._turn) % len(self._readers)]
        return await reader.run(lambda connection: transact_reading(connection, lambda c: run(c, script())))

    async def describe(self) -> list[Finding]:
        version = apsw.sqlite_lib_version()
        mode = await self._worker().run(
            lambda c: [_pragma(c, name) for name in ("journal_mode", "synchronous")]
        )
        keeps = self.path != ":memory:"
        level = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}[mode[1]]
        loss = (
            ""
            if mode[1] >= 2 or not keeps
            else "the last transactions may be lost when the power fails; use durability=full"
        )
        return [
            Finding("store", "sqlite"),
            Finding("version", version, "" if _number(version) >= (3, 46) else "an old SQLite; upgrade apsw"),
            Finding("file", self.path, "" if keeps else "everything is lost when the process ends"),
            Finding(
                "journal",
                str(mode[0]),
                "" if mode[0] == "wal" or not keeps else "not WAL: readers block the writer",
            ),
            Finding("durability", f"{self.durability} (synchronous={level})", loss),
        ]

    async def close(self) -> None:
        front, self._front = self._front, None
        if front is not None:
            front.close()
        workers = {id(worker): worker for worker in (*self._readers, self._writer) if worker is not None}
        self._readers, self._writer = [], None
        for worker in workers.values():
            await worker.stop()

    def _worker(self) -> "Worker":
        if self._writer is None:
            raise StoreClosed("the SQLite store was closed")
        return self._writer

    def _connect(self) -> apsw.Connection:
        connection = connect(self.path, self.durability, self.timeout)
        connection.execute(
            "PRAGMA cache_size = -16384"
        )  # 16 MiB of each connection; the file's other pages are in the system's own cache
        # Else a statement is prepared anew for each value it is given, should the value make for a better plan.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES}").fetchall()
        return connection


def connect(path: str, durability: str, timeout: float) -> apsw.Connection:
    """A connection to a file that others may use too, in WAL mode; the file and its folder are made if missing."""
    if path != ":memory:":
        with contextlib.suppress(FileExistsError):
            Path(path).absolute().parent.mkdir(parents=True)
    connection = apsw.Connection(path)
    connection.set_busy_timeout(int(timeout * 1000))
    deadline = time.monotonic() + timeout
    while True:
        try:  # going over to WAL does not wait for others by itself, so parallel first use would fail
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _pragma(connection: apsw.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchall()[0][0]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
