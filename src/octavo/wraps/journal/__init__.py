"""The Journal: a store whose writes wait on disk, in order, while it is away."""

from octavo.wraps.journal.files import DeadLetter, Erased, Slot, SpoolStatus, Waiting
from octavo.wraps.journal.journal import Journal, JournalStatus
from octavo.wraps.journal.spool import Spool, find_folder, holds_writes, inspect, named_store, peek

__all__ = [
    "DeadLetter",
    "Erased",
    "Journal",
    "JournalStatus",
    "Slot",
    "Spool",
    "SpoolStatus",
    "Waiting",
    "find_folder",
    "holds_writes",
    "inspect",
    "named_store",
    "peek",
]
