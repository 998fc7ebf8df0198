"""What every chat memory can do; the class to inherit from for one of your own."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Self

from octavo.chat.messages import Msg


class MemoryBase(ABC):
    """Messages with marks, in the order they were added. A subclass fills in the nine abstract methods."""

    #: The summary, for a subclass that keeps it nowhere else; `get_memory` puts it in front of the messages.
    _compressed_summary: str = ""

    @abstractmethod
    async def add(
        self,
        memories: Msg | Sequence[Msg] | None,
        marks: str | Sequence[str] | None = None,
        allow_duplicates: bool = False,
    ) -> None:
        """Keep messages, each with these marks; one whose id is kept already is passed over."""

    @abstractmethod
    async def delete(self, msg_ids: Sequence[str]) -> int:
        """Remove messages by id; answer how many there were."""

    @abstractmethod
    async def delete_by_mark(self, mark: str | Sequence[str]) -> int:
        """Remove the messages that have the mark, or any of several; answer how many there were."""

    @abstractmethod
    async def size(self) -> int:
        """How many messages there are."""

    @abstractmethod
    async def clear(self) -> None:
        """Remove all messages."""

    @abstractmethod
    async def get_memory(
        self, mark: str | None = None, exclude_mark: str | None = None, prepend_summary: bool = True
    ) -> list[Msg]:
        """The messages that have `mark` and have not `exclude_mark`, behind the summary if there is one."""

    @abstractmethod
    async def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: Sequence[str] | None = None
    ) -> int:
        """Add, remove or replace a mark; answer how many messages that changed."""

    @abstractmethod
    def state_dict(self) -> Awaitable[dict[str, Any]]:
        """All of the memory as one plain value."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Awaitable[None]:
        """Hold what a state tells, in place of what is held now."""

    async def update_compressed_summary(self, summary: str) -> None:
        """Put this summary in place of the one before."""
        self._compressed_summary = summary

    async def compressed_summary(self) -> str:
        """The summary, or an empty string."""
        return self._compressed_summary

    async def close(self) -> None:  # noqa: B027 - a memory that opens nothing need not say so
        """Let go of what was opened."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
