"""A store with a failure queue beside it keeps the contract of stores, and so do one with a window of ids and one that counts."""

import pytest

from octavo import open_store
from octavo.wraps import Deduped, Journal, Metered
from once_more import OnceMore


class TestJournalMemory(OnceMore):
    """Alone, so that nothing behind it hides a write that it makes twice."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.queue = tmp_path

    async def open(self):
        return Journal(open_store("memory://"), self.queue, timeout=60)


class TestDedupedMemory(OnceMore):
    async def open(self):
        return Deduped(open_store("memory://"))


class TestJournalOfDedupedSQLite(OnceMore):
    """As a service has them: both before records that outlive the store object, each Journal with its own slot."""

    test_many_processes = None  # they open what the URL names, which has no wrap

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"
        self.queue = tmp_path / "queue"

    async def open(self):
        return Journal(Deduped(open_store(self.url)), self.queue, timeout=60)


class TestMeteredSQLite(OnceMore):
    """One that counts is the store inside, for better or worse."""

    test_many_processes = None  # as above

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"

    async def open(self):
        return Metered(open_store(self.url))
