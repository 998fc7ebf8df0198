"""A store with a failure queue beside it keeps the contract of stores, and so does one with a window of ids in front."""

import pytest

from octavo import open_store
from octavo.testing import StoreContract
from octavo.wraps import Deduped, Journal


class JournalContract(StoreContract):
    """Each Journal with its own slot in one directory."""

    keeps = True

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.path = tmp_path
        if self.keeps:
            self.url = f"sqlite:///{tmp_path}/records.db"

    def around(self, store):
        return Journal(store, self.path / "queue", timeout=60)


class TestJournalMemory(JournalContract):
    keeps = False

    async def open(self):
        return self.around(open_store("memory://"))


class TestJournalSQLite(JournalContract):
    async def open(self):
        return self.around(open_store(self.url))


class TestDedupedMemory(StoreContract):
    async def open(self):
        return Deduped(open_store("memory://"))


class TestDedupedSQLite(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"

    async def open(self):
        return Deduped(open_store(self.url))


class TestJournalOfDedupedSQLite(JournalContract):
    """As a service has them."""

    async def open(self):
        return self.around(Deduped(open_store(self.url)))
