"""The documented memories: each says where its store is, and is `ChatMemory` for everything else."""

from collections.abc import Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote, urlencode

from octavo.chat.memory import ChatMemory
from octavo.chat.records import MESSAGES, SUMMARIES
from octavo.errors import ConfigError
from octavo.kernel.ports import Store
from octavo.stores import open_store
from octavo.util.attributes import Fixed

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession


T = TypeVar("T")


class State(dict[str, Any]):
    """A state that is there already: a dict like any other, and `await` gives the same dict."""

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self


class Done:
    """Something that has been done; to await it is allowed, and not needed."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that never waits for anything, such as that of a store in this process's memory."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("this memory's store waits for something; it cannot answer without await")


class InMemoryMemory(ChatMemory):
    """Messages in this process's memory. Its state is there at once; it may be awaited, and need not be."""

    def __init__(self) -> None:
        super().__init__(open_store("memory://"), owned=True)

    def state_dict(self) -> State:
        """All of the memory as one plain value, which JSON can say."""
        return State(at_once(self._state()))

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Done:
        """Hold what a state tells, in place of what is held now; all of it or nothing."""
        at_once(self._load(state, strict=strict))
        return Done()


class AsyncSQLAlchemyMemory(ChatMemory):
    """Messages in the database of an engine or a session of the caller's. Needs `octavo[sqlalchemy]`.

    With an engine, every call is a transaction of its own. With a session, all happens inside the caller's
    transaction, which is never committed, rolled back or closed here. Neither is ever disposed of.
    """

    def __init__(
        self,
        engine_or_session: "AsyncEngine | AsyncSession",
        user_id: str = "default_user",
        session_id: str = "default_session",
    ) -> None:
        from octavo.stores.sql import SQLAlchemyStore

        store = SQLAlchemyStore(engine_or_session, together=(MESSAGES, SUMMARIES))
        super().__init__(store, user_id, session_id, owned=True)


class RedisMemory(ChatMemory):
    """Messages in Redis, over a pool of the caller's or a connection of its own. Needs `octavo[redis]`.

    `key_prefix` stands in front of every key. With `key_ttl`, the session is forgotten so many seconds after the last
    write to it.
    """

    key_prefix: Fixed[str] = Fixed("make another memory, with another key_prefix")
    key_ttl: Fixed[int | None] = Fixed("make another memory, with another key_ttl")

    def __init__(
        self,
        session_id: str = "default_session",
        user_id: str = "default_user",
        host: str = "localhost",
        port: int = 6379,
        db: int = 0,
        password: str | None = None,
        connection_pool: "ConnectionPool | None" = None,
        key_prefix: str = "",
        key_ttl: int | None = None,
    ) -> None:
        prefix = f"{key_prefix}octavo"
        store: Store
        if connection_pool is not None:
            from octavo.stores.redis import RedisStore

            store = RedisStore(connection_pool, prefix=prefix, ttl=key_ttl)
        else:
            store = open_store(_url(host, port, db, password, prefix, key_ttl))
        super().__init__(store, user_id, session_id, owned=True)
        self.key_prefix, self.key_ttl = key_prefix, key_ttl

    def get_client(self) -> "Redis":
        """The client this memory talks through; closing it leaves a pool that was handed in as it is."""
        client: Redis = self.kernel.client  # type: ignore[attr-defined]
        return client


def _url(host: str, port: int, db: int, password: str | None, prefix: str, ttl: int | None) -> str:
    if ttl is not None and (not isinstance(ttl, int) or ttl < 1):
        raise ConfigError(
            f"key_ttl is a number of seconds from 1 on, or None to keep messages for good; got {ttl!r}"
        )
    secret = f":{quote(password, safe='')}@" if password else ""
    address = f"[{host}]" if ":" in host else quote(host, safe="")
    options = {"prefix": prefix} | ({} if ttl is None else {"ttl": str(ttl)})
    return f"redis://{secret}{address}:{port}/{db}?{urlencode(options)}"
