"""A caller's SQLAlchemy engine, over each of the three databases, keeps the contract of stores."""

import asyncio
import contextlib

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Scope
from octavo.stores.sql import SQLAlchemyStore
from octavo.stores.sql.indexing import _queue_some, index_some
from octavo.testing.searching import everything, find_ids, note
from once_more import OnceMore
from sampled import FULL
from servers import fresh


class OverSQLAlchemy(OnceMore):
    """Over an engine of the caller's, which the store never closes, so that the test must."""

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


class WithoutNames(OverSQLAlchemy):
    """The statements are the store's own: that names are told apart byte by byte through SQLAlchemy too, one of three databases shows."""

    if not FULL:
        test_ids_are_bytes = None
        test_kinds_and_marks_are_bytes = None
        test_scopes_never_meet = None


class TestSQLAlchemyOverSQLite(WithoutNames):
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


class TestSQLAlchemyOverPostgres(OverServer, WithoutNames):
    kind, driver = "postgres", "postgresql+asyncpg"


class TestSQLAlchemyOverMySQL(OverServer):
    kind, driver = "mysql", "mysql+asyncmy"

    def test_a_record_written_during_a_step_of_reindexing_is_indexed(self):
        """MySQL's own isolation shows a transaction what was there at its first read; a claim sees what came since."""

        def reindex_some(index):
            yield from _queue_some(index, 0, 200)
            yield from index_some(index, 200)

        async def main():
            store, other = await self.open(), await self.open()
            home = Scope(tenant=new_id())
            try:
                await store.apply([Add([note("first", home, "common")])])
                table = store._tables["exchanges"]
                async with store._driver.connection() as connection:
                    await store._driver.begin(connection)
                    script = reindex_some(table.index)
                    answer = await store._driver.send(connection, next(script))
                    await other.apply([Add([note("second", home, "common")])])
                    with contextlib.suppress(StopIteration):
                        while True:
                            statement = script.send(answer)
                            answer = await store._driver.send(connection, statement)
                    await store._driver.end(connection, keep=True)
                assert {*await find_ids(store, everything(home), "common")} == {"first", "second"}
            finally:
                await store.close()
                await other.close()

        asyncio.run(main())
