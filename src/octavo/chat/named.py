"""The documented memories: each says where its store is, and is `ChatMemory` for everything else."""

from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from octavo.chat.memory import ChatMemory
from octavo.chat.messages import CONTENT, MESSAGES, SUMMARIES, Msg, given_marks, to_message
from octavo.errors import ConfigError, Conflict
from octavo.kernel.model import Add, check_count
from octavo.stores import open_store

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

    from octavo.stores.redis import RedisStore

T = TypeVar("T")


class AwaitedState(dict[str, Any]):
    """A state that is there already: a dict like any other, and `await` gives the same dict."""

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self


class Done:
    """Something that has been done; to await it is allowed, and not needed."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def run_without_waiting(work: Coroutine[Any, Any, T]) -> T:
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

    @property
    def content(self) -> tuple[tuple[Msg, list[str]], ...]:
        """Every message with its marks, as copies; assigning a list of such pairs puts those in their place."""
        records = run_without_waiting(self.kernel.find(self._query()))
        return tuple((to_message(record), given_marks(record)) for record in records)

    @content.setter
    def content(self, content: Sequence[tuple[Msg, Sequence[str]]]) -> None:
        told = [[message.to_dict(), marks] for message, marks in content]
        run_without_waiting(super().load_state_dict({CONTENT: told}, strict=False))

    @property
    def _compressed_summary(self) -> str:  # type: ignore[override] # it is in the store
        return run_without_waiting(self.compressed_summary())

    def state_dict(self) -> AwaitedState:  # type: ignore[override] # it can be awaited, and need not be
        """All of the memory as one plain value, which JSON can say."""
        return AwaitedState(run_without_waiting(super().state_dict()))

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Done:  # type: ignore[override]
        """Hold what a state tells, in place of what is held now; all of it or nothing."""
        run_without_waiting(super().load_state_dict(state, strict))
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

    async def add(
        self,
        memories: Msg | Sequence[Msg] | None,
        marks: str | Sequence[str] | None = None,
        allow_duplicates: bool = False,
        *,
        skip_duplicated: bool = True,
    ) -> None:
        """Keep messages in one write, each with these marks; one whose id is kept already is passed over.

        `allow_duplicates` keeps it once more; `skip_duplicated=False` refuses all of them, as Conflict.
        """
        if skip_duplicated or allow_duplicates:
            await super().add(memories, marks, allow_duplicates)
        elif records := self._records(memories, marks):
            try:
                await self._apply([Add(records, expect=len(records))])
            except Conflict as error:
                ids = ", ".join(record.id for record in records)
                raise Conflict(f"a message with one of these ids is kept already: {ids}"[:300]) from error


class RedisMemory(ChatMemory):
    """Messages in Redis, over a pool of the caller's or a connection of its own. Needs `octavo[redis]`.

    `key_prefix` stands in front of every key. With `key_ttl`, the session is forgotten so many seconds after the last
    write to it. Other arguments are redis-py's, as `redis.asyncio.Redis` takes them: `username`, `ssl`, …
    """

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
        **more: Any,
    ) -> None:
        from octavo.stores.redis import RedisStore  # first: a missing package is a ConfigError of its own

        if more and connection_pool is not None:
            raise ConfigError(
                f"connection_pool comes with its own connections: give {', '.join(more)} to the pool, or leave the pool out"
            )
        self._open_store = RedisStore
        self._prefix, self._ttl, self._own_client = key_prefix, _seconds(key_ttl), connection_pool is None
        client = connection_pool or _client(host=host, port=port, db=db, password=password, **more)
        super().__init__(self._store_on(client), user_id, session_id, owned=True)

    async def add(
        self,
        memories: Msg | Sequence[Msg] | None,
        marks: str | Sequence[str] | None = None,
        allow_duplicates: bool = False,
        *,
        skip_duplicated: bool = True,
    ) -> None:
        """Keep messages in one write, each with these marks; one whose id is kept already is passed over.

        With `allow_duplicates`, or without `skip_duplicated`, it is kept once more.
        """
        await super().add(memories, marks, allow_duplicates or not skip_duplicated)

    @property
    def key_prefix(self) -> str:
        """What stands in front of every key; assigning goes to the messages under another one."""
        return self._prefix

    @key_prefix.setter
    def key_prefix(self, key_prefix: str) -> None:
        self._prefix = key_prefix
        self.kernel = self._store_on(self.get_client())

    @property
    def key_ttl(self) -> int | None:
        """How many seconds after the last write a session is forgotten; None is never."""
        return self._ttl

    @key_ttl.setter
    def key_ttl(self, key_ttl: int | None) -> None:
        self._ttl = _seconds(key_ttl)
        self.kernel = self._store_on(self.get_client())

    def _store_on(self, client: Any) -> "RedisStore":
        return self._open_store(client, prefix=f"{self._prefix}octavo", ttl=self._ttl, owned=self._own_client)

    def get_client(self) -> "Redis":
        """The client this memory talks through; closing it leaves a pool that was handed in as it is."""
        client: Redis = self.kernel.client  # type: ignore[attr-defined]
        return client


def _seconds(ttl: int | None) -> int | None:
    rule = "key_ttl is a number of seconds from 1 on, or None to keep messages for good"
    return None if ttl is None else check_count(ttl, rule, ConfigError, 1)


def _client(**options: Any) -> "Redis":
    from redis.asyncio import Redis

    try:
        return Redis(**{"socket_connect_timeout": 5, "socket_timeout": 30, "protocol": 2, **options})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"RedisMemory passes what it does not know to redis-py: {error}") from error
