"""Octavo's chat memories as memories of AgentScope 1.x, so that its agents run on them.

    from octavo.integrations.agentscope import ChatMemory

    agent = ReActAgent(..., memory=ChatMemory.open("sqlite:///chat.db", user_id="lin", session_id="monday"))

Each is a real `agentscope.memory.MemoryBase` and takes and gives AgentScope's own `Msg`. What it holds is the attribute
`octavo`, a memory of `octavo.chat` with Octavo's `Msg`.
"""

import inspect
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Self

from octavo import chat
from octavo.errors import ConfigError, Conflict
from octavo.integrations import require_package

with require_package(__name__, "AgentScope", "'octavo[agentscope]'"):
    _version = metadata.version("agentscope")
    if not _version.startswith("1."):
        raise ConfigError(f"AgentScope {_version} has other memories: pip install 'octavo[agentscope]'")
    from agentscope.memory import MemoryBase  # type: ignore[import-not-found]
    from agentscope.message import Msg  # type: ignore[import-not-found]

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

_SUMMARY = "_compressed_summary"


def to_octavo(message: Msg) -> chat.Msg:
    """The same message as Octavo's, with its id."""
    # AgentScope's own to_dict forgets the invocation.
    told = {**message.to_dict(), "invocation_id": message.invocation_id}
    return chat.Msg.from_dict(told)


def to_agentscope(message: chat.Msg) -> Msg:
    """The same message as AgentScope's, with its id."""
    told = message.to_dict()
    made = Msg.from_dict(told)
    # AgentScope would replace what is empty by what it makes up.
    made.timestamp, made.metadata = told["timestamp"], told["metadata"]
    return made


class OctavoMemory(MemoryBase):  # type: ignore[misc] # its types are not there without AgentScope
    """Any memory of `octavo.chat` as a memory of AgentScope; a memory that is handed in stays open."""

    def __init__(self, memory: chat.MemoryBase) -> None:
        super().__init__()
        self._summary: str | None = None  # the one last given; None is not known here
        self._untold = False  # whether the memory inside has still to be told of it
        self.octavo = memory

    @property
    def _compressed_summary(self) -> str | None:
        """AgentScope's name for the summary; one that is assigned is kept with the session by the next call that is awaited."""
        return self._summary

    @_compressed_summary.setter
    def _compressed_summary(self, summary: str | None) -> None:
        self._summary, self._untold = summary, summary is not None

    async def _tell_summary(self) -> chat.MemoryBase:
        """The memory inside, which knows of the summary now."""
        if self._untold and self._summary is not None:
            await self.octavo.update_compressed_summary(self._summary)
            self._untold = False
        return self.octavo

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "octavo" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self.octavo, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inside = self.__dict__.get("octavo")
        if hasattr(type(inside), name) and not hasattr(type(self), name):
            setattr(inside, name, value)  # which knows whether that can be changed
            if not self._untold:
                self._summary = None  # of another session, perhaps
        else:
            super().__setattr__(name, value)

    async def add(
        self,
        memories: Msg | list[Msg] | None,
        marks: str | list[str] | None = None,
        allow_duplicates: bool = False,
        *,
        skip_duplicated: bool = True,
        **_: Any,
    ) -> None:
        """Keep messages, each with these marks; one whose id is kept already is passed over.

        With `allow_duplicates`, or without `skip_duplicated`, it is kept once more.
        """
        await self._tell_summary()
        given = [] if memories is None else [memories] if isinstance(memories, Msg) else memories
        await self._keep([to_octavo(message) for message in given], marks, allow_duplicates, skip_duplicated)

    async def _keep(
        self, messages: list[chat.Msg], marks: str | list[str] | None, again: bool, skip: bool
    ) -> None:
        await self.octavo.add(messages, marks, again or not skip)

    async def delete(self, msg_ids: list[str], **_: Any) -> int:
        """Remove messages by id; answer how many there were."""
        return await (await self._tell_summary()).delete(msg_ids)

    async def delete_by_mark(self, mark: str | list[str], *_: Any, **__: Any) -> int:
        """Remove the messages that have the mark, or any of several; answer how many there were."""
        return await (await self._tell_summary()).delete_by_mark(mark)

    async def size(self) -> int:
        """How many messages there are."""
        return await (await self._tell_summary()).size()

    async def clear(self) -> None:
        """Remove all messages."""
        await (await self._tell_summary()).clear()

    async def get_memory(
        self,
        mark: str | None = None,
        exclude_mark: str | None = None,
        prepend_summary: bool = True,
        **_: Any,
    ) -> list[Msg]:
        """The messages that have `mark` and have not `exclude_mark`, behind the summary if there is one."""
        found = await (await self._tell_summary()).get_memory(mark, exclude_mark, prepend_summary)
        return [to_agentscope(message) for message in found]

    async def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: list[str] | None = None
    ) -> int:
        """Add, remove or replace a mark; answer how many messages that changed."""
        return await (await self._tell_summary()).update_messages_mark(new_mark, old_mark, msg_ids)

    async def update_compressed_summary(self, summary: str) -> None:
        """Keep this summary with the session, in place of the one before."""
        self._compressed_summary = summary
        await self._tell_summary()

    def state_dict(self) -> dict[str, Any]:
        """All of a memory that is held in this process; of another one the summary last given, as AgentScope's own do.

        AgentScope asks for states without waiting, and a database cannot be asked so. Nothing is missing: the messages are
        in the store. `await memory.octavo.state_dict()` has all of them.
        """
        told: Any = self.octavo.state_dict()
        known = {_SUMMARY: self._compressed_summary}
        if not inspect.iscoroutine(told):
            return dict(told) | (known if self._untold else {})
        told.close()  # nobody will wait for it, and Python would warn of that
        return known

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Hold what a state tells, where that needs no waiting; messages in a store are there already and stay.

        A summary is kept with the session by the next call that is awaited; None leaves the one that is kept.
        """
        loading = self.octavo.load_state_dict(state_dict, strict)
        if not inspect.iscoroutine(loading):  # it is loaded already
            self._untold = False
            return
        loading.close()
        if "content" in state_dict:
            raise ConfigError(
                "messages cannot be put into a store without waiting: await memory.octavo.load_state_dict(state)"
            )
        if strict and _SUMMARY not in state_dict:
            raise KeyError(
                f"the state has no {_SUMMARY!r}; strict=False leaves what it does not name as it is"
            )
        self._compressed_summary = state_dict.get(_SUMMARY, self._compressed_summary)

    async def close(self) -> None:
        """Let go of what was opened here."""
        await self._tell_summary()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


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
