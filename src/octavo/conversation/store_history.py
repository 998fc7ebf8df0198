"""A history in any store that a URL names, or in one that is handed in, and the event loop on which that store lives."""

import asyncio
import contextlib
import functools
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from octavo.chat.messages import MESSAGES, SUMMARIES, check_string, next_position, renew
from octavo.conversation.histories import BaseChatMessageHistory, State, check_count, plain_state
from octavo.conversation.messages import (
    ROLES,
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    check_messages,
    message_from_dict,
    message_to_dict,
)
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store, write_ops
from octavo.stores import to_store
from octavo.util.sync import Closing, Twins, as_plain, shared_portal
from octavo.util.system import call_after_fork
from octavo.util.user_code import Fixed

T = TypeVar("T")
P = ParamSpec("P")
ENTITIES = "entities"
_PAGE = 500  # records removed at a time, so that no backend is given too long a list of ids
# Connections belong to the event loop they were made on: this is the loop of each store that was handed in.
_loops: weakref.WeakKeyDictionary[Store, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()
call_after_fork(_loops.clear)  # whoever asked a loop of the parent would wait for ever


class BoundStore(Twins, Closing):
    """What works with a store of one user: a class to inherit from. Its coroutines run `on_store_loop`.

    A store that a URL names lives on the thread of all blocking calls, can be reached from anywhere, and is closed with
    this. One that is handed in stays open. It lives on the loop that ran when it was first handed in, or else on the one
    it is first used on, the same for all that share it.
    """

    def __init__(
        self, url_or_store: str | Store, user_id: str, session_id: str | None, tenant: str = ""
    ) -> None:
        for name, value in (("session_id", session_id or ""), ("user_id", user_id), ("tenant", tenant)):
            check_string(name, value)
        self._owned = isinstance(url_or_store, str)
        self._store = to_store(url_or_store)
        self._scope = Scope(tenant=tenant, user=user_id, agent="", session=session_id)
        # Of this process for good: after a fork, the child must not speak on the connections of its parent.
        self._portal = shared_portal()
        if not self._owned:
            with contextlib.suppress(RuntimeError):  # no loop is running here: the first use decides
                self._loop_of_store(asyncio.get_running_loop())

    def refuse_deadlock(self) -> None:
        """RuntimeError when the store belongs to the very event loop that would be blocked."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if not self._owned and _loops.get(self._store) is here:
            raise RuntimeError(
                "this store belongs to the event loop that runs here, and a blocking call would wait for itself: "
                "await the a… twin, or give the URL instead of the store"
            )

    async def aclose(self) -> None:
        """Close the store, unless it was handed in; called again, it does nothing."""
        if self._owned:
            await self._portal.acall(self._store.close())

    close = as_plain(aclose)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it where the store lives, and await it here."""
        if self._owned:
            return await self._portal.acall(work)
        here = asyncio.get_running_loop()
        there = self._loop_of_store(here)
        if there is here:
            return await work
        if not there.is_running():  # it would be waited for without end
            work.close()
            raise RuntimeError(
                "the event loop that this store belongs to is not running: use the store on that loop, or give its URL "
                "instead of the store"
            )
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, there))

    def _loop_of_store(self, here: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """The loop the store lives on; this one, if it lives nowhere yet or that one has ended."""
        loop = _loops.get(self._store)
        if loop is None or loop.is_closed():
            loop = _loops[self._store] = here
        return loop


B = TypeVar("B", bound=BoundStore)


def on_store_loop(
    method: Callable[Concatenate[B, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[B, P], Coroutine[Any, Any, T]]:
    """The coroutine, run on the event loop that the store lives on, whichever loop it is awaited on."""

    @functools.wraps(method)
    async def run(self: B, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(method(self, *args, **kwargs))

    return run


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
        super().__init__(url_or_store, user_id, check_string("session_id", session_id), tenant)
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

    async def aget_messages(self) -> list[BaseMessage]:
        """`messages`, awaited."""
        return await self._find()

    async def alatest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return await self._find(limit=check_count("n", n))

    @on_store_loop
    async def acount(self) -> int:
        """How many messages there are."""
        return (await self.store.tally(self._query())).total

    async def aadd_message(self, message: BaseMessage) -> None:
        """Add one message."""
        await self.aadd_messages([message])

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        if records := [to_record(message, self._scope) for message in check_messages(messages)]:
            await self._apply([Add(records)])

    async def areplace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others, in one write; states stay."""
        records = [to_record(message, self._scope) for message in check_messages(messages)]
        await self._apply([Remove(self._query()), Add(records)])

    async def aclear(self) -> None:
        """Forget all messages and all states."""
        collections = (MESSAGES, SUMMARIES, ENTITIES)
        await self._apply([Remove(Query(collection=name, scope=self._scope)) for name in collections])

    async def atrim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        return await self._prune(self._query(offset=check_count("keep_last", keep_last)))

    async def atrim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went."""
        first = next((message.kept_at for message in check_messages(kept)), None)
        return await self._prune(self._query(after=first, newest_first=True)) if first else 0

    @on_store_loop
    async def aget_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        found = await self.store.find(self._state_query(name))
        return found[0].data if found else None

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
        for start in range(0, len(ids), _PAGE):
            await self._prune(self._query(ids=ids[start : start + _PAGE]))
        return True

    @on_store_loop
    async def _find(self, /, **clauses: Any) -> list[BaseMessage]:
        return [_message(record) for record in await self.store.find(self._query(**clauses))]

    async def _prune(self, query: Query) -> int:
        """Remove what is picked in the store itself, by one write. Queued, it would pick others by the time it is done."""
        [gone] = await self._apply([Remove(query)], queue=False)
        return gone

    @on_store_loop
    async def _apply(self, ops: Sequence[Op], *, queue: bool = True) -> list[int]:
        counts = (await write_ops(self.store, ops, queue=queue)).counts
        await renew(self.store, (MESSAGES, SUMMARIES, ENTITIES), self._scope)
        return counts

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


def to_record(message: BaseMessage, scope: Scope) -> Record:
    """The record that a message is kept as; its position in the order is the moment of this call."""
    plain = message_to_dict(message)
    if isinstance(message.content, str):  # it is the record's text already
        del plain["data"]["content"]
    return Record(
        collection=MESSAGES,
        kind=ROLES.get(message.type, message.type),
        scope=scope,
        text=message.text,
        data={"message": plain} | ({} if message.name is None else {"name": message.name}),
        **next_position(),
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
