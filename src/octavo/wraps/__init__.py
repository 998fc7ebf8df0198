"""Stores around stores: each adds one thing and hands everything else on."""

from octavo.kernel.ports import Written
from octavo.wraps.deduped import Deduped
from octavo.wraps.journal import Journal, JournalStatus
from octavo.wraps.metered import Metered
from octavo.wraps.vectors import Indexed
from octavo.wraps.wrap import Wrap

__all__ = ["Deduped", "Indexed", "Journal", "JournalStatus", "Metered", "Wrap", "Written"]
