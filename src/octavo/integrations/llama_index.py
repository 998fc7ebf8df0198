"""Memory for LlamaIndex: chat engines and agents keep what was said in any store, and are told what is remembered.

    from octavo.integrations.llama_index import OctavoMemory

    memory = OctavoMemory.from_defaults("sqlite:///octavo.db", "monday", "lin")
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)

It is LlamaIndex's own `Memory` over a chat store of Octavo's; a memory block tells the model what else is known.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

import msgspec

from octavo.chat.messages import MESSAGES, Msg
from octavo.conversation.store_history import on_store_loop
from octavo.integrations import require_package, tools
from octavo.integrations.tools import (
    SessionItems,
    call_block,
    check_kind,
    result_block,
    run_on,
    text_block,
    unwrap,
)
from octavo.kernel.model import START, Add, Change, Op, Query, Record, Remove
from octavo.kernel.pages import list_names
from octavo.kernel.ports import Store, write_ops
from octavo.memory import AsyncMemory, Memory
from octavo.memory.searching import DEFAULT_SESSION, Whose
from octavo.util.sync import Closing, as_plain

with require_package(__name__, "LlamaIndex", "llama-index-core"):
    from llama_index.core.base.llms.types import ChatMessage  # type: ignore[import-not-found]
    from llama_index.core.bridge.pydantic import Field, PrivateAttr  # type: ignore[import-not-found]
    from llama_index.core.memory import BaseMemoryBlock  # type: ignore[import-not-found]
    from llama_index.core.memory import Memory as LlamaMemory
    from llama_index.core.storage.chat_store.base_db import (  # type: ignore[import-not-found]
        AsyncDBChatStore,
        MessageStatus,
    )
    from llama_index.core.tools import FunctionTool  # type: ignore[import-not-found]

__all__ = ["OctavoChatStore", "OctavoMemory", "OctavoMemoryBlock", "memory_tools"]

T = TypeVar("T")
_ARCHIVED = "llama_index_archived"  # the mark of messages that have left the short-term memory
_IDS = 500  # in one query


class _Session(SessionItems):
    kept_as = "llama_index"

    @on_store_loop
    async def find(self, query: Query) -> list[Record]:
        return await self._store.find(query)

    @on_store_loop
    async def write(self, ops: Sequence[Op]) -> None:
        await write_ops(self._store, ops)

    @on_store_loop
    async def count(self, query: Query) -> int:
        return (await self._store.tally(query)).total

    @on_store_loop
    async def names(self) -> list[str]:
        whole = msgspec.structs.replace(self._scope, session=None)
        return await list_names(self._store, MESSAGES, "session", whole)

    def query(self, status: MessageStatus | None = None, **clauses: Any) -> Query:
        """Messages of a status, oldest first."""
        if status is not None:
            clauses["marks" if status == MessageStatus.ARCHIVED else "without"] = (_ARCHIVED,)
        return self._query(after=START, **clauses)

    def records(self, messages: Sequence[ChatMessage], status: MessageStatus) -> list[Record]:
        for message in messages:
            check_kind(message, ChatMessage, 'ChatMessage(role="user", content="hello")')
        marks = (_ARCHIVED,) if status == MessageStatus.ARCHIVED else ()
        items = [message.model_dump(mode="json") for message in messages]
        kept = [self._record(_to_message(item), item, f"[{item['role']}]") for item in items]
        return [msgspec.structs.replace(record, marks=marks) for record in kept]


class OctavoChatStore(Closing, AsyncDBChatStore):  # type: ignore[misc] # its types are not there without it
    """The messages of one user's sessions, for LlamaIndex's own `Memory`: its keys are the sessions.

    A store that a URL names is closed with this; one that is handed in stays open.
    """

    _sessions: _Session = PrivateAttr()

    def __init__(self, url_or_store: str | Store, user_id: str = "default_user", *, tenant: str = "") -> None:
        super().__init__()
        self._sessions = _Session(url_or_store, DEFAULT_SESSION, user_id, tenant=tenant)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages of a session, oldest first: those at hand, or those archived, or all."""
        session = self._sessions.for_session(key)
        found = await session.find(session.query(status, limit=limit, offset=offset or 0))
        return [_message_of(record) for record in found]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """How many there are."""
        session = self._sessions.for_session(key)
        return await session.count(session.query(status).unpaged)

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Keep a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Keep messages in this order, all of them or none."""
        session = self._sessions.for_session(key)
        await session.write([Add(session.records(messages, status))] if messages else [])

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Keep these messages in place of all others of the session, in one write."""
        session = self._sessions.for_session(key)
        added = [Add(session.records(messages, status))] if messages else []
        await session.write([Remove(session.query().unpaged), *added])

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message that stands there in the session, 0 being the oldest, and answer it."""
        session = self._sessions.for_session(key)
        found = await session.find(session.query(limit=1, offset=idx))
        await session.write([Remove(session.query(ids=(record.id,)).unpaged) for record in found])
        return _message_of(found[0]) if found else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Remove the messages of a session, or those of a status."""
        session = self._sessions.for_session(key)
        await session.write([Remove(session.query(status).unpaged)])

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove the oldest messages at hand, and answer them."""
        return await self._take(key, n, archive=False)

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest messages at hand, and answer them: they are kept and found, and no longer told."""
        return await self._take(key, n, archive=True)

    async def _take(self, key: str, n: int, *, archive: bool) -> list[ChatMessage]:
        session = self._sessions.for_session(key)
        found = await session.find(session.query(MessageStatus.ACTIVE, limit=n))
        ids = tuple(record.id for record in found)
        queries = [session.query(ids=ids[at : at + _IDS]).unpaged for at in range(0, len(ids), _IDS)]
        await session.write(
            [Change(query=query, mark=(_ARCHIVED,)) if archive else Remove(query) for query in queries]
        )
        return [_message_of(record) for record in found]

    async def get_keys(self) -> list[str]:
        """The sessions of this user."""
        return await self._sessions.names()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until it is done; RuntimeError where the store belongs to the very event loop that would be blocked."""
        return self._sessions._wait(work)  # noqa: SLF001 - its own module

    def close(self) -> None:
        """Close the store, unless it was handed in."""
        self._sessions.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self._sessions.aclose()


def _to_message(item: dict[str, Any]) -> Msg:
    """What was said in a message, and the calls of tools with their results."""
    role, extra = item["role"], item["additional_kwargs"]
    blocks = [block for each in item["blocks"] if (block := _block(each))]
    if role in ("tool", "function") and (called := extra.get("tool_call_id")):
        said = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        blocks = [result_block(str(called), extra.get("name"), said)]
    spoken = {"user": "user", "assistant": "assistant", "chatbot": "assistant", "model": "assistant"}
    return Msg(role, blocks, spoken.get(role, "system"))  # type: ignore[arg-type]


def _block(block: dict[str, Any]) -> Any:
    if block["block_type"] == "text":
        return text_block(block["text"])
    if block["block_type"] == "tool_call":
        return call_block(block["tool_call_id"], block["tool_name"], block["tool_kwargs"])
    return None


def _message_of(record: Record) -> ChatMessage:
    """The message as it was given, or what another face kept of the session."""
    kept = record.data.get(_Session.kept_as)
    if kept is not None:
        return ChatMessage.model_validate(kept)
    return ChatMessage(record.text, role=record.kind if record.kind in ("user", "system") else "assistant")


class OctavoMemory(Closing, LlamaMemory):  # type: ignore[misc]
    """LlamaIndex's `Memory` with its messages in a store of Octavo's; make it by `from_defaults`."""

    # Without a default, or what is loaded from JSON would keep nothing.
    sql_store: OctavoChatStore = Field(exclude=True)

    @classmethod
    def class_name(cls) -> str:
        return "OctavoMemory"

    @classmethod
    def from_defaults(
        cls,
        url_or_store: str | Store,
        session_id: str = DEFAULT_SESSION,
        user_id: str = "default_user",
        *,
        tenant: str = "",
        **options: Any,
    ) -> Self:
        """The memory of a session. The options are those of `Memory.from_defaults`: `token_limit`, `memory_blocks`, …."""
        store = OctavoChatStore(url_or_store, user_id, tenant=tenant)
        return super().from_defaults(session_id=session_id, chat_store=store, **options)  # type: ignore[no-any-return]

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.sql_store.wait(work)

    def close(self) -> None:
        """Close the store, unless it was handed in."""
        self.sql_store.close()

    async def aclose(self) -> None:
        """`close`, awaited."""
        await self.sql_store.aclose()

    # LlamaIndex's own wait on a loop of their own, and for ever where that is the loop of the store.
    get = as_plain(LlamaMemory.aget)
    get_all = as_plain(LlamaMemory.aget_all)
    put = as_plain(LlamaMemory.aput)
    put_messages = as_plain(LlamaMemory.aput_messages)
    set = as_plain(LlamaMemory.aset)
    reset = as_plain(LlamaMemory.areset)


class OctavoMemoryBlock(BaseMemoryBlock[str]):  # type: ignore[misc]
    """Tells the model what is remembered of a user, and learns the facts in what leaves the short-term memory.

    With `accept_short_term_memory=False` nothing is learnt.
    """

    name: str = "remembered"
    memory: Memory | AsyncMemory = Field(exclude=True)
    user_id: str | None = None
    agent_id: str | None = None
    max_tokens: int = 800

    def model_post_init(self, _: Any, /) -> None:
        # A wrong name is refused now, not when it is asked for.
        Whose(user_id=self.user_id, agent_id=self.agent_id)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        said = [message.content for message in messages or () if message.content]
        asked = [message.content for message in messages or () if message.role == "user" and message.content]
        if not asked:
            return ""
        work = unwrap(self.memory).context(
            asked[-1], max_tokens=self.max_tokens, shown=said, user_id=self.user_id, agent_id=self.agent_id
        )
        return (await run_on(self.memory, work)).text

    async def _aput(self, messages: list[ChatMessage]) -> None:
        # LlamaIndex names the session here.
        session = messages[-1].additional_kwargs.get("session_id") if messages else None
        whose = Whose(user_id=self.user_id, agent_id=self.agent_id, session_id=session)
        speaker = "assistant" if "agent_id" in whose.owner else "user"
        for said in [message.content for message in messages if message.role == speaker and message.content]:
            # Facts alone: the messages stay in the session, and kept there again they would be told again.
            work = unwrap(self.memory).layers.extract(said, metadata=whose.learnt_in, **whose.owner)
            await run_on(self.memory, work)


def memory_tools(
    memory: Memory | AsyncMemory, *, user_id: str | None = None, agent_id: str | None = None
) -> list[FunctionTool]:
    """The tools `search_memory` and `remember` for an agent, over what is kept for this user or agent."""
    both = tools.both_tools(memory, user_id=user_id, agent_id=agent_id)
    return [FunctionTool.from_defaults(async_fn=each) for each in both]
