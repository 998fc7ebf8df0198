"""Message histories and tools for Pydantic AI: what was said in a run is kept in any store, and found again by `Memory`.

from octavo.integrations.pydantic_ai import OctavoHistory

with OctavoHistory("sqlite:///octavo.db", "monday", "lin") as history:
    result = agent.run_sync("Hello", message_history=history.load())
    history.add(result.new_messages())
"""

from collections.abc import Iterable, Sequence
from typing import Any

from octavo.chat.messages import Msg
from octavo.conversation.store_history import on_store_loop
from octavo.integrations import require_package, tools
from octavo.integrations.tools import SessionItems, call_block, result_block, text_block
from octavo.kernel.model import Record
from octavo.memory import AsyncMemory, Memory
from octavo.util.sync import as_plain

with require_package(__name__, "Pydantic AI", "pydantic-ai-slim"):
    from pydantic_ai import FunctionToolset, ModelMessage, ModelMessagesTypeAdapter  # type: ignore[import-not-found]

__all__ = ["OctavoHistory", "memory_toolset"]


class OctavoHistory(SessionItems):
    """The messages of one user's session in a store, which a URL names or is handed in; one handed in stays open."""

    kept_as = "pydantic_ai"

    @on_store_loop
    async def aload(self, limit: int | None = None) -> list[ModelMessage]:
        """The latest messages, oldest first, for `message_history`; all of them without a limit.

        With one, they may begin with the result of a call that is left out, which Pydantic AI repairs.
        """
        items = [_item_of(record) for record in await self._latest(limit)]
        return list(ModelMessagesTypeAdapter.validate_python(items))

    @on_store_loop
    async def aadd(self, messages: Sequence[ModelMessage]) -> None:
        """Keep messages, such as `result.new_messages()`, in this order, all of them or none."""
        dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        await self._keep([self._record(_message(item), item, f"[{item['kind']}]") for item in dumped])

    @on_store_loop
    async def aclear(self) -> None:
        """Remove all messages."""
        await self._clear()

    load = as_plain(aload)
    add = as_plain(aadd)
    clear = as_plain(aclear)


def memory_toolset(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> FunctionToolset[Any]:
    """The tools `search_memory` and `remember` for an agent, over what is kept for this user or agent."""
    return FunctionToolset(tools.both_tools(memory, user_id=user_id, agent_id=agent_id))


def _item_of(record: Record) -> dict[str, Any]:
    """The message as it was dumped, or what another face kept of the session."""
    if (kept := record.data.get(OctavoHistory.kept_as)) is not None:
        return dict(kept)
    if record.kind == "assistant":
        return {"kind": "response", "parts": [{"part_kind": "text", "content": record.text}]}
    kind = "system-prompt" if record.kind == "system" else "user-prompt"
    return {"kind": "request", "parts": [{"part_kind": kind, "content": record.text}]}


def _message(item: dict[str, Any]) -> Msg:
    """What was said in a message, and the calls of tools with their results."""
    blocks = [block for part in item["parts"] for block in _blocks(part)]
    if item["kind"] == "response":
        return Msg("assistant", blocks, "assistant")
    spoken = any(part["part_kind"] == "user-prompt" for part in item["parts"])
    return Msg("user", blocks, "user") if spoken else Msg("system", blocks, "system")


def _blocks(part: dict[str, Any]) -> Iterable[Any]:
    kind, content = part["part_kind"], part.get("content")
    if kind in ("user-prompt", "text"):
        texts = [content] if isinstance(content, str) else content or ()
        return [text_block(text) for text in texts if isinstance(text, str)]
    called = part.get("tool_call_id"), part.get("tool_name")
    if kind == "tool-call":
        return [call_block(*called, part.get("args"))]
    return [result_block(*called, content)] if kind == "tool-return" else []
