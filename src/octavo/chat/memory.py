"""What every chat memory can do, and the one class that does the work on any store."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Self

import msgspec

from octavo.chat.messages import (
    CONTENT,
    MESSAGES,
    SUMMARIES,
    SUMMARY,
    SUMMARY_ID,
    Msg,
    check_string,
    copy_mark,
    given_marks,
    ids_of,
    is_ours,
    kept_name,
    mark_of,
    marks_of,
    read_state,
    renew,
    summary_message,
    to_copy,
    to_message,
    to_record,
)
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import Store
from octavo.stores import open_store, to_store


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


class ChatMemory(MemoryBase):
    """The messages of one user's session in a store, which a URL names or is handed in; one handed in stays open."""

    def __init__(
        self,
        store: Store | str,
        user_id: str = "default_user",
        session_id: str = "default_session",
        *,
        tenant: str = "",
        owned: bool = False,
    ) -> None:
        # Without an agent, and said so: an exact scope is answered from an index of its own.
        self._scope = Scope(
            tenant=check_string("tenant", tenant),
            user=check_string("user_id", user_id),
            agent="",
            session=check_string("session_id", session_id),
        )
        self.kernel = to_store(store)
        self._owned = owned or isinstance(store, str)

    @property
    def user_id(self) -> str:
        """Whose messages these are; assigning goes to another user's from the next call on."""
        return self._scope.user or ""

    @user_id.setter
    def user_id(self, user_id: str) -> None:
        self._scope = msgspec.structs.replace(self._scope, user=check_string("user_id", user_id))

    @property
    def session_id(self) -> str:
        """The session whose messages these are; assigning goes to another one from the next call on."""
        return self._scope.session or ""

    @session_id.setter
    def session_id(self, session_id: str) -> None:
        self._scope = msgspec.structs.replace(self._scope, session=check_string("session_id", session_id))

    def _refuse_content(self, content: object) -> None:
        del content
        raise AttributeError(
            "content cannot be assigned: clear() removes the messages and add() adds some; "
            "load_state_dict(state) puts others in their place"
        )

    content = property(fset=_refuse_content)  # where other memories of this kind keep their messages

    @classmethod
    def open(
        cls, url: str, user_id: str = "default_user", session_id: str = "default_session", *, tenant: str = ""
    ) -> "ChatMemory":
        """A memory in the store that a URL names, which it closes with itself."""
        return ChatMemory(open_store(url), user_id, session_id, tenant=tenant, owned=True)

    async def add(
        self,
        memories: Msg | Sequence[Msg] | None,
        marks: str | Sequence[str] | None = None,
        allow_duplicates: bool = False,
    ) -> None:
        """Keep messages in one write, each with these marks.

        One whose id is kept already is passed over, unless duplicates are allowed: then it is kept once more.
        """
        records = self._records(memories, marks)
        if not records:
            return
        if allow_duplicates:
            await self._add_again(records)
        else:
            await self._apply([Add(records)])

    async def delete(self, msg_ids: Sequence[str]) -> int:
        """Remove messages by id, with all their copies; answer how many there were."""
        [removed] = await self._apply([Remove(self._query(ids=await self._kept_ids(msg_ids)))])
        return removed

    async def delete_by_mark(self, mark: str | Sequence[str]) -> int:
        """Remove the messages that have the mark, or any of several; answer how many there were."""
        if mark is None:
            raise TypeError("delete_by_mark needs a mark; clear() removes all messages")
        marks = tuple(kept_name(one) for one in marks_of(mark))
        [removed] = await self._apply([Remove(self._query(marks=marks))])
        return removed

    async def size(self) -> int:
        """How many messages there are; the summary is none."""
        return (await self.kernel.tally(self._query())).total

    async def clear(self, summary: bool = False) -> None:
        """Remove all messages, and with `summary=True` the summary too."""
        ops: list[Op] = [Remove(self._query())]
        await self._apply([*ops, Remove(self._summary_query())] if summary else ops)

    async def get_memory(
        self, mark: str | None = None, exclude_mark: str | None = None, prepend_summary: bool = True
    ) -> list[Msg]:
        """The messages that have `mark` and have not `exclude_mark`, in the order they were added.

        A summary stands in front of them as a message of the user's, unless `prepend_summary` is false.
        """
        query = self._query(
            marks=None if mark is None else (kept_name(mark_of(mark)),),
            without=() if exclude_mark is None else (kept_name(mark_of(exclude_mark)),),
        )
        # The messages first: whoever compresses writes the summary before it marks what is in it, and read in this order
        # a message may be told twice, but never not at all.
        messages = [to_message(record) for record in await self.kernel.find(query)]
        if not prepend_summary:
            return messages
        return [
            *(summary_message(record) for record in await self.kernel.find(self._summary_query())),
            *messages,
        ]

    async def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: Sequence[str] | None = None
    ) -> int:
        """Add a mark, remove one, or replace one by another; answer how many messages that changed.

        `(new)` adds, `(None, old)` removes, `(new, old)` replaces, `(None, None)` removes every mark; with `msg_ids`, of
        those messages only. A mark that is added or replaced stands last.
        """
        new = None if new_mark is None else kept_name(mark_of(new_mark))
        old = None if old_mark is None else kept_name(mark_of(old_mark))
        query = self._query(ids=None if msg_ids is None else await self._kept_ids(msg_ids))
        if new is None and old is None:
            return await self._unmark_all(query)
        if new == old:
            return 0
        if old is not None:
            query = msgspec.structs.replace(query, marks=(old,))
        elif new is not None:
            query = msgspec.structs.replace(query, without=(new,))
        change = Change(query=query, mark=() if new is None else (new,), unmark=() if old is None else (old,))
        [changed] = await self._apply([change])
        return changed

    async def update_compressed_summary(self, summary: str) -> None:
        """Keep this summary with the session, in place of the one before; an empty one is none."""
        await self._apply(self._summarise(check_string("a summary", summary)))

    async def compressed_summary(self) -> str:
        """The summary, or an empty string."""
        return "".join(record.text for record in await self.kernel.find(self._summary_query()))

    async def state_dict(self) -> dict[str, Any]:
        """All of the memory as one plain value, which JSON can say."""
        records = await self.kernel.find(self._query())
        content = [[to_message(record).to_dict(), given_marks(record)] for record in records]
        return {SUMMARY: await self.compressed_summary(), CONTENT: content}

    async def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Hold what a state tells, in place of what is held now; all of it or nothing.

        With `strict`, a key that is missing or unknown is KeyError; without, what is missing stays as it is.
        """
        summary, content = read_state(state, strict=strict)
        ops: list[Op] = []
        if content is not None:
            records = [to_record(message, marks, self._scope) for message, marks in content]
            ops += [Remove(self._query()), Add(_with_copies(records, set()))]
        if summary is not None:
            ops += self._summarise(summary)
        await self._apply(ops)

    async def close(self) -> None:
        """Close the store, unless it was handed in; called again, it does nothing."""
        if self._owned:
            await self.kernel.close()

    async def __aenter__(self) -> Self:
        if self._owned:
            await self.kernel.__aenter__()
        return self

    async def _apply(self, ops: Sequence[Op]) -> list[int]:
        counts = await self.kernel.apply(ops)
        await renew(self.kernel, (MESSAGES, SUMMARIES), self._scope)
        return counts

    def _summarise(self, summary: str) -> list[Op]:
        query = self._summary_query()
        if not summary:
            return [Remove(query)]
        record = Record(collection=SUMMARIES, id=SUMMARY_ID, scope=self._scope, text=summary)
        return [Add([record]), Change(query=query, text=summary)]

    def _records(
        self, memories: Msg | Sequence[Msg] | None, marks: str | Sequence[str] | None
    ) -> list[Record]:
        given = marks_of(marks)
        return [to_record(message, given, self._scope) for message in _messages(memories)]

    async def _add_again(self, records: list[Record]) -> None:
        """Keep each of these, under an id of its own where its id is taken."""
        batch = _with_copies(records, {record.id for record in await self._find_named(records)})
        firsts = [record for record in batch if not is_ours(record.id)]
        copies = [record for record in batch if is_ours(record.id)]
        _, added = await self._apply([Add(copies), Add(firsts)])
        if added == len(firsts):
            return
        # Ids were taken, perhaps a moment ago, which a transaction of the caller's may be unable to see.
        mine = {(record.id, record.seq) for record in await self._find_named(firsts)} if added else set()
        late = [to_copy(record) for record in firsts if (record.id, record.seq) not in mine]
        await self._apply([Add(late)])

    async def _find_named(self, records: list[Record]) -> list[Record]:
        return await self.kernel.find(self._query(ids=tuple(record.id for record in records)))

    async def _kept_ids(self, msg_ids: Sequence[str]) -> tuple[str, ...]:
        """The ids under which the store keeps these messages and their copies."""
        ids = ids_of(msg_ids)
        copies = await self.kernel.find(self._query(marks=tuple(copy_mark(one) for one in ids)))
        return (*(kept_name(one) for one in ids), *(record.id for record in copies))

    async def _unmark_all(self, query: Query) -> int:
        """Remove every mark a caller gave; ours, which say whose copy a copy is, stay."""
        found = {
            mark
            async for page in walk(self.kernel, query)
            for record in page
            for mark in record.marks
            if not is_ours(mark)
        }
        marks = tuple(sorted(found))
        if query.ids is None:  # or they are found by id, and what has none of the marks stays as it is
            query = msgspec.structs.replace(query, marks=marks)
        change = Change(query=query, unmark=marks)
        [changed] = await self._apply([change])
        return changed

    def _query(self, **clauses: Any) -> Query:
        return Query(collection=MESSAGES, scope=self._scope, **clauses)

    def _summary_query(self) -> Query:
        return Query(collection=SUMMARIES, scope=self._scope, ids=(SUMMARY_ID,))


def _messages(memories: Any) -> list[Msg]:
    if memories is None:
        return []
    given = [memories] if isinstance(memories, Msg) else memories
    if not isinstance(given, list | tuple):
        raise TypeError(f"memories are a Msg, a list of them or None; got {memories!r}"[:300])
    for message in given:
        if not isinstance(message, Msg):
            raise TypeError(f"a memory is made of Msg; got {message!r}"[:300])
    return list(given)


def _with_copies(records: list[Record], taken: set[str]) -> list[Record]:
    """The records, as copies where their id is taken, be it by one before them."""
    taken = set(taken)
    batch = []
    for record in records:
        batch.append(to_copy(record) if record.id in taken else record)
        taken.add(record.id)
    return batch
