"""An empty place that many use for the first time at the same moment."""

import asyncio

import pytest

from octavo import Add, Query, Record, Scope, open_store
from octavo.testing.processes import run_crowd
from sampled import FULL
from servers import KINDS

HERE = Scope(tenant="t")
PLACES = ("file", "sqlite", *KINDS)
#: The file store in its other ways, as part of `make torture`.
OTHERWISE = ("file?per_session=false", "file?format=json") if FULL else ()


@pytest.fixture(params=[*PLACES, *(pytest.param(place, marks=pytest.mark.torture) for place in OTHERWISE)])
def empty(request, tmp_path):
    """The URL of a place where nothing has ever been."""
    kind, _, options = request.param.partition("?")
    if kind in KINDS:
        return request.getfixturevalue("fresh_url")(kind)
    return (
        f"{kind}:///{str(tmp_path).removeprefix('/' if kind == 'file' else '')}/new?{options}".removesuffix(
            "?"
        )
    )


async def test_many_tasks_make_it_once(empty):
    """Stores opened by many tasks on an empty place create it once between them, and none of their writes is lost."""
    stores = [open_store(empty) for _ in range(5)]
    try:
        calls = [
            store.apply([Add([Record(collection="messages", id=f"{n}-{m}", scope=HERE)])])
            for n, store in enumerate(stores)
            for m in range(4)
        ]
        assert await asyncio.gather(*calls) == [[1]] * 20
        for store in stores:
            assert (await store.tally(Query(collection="messages", scope=HERE))).total == 20
    finally:
        for store in stores:
            await store.close()


async def test_many_processes_make_it_once(fresh_pgvector):
    """Processes that start on an empty place at the same moment create it once between them; of other stores the contract shows it."""
    reports = await run_crowd(fresh_pgvector, "t", processes=4, writes=16)
    assert sum(report.added for report in reports) == 1 + 16 + 4 * 16
