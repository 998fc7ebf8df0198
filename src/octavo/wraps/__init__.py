"""Stores around stores: each adds one thing and hands everything else on."""

from typing import TYPE_CHECKING

from octavo.util.importing import names_on_use

if TYPE_CHECKING:
    from octavo.kernel.ports import Written
    from octavo.wraps.deduped import Deduped
    from octavo.wraps.journal import Journal, JournalStatus
    from octavo.wraps.metered import Metered
    from octavo.wraps.vectors import Indexed
    from octavo.wraps.wrap import Wrap

# A memory has few of them, and each brings much: a queue on disk, an index.
_HOMES = {
    "octavo.kernel.ports": "Written",
    "octavo.wraps.deduped": "Deduped",
    "octavo.wraps.journal": "Journal JournalStatus",
    "octavo.wraps.metered": "Metered",
    "octavo.wraps.vectors": "Indexed",
    "octavo.wraps.wrap": "Wrap",
}
__getattr__ = names_on_use(__name__, _HOMES)

__all__ = ["Deduped", "Indexed", "Journal", "JournalStatus", "Metered", "Wrap", "Written"]
