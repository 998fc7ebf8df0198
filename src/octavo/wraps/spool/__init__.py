"""The failure queue on disk: writes that could not be stored wait here, in order, whatever happens to the process."""

from octavo.wraps.spool.dead import DeadLetters
from octavo.wraps.spool.entries import DeadLetter, Durability, Slot, SpoolStatus, Waiting
from octavo.wraps.spool.looking import inspect, peek
from octavo.wraps.spool.spool import Spool

__all__ = [
    "DeadLetter",
    "DeadLetters",
    "Durability",
    "Slot",
    "Spool",
    "SpoolStatus",
    "Waiting",
    "inspect",
    "peek",
]
