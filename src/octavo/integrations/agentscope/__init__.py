"""Octavo's chat memories as memories of AgentScope 1.x, so that its agents run on them.

    from octavo.integrations.agentscope import ChatMemory

    agent = ReActAgent(..., memory=ChatMemory.open("sqlite:///chat.db", user_id="lin", session_id="monday"))

Each is a real `agentscope.memory.MemoryBase` and takes and gives AgentScope's own `Msg`. What it holds is the attribute
`octavo`, a memory of `octavo.chat` with Octavo's `Msg`.
"""

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from octavo import chat
from octavo.errors import ConfigError, Conflict
from octavo.integrations import require_package

with require_package(__name__, "AgentScope", "'octavo[agentscope]'"):
    _version = metadata.version("agentscope")
    if not _version.startswith("1."):
        raise ConfigError(f"AgentScope {_version} has other memories: pip install 'octavo[agentscope]'")
    from agentscope.message import Msg  # type: ignore[import-not-found]

from octavo.integrations.agentscope.memory import OctavoMemory, to_agentscope, to_octavo

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

__all__ = [
    "AsyncSQLAlchemyMemory",
    "ChatMemory",
    "InMemoryMemory",
    "OctavoMemory",
    "RedisMemory",
    "to_agentscope",
    "to_octavo",
]


class _Own(OctavoMemory):
    """A memory that made the one it holds, and so closes it."""

    async def close(self) -> None:
        """Let go of what was opened here; what was handed in stays open."""
        try:
            await self._tell_summary()
        finally:
            await self.octavo.close()


class InMemoryMemory(_Own):
    """Messages in this process's memory."""

    octavo: chat.InMemoryMemory

    def __init__(self) -> None:
        super().__init__(chat.InMemoryMemory())

    @property
    def content(self) -> tuple[tuple[Msg, list[str]], ...]:
        """Every message with its marks, as copies; assigning a list of such pairs puts those in their place."""
        return tuple((to_agentscope(message), marks) for message, marks in self.octavo.content)

    @content.setter
    def content(self, content: Sequence[tuple[Msg, Sequence[str]]]) -> None:
        self.octavo.content = [(to_octavo(message), marks) for message, marks in content]


class ChatMemory(_Own):
    """Messages in the store that a URL names."""

    @classmethod
    def open(
        cls, url: str, user_id: str = "default_user", session_id: str = "default_session"
    ) -> "ChatMemory":
        """A memory in that store, which it closes with itself."""
        return cls(chat.ChatMemory.open(url, user_id, session_id))


class _Skipping(_Own):
    """A memory whose `add` has `skip_duplicated` as its third argument, as AgentScope's databases have."""

    async def add(  # type: ignore[override] # the third argument is AgentScope's
        self,
        memories: Msg | list[Msg] | None,
        marks: str | list[str] | None = None,
        skip_duplicated: bool = True,
        *,
        allow_duplicates: bool = False,
        **_: Any,
    ) -> None:
        """Keep messages, each with these marks; one whose id is kept already is passed over.

        With `skip_duplicated=False` Redis keeps it once more, and a SQL database refuses all of them by SQLAlchemy's
        IntegrityError, as AgentScope has it.
        """
        await super().add(memories, marks, allow_duplicates, skip_duplicated=skip_duplicated)


class AsyncSQLAlchemyMemory(_Skipping):
    """Messages in the database of an engine or a session of the caller's, which is neither committed nor closed here.

    The session stands before the user, as AgentScope has them; `octavo.chat` has the user first.
    """

    octavo: chat.AsyncSQLAlchemyMemory

    def __init__(
        self,
        engine_or_session: "AsyncEngine | AsyncSession",
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> None:
        super().__init__(
            chat.AsyncSQLAlchemyMemory(
                engine_or_session, user_id or "default_user", session_id or "default_session"
            )
        )

    async def _keep(
        self, messages: list[chat.Msg], marks: str | list[str] | None, again: bool, skip: bool
    ) -> None:
        try:
            await self.octavo.add(messages, marks, again, skip_duplicated=skip)
        except Conflict as error:
            from sqlalchemy.exc import IntegrityError

            raise IntegrityError(str(error), None, error) from error


class RedisMemory(_Skipping):
    """Messages in Redis, over a pool of the caller's or a connection of its own.

    Other arguments are redis-py's, as `redis.asyncio.Redis` takes them: `username`, `ssl`, …
    """

    octavo: chat.RedisMemory

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
        super().__init__(
            chat.RedisMemory(
                session_id, user_id, host, port, db, password, connection_pool, key_prefix, key_ttl, **more
            )
        )

    async def close(self, close_connection_pool: bool | None = None) -> None:
        """Let go of what was opened here; `close_connection_pool=True` disconnects a pool that was handed in, too."""
        await super().close()
        if close_connection_pool:
            await self.get_client().connection_pool.disconnect()

    def get_client(self) -> "Redis":
        """The client this memory talks through; closing it leaves a pool that was handed in as it is."""
        return self.octavo.get_client()
