"""Many processes on the same records."""

import asyncio
import os
from collections import Counter

import pytest

from octavo.kernel.ids import new_id
from octavo.kernel.model import Query, Scope
from octavo.testing.processes import BOARD, crowd, own, shared
from octavo.testing.subject import Subject


class Crowds(Subject):
    """`OCTAVO_TORTURE=full` makes the crowd large."""

    def test_many_processes(self) -> None:
        """Processes that write at the same moment lose nothing, double nothing, and none of them sees an error."""
        if not self.url:
            pytest.skip("other processes cannot open this store: no `url` is given")
        processes, writes = (8, 2000) if os.environ.get("OCTAVO_TORTURE") == "full" else (4, 200)

        async def body() -> None:
            tenant = new_id()
            reports = await crowd(self.url, tenant, processes, writes)
            writers = [f"w{number}" for number in range(processes)]
            names = [BOARD, *(shared(number) for number in range(writes))]
            names += [own(writer, number) for writer in writers for number in range(writes)]
            async with self.opened() as store:
                found = await store.find(Query(collection="messages", scope=Scope(tenant=tenant)))
                tally = await store.tally(Query(collection="messages", scope=Scope(tenant=tenant)))
            assert Counter(record.id for record in found) == Counter(names)
            assert tally.total == sum(report.added for report in reports) == len(names)
            merged = {own(writer, number): number for writer in writers for number in range(0, writes, 10)}
            assert next(record.data for record in found if record.id == BOARD) == merged
            assert sum(report.merged for report in reports) == len(merged)

        asyncio.run(body())
