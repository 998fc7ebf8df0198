"""Every store keeps the contract; a backend's whole test is how to open it."""

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from octavo.stores import open_store
from octavo.stores.memory import MemoryStore
from octavo.stores.sql import SQLAlchemyStore
from octavo.testing import StoreContract
from servers import fresh


class TestMemory(StoreContract):
    async def open(self):
        return MemoryStore()


class TestFile(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records"


class TestSingleFile(StoreContract):
    programs = 150  # of the same store as above

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records?per_session=false"


class TestRotatedFile(StoreContract):
    programs = 150  # of the same store as above

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records?rotate_bytes=50000"


class TestJSONFile(StoreContract):
    programs = 150  # of the same store as above

    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"file://{tmp_path}/records?format=json"


class TestSQLite(StoreContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.url = f"sqlite:///{tmp_path}/records.db"


class TestSQLiteInMemory(StoreContract):
    programs = 150

    async def open(self):
        return open_store("sqlite://")


class OnServer(StoreContract):
    """One database for all tests of a class: each keeps to its own tenant."""

    kind: str

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def place(cls, server_url):
        with fresh(cls.kind, server_url(cls.kind)) as cls.url:
            yield


class TestPostgres(OnServer):
    kind = "postgres"


class TestMySQL(OnServer):
    kind = "mysql"


class TestRedis(OnServer):
    kind = "redis"


class OverSQLAlchemy(StoreContract):
    """Over an engine of the caller's, which the store never closes, so that the test must."""

    largest_batch = 5_000  # the same scripts as above do the rest

    def address(self) -> str:
        raise NotImplementedError

    async def open(self):
        engine = create_async_engine(self.address())
        store = SQLAlchemyStore(engine)
        close = store.close

        async def close_both():
            await close()
            await engine.dispose()

        store.close = close_both
        return store

    async def again(self):
        return await self.open()


class TestSQLAlchemyOverSQLite(OverSQLAlchemy):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.folder = tmp_path

    def address(self):
        return f"sqlite+aiosqlite:///{self.folder}/records.db"


class OverServer(OverSQLAlchemy):
    kind: str
    driver: str
    database: str

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def place(cls, server_url):
        with fresh(cls.kind, server_url(cls.kind)) as url:
            cls.database = url.partition("://")[2]
            yield

    def address(self):
        return f"{self.driver}://{self.database}"


class TestSQLAlchemyOverPostgres(OverServer):
    kind, driver = "postgres", "postgresql+asyncpg"


class TestSQLAlchemyOverMySQL(OverServer):
    kind, driver = "mysql", "mysql+asyncmy"
