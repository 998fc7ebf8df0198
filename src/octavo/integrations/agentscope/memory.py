"""Messages of AgentScope's as Octavo's and back, and any memory of `octavo.chat` as one of AgentScope's."""

import inspect
from typing import Any, Self

from agentscope.memory import MemoryBase  # type: ignore[import-not-found]
from agentscope.message import Msg  # type: ignore[import-not-found]

from octavo import chat
from octavo.errors import ConfigError

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
