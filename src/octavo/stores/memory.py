"""The memory store: the specification of every other store, and a fast one where nothing must outlive the process."""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from octavo.errors import ConfigError
from octavo.kernel.codec import Prepared
from octavo.kernel.model import Head, Query, Record, Tally
from octavo.kernel.ports import Finding, Lexicon
from octavo.kernel.terms.matches import Matches
from octavo.stores.base import Progress, SearchingStore
from octavo.stores.image import Image

if TYPE_CHECKING:
    from octavo.stores.term_index import Steps

_IDLE_SECONDS = 0.05  # between two short looks at what waits to be indexed


class MemoryStore(SearchingStore):
    """Records in this process's memory; an acknowledgement means they are in RAM."""

    def __init__(self) -> None:
        super().__init__()
        self._image = Image()
        self._idle: asyncio.TimerHandle | None = None
        self._searched = False

    async def _apply(self, ops: list[Prepared]) -> list[int]:
        counts = self._image.apply(ops)
        if self._searched and self._idle is None:
            self._index_soon()
        return counts

    async def _find(self, query: Query) -> list[Record]:
        return [sealed.record for sealed in self._image.answer(query)]

    async def _heads(self, query: Query) -> list[Head]:
        return [sealed.head for sealed in self._image.answer(query)]

    async def _tally(self, query: Query) -> Tally:
        return self._image.shelf(query.collection).tally(query)

    async def _search(self, query: Query, terms: tuple[str, ...]) -> Matches:
        from octavo.stores.lexicon import searched

        matches: Matches = await self._in_steps(searched(self._image, query, terms))
        self._searched = True
        if not self._closed and self._idle is None:
            self._index_soon()
        return matches

    async def _reindex(self, collection: str, progress: Progress) -> int:
        from octavo.stores.lexicon import reindexed

        total: int = await self._in_steps(reindexed(self._image, collection), progress)
        progress(total, total)
        return total

    async def _verify(self, collection: str, progress: Progress) -> Lexicon:
        from octavo.stores.lexicon import verified

        lexicon: Lexicon = await self._in_steps(verified(self._image, collection), progress)
        progress(lexicon.records, lexicon.records)
        return lexicon

    async def _in_steps(self, steps: "Steps[Any]", progress: Progress | None = None) -> Any:
        """Do a long work and let others go between its steps."""
        from octavo.stores.lexicon import advance

        while (step := advance(steps)).done is not None:
            if progress is not None:
                progress(*step.done)
            await asyncio.sleep(0)
        return step.result

    def _index_soon(self) -> None:
        self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._index)

    def _index(self) -> None:
        """Index a little of what waits, and come again if that was not all."""
        from octavo.stores.lexicon import idle

        self._idle = None
        if idle(self._image):
            self._index_soon()

    def _abandon(self) -> None:
        self._idle = None

    async def _close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

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
    if options := url.partition("?")[2]:
        unknown = ", ".join(dict(parse_qsl(options, keep_blank_values=True)) or [options])
        raise ConfigError(f"unknown option {unknown} in the memory URL; known: none")
    return MemoryStore()
