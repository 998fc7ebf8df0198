"""History and memory for Microsoft's Agent Framework, as context providers of an agent.

    from octavo.integrations.agent_framework import OctavoHistoryProvider, OctavoMemoryProvider

    history = OctavoHistoryProvider("sqlite:///octavo.db", user_id="lin")
    agent = Agent(client, context_providers=[history])

The history provider keeps what was said in each session; the memory provider tells the model what is remembered of a user.
"""

from collections.abc import Sequence
from typing import Any

from octavo.chat.messages import Msg
from octavo.conversation.store_history import on_store_loop
from octavo.integrations import require_package
from octavo.integrations.tools import SessionItems, call_block, result_block, run_on, text_block, unwrap
from octavo.kernel.model import Record
from octavo.kernel.ports import Store
from octavo.memory import AsyncMemory, Memory
from octavo.memory.searching import DEFAULT_SESSION, Whose

with require_package(__name__, "Agent Framework", "agent-framework-core"):
    from agent_framework import ContextProvider, HistoryProvider, Message  # type: ignore[import-not-found]
    from agent_framework._sessions import filter_new_messages  # type: ignore[import-not-found]

__all__ = ["OctavoHistoryProvider", "OctavoMemoryProvider"]

# Messages at the end of a session that are compared with what comes: a workflow may send all again.
_WINDOW = 200


class OctavoHistoryProvider(SessionItems, HistoryProvider):  # type: ignore[misc] # its types are not there without it
    """The messages of one user's sessions in a store, which a URL names or is handed in; one handed in stays open.

    `limit` is how many of the latest messages a run is given; what `HistoryProvider` takes (`load_messages`, …) goes with it.
    """

    kept_as = "agent_framework"

    def __init__(
        self,
        url_or_store: str | Store,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        limit: int | None = None,
        source_id: str = "octavo_history",
        **options: Any,
    ) -> None:
        SessionItems.__init__(self, url_or_store, DEFAULT_SESSION, user_id, tenant=tenant)
        HistoryProvider.__init__(self, source_id, **options)
        self.limit = limit

    async def get_messages(self, session_id: str | None, **_: Any) -> list[Message]:
        """The latest messages of a session, oldest first."""
        return await self.for_session(session_id or DEFAULT_SESSION).aload(self.limit)

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **_: Any) -> None:
        """Keep messages of a session; those at the beginning that were kept before are not kept again."""
        await self.for_session(session_id or DEFAULT_SESSION).aadd(messages)

    @on_store_loop
    async def aload(self, limit: int | None = None) -> list[Message]:
        """The latest messages of this provider's own session."""
        return [_message_of(record) for record in await self._latest(limit)]

    @on_store_loop
    async def aadd(self, messages: Sequence[Message]) -> None:
        """Keep messages in this provider's own session."""
        new = filter_new_messages(await self.aload(_WINDOW), messages)
        items = [message.to_dict() for message in new]
        await self._keep([self._record(_to_message(item), item, "[message]") for item in items])


class OctavoMemoryProvider(ContextProvider):  # type: ignore[misc]
    """Tells the model before each run what is remembered of a user, and remembers after it what was said.

    With `learn=False` nothing is written: for an agent whose sessions an `OctavoHistoryProvider` keeps already.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        max_tokens: int = 800,
        learn: bool = True,
        source_id: str = "octavo_memory",
    ) -> None:
        super().__init__(source_id)
        whose = Whose(user_id=user_id, agent_id=agent_id)
        self._owner: dict[str, Any] = {"user_id": whose.user_id, "agent_id": whose.agent_id}
        self._memory, self._max_tokens, self._learn = memory, max_tokens, learn

    async def before_run(self, *, context: Any, **_: Any) -> None:
        """Add what is remembered to the instructions."""
        said = [message.text for message in context.get_messages(include_input=True) if message.text]
        if not said:
            return
        work = unwrap(self._memory).context(said[-1], max_tokens=self._max_tokens, shown=said, **self._owner)
        block = await run_on(self._memory, work)
        if block.text:
            context.extend_instructions(self.source_id, block.text)

    async def after_run(self, *, context: Any, **_: Any) -> None:
        """Keep what was said, and find the facts in it."""
        answered = context.response.messages if context.response else []
        said = [_to_message(message.to_dict()) for message in (*context.input_messages, *answered)]
        if self._learn and (spoken := [message for message in said if message.get_text_content()]):
            owner = {**self._owner, "session_id": context.session_id}
            await run_on(self._memory, unwrap(self._memory).add(spoken, **owner))


def _message_of(record: Record) -> Message:
    """The message as it was given, or what another face kept of the session."""
    kept = record.data.get(OctavoHistoryProvider.kept_as)
    return Message.from_dict(kept) if kept is not None else Message(record.kind or "assistant", [record.text])


def _to_message(item: dict[str, Any]) -> Msg:
    """What was said in a message, and the calls of tools with their results."""
    blocks = [block for content in item.get("contents") or () if (block := _block(content))]
    role = item.get("role")
    name = item.get("author_name") or role
    return Msg(
        str(name), blocks, "user" if role == "user" else "assistant" if role == "assistant" else "system"
    )


def _block(content: dict[str, Any]) -> Any:
    kind, called = content.get("type"), (content.get("call_id"), content.get("name"))
    if kind == "text":
        return text_block(content.get("text"))
    if kind == "function_call":
        return call_block(*called, content.get("arguments"))
    return result_block(*called, content.get("result")) if kind == "function_result" else None
