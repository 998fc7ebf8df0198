import pytest, contextlib
from octavo.stores.sql import SQLAlchemyStore
from octavo.testing import StoreContract
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
class SA(StoreContract):
    async def open(self): 
        return SQLAlchemyStore(create_async_engine(self.dsn, poolclass=NullPool))
    async def again(self): return await self.open()
class TestSASQLite(SA):
    @pytest.fixture(autouse=True)
    def where(self, tmp_path_factory): self.dsn=f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('x')}/a.db"
class TestSAPg(SA):
    @pytest.fixture(autouse=True)
    def where(self, fresh_postgres): self.dsn=fresh_postgres.replace("postgresql:","postgresql+asyncpg:")
class TestSAMy(SA):
    @pytest.fixture(autouse=True)
    def where(self, fresh_mysql): self.dsn=fresh_mysql.replace("mysql:","mysql+asyncmy:")
