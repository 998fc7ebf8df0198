"""The memory service as coroutines: events, turns and documents over whatever store was assembled."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from octavo.assemble import Assembled
from octavo.erasing.certificate import watch_erasures
from octavo.errors import ConfigError, InvalidQuery, InvalidRecord, NotFound, OctavoError, StoreUnavailable
from octavo.kernel.codec import check_query, check_whose, is_answerable
from octavo.kernel.ids import now
from octavo.kernel.model import START, Add, Cursor, Head, Op, Query, Record, Remove, Scope
from octavo.kernel.pages import count_fitting, read_page
from octavo.kernel.ports import Queues, WriteStatus, write_ops
from octavo.search.hits import Context, Recalled
from octavo.search.question import Filters
from octavo.service.health import Health, check_health, probe, without_secrets
from octavo.service.recent import Recent
from octavo.service.records import (
    EVENTS,
    TURNS,
    EventRecord,
    TurnRecord,
    event_of,
    event_to_record,
    turn_end,
    turn_of,
    turn_to_record,
)
from octavo.service.vault import Document, Vault
from octavo.wraps.attempts import Attempts

if TYPE_CHECKING:
    from octavo.wraps.journal import DeadLetter, Journal, JournalStatus

log = logging.getLogger("octavo.service")
T = TypeVar("T")
DOCUMENTS = ("configs", "knowledge", "versions")


class AsyncMemoryService:
    """Everything MemoryService can do, for callers on one event loop."""

    def __init__(self, assembled: Assembled, *, clock: Callable[[], datetime] = now) -> None:
        service = assembled.settings.service
        self.assembled = assembled
        self._timeout_seconds = service.timeout_seconds
        self._tenant = service.tenant
        self._recent = Recent(service.recent_events, sessions=service.recent_sessions)
        self._clock = clock
        vault = assembled.settings.vault
        self.vault: Vault | None = None
        if vault.enabled:
            self.vault = Vault(
                vault.root_path,
                assembled.store,
                scope=Scope(tenant=self._tenant),
                clock=clock,
                watch_seconds=vault.watch_seconds,
                patience_seconds=self._timeout_seconds,
            )
        self._last: datetime | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to open the store, to recover what an earlier life left on disk, and to watch the vault; wait for nothing."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())

    async def initialize(self) -> bool:
        """Open the store and make its tables now rather than on first use; False when it is down, and later will do."""
        await self.start()
        scope = Scope(tenant=self._tenant)
        # Writes that change nothing: a store makes what is missing of a collection when it is first written to.
        nothing = [
            Remove(Query(collection=name, scope=scope, limit=0)) for name in (EVENTS, TURNS, *DOCUMENTS)
        ]
        try:
            # Not every store is asked by a write that does nothing.
            await self._with_timeout(probe(self.assembled, EVENTS, TURNS, *DOCUMENTS))
            await self._with_timeout(write_ops(self.assembled.store, nothing, queue=False))
        except StoreUnavailable as error:
            log.warning("the store cannot be reached yet: %s", without_secrets(self.assembled, error))
            return False
        return True

    async def append_event(
        self,
        obs: Any,
        session_key: str,
        gate_result: Any = None,
        meta: dict[str, Any] | None = None,
        *,
        user_id: str | None = None,
    ) -> EventRecord:
        """Remember an observation; the same one in the same session again is the event it already is.

        It is the user's that is named here, or else whose the observation says it is; "" is nobody.
        """
        scope = self._scope(session_key, user_id)
        record = event_to_record(obs, scope, gate_result, meta, self._moment())
        known = self._recent.get(EVENTS, record.id)
        if known is not None:  # the same one, whoever it is said to be of now
            record = msgspec.structs.replace(record, scope=known.scope)
        repeats = _all_but_first(record)
        status, added = await self._write([Add([record])], later=[repeats])
        if status == "stored" and not (added and known is not None):
            with suppress(StoreUnavailable):  # the write is done; what it answers is a courtesy
                record = await self._first(repeats, added) or record
        self._recent.put(record)
        return event_of(self._recent.get(EVENTS, record.id) or record, status)

    async def get_event(self, event_id: str) -> EventRecord | None:
        """The event of this id, or None when there is none."""
        found = await self._one(EVENTS, event_id)
        return None if found is None else event_of(found)

    async def get_recent_events(self, session_key: str, limit: int | None = 50) -> list[EventRecord]:
        """The session's newest events, newest first; while the store is down, those that this process appended."""
        return [event_of(record) for record in await self._newest(EVENTS, session_key, limit)]

    async def append_turn(
        self,
        session_key: str,
        input_event_id: str,
        plan: Any = None,
        meta: dict[str, Any] | None = None,
        *,
        user_id: str | None = None,
    ) -> TurnRecord:
        """Remember that the agent was called for an event; the turn is of the same user, unless another one is named."""
        if not isinstance(input_event_id, str) or not input_event_id:
            raise InvalidRecord(f"input_event_id must be the id of an event; got {input_event_id!r}")
        scope = self._scope(session_key, user_id)
        if user_id is None:
            event = self._recent.get(EVENTS, input_event_id)
            if event is None and self._state() == "up":  # else a question would only wait
                with suppress(StoreUnavailable):
                    event = await self._one(EVENTS, input_event_id)
            scope = msgspec.structs.replace(scope, user=event and event.scope.user)
        record = turn_to_record(scope, input_event_id, plan, meta, self._moment())
        status, _ = await self._write([Add([record])])
        self._recent.put(record)
        return turn_of(self._recent.get(TURNS, record.id) or record, status)

    async def finish_turn(
        self,
        turn_id: str,
        final_output_obs_id: str | None = None,
        status: str = "ok",
        error: object | None = None,
    ) -> WriteStatus:
        """End a turn with status "ok" or "error"; NotFound when the store is there and has no such turn."""
        # With its session the change waits for that session's writes only, should they be queued.
        scope = Scope(tenant=self._tenant, session=self._recent.session_of(TURNS, turn_id))
        change = turn_end(turn_id, scope, status, final_output_obs_id, error, self._moment())
        became, changed = await self._write([change])
        # Nothing changed: there is no such turn, or it had ended like this already.
        if became == "stored" and not changed and await self._one(TURNS, turn_id) is None:
            raise NotFound(f"there is no turn {turn_id!r}")
        self._recent.change(TURNS, turn_id, change)
        return became

    async def get_turn(self, turn_id: str) -> TurnRecord | None:
        """The turn of this id, or None when there is none."""
        found = await self._one(TURNS, turn_id)
        return None if found is None else turn_of(found)

    async def get_recent_turns(self, session_key: str, limit: int | None = 50) -> list[TurnRecord]:
        """The session's newest turns, newest first; while the store is down, those that this process began."""
        return [turn_of(record) for record in await self._newest(TURNS, session_key, limit)]

    async def get_system_prompt(self) -> str | None:
        """The text of the system prompt, or None when there is none."""
        return await self.get_config("system")

    async def upsert_system_prompt(self, text: str, meta: dict[str, Any] | None = None) -> Document:
        """Set the system prompt; the text it replaces is kept as a version."""
        return await self.upsert_config("system", text, meta)

    async def get_user_profile(self, user_id: str) -> str | None:
        """What is written about a user, or None when nothing is."""
        return await self.get_config(_profile_key(user_id))

    async def upsert_user_profile(
        self, user_id: str, text: str, meta: dict[str, Any] | None = None
    ) -> Document:
        """Set what is written about a user; the text it replaces is kept as a version."""
        return await self.upsert_config(_profile_key(user_id), text, meta)

    async def get_config(self, key: str) -> str | None:
        """The text of a document, such as "system", "world" or "users/alice", or None when there is none."""
        document = await self._with_timeout(self._documents().get(key))
        return None if document is None else document.body

    async def upsert_config(self, key: str, text: str, meta: dict[str, Any] | None = None) -> Document:
        """Set a document's text, with `meta` as its front matter; the text it replaces is kept as a version."""
        return await self._with_timeout(self._documents().put(key, text, meta))

    async def recall(
        self,
        text: str,
        session_key: str | None = None,
        limit: int = 10,
        *,
        everyone: bool = False,
        user_id: str | None = None,
    ) -> Recalled:
        """What answers a question best, best first: the events of a session, or of a user or `everyone` documents too."""
        scope, filters = self._where_to_look(session_key, user_id, everyone)
        return await self._with_timeout(self.assembled.recall.recall(text, scope, limit, **filters))

    async def context(
        self,
        text: str,
        session_key: str | None = None,
        max_tokens: int = 1000,
        *,
        everyone: bool = False,
        user_id: str | None = None,
    ) -> Context:
        """The same as one fenced block within a token budget, with its sources, for a prompt."""
        scope, filters = self._where_to_look(session_key, user_id, everyone)
        return await self._with_timeout(self.assembled.recall.context(text, scope, max_tokens, **filters))

    def _where_to_look(
        self, session_key: str | None, user_id: str | None, everyone: bool
    ) -> tuple[Scope, Filters]:
        named = session_key is not None or user_id is not None
        check_whose(named, everyone, "whose events? give a session_key or a user_id")
        if session_key is not None:
            return self._scope(session_key, user_id), {"collections": (EVENTS,)}
        filters: Filters = {"collections": (EVENTS, "configs", "knowledge")}
        if user_id is not None:
            return Scope(tenant=self._tenant, user=_user(user_id)), filters
        return Scope(tenant=self._tenant), {**filters, "everyone": True}

    async def health(self) -> Health:
        """How the memory is; it never raises, and takes no longer than the time-out."""
        return await check_health(self.assembled, self.vault, closed=self._closing is not None)

    async def queue_status(self) -> "JournalStatus":
        """How many writes wait, were replayed or are dead, and since when."""
        return self._journal().status()

    async def replay_queue(self) -> int:
        """Try at once to store what waits, whatever the back-off says; how many were stored."""
        return await self._journal().replay_now()

    async def dead_letters(self, limit: int | None = None) -> "list[DeadLetter]":
        """Writes that were given up, oldest first, each with the error that killed it."""
        return await self._journal().dead_letters(limit)

    async def dead_letter(self, id_: str) -> "DeadLetter":
        """One write that was given up."""
        return await self._journal().dead_letter(id_)

    async def replay_dead_letters(self, ids: str | Sequence[str] | None = None) -> int:
        """Queue these dead letters again, or all of them; how many."""
        return await self._journal().replay_dead(ids)

    async def discard_dead_letters(self, ids: str | Sequence[str] | None = None) -> int:
        """Delete these dead letters, or all of them, for good; how many."""
        return await self._journal().discard_dead(ids)

    async def close(self) -> None:
        """Deliver what waits or leave it on disk, and let go of everything; a second call does nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)  # a caller who goes away must not leave it half closed

    async def finish(self) -> None:
        """Close, and let whoever is in the middle of a call have an answer: the event loop ends with this."""
        await self.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=self._timeout_seconds)

    async def _open(self) -> None:
        try:
            await self.assembled.store.__aenter__()
        except OctavoError as error:  # every later call says so too, to somebody who can act
            log.error("the memory could not be opened: %s", without_secrets(self.assembled, error))  # noqa: TRY400
            return
        self._watching = asyncio.create_task(watch_erasures(self.assembled.store))
        if self.vault is not None:
            self.vault.start()

    async def _close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        closing = None if self.vault is None else asyncio.create_task(self.vault.close())
        if closing is not None:
            # While the store is down, what the vault has under way would only wait; below it is told that all is over.
            await asyncio.wait([closing], timeout=0 if self._is_down() else self._timeout_seconds)
        await self.assembled.close()
        if closing is not None:
            await asyncio.wait([closing], timeout=self._timeout_seconds)

    def _documents(self) -> Vault:
        if self.vault is None:
            raise ConfigError("there are no documents: vault.enabled is false, or vault_path is None")
        return self.vault

    def _journal(self) -> "Journal":
        if self.assembled.journal is None:
            raise ConfigError("there is no failure queue: failure_queue.enabled is false")
        return self.assembled.journal

    def _scope(self, session_key: str, user_id: str | None = None) -> Scope:
        if not isinstance(session_key, str) or not session_key:
            raise InvalidRecord(f"session_key must be a name; got {session_key!r}")
        return Scope(tenant=self._tenant, user=_user(user_id), session=session_key)

    def _moment(self) -> datetime:
        """The time, never before one given earlier: a clock that is set back must not turn a session around."""
        at = self._clock()
        self._last = at if self._last is None else max(self._last, at)
        return self._last

    async def _write(self, ops: Sequence[Op], later: Sequence[Op] = ()) -> tuple[WriteStatus, int]:
        """Where the write is now, and how many records it touched if that is known; queued, it does `later` too."""
        if isinstance(store := self.assembled.store, Queues):
            done = await store.write(ops, later=later)
            return done.status, sum(done.counts)
        return "stored", sum(await self._with_timeout(self.assembled.store.apply(ops)))

    async def _first(self, repeats: Remove, added: int) -> Record | None:
        """The event as it was first remembered, once what repeats it under another user is gone; None where it is the only one."""
        every = msgspec.structs.replace(repeats.query, after=None, offset=0)
        if added and (await self._with_timeout(self.assembled.store.tally(every))).total == 1:
            return None
        found = await self._with_timeout(self.assembled.store.find(every))
        if len(found) > 1:
            await self._write([repeats])
        return found[0] if found else None

    async def _one(self, collection: str, id_: str) -> Record | None:
        query = Query(collection=collection, ids=(id_,), scope=Scope(tenant=self._tenant), limit=1)
        held = self._recent.get(collection, id_)
        found, _ = await self._find_or_held(query, [] if held is None else [held])
        return found[0] if found else None

    async def _find_or_held(
        self, query: Query, held: list[Record], max_bytes: int | None = None
    ) -> tuple[list[Record], Cursor | None]:
        """The store's answer, and where to go on; while it gives none, what this process holds, if that is anything."""
        store = self.assembled.store
        if held and self._is_down():
            return held, None
        try:
            if max_bytes is not None:
                return await self._with_timeout(read_page(store, query, max_bytes))
            return await self._with_timeout(store.find(query)), None
        except StoreUnavailable as error:
            if not held:
                raise
            log.warning("answering from this process's own memory: %s", error)
            return held, None

    async def _newest(self, collection: str, session_key: str, limit: int | None) -> list[Record]:
        if session_key is None:  # a page of all is for the server, whose callers are known
            raise InvalidQuery("session_key must be a name; got None")
        found, _ = await self.page(collection, session_key, limit)
        return found

    async def page(
        self,
        collection: str,
        session_key: str | None,
        limit: int | None,
        *,
        after: Cursor | None = None,
        max_bytes: int | None = None,
        user_id: str | None = None,
    ) -> tuple[list[Record], Cursor | None]:
        """The newest of a session, a user or all, newest first, and where to go on if not all fit into so many bytes."""
        if session_key is not None and not (isinstance(session_key, str) and session_key):
            raise InvalidQuery(f"session_key must be a name; got {session_key!r}")
        scope = Scope(tenant=self._tenant, user=_user(user_id), session=session_key)
        query = Query(collection=collection, scope=scope, limit=limit, newest_first=True, after=after)
        query = check_query(query)
        if not is_answerable(query):
            return [], None
        newest = session_key is not None and after is None
        most = query.limit if user_id is None else None
        held = self._recent.of(collection, session_key or "", most) if newest else []
        held = [record for record in held if scope.covers(record.scope)][: query.limit]
        if held and max_bytes is not None:
            held = held[: count_fitting((Head.of(record).size_bytes for record in held), max_bytes)]
        return await self._find_or_held(query, held, max_bytes)

    def _state(self) -> str:
        return "up" if self.assembled.journal is None else self.assembled.journal.status().state

    def _is_down(self) -> bool:
        return self._state() == "down"

    async def _with_timeout(self, work: Coroutine[Any, Any, T]) -> T:
        return await Attempts().read(work, self._timeout_seconds)


def _profile_key(user_id: str) -> str:
    if not isinstance(user_id, str):
        raise InvalidRecord(f"user_id must be a name; got {user_id!r}")
    return f"users/{user_id}"


def _user(user_id: str | None) -> str | None:
    if not isinstance(user_id, str | None):
        raise InvalidRecord(f"user_id must be a name; got {user_id!r}")
    return user_id


def _all_but_first(record: Record) -> Remove:
    """Remove what was appended of an observation after it was there already, under another user: scope is part of a key."""
    session = Scope(tenant=record.scope.tenant, session=record.scope.session)
    return Remove(Query(collection=EVENTS, ids=(record.id,), scope=session, after=START, offset=1))
