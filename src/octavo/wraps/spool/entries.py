"""What the queue keeps: writes that wait, writes that were given up, and how much there is of both."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import field

from octavo.kernel.ids import new_id, now
from octavo.kernel.model import Op

Durability: TypeAlias = Literal["fsync", "flush", "memory"]


def _queue_id() -> str:
    return new_id("q_")


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The ops of one `apply` that could not be stored yet; a transaction stays one."""

    id: str = field(default_factory=_queue_id)
    queued_at: datetime = field(default_factory=now)
    ops: list[Op]
    attempts: int = 0
    error: str = ""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was given up, with the error that killed it."""

    id: str
    queued_at: datetime
    ops: list[Op]
    attempts: int = 0
    error: str = ""
    died_at: datetime = field(default_factory=now)


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One process's part of the directory; `alive` says that a process holds it now."""

    number: int
    waiting: int
    alive: bool


class SpoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits, how much was given up, and what it takes on disk."""

    directory: str
    waiting: int = 0
    dead: int = 0
    bad_lines: int = 0
    bytes: int = 0  # of the files of what waits
    files: int = 0
    oldest_at: datetime | None = None
    slots: tuple[Slot, ...] = ()


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How much is held in memory, how the files are cut, and when they count as written."""

    max_in_memory: int = 1000
    spill_batch_size: int = 200
    max_file_bytes: int = 10 * 2**20
    max_backups: int = 0
    durability: Durability = "fsync"

    @property
    def synced(self) -> bool:
        return self.durability == "fsync"
