import pytest
from octavo import open_store
from octavo.stores.sql import SQLAlchemyStore
from octavo.testing import StoreContract
from sqlalchemy.ext.asyncio import create_async_engine


class TestSQLite(StoreContract):
    @pytest.fixture(autouse=True)
    def where(self, tmp_path_factory):
        self.url = f"sqlite:///{tmp_path_factory.mktemp('x')}/a.db?durability=fast"


class TestPg(StoreContract):
    @pytest.fixture(autouse=True)
    def where(self, fresh_postgres):
        self.url = fresh_postgres


class TestMy(StoreContract):
    @pytest.fixture(autouse=True)
    def where(self, fresh_mysql):
        self.url = fresh_mysql
