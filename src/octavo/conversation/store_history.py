"""A history in any store that a URL names, or in one that is handed in."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from octavo.conversation.bound_store import BoundStore, on_store_loop
from octavo.conversation.histories import BaseChatMessageHistory, State, at_least_zero, plain_state, to_json
from octavo.conversation.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_from_dict,
    message_to_dict,
    messages_to_dict,
)
from octavo.errors import StoreUnavailable
from octavo.kernel.ids import new_id, next_seq
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Renews, Store, written
from octavo.util.attributes import Fixed

MESSAGES, SUMMARIES, ENTITIES = "messages", "summaries", "entities"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE = 500  # records removed at a time, so that no backend is given too long a list of ids
_ROLES = {"human": "user", "ai": "assistant"}  # as the chat face of the same messages calls them


class StoreChatMessageHistory(BoundStore, BaseChatMessageHistory):
    """The messages of one user's session in a store, in the collection `messages`; states are in `summaries` and `entities`.

    A store that a URL names is opened on first use and closed with the history. One that is handed in stays open, and
    belongs to one event loop; many histories can share it.
    """

    session_id: Fixed[str] = Fixed("make another history for another session")
    user_id: Fixed[str] = Fixed("make another history for another user")
    store: Fixed[Store] = Fixed("make another history on another store")

    def __init__(
        self, url_or_store: str | Store, session_id: str, user_id: str = "default_user", *, tenant: str = ""
    ) -> None:
        super().__init__(url_or_store, user_id, session_id, tenant)
        self.session_id = session_id
        self.user_id = user_id
        self.store = self._store

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; assigning replaces them all."""
        return self._wait(self.aget_messages())

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.replace(messages)

    @on_store_loop
    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, awaited."""
        return [_message(record) for record in await self.store.find(self._query())]

    @on_store_loop
    async def alatest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        found = await self.store.find(self._query(limit=at_least_zero("n", n)))
        return [_message(record) for record in found]

    @on_store_loop
    async def acount(self) -> int:
        """How many messages there are."""
        return (await self.store.tally(self._query())).total

    async def aadd_message(self, message: BaseMessage) -> None:
        """Add one message."""
        await self.aadd_messages([message])

    @on_store_loop
    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        if messages:
            await self._apply([Add(self._records(messages))])

    @on_store_loop
    async def areplace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others, in one write; states stay."""
        await self._apply([Remove(self._query()), Add(self._records(messages))])

    @on_store_loop
    async def aclear(self) -> None:
        """Forget all messages and all states."""
        states = [Remove(Query(collection=name, scope=self._scope)) for name in (SUMMARIES, ENTITIES)]
        await self._apply([Remove(self._query()), *states])

    @on_store_loop
    async def atrim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        return await self._prune(self._query(offset=at_least_zero("keep_last", keep_last)))

    @on_store_loop
    async def atrim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went."""
        first = kept[0].kept_at if kept else None
        return await self._prune(self._query(after=first, newest_first=True)) if first else 0

    @on_store_loop
    async def aget_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        found = await self.store.find(self._state_query(name))
        return found[0].data if found else None

    @on_store_loop
    async def aset_state(self, name: str, state: State) -> None:
        """Keep a state under this name, in place of the one before."""
        record = self._state_record(name, state)
        await self._apply([Add([record]), _put(record, self._state_query(name))])

    @on_store_loop
    async def afold_messages(
        self, messages: Sequence[BaseMessage], name: str, state: State, before: State
    ) -> bool:
        """Put a state in place of the oldest messages and of the state before, unless others changed that.

        The state is written first: should the process end then, both are there.
        """
        record, query = self._state_record(name, state), self._state_query(name)
        found = await self.store.find(query)
        if (found[0].data if found else {}) != before:
            return False
        op: Op = Add([record])
        if found:  # the version is another one with every write: whoever came meanwhile is noticed
            op = _put(record, msgspec.structs.replace(query, where=found[0].metadata))
        if await self._apply([op], queue=False) == [0]:
            return False
        ids = tuple(message.kept_at.id for message in messages if message.kept_at is not None)
        gone = [Remove(self._query(ids=ids[start : start + _PAGE])) for start in range(0, len(ids), _PAGE)]
        if gone:
            await self._apply(gone, queue=False)
        return True

    async def _prune(self, query: Query) -> int:
        """Remove what is picked in the store itself, by one write. Queued, it would pick others by the time it is done."""
        [gone] = await self._apply([Remove(query)], queue=False)
        return gone

    async def _apply(self, ops: Sequence[Op], *, queue: bool = True) -> list[int]:
        counts = (await written(self.store, ops, queue=queue)).counts
        if isinstance(self.store, Renews):
            # Where records expire: or a summary would be forgotten before the messages that follow it. The write itself
            # is done; if this fails, the next one makes up for it.
            with contextlib.suppress(StoreUnavailable):
                await self.store.renew((MESSAGES, SUMMARIES, ENTITIES), self._scope)
        return counts

    def _records(self, messages: Sequence[BaseMessage]) -> list[Record]:
        to_json(messages_to_dict(messages))  # all are looked at before any is kept
        return [_record(message, self._scope) for message in messages]

    def _state_record(self, name: str, state: State) -> Record:
        kept = plain_state(name, state)
        summary = kept.get("summary")
        return Record(
            collection=self._state_query(name).collection,
            id=name,
            scope=self._scope,
            text=summary if isinstance(summary, str) else "",
            data=kept,
            metadata={"version": new_id()},
        )

    def _query(self, **clauses: Any) -> Query:
        return Query(collection=MESSAGES, scope=self._scope, **clauses)

    def _state_query(self, name: str) -> Query:
        return Query(collection=ENTITIES if name == ENTITIES else SUMMARIES, scope=self._scope, ids=(name,))


def _record(message: BaseMessage, scope: Scope) -> Record:
    plain = message_to_dict(message)
    if isinstance(message.content, str):  # it is the record's text already
        del plain["data"]["content"]
    data: dict[str, Any] = {"message": plain}
    if message.name is not None:
        data["name"] = message.name
    seq = next_seq()
    return Record(
        collection=MESSAGES,
        kind=_ROLES.get(message.type, message.type),
        scope=scope,
        text=message.text,
        data=data,
        # A clock may be set back; the sequence never is.
        created_at=_EPOCH + timedelta(microseconds=seq),
        seq=seq,
    )


def _message(record: Record) -> BaseMessage:
    kept = record.data.get("message")
    if kept is None:  # written by another face
        kind = {"user": HumanMessage, "system": SystemMessage}.get(record.kind, AIMessage)
        message = kind(record.data.get("content", record.text), name=record.data.get("name"))
    else:
        message = message_from_dict({"type": kept["type"], "data": {"content": record.text, **kept["data"]}})
    message.kept_at = record.cursor
    return message


def _put(record: Record, query: Query) -> Change:
    """Put what a record says in the place of what the query finds."""
    return Change(query=query, text=record.text, data=record.data, metadata=record.metadata)
