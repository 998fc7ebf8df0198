"""Where contestants live: a fresh place for each, thrown away afterwards."""

import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from bench.ours import Octavo
from bench.raw.plain import PlainFiles, PythonObjects
from bench.raw.servers import Asyncmy, Asyncpg, RedisPy
from bench.raw.slow_disk import syncs_take
from bench.raw.sqlite import Apsw, Sqlite3
from bench.subject import Subject

ROOT = Path(__file__).parents[1]
OURS = "octavo"


class Places:
    """Empty folders and databases on request, all gone when it is left; a server starts when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        self._stack = ExitStack()
        self._servers = None

    def __enter__(self) -> Self:
        # Beside the results rather than in the system's temporary folder, which may be memory: a sync there costs nothing.
        made = tempfile.TemporaryDirectory(prefix="scratch-", dir=self._folder)
        self._scratch = Path(self._stack.enter_context(made)).resolve()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def path(self, ending: str = "") -> Path:
        """A path that nothing stands at yet."""
        return self._scratch / f"{next(self._numbers)}{ending}"

    def database(self, kind: str) -> str:
        """The URL of an empty database on a durable server of this kind."""
        # The benchmark uses the tests' servers: real ones, private to this run.
        if str(ROOT / "tests") not in sys.path:
            sys.path.insert(0, str(ROOT / "tests"))
        import servers

        if self._servers is None:
            self._servers = servers.Shared(durable=True)
            self._stack.callback(self._servers.close)
        return self._stack.enter_context(servers.fresh(kind, self._servers.url(kind)))


class Setting(NamedTuple):
    """One store under one durability: how to make Octavo and each raw driver on it."""

    store: str
    ours: Callable[[Places, int], Octavo]
    raw: dict[str, Callable[[Places, int], Subject]]
    pooled: bool = False  # the raw driver has an honest way to do 50 at once
    appends_only: bool = False  # nothing else about it differs from another setting
    million: bool = False  # cheap enough to be measured at a million each time
    note: str = ""
    around: Callable[[], AbstractContextManager[None]] = nullcontext  # what holds while it is measured


def _sqlite(durability: str) -> Setting:
    full = durability == "full"
    return Setting(
        f"sqlite {durability}",
        lambda places, total: Octavo(total, f"sqlite:///{places.path('.db')}?durability={durability}"),
        {
            "apsw": lambda places, total: Apsw(total, places.path(".db"), full=full),
            "sqlite3": lambda places, total: Sqlite3(total, places.path(".db"), full=full),
        },
        million=not full,
        note=f"WAL, synchronous={'FULL' if full else 'NORMAL'}",
    )


def _slow_disk(sync_ms: int) -> Setting:
    """Group commit pays where a sync costs something; on a virtual disk it may cost next to nothing."""
    full = _sqlite("full")
    return full._replace(
        store=f"sqlite full, {sync_ms} ms sync",
        raw={"apsw": full.raw["apsw"]},
        note=f"as `sqlite full`, with every sync of the file system delayed by {sync_ms} ms for Octavo and apsw alike",
        around=lambda: syncs_take(sync_ms),
        appends_only=True,
    )


def _file(durability: str) -> Setting:
    fsync = durability == "fsync"
    return Setting(
        f"file {durability}",
        lambda places, total: Octavo(total, f"file://{places.path()}?format=jsonl&sync={durability}"),
        {"os.write": lambda places, total: PlainFiles(total, places.path(), fsync=fsync)},
        note="JSONL" + (", fsync before each acknowledgement" if fsync else ", handed to the kernel"),
    )


def _server(store: str, kind: str, label: str, raw: type[Asyncpg | Asyncmy | RedisPy], note: str) -> Setting:
    return Setting(
        store,
        lambda places, total: Octavo(total, places.database(kind)),
        {label: lambda places, total: raw(total, places.database(kind))},
        pooled=True,
        note=note,
    )


SETTINGS = {
    setting.store: setting
    for setting in (
        Setting(
            "memory",
            lambda _places, total: Octavo(total, "memory://"),
            {"list + dict": lambda _places, total: PythonObjects(total)},
        ),
        _file("flush"),
        _file("fsync"),
        _sqlite("fast"),
        _sqlite("full"),
        _slow_disk(2),
        _server("postgresql", "postgres", "asyncpg", Asyncpg, "fsync on, synchronous_commit on"),
        _server("mariadb", "mysql", "asyncmy", Asyncmy, "innodb_flush_log_at_trx_commit=1"),
        _server("redis", "redis", "redis-py", RedisPy, "appendonly, fsync every second"),
    )
}

#: What the other side of each ratio does, word for word.
DOES = {
    "list + dict": PythonObjects.does,
    "os.write": PlainFiles.does,
    "apsw": Apsw.does,
    "sqlite3": Sqlite3.does,
    "asyncpg": Asyncpg.does,
    "asyncmy": Asyncmy.does,
    "redis-py": RedisPy.does,
}


@asynccontextmanager
async def contestants(
    setting: Setting, places: Places, total: int, raws: int | None = None
) -> AsyncIterator[dict[str, Subject]]:
    """Octavo and its raw drivers (or the first few of them), each open on an empty place of its own."""
    async with AsyncExitStack() as stack:
        opened: dict[str, Subject] = {}
        for label, make in {OURS: setting.ours, **dict(list(setting.raw.items())[:raws])}.items():
            subject = make(places, total)
            await subject.open()
            stack.push_async_callback(subject.close)
            opened[label] = subject
        yield opened
