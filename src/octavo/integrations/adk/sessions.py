"""Sessions of Google's ADK in a store: their events are messages of the chat face, their states are items."""

import asyncio
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session, _session_util
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from octavo.chat.messages import Msg
from octavo.conversation.store_history import on_store_loop
from octavo.errors import Conflict
from octavo.integrations.sessions import SessionItems, call_block, result_block, text_block
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store

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
