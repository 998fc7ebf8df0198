"""Writes to queue, and queues to put them into."""

from pathlib import Path

from octavo import Add, Record, Scope
from octavo.wraps.journal import Spool, Waiting


def write(n, text="消息", session="s") -> Waiting:
    """A write that can be told from others."""
    record = Record(collection="log", id=f"r{n}", scope=Scope(session=session), text=f"{text} {n}")
    return Waiting(ops=[Add([record])])


def writes(count, text="消息") -> list[Waiting]:
    return [write(n, text) for n in range(count)]


def ids(entries) -> list[str]:
    return [entry.id for entry in entries]


def names(folder) -> list[str]:
    """The files people see."""
    return sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith("."))


def quick(folder, **options) -> Spool:
    """An open queue that does not wait for the disk."""
    spool = Spool(folder, **{"durability": "flush", **options})
    spool.open()
    return spool
