"""Every store keeps the contract; a backend's whole test is how to open it."""

import pytest

from octavo.stores import open_store
from octavo.stores.memory import MemoryStore
from octavo.testing import StoreContract
from once_more import OnceMore
from servers import fresh


class TestMemory(StoreContract):
    async def open(self):
        return MemoryStore()


class TestFile(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records"


class TestSingleFile(OnceMore):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records?per_session=false"


class TestRotatedFile(OnceMore):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records?rotate_bytes=50000"


class TestJSONFile(OnceMore):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records?format=json"


class TestSQLite(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"


class TestSQLiteInMemory(OnceMore):
    async def open(self):
        return open_store("sqlite:///:memory:")


class OnServer(StoreContract):
    """One database for all tests of a class: each keeps to its own tenant."""

    kind: str

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def place(cls, server_url):
        with fresh(cls.kind, server_url(cls.kind)) as cls.url:
            yield

    @pytest.fixture
    def empty(self, fresh_url):
        """A database in which nothing has ever been, for one test."""
        self.url = fresh_url(self.kind)

    @pytest.mark.usefixtures("empty")
    def test_many_processes(self):
        """All of them use it for the first time, as with a file: they create it once between them."""
        super().test_many_processes()


class TestPostgres(OnServer):
    kind = "postgres"


class TestMySQL(OnServer):
    kind = "mysql"


class TestRedis(OnServer):
    kind = "redis"
