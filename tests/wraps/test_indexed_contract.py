"""A store with vectors beside it keeps the contract of stores, and its vectors follow whatever is written."""

import asyncio
import os

import pytest
from faults import SETTLED

from octavo import Indexed, open_store, open_vectors
from octavo.kernel.ids import new_id
from octavo.kernel.shapes import SHAPES
from octavo.testing.agreement import outcome, run_programs
from octavo.testing.embedding import HashEmbedder
from octavo.testing.strategies import Write, programs
from once_more import OnceMore

EMBEDDED = tuple(name for name in SHAPES if name not in ("vectors", "pending"))


def around(store):
    return Indexed(store, open_vectors("memory://"), HashEmbedder(16), collections=EMBEDDED)


class TestIndexedSQLite(OnceMore):
    """All of the contract but two tests, which want the collection `pending` to themselves."""

    test_every_field_in_every_collection = None
    test_ids_are_bytes = None

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"

    async def open(self):
        return around(open_store(self.url))


def test_vectors_follow_every_program():
    """After any writes at all, several ops in one call among them, each record has the vector of its text and no other."""

    async def follow(program):
        async with asyncio.timeout(SETTLED), around(open_store("memory://")) as indexed:
            for step in program.under(new_id()):
                if isinstance(step, Write):
                    await outcome(indexed, step.ops)
                    await indexed.settle()
            found = await indexed.verify_vectors()
            assert not found, found
            assert (await indexed.status()).failures == 0

    with asyncio.Runner() as runner:
        most = int(os.environ.get("OCTAVO_PROGRAMS", "150"))
        run_programs(programs(), lambda program: runner.run(follow(program)), most, 60)
