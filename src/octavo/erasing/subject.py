"""Whose data is erased, and which records are theirs.

A user's are the records that name the user. Records that name a session and no user are the user's if no other
user has records in that session. `users/<name>` and its versions are that user's, also where they name nobody.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal, TypeAlias

import msgspec

from octavo.errors import InvalidQuery
from octavo.kernel.model import Add, Op, Query, Record, Scope
from octavo.kernel.pages import list_heads, list_names, walk
from octavo.kernel.ports import Store
from octavo.kernel.shapes import SHAPES

Part: TypeAlias = Literal["user", "session", "agent", "memory"]
#: Where a session is a conversation; in the log it is a memory, among versions a document.
TALK = ("messages", "summaries", "entities", "exchanges", "observations", "turns", "events", "checkpoints")
#: What is nobody's: keys of the server, and the certificates themselves.
_NOBODYS = ("keys", "erasures")
_FACTS = ("profile", "episodes")
_SOURCES = ("messages", "observations", "events")
_PAGE, _PAGE_BYTES = 500, 4 * 2**20


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Whose data is meant: a user, a session, an agent, or one memory with its sources; or one user's part of a session."""

    part: Part
    name: str
    tenant: str = ""
    user: str | None = None  # only of a session: whose part of it

    @classmethod
    def of(cls, tenant: str = "", **named: str | None) -> "Subject":
        """The one that is named: `Subject.of(user_id="lin")`; InvalidQuery for none, or for two but a user and a session."""
        user = named.pop("user_id", None) if named.get("user_id") and named.get("session_id") else None
        given = [(word, name) for word, name in named.items() if name is not None]
        if len(given) != 1 or not isinstance(given[0][1], str) or not given[0][1]:
            told = ", ".join(f"{word}={name!r}" for word, name in given) or "nobody"
            raise InvalidQuery(
                f"whose data is to go? name one of user_id, session_id, agent_id and memory_id, or a user and a session; "
                f"got {told}"
            )
        part: Any = given[0][0].removesuffix("_id")
        return cls(part=part, name=given[0][1], tenant=tenant, user=user)

    def owns(self, scope: Scope) -> bool:
        """Whether a scope names it."""
        return getattr(scope, self.part, None) == self.name and self.user in (None, scope.user)

    @property
    def document(self) -> str:
        """The key of the document about a user."""
        return f"users/{self.name}"


class Belongings:
    """The questions that find all that belongs to somebody. What is found by means of other records comes before these."""

    def __init__(self, subject: Subject, keep_rejected: bool = False) -> None:
        self.subject = subject
        self._kept = (*_NOBODYS, "owners") if keep_rejected else _NOBODYS
        self.queries: list[Query] = []
        self.sessions: set[str] = set()  # whose records are the subject's if they name nobody else
        self.ids: set[str] = set()

    @classmethod
    async def of(cls, store: Store, subject: Subject, keep_rejected: bool = False) -> "Belongings":
        """What belongs to the subject now; digests of what it rejected may be kept."""
        found = cls(subject, keep_rejected)
        if subject.part in ("user", "agent"):
            await found._add_owner(store)
        elif subject.part == "session":
            await found._add_session(store)
        else:
            await found._add_memory(store)
        return found

    def scope(self, **named: str | None) -> Scope:
        return Scope(tenant=self.subject.tenant, **named)

    async def _add_owner(self, store: Store) -> None:
        owned = [query for query in _owner_queries(self.subject) if query.collection not in self._kept]
        if self.subject.part == "user":
            self.queries += [
                Query(collection="versions", scope=self.scope(user="", session=self.subject.document)),
                Query(collection="configs", ids=(self.subject.document,), scope=self.scope(user="")),
            ]
            await self._add_own_sessions(store)
        self.queries += owned

    async def _add_own_sessions(self, store: Store) -> None:
        """What names no user, in sessions of this user alone."""
        self.sessions = {*await own_sessions(store, self.subject.name, self.subject.tenant)}
        for session in sorted(self.sessions):
            exact = self.scope(user="", session=session)
            nobodys = [Query(collection=name, scope=exact) for name in TALK]
            self.queries += [query for query in nobodys if (await store.tally(query)).total]

    async def _add_session(self, store: Store) -> None:
        name, user = self.subject.name, self.subject.user
        whose = self.scope(user=user)
        learnt = [Query(collection=each, scope=whose, where={"session_id": name}) for each in _FACTS]
        for query in learnt:
            self.queries += [
                self._log(head.id)
                for head in await list_heads(store, msgspec.structs.replace(query, newest_first=True))
            ]
        self.queries += learnt
        derived = [each for each in ("vectors", "pending") if each in SHAPES]
        whose = self.scope(user=user, session=name)
        self.queries += [Query(collection=each, scope=whose) for each in (*derived, *TALK)]
        if user is not None and await _is_own(store, user, self.subject.tenant, name):
            self.sessions = {name}
            whose = self.scope(user="", session=name)
            self.queries += [Query(collection=each, scope=whose) for each in TALK]

    async def _add_memory(self, store: Store) -> None:
        name = self.subject.name
        facts = [Query(collection=each, ids=(name,), scope=self.scope()) for each in _FACTS]
        log = self._log(name)
        rows = [record for query in (*facts, log) for record in await store.find(query)]
        for record in rows:
            scope = self.scope(user=record.scope.user or "", agent=record.scope.agent or "")
            if sources := tuple(_sources(record)):
                self.queries += [Query(collection=each, ids=sources, scope=scope) for each in _SOURCES]
                notes = tuple(f"facts:{each}" for each in sources)
                self.queries.append(Query(collection="pending", ids=notes, scope=scope))
            self.queries.append(Query(collection="vectors", scope=scope, where={"id": name}))
        self.queries = list({repr(query): query for query in self.queries}.values())
        self.queries += [log, *facts]

    def _log(self, memory: str) -> Query:
        return Query(collection="log", scope=self.scope(user=self.subject.user, session=memory))

    async def pages(self, store: Store) -> AsyncIterator[list[Record]]:
        """All that belongs to the subject, a page at a time."""
        for query in self.queries:
            async for page in walk(store, query, _PAGE, _PAGE_BYTES):
                self.ids.update(record.id for record in page)
                yield page

    # --- writes that wait: nobody can be asked about them

    def holds(self, record: Record) -> bool:
        """Whether a record that is not stored yet is the subject's."""
        scope, subject = record.scope, self.subject
        if scope.tenant != subject.tenant:
            return False
        if subject.part == "memory":
            return subject.name in (record.id, scope.session) or record.id in self.ids
        if subject.part == "session":
            named = subject.name in (scope.session, record.metadata.get("session_id"))
            own = subject.user in (None, scope.user) or (not scope.user and subject.name in self.sessions)
            return named and own
        if subject.owns(scope):
            return True
        if subject.part == "agent" or scope.user:
            return False
        document = scope.session if record.collection == "versions" else record.id
        return scope.session in self.sessions or document == subject.document

    def drop_owned(self, ops: list[Op]) -> list[Op]:
        """The ops of a write without those of the subject."""
        gone: set[str] = set()
        left: list[Op] = []
        for op in ops:
            if not isinstance(op, Add):
                left += [] if self._may_touch(op.query, gone) else [op]
                continue
            kept = [record for record in op.records if not self.holds(record)]
            gone.update(record.id for record in op.records if self.holds(record))
            if len(kept) == len(op.records):
                left.append(op)
            elif kept:
                expect = None if op.expect is None else op.expect - len(op.records) + len(kept)
                left.append(Add(kept, expect))
        return left

    def _may_touch(self, query: Query, gone: set[str]) -> bool:
        scope, subject = query.scope, self.subject
        if scope.tenant != subject.tenant:
            return False
        if subject.owns(scope):
            return True
        if subject.part == "memory" and scope.session == subject.name:
            return True
        return bool(query.ids) and {*(query.ids or ())} <= self.ids | gone


def _owner_queries(subject: Subject) -> list[Query]:
    """What names a user or an agent as its owner, in every collection."""
    owner = Scope(tenant=subject.tenant, **{subject.part: subject.name})
    return [Query(collection=name, scope=owner) for name in reversed(SHAPES) if name not in _NOBODYS]


async def count_owned(store: Store, subject: Subject, most: int) -> dict[str, int]:
    """How many records name a user or an agent as their owner, by collection, at a cost that does not grow with them.

    Where the store has no counter they are counted up to one more than `most`.
    """

    async def count(query: Query) -> int:
        if (subject.part,) in SHAPES[query.collection].counted:
            return (await store.tally(query)).total
        return len(await list_heads(store, msgspec.structs.replace(query, newest_first=True, limit=most + 1)))

    queries = _owner_queries(subject)
    counted = await asyncio.gather(*map(count, queries))
    found = {query.collection: total for query, total in zip(queries, counted, strict=True) if total}
    return dict(sorted(found.items()))


def _sources(record: Record) -> list[str]:
    """The ids of the texts that a memory was made from, by its record or a row of its log."""
    states = [record.data, record.data.get("before"), record.data.get("after")]
    found: list[str] = []
    for state in states:
        data = state.get("data", state) if isinstance(state, dict) else {}
        found += [each for each in data.get("sources") or () if isinstance(each, str)]
    return found


async def own_sessions(store: Store, user: str, tenant: str = "") -> list[str]:
    """The sessions that have records of this user and of nobody, and none of another user."""
    whose = Scope(tenant=tenant, user=user)
    named = {name for collection in TALK for name in await list_names(store, collection, "session", whose)}
    return [session for session in sorted(named) if await _is_own(store, user, tenant, session)]


async def _is_own(store: Store, user: str, tenant: str, session: str) -> bool:
    """Whether there are records of nobody in the session, and none of another user."""
    nobodys = Scope(tenant=tenant, user="", session=session)
    totals = [(await store.tally(Query(collection=each, scope=nobodys))).total for each in TALK]
    if not any(totals):
        return False
    scope = Scope(tenant=tenant, session=session)
    users = {name for each in TALK for name in await list_names(store, each, "user", scope, most=2)}
    return users <= {user}
