"""The memory store: the specification of every other store, and a fast one where nothing must outlive the process."""

from octavo.codec import Prepared
from octavo.model import Query, Record, Tally
from octavo.ports import Finding
from octavo.stores.base import BaseStore
from octavo.stores.image import Image


class MemoryStore(BaseStore):
    """Records in this process's memory; an acknowledgement means they are in RAM."""

    def __init__(self) -> None:
        super().__init__()
        self._image = Image()

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        return self._image.apply(ops)

    async def _find(self, query: Query) -> list[Record]:
        return [sealed.record for sealed in self._image.answer(query)]

    async def _tally(self, query: Query) -> Tally:
        return self._image.shelf(query.collection).tally(query)

    async def tenants(self) -> list[str]:
        await self._ready()
        return self._image.tenants()

    async def describe(self) -> list[Finding]:
        return [
            Finding("store", "memory"),
            Finding(
                "durability",
                "none",
                "everything is lost when the process ends; use sqlite:///path.db to keep it",
            ),
        ]


def open_memory(url: str) -> MemoryStore:
    """Open `memory://`: a new, empty store each time."""
    del url
    return MemoryStore()
