"""Sessions and memory for agents of Google's ADK: what was said is kept in any store, and found again in later sessions.

    from octavo.integrations.adk import OctavoMemoryService, OctavoSessionService

    runner = Runner(
        app_name="helper", agent=agent,
        session_service=OctavoSessionService(memory.store), memory_service=OctavoMemoryService(memory),
    )

As ADK has it, an event is part of memory as soon as its session is added to it.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from octavo.chat.messages import MESSAGES, Msg
from octavo.conversation.store_history import on_store_loop
from octavo.errors import Conflict
from octavo.integrations import require_package
from octavo.integrations.tools import SessionItems, call_block, result_block, run_on, text_block, unwrap
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.memory import AsyncMemory, Memory
from octavo.memory.searching import Whose
from octavo.search.hits import MemoryHit

with require_package(__name__, "Google's ADK", "google-adk"):
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import BaseSessionService, Session, _session_util
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from google.genai import types

__all__ = ["OctavoMemoryService", "OctavoSessionService"]

#: The mark of a message that a session service keeps, and of one that was not added to memory (yet, or any more).
EVENT, UNLEARNT = "adk_event", "adk_not_in_memory"
#: The mark of one that was deleted from memory: it is not to be added again.
DELETED = "adk_deleted_from_memory"
_ITEMS = "items"
_SESSION, _USER, _APP = "adk_session", "adk_user_state", "adk_app_state"
_UNSEARCHED = " "  # the text of a record that nobody wants to find by what is in it


class OctavoSessionService(SessionItems, BaseSessionService):  # type: ignore[misc] # its types are not there without it
    """Sessions in a store, which a URL names or is handed in; one handed in stays open.

    An app is the `agent` of what is kept: sessions of two apps never meet, also those of one user and one name.
    """

    kept_as = "adk"

    def __init__(self, url_or_store: str | Store, *, tenant: str = "") -> None:
        super().__init__(url_or_store, "", "", tenant=tenant)

    @on_store_loop
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session; AlreadyExistsError if there is one of this name."""
        name = (session_id or "").strip() or str(uuid.uuid4())
        deltas = _session_util.extract_json_safe_state_delta(state or {})
        revision = {"revision": str(uuid.uuid4())}
        record = Record(
            collection=_ITEMS, id=_SESSION, scope=self._scope_at(app_name, user_id, name), text=_UNSEARCHED,
            data=deltas["session"], metadata=revision,
        )  # fmt: skip
        try:
            await self._store.apply([Add([record], expect=1), *self._put_states(app_name, user_id, deltas)])
        except Conflict:
            raise AlreadyExistsError(f"Session with id {name} already exists.") from None
        none = GetSessionConfig(num_recent_events=0)
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=name, config=none)
        if session is None:
            raise SessionNotFoundError(f"Session {name} was deleted while it was made.")
        return session

    @on_store_loop
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its latest events and its state, or None."""
        config = config or GetSessionConfig()
        scope = self._scope_at(app_name, user_id, session_id.strip())
        found, events, user, app = await asyncio.gather(
            self._store.find(_item(scope, _SESSION)),
            self._store.find(self._events(scope, limit=config.num_recent_events)),
            self._state(self._scope_at(app_name, user_id, ""), _USER),
            self._state(self._scope_at(app_name, "", ""), _APP),
        )
        since = config.after_timestamp or 0.0
        items = [each.data[self.kept_as] for each in events]
        told = [Event.model_validate_json(msgspec.json.encode(item)) for item in items]
        recent = [each for each in told if each.timestamp >= since]
        return _session(found[0], app, user, recent) if found else None

    @on_store_loop
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of everybody, without their events; the one that was active last comes last."""
        user = self._scope_at(app_name, user_id, None)
        found = await self._store.find(Query(collection=_ITEMS, scope=user, ids=(_SESSION, _USER)))
        app = await self._state(self._scope_at(app_name, "", ""), _APP)
        users = {each.scope.user: each.data for each in found if each.id == _USER}
        sessions = [
            _session(each, app, users.get(each.scope.user, {}), []) for each in found if each.id == _SESSION
        ]
        sessions.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=sessions)

    @on_store_loop
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with its events; what was learnt in it stays."""
        if not (isinstance(user_id, str) and isinstance(session_id, str)):  # None would be all of them
            raise TypeError(f"user_id and session_id are strings; got {user_id!r} and {session_id!r}")
        scope = self._scope_at(app_name, user_id, session_id)
        items = Remove(_item(scope, _SESSION))
        await self._store.apply([items, Remove(self._events(scope))])

    @on_store_loop
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What all sessions of a user share in an app."""
        return await self._state(self._scope_at(app_name, user_id, ""), _USER)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep an event and what it changes in the state, in one write.

        StaleSessionError if others have appended since the session was read; the same event again changes nothing.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        return self._commit_event_to_session(session, event) if await self._append(session, event) else event

    @on_store_loop
    async def _append(self, session: Session, event: Event) -> bool:
        """Whether it was new."""
        scope = self._scope_at(session.app_name, session.user_id, session.id)
        item = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        message = to_message(event)
        record = msgspec.structs.replace(
            self._record(message, item, f"[{event.author}]"), scope=scope, marks=(EVENT, UNLEARNT)
        )
        deltas = _session_util.extract_json_safe_state_delta(event.actions.state_delta or {})
        seen = session._storage_update_marker  # noqa: SLF001 - ADK's place for it
        touched = Change(
            query=_item(scope, _SESSION, where={"revision": seen} if seen else {}),
            merge=deltas["session"], metadata={"revision": event.id},
            updated_at=datetime.fromtimestamp(event.timestamp, UTC), expect=1,
        )  # fmt: skip
        states = self._put_states(session.app_name, session.user_id, deltas)
        try:
            await self._store.apply([touched, Add([record], expect=1), *states])
        except Conflict:
            kept = await self._store.find(self._events(scope, ids=(record.id,)))
            if kept and kept[0].data.get(self.kept_as) == msgspec.json.decode(msgspec.json.encode(item)):
                return False
            if not await self._store.find(_item(scope, _SESSION)):
                raise SessionNotFoundError(f"Session {session.id} not found.") from None
            raise StaleSessionError(
                f"session {session.id!r} has changed since it was read, or holds another event of the id {event.id!r}: "
                "get the session again"
            ) from None
        session._storage_update_marker = event.id  # noqa: SLF001
        session.last_update_time = event.timestamp
        return True

    async def _state(self, scope: Scope, name: str) -> dict[str, Any]:
        found = await self._store.find(_item(scope, name))
        return found[0].data if found else {}

    def _put_states(self, app_name: str, user_id: str, deltas: dict[str, dict[str, Any]]) -> list[Op]:
        ops: list[Op] = []
        for name, user, delta in ((_APP, "", deltas["app"]), (_USER, user_id, deltas["user"])):
            scope = self._scope_at(app_name, user, "")
            if delta:
                ops.append(Add([Record(collection=_ITEMS, id=name, scope=scope, text=_UNSEARCHED)]))
                ops.append(Change(query=_item(scope, name), merge=delta))
        return ops

    def _events(self, scope: Scope, **clauses: Any) -> Query:
        return msgspec.structs.replace(self._query(marks=(EVENT,), **clauses), scope=scope)

    def _scope_at(self, app_name: str, user_id: str | None, session_id: str | None) -> Scope:
        return Scope(tenant=self._scope.tenant, user=user_id, agent=app_name, session=session_id)


def _item(scope: Scope, name: str, **clauses: Any) -> Query:
    return Query(collection=_ITEMS, scope=scope, ids=(name,), **clauses)


def _session(record: Record, app: dict[str, Any], user: dict[str, Any], events: list[Event]) -> Session:
    """The session that a record is about, with the state of its app and of its user beside its own."""
    shared = {f"app:{key}": value for key, value in app.items()} | {
        f"user:{key}": value for key, value in user.items()
    }
    session = Session(
        id=record.scope.session, app_name=record.scope.agent, user_id=record.scope.user, events=events,
        state=record.data | shared, last_update_time=(record.updated_at or record.created_at).timestamp(),
    )  # fmt: skip
    session._storage_update_marker = record.metadata["revision"]  # noqa: SLF001 - ADK's place for it
    return session


def to_message(event: Event) -> Msg:
    """What was said in an event, and the calls of tools with their results; it has the id of the event."""
    parts = (event.content.parts if event.content else None) or []
    blocks = [block for part in parts if (block := _block(part))]
    role: Any = "user" if event.author == "user" else "assistant" if parts else "system"
    message = Msg(event.author, blocks, role)
    message.id = event.id
    return message


def _block(part: Any) -> Any:
    if part.text and not part.thought:
        return text_block(part.text)
    if call := part.function_call:
        return call_block(call.id, call.name, call.args or {})
    if answer := part.function_response:
        return result_block(answer.id, answer.name, answer.response)
    return None


_PAGE = 500  # facts that are looked through at a time


class OctavoMemoryService(BaseMemoryService):  # type: ignore[misc] # its types are not there without it
    """The memory of the users of an app. With `all_apps` a search finds whatever is kept for a user, by anybody."""

    def __init__(self, memory: Memory | AsyncMemory, *, limit: int = 10, all_apps: bool = False) -> None:
        self._memory, self._limit, self._all_apps = memory, limit, all_apps

    async def add_session_to_memory(self, session: Session) -> None:
        """Keep the events of a session and find the facts in them; those that were added before are left alone."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """The same for some events; the metadata is kept with the facts."""
        whose = Whose(unwrap(self._memory).layers.tenant, user_id, app_name, session_id)
        await run_on(self._memory, self._add(whose, events, dict(custom_metadata or {})))

    async def _add(self, whose: Whose, events: Sequence[Event], metadata: dict[str, Any]) -> None:
        memory = unwrap(self._memory)
        said = {message.id: message for message in map(to_message, events) if message.get_text_content()}
        known = Query(collection=MESSAGES, scope=whose.talk, ids=tuple(said))
        for record in await memory.store.find(known) if said else ():
            if UNLEARNT not in record.marks or DELETED in record.marks:
                del said[record.id]
        if said:
            await memory.add(
                [*said.values()],
                user_id=whose.user_id,
                agent_id=whose.agent_id,
                session_id=whose.session_id,
                metadata=metadata or None,
            )
            learnt = Query(collection=MESSAGES, scope=whose.talk, ids=tuple(said))
            await memory.store.apply([Change(query=learnt, unmark=(UNLEARNT,))])

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep each of these as a fact, in its own words."""
        for entry in memories:
            text = " ".join(part.text for part in entry.content.parts or () if part.text)
            metadata = {**(custom_metadata or {}), **entry.custom_metadata}
            owner = {"user_id": user_id, "agent_id": app_name}
            await run_on(
                self._memory, unwrap(self._memory).add(text, infer=False, metadata=metadata, **owner)
            )

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What answers a question best: facts, events of sessions that were added, documents."""
        found = await run_on(self._memory, self._search(app_name, user_id, query))
        return SearchMemoryResponse(memories=[_entry(hit) for hit in found])

    async def _search(self, app_name: str, user_id: str, query: str) -> list[MemoryHit]:
        memory, agent = unwrap(self._memory), None if self._all_apps else app_name
        # Of the session that goes on, which is not in memory, there may be many.
        hits = await memory.search(query, user_id=user_id, agent_id=agent, limit=3 * self._limit)
        ids = tuple(hit.id for hit in hits if hit.source == "messages")
        scope = Scope(tenant=memory.layers.tenant, user=user_id, agent=agent)
        unlearnt = Query(collection=MESSAGES, scope=scope, ids=ids, marks=(UNLEARNT,))
        away = {(record.id, record.scope.session) for record in await memory.store.find(unlearnt)}
        return [hit for hit in hits if (hit.id, hit.session_id) not in away][: self._limit]

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Remove a fact, which is not learnt again, or an event with its facts; in its session an event stays."""
        if memory_id:
            await run_on(self._memory, self._delete(app_name, user_id, memory_id))

    async def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        memory = unwrap(self._memory)
        scope = Scope(tenant=memory.layers.tenant, user=user_id, agent=app_name)
        said = Query(collection=MESSAGES, scope=scope, ids=(memory_id,))
        if found := await memory.store.find(said):
            held = EVENT in found[0].marks  # by the session, which keeps it
            await memory.store.apply([Change(query=said, mark=(UNLEARNT, DELETED)) if held else Remove(said)])
        after, more = None, True
        while more:
            page = await memory.get_all(user_id=user_id, limit=_PAGE, after=after)
            after, more = page.following, page.following is not None
            for fact in page:
                learnt_here = {*fact.sources} == {memory_id} and bool(found)
                own = self._all_apps or fact.metadata.get("agent_id") == app_name
                if learnt_here or (fact.id == memory_id and own):
                    await memory.reject(fact.id, reason="deleted by the agent's memory service")


def _entry(hit: MemoryHit) -> MemoryEntry:
    author = hit.kind if hit.source == "messages" else None
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role="user", parts=[types.Part(text=hit.text)]),
        author=author,
        timestamp=hit.when.isoformat(),
        custom_metadata={"source": hit.source, "session_id": hit.session_id, **hit.metadata},
    )
