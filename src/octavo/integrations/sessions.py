"""What sessions of several frameworks share: their items are messages of the chat face, and come back as they were."""

import copy
from typing import Any, ClassVar, Self

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
