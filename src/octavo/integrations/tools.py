"""What adapters share. Two tools that any agent can be given, as plain functions: each framework makes its own kind of tool of them.

Whose memory it is is settled when they are made: no argument of a tool names a user, so that no model can choose one.

And sessions: items of a framework are messages of the chat face, and come back as they were.
"""

import copy
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import msgspec

from octavo.chat.messages import (
    MESSAGES,
    Msg,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    check_string,
    to_record,
)
from octavo.conversation.store_history import BoundStore
from octavo.kernel.model import Add, Query, Record, Remove
from octavo.kernel.ports import Store, write_ops
from octavo.memory import AsyncMemory, Memory
from octavo.memory.memory import remember as keep
from octavo.memory.searching import Whose
from octavo.search.hits import one_line

T = TypeVar("T")
#: A tool: it takes one text, and answers one.
Tool: TypeAlias = Callable[[str], Awaitable[str]]
_SHOWN_CHARACTERS = 500  # of each text that is found


def search_tool(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None, limit: int = 5
) -> Tool:
    """A function `search_memory` over all that is kept for this user or agent."""
    whose = Whose(user_id=user_id, agent_id=agent_id)  # a wrong name is refused now, not when a model calls

    async def search_memory(query: str) -> str:
        """Search what is remembered of the user: facts, what was said before, documents.

        Args:
            query: What you want to know, as a question or in a few words.
        """
        work = unwrap(memory).search(query, user_id=whose.user_id, agent_id=whose.agent_id, limit=limit)
        lines = [f"- {hit.when:%Y-%m-%d} {_shorten(hit.text)}" for hit in await run_on(memory, work)]
        return "\n".join(lines) or "Nothing is remembered about that."

    return search_memory


def remember_tool(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> Tool:
    """A function `remember` that keeps something for this user or agent."""
    whose = Whose(user_id=user_id, agent_id=agent_id)

    async def remember(text: str) -> str:
        """Remember something about the user for later conversations.

        Args:
            text: One thing to remember, as a whole sentence.
        """
        added = await run_on(
            memory, keep(unwrap(memory), text, user_id=whose.user_id, agent_id=whose.agent_id)
        )
        lines = [f"- {each.action}: {_shorten(each.content)}" for each in added.memories]
        return "\n".join(lines) or added.status

    return remember


def both_tools(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> list[Tool]:
    """`search_memory` and `remember` for this user or agent."""
    return [
        search_tool(memory, user_id=user_id, agent_id=agent_id),
        remember_tool(memory, user_id=user_id, agent_id=agent_id),
    ]


def unwrap(memory: Memory | AsyncMemory) -> AsyncMemory:
    """The memory to be awaited."""
    return memory.behind if isinstance(memory, Memory) else memory


async def run_on(memory: Memory | AsyncMemory, work: Coroutine[Any, Any, T]) -> T:
    """Do it on the event loop that the memory lives on."""
    return await memory.portal.acall(work) if isinstance(memory, Memory) else await work


def _shorten(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


_CALLS = {"tool_use", "tool_result"}


class SessionItems(BoundStore):
    """One user's session: a class to inherit from. What a framework calls an item is a record of the collection `messages`.

    `kept_as` is the framework's name in the data of a record: what another one kept is told as plain words.
    """

    kept_as: ClassVar[str]

    def __init__(
        self, url_or_store: str | Store, session_id: str, user_id: str = "default_user", *, tenant: str = ""
    ) -> None:
        super().__init__(url_or_store, user_id, check_string("session_id", session_id), tenant)
        self.session_id = session_id
        self.user_id = user_id

    def for_session(self, session_id: str) -> Self:
        """The same for another session, on the same store."""
        other = copy.copy(self)
        other.session_id = session_id
        other._scope = msgspec.structs.replace(self._scope, session=check_string("session_id", session_id))  # noqa: SLF001 - its own class
        return other

    async def _latest(self, limit: int | None) -> list[Record]:
        """The latest records, oldest first; all of them without a limit."""
        return await self._store.find(self._query(limit=limit))

    async def _keep(self, records: list[Record]) -> None:
        if records:
            await write_ops(self._store, [Add(records)])

    async def _clear(self) -> None:
        await self._store.apply([Remove(self._query())])

    def _query(self, **clauses: Any) -> Query:
        return Query(collection=MESSAGES, scope=self._scope, **clauses)

    def _record(self, message: Msg, item: Any, caption: str) -> Record:
        """What was said and the calls of tools as the chat face has them, and beside them the item as it was given.

        Without words it would be found by all that is in the item, be it a picture's bytes: then the caption is its text.
        """
        record = to_record(message, (), self._scope)
        data = {**record.data, self.kept_as: item}
        kinds = {block["type"] for block in data.get("content", ())}
        if not kinds & _CALLS or kinds - _CALLS - {"text"}:
            data.pop("content", None)  # the item has it
        return msgspec.structs.replace(record, text=record.text or caption, data=data)


def check_kind(item: object, kind: type, example: str) -> None:
    """Refuse what is no item of the framework."""
    if not isinstance(item, kind):
        raise TypeError(f"an item is a {kind.__name__}, such as {example}; got {item!r}"[:300])


def text_block(text: Any) -> TextBlock:
    """Something said."""
    return {"type": "text", "text": text or ""}


def call_block(call_id: Any, name: Any, asked: Any) -> ToolUseBlock:
    """A call of a tool; arguments that are no dict are kept as their text alone."""
    known = asked if isinstance(asked, dict) else {}
    return {
        "type": "tool_use",
        "id": call_id or "",
        "name": name or "",
        "input": known,
        "raw_input": str(asked),
    }


def result_block(call_id: Any, name: Any, output: Any) -> ToolResultBlock:
    """What a tool answered, as text."""
    return {"type": "tool_result", "id": call_id or "", "name": name or "", "output": str(output)}
