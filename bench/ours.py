"""Octavo as a contestant: what a user of the kernel writes, and nothing else."""

import asyncio

from bench.rows import Row
from bench.subject import CROWD, LAST, Subject, expect
from octavo import Add, Query, Record, Scope, open_store


class Octavo(Subject):
    """Any store behind its URL; building the Record is part of the time."""

    def __init__(self, total: int, url: str) -> None:
        super().__init__(total)
        self._store = open_store(url)

    async def open(self) -> None:
        await self._store.__aenter__()

    async def append(self, given: list[Row]) -> None:
        apply = self._store.apply
        for row in given:
            await apply([Add([_record(row)])])

    async def crowd(self, given: list[Row]) -> None:
        await asyncio.gather(*(self.append(given[at::CROWD]) for at in range(CROWD)))

    async def batch(self, given: list[Row]) -> None:
        added = await self._store.apply([Add([_record(row) for row in given])])
        expect(added[0], len(given), self)

    async def last(self, given: list[str]) -> None:
        for session in given:
            found = await self._store.find(
                Query(collection="events", scope=Scope(session=session), limit=LAST)
            )
            expect(len(found), LAST, self)

    async def tally(self, given: int) -> None:
        for _ in range(given):
            tally = await self._store.tally(Query(collection="events"))
        expect(tally.total, self._written, self)

    async def close(self) -> None:
        await self._store.close()


def _record(row: Row) -> Record:
    return Record(
        collection="events",
        id=row.id,
        kind=row.kind,
        scope=Scope(agent=row.agent, session=row.session),
        data=row.data,
        metadata=row.metadata,
        created_at=row.at,
    )
