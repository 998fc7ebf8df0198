"""What the tests of the file store share: short ways to write and look, and a way to be killed at any step."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from octavo.errors import StoreUnavailable
from octavo.kernel.model import Query, Record, Scope
from octavo.stores.file.log import FileLog

AT = datetime(2024, 1, 1, 12, tzinfo=UTC)
EVENTS = Query(collection="events")


def event(number, session="s", **more) -> Record:
    scope = Scope(agent="assistant", session=session)
    return Record(**{
        "collection": "events", "id": f"evt_{number}", "kind": "user_message", "scope": scope,
        "data": {"n": number}, **more,
    })  # fmt: skip


async def ids(store, **query) -> list[str]:
    return [record.id for record in await store.find(Query(collection="events", **query))]


def data_files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*.json*") if ".octavo" not in p.parts)


def child(code: str, *args, **options) -> subprocess.Popen:
    """A Python process with the names of this module at hand."""
    lines = [
        "import asyncio, sys",
        "from octavo.kernel.model import *",
        "from octavo.stores.file import FileStore",
        code,
    ]
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def lines_of(path: Path) -> list[str]:
    return path.read_text().removesuffix("\n").split("\n")


class Killed(BaseException):
    """The process ends here."""


class Kill:
    """Lets so many calls that change something on disk pass, and breaks the next one, a write in the middle."""

    def __init__(self, passing, monkeypatch, error=None, *, lasting=False):
        self.passing, self.error, self.lasting, self.done = passing, error, lasting, False
        self._monkeypatch = monkeypatch

    def __enter__(self):
        self._patches = self._monkeypatch.context()
        patch = self._patches.__enter__()
        for owner, name in ((os, "write"), (os, "pwrite"), (os, "fsync"), (os, "truncate"), (os, "ftruncate"),
                            (os, "utime"), (Path, "replace"), (Path, "rename"), (Path, "unlink")):  # fmt: skip
            patch.setattr(owner, name, self._breaking(getattr(owner, name)))
        commit = FileLog.commit

        def ending(*args):
            try:
                return commit(*args)
            except Killed:  # no code of the store has seen it
                raise StoreUnavailable("killed") from None

        patch.setattr(FileLog, "commit", ending)
        return self

    def __exit__(self, *exc):
        return self._patches.__exit__(*exc)

    def _breaking(self, real):
        def call(*args, **kwargs):
            self.passing -= 1
            if self.passing >= 0 or (self.passing < -1 and not self.lasting):
                return real(*args, **kwargs)
            self.done = True
            if real.__name__ in ("write", "pwrite") and len(args[1]) > 1:
                real(args[0], args[1][: len(args[1]) // 2], *args[2:])
            raise self.error or Killed

        return call
