"""Sessions and tools for the OpenAI Agents SDK: what was said in a run is kept in any store, and found again by `Memory`.

    from octavo.integrations.openai_agents import OctavoSession

    result = await Runner.run(agent, "Hello", session=OctavoSession("sqlite:///chat.db", "monday", "lin"))

The items of a session are messages of the chat face, of the same user and session; each comes back as it was given.
"""

from typing import Any

from octavo.chat.messages import Msg, to_record
from octavo.conversation.store_history import on_store_loop
from octavo.errors import Conflict, InvalidRecord
from octavo.integrations import require_package, tools
from octavo.integrations.tools import SessionItems, check_kind
from octavo.kernel.model import Record, Remove
from octavo.kernel.ports import Store
from octavo.memory import AsyncMemory, Memory
from octavo.memory.messages import message_of_item, read_messages

with require_package(__name__, "the OpenAI Agents SDK", "openai-agents"):
    from agents import FunctionTool, SessionABC, SessionSettings, function_tool  # type: ignore[import-not-found]
    from agents.items import TResponseInputItem  # type: ignore[import-not-found]

__all__ = ["OctavoSession", "memory_tools", "remember", "search_memory"]

_ROLES = ("user", "assistant", "system")
_TRIES = 10  # of taking the last item while others take it too


class OctavoSession(SessionItems, SessionABC):  # type: ignore[misc] # its types are not there without the SDK
    """The items of one user's session in a store, which a URL names or is handed in; one handed in stays open.

    `session_settings` is a `SessionSettings` or a dict of one; its `limit` holds for `get_items` without one.
    """

    kept_as = "openai_agents"

    def __init__(
        self,
        url_or_store: str | Store,
        session_id: str,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(url_or_store, session_id, user_id, tenant=tenant)
        given = session_settings or {}
        self.session_settings = SessionSettings(**given) if isinstance(given, dict) else given

    @on_store_loop
    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The latest `limit` items, oldest first; all of them without a limit, or with one below 0."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        limit = None if limit is None or limit < 0 else limit
        return [to_item(record) for record in await self._latest(limit)]

    @on_store_loop
    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep items in this order, all of them or none."""
        await self._keep([self._record_of(item) for item in items])

    @on_store_loop
    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the most recent item, and answer it; None when there is none."""
        for _ in range(_TRIES):
            found = await self._latest(1)
            if not found:
                return None
            try:
                await self._store.apply([Remove(self._query(ids=(found[0].id,)), expect=1)])
            except Conflict:  # somebody else took it
                continue
            return to_item(found[0])
        raise Conflict(f"others take the items of session {self.session_id!r} all the time; try again")

    @on_store_loop
    async def clear_session(self) -> None:
        """Remove all items."""
        await self._clear()

    def _record_of(self, item: TResponseInputItem) -> Record:
        """An item as a message of the chat face; whatever that cannot say is kept beside it."""
        check_kind(item, dict, '{"role": "user", "content": "hello"}')
        message = _message(item)
        record = to_record(message, (), self._scope)
        return record if _plain(record) == item else self._record(message, item, _caption(item))


def to_item(record: Record) -> TResponseInputItem:
    """The item that was given, or what another face kept of the session as a message."""
    return record.data.get(OctavoSession.kept_as) or _plain(record)


def _plain(record: Record) -> dict[str, Any]:
    return {"content": record.text, "role": record.kind if record.kind in _ROLES else "assistant"}


def _message(item: TResponseInputItem) -> Msg:
    told = message_of_item(item)
    if told is not None:
        try:
            return read_messages([told], speaker="user", metadata=None)[0]
        except InvalidRecord:  # it says nothing
            return Msg(str(told["role"]), [], "user" if told["role"] == "user" else "assistant")
    return Msg("assistant", [], "assistant")


def _caption(item: dict[str, Any]) -> str:
    """What an item without words is: a call with its arguments, the output of one, or the kind of item."""
    kind = item.get("type") or "message"
    if "arguments" in item:
        return f"{item.get('name') or kind}: {item['arguments']}"
    output = item.get("output")
    return output if isinstance(output, str) and output else f"[{kind}]"


def search_memory(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None, limit: int = 5
) -> FunctionTool:
    """A tool `search_memory` for an agent, over all that is kept for this user or agent."""
    return function_tool(tools.search_tool(memory, user_id=user_id, agent_id=agent_id, limit=limit))


def remember(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> FunctionTool:
    """A tool `remember` for an agent, which keeps what it is told for this user or agent."""
    return function_tool(tools.remember_tool(memory, user_id=user_id, agent_id=agent_id))


def memory_tools(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> list[FunctionTool]:
    """Both: `Agent(tools=memory_tools(memory, user_id="lin"))`."""
    return [function_tool(each) for each in tools.both_tools(memory, user_id=user_id, agent_id=agent_id)]
