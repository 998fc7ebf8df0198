"""A caller's SQLAlchemy engine, over each of the three databases, keeps the contract of stores."""

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from octavo.stores.sql import SQLAlchemyStore
from octavo.testing import StoreContract
from servers import fresh


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
