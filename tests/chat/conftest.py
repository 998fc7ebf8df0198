"""Chat memories on every store and through every documented class."""

import contextlib
import uuid
from urllib.parse import urlsplit, urlunsplit

import pytest
import redis.asyncio as aio
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from octavo.chat import AsyncSQLAlchemyMemory, ChatMemory, InMemoryMemory, RedisMemory
from octavo.stores import open_store
from sampled import FULL
from servers import fresh

STORES = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
#: Each of the databases, in one of two ways.
ALCHEMY = ("session-sqlite", "engine-postgres", "session-mysql")
#: In the other way, as part of `make torture`.
OTHERWISE = ("engine-sqlite", "session-postgres", "engine-mysql")
#: Everything that several users can share.
PLACES = (
    *STORES,
    "RedisMemory",
    "RedisMemory-decoding",
    *ALCHEMY,
    *(pytest.param(kind, marks=pytest.mark.torture) for kind in OTHERWISE if FULL),
)
_DRIVERS = {"postgres": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}


@pytest.fixture(scope="session")
def chat_url(server_url):
    """The address of a database of a kind that all chat tests of this process share; each has users of its own."""
    with contextlib.ExitStack() as stack:
        urls = {}

        def url(kind):
            if kind not in urls:
                urls[kind] = stack.enter_context(fresh(kind, server_url(kind)))
            return urls[kind]

        yield url


def alchemy_url(url: str, kind: str) -> str:
    """The same database as SQLAlchemy spells it."""
    return urlunsplit(urlsplit(url)._replace(scheme=_DRIVERS[kind]))


class Place:
    """One backend that gives memories to users. Names are made unique, so that tests share a database."""

    def __init__(self, kind, tmp_path, chat_url):
        self.kind = kind
        self.unique = uuid.uuid4().hex
        self._tmp_path = tmp_path
        self._chat_url = chat_url
        self._stack = contextlib.AsyncExitStack()
        self._shared = None

    async def memory(self, user="alice", session="s"):
        """The memory of a user's session."""
        user = self.unique + user
        if self.kind.startswith("RedisMemory"):
            made = RedisMemory(connection_pool=await self.pool(), user_id=user, session_id=session)
        elif "-" in self.kind:
            made = AsyncSQLAlchemyMemory(await self.engine_or_session(), user, session)
        else:
            made = ChatMemory(await self.store(), user, session)
        return await self._stack.enter_async_context(made)

    async def store(self):
        if self._shared is None:
            self._shared = await self._stack.enter_async_context(open_store(self.url()))
        return self._shared

    async def pool(self):
        if self._shared is None:
            decodes = self.kind.endswith("-decoding")
            self._shared = aio.ConnectionPool.from_url(
                self._chat_url("redis"), decode_responses=decodes, max_connections=10
            )
            self._stack.push_async_callback(self._shared.disconnect)
        return self._shared

    async def engine_or_session(self):
        if self._shared is None:
            engine = create_async_engine(self.url())
            self._stack.push_async_callback(engine.dispose)
            self._shared = engine
            if self.kind.startswith("session-"):
                self._shared = await self._stack.enter_async_context(AsyncSession(engine))
                self._stack.push_async_callback(self._shared.commit)
        return self._shared

    def url(self):
        how, _, kind = self.kind.rpartition("-")
        if kind == "memory":
            return "memory://"
        if kind == "file":
            return f"file://{self._tmp_path}/chat"
        if kind == "sqlite":
            return f"sqlite{'+aiosqlite' * bool(how)}:///{self._tmp_path}/chat.db"
        url = self._chat_url(kind)
        return alchemy_url(url, kind) if how else url

    async def close(self):
        await self._stack.aclose()


@pytest.fixture(params=PLACES)
async def place(request, tmp_path, chat_url):
    made = Place(request.param, tmp_path, chat_url)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(params=("InMemoryMemory", *PLACES))
async def memory(request, tmp_path, chat_url):
    """An empty memory of each kind."""
    if request.param == "InMemoryMemory":
        async with InMemoryMemory() as made:
            yield made
        return
    where = Place(request.param, tmp_path, chat_url)
    try:
        yield await where.memory()
    finally:
        await where.close()
