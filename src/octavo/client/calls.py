"""Every call of the server, written once: what each sends, and how its answer is read."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from octavo.client.answers import (
    Event,
    Health,
    MemoryWithHistory,
    Remembered,
    Replayed,
    Session,
    Stats,
    Turn,
)
from octavo.client.exchange import Asked
from octavo.errors import InvalidQuery
from octavo.kernel.model import utc
from octavo.layers.deciding import Layer
from octavo.layers.values import Action, Extracted, Found, LogEntry, Memory

T = TypeVar("T")


class Calls:
    """What can be asked of the server. Whose memory is meant is said by exactly one of user_id and agent_id."""

    def remember(
        self,
        content: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer = "event",
        category: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        is_permanent: bool | None = None,
        expiry_date: datetime | None = None,
        ttl_seconds: float | None = None,
        reason: str | None = None,
    ) -> Asked[Remembered]:
        """Remember this as it stands."""
        body = _given(
            content=content, memory_layer=layer, category=category, metadata=metadata, is_permanent=is_permanent,
            expiry_date=expiry_date, ttl_seconds=ttl_seconds, reason=reason,
        )  # fmt: skip
        return _write("POST", _owner(user_id, agent_id), body, _as(Remembered))

    def extract(
        self,
        text: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Asked[Extracted]:
        """Split a text into single facts, and remember what is new in it."""
        body = _given(content=text, auto_extract=True, metadata=metadata)
        path = _owner(user_id, agent_id)
        return Asked(method="POST", path=path, body=body, answer=_as(Extracted), keeps=True)

    def profile(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        as_of: datetime | None = None,
    ) -> Asked[list[Memory]]:
        """Who somebody is, what changed last first; `as_of` is how it was then."""
        params = _params(category=category, limit=limit, as_of=as_of)
        return _list(f"{_owner(user_id, agent_id)}/profile", params, _Memories, "memories", 10_000)

    def events(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
    ) -> Asked[list[Memory]]:
        """What happened to somebody, newest first; 50 unless told otherwise."""
        params = _params(category=category, limit=limit, since=since, until=until, as_of=as_of)
        return _list(f"{_owner(user_id, agent_id)}/events", params, _Memories, "memories", 50)

    def get(self, memory_id: str) -> Asked[MemoryWithHistory]:
        """One memory, with every change of it."""
        return _read(f"/memory/{_name(memory_id)}", {}, _as(MemoryWithHistory))

    def history(self, memory_id: str) -> Asked[list[LogEntry]]:
        """Every change of a memory that is there, oldest first."""
        asked = _list(f"/memory/{_name(memory_id)}", {}, MemoryWithHistory, "history", None)
        return msgspec.structs.replace(asked, backwards=True)

    def logs(
        self,
        memory_id: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        memory_layer: Layer | None = None,
        action: Action | None = None,
        limit: int | None = None,
    ) -> Asked[list[LogEntry]]:
        """What was done and why, newest first: to one memory, also when it is gone, or to all of somebody's."""
        if memory_id is None:
            path = f"{_owner(user_id, agent_id)}/logs"
        elif user_id is not None or agent_id is not None:
            raise InvalidQuery("logs takes a memory_id, or a user_id or agent_id, not both")
        else:
            path = f"/memory/{_name(memory_id)}/logs"
        params = _params(memory_layer=memory_layer, action=action, limit=limit)
        return _list(path, params, _Logs, "logs", 100)

    def revise(
        self,
        memory_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer,
        content: str | UnsetType = UNSET,
        category: str | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
        is_permanent: bool | UnsetType = UNSET,
        expiry_date: datetime | UnsetType | None = UNSET,
        reason: str | None = None,
    ) -> Asked[Memory]:
        """Change a memory; what is left out stays, and an expiry_date of None takes the date away."""
        given = {
            "content": content, "category": category, "metadata": metadata, "is_permanent": is_permanent,
            "expiry_date": expiry_date,
        }  # fmt: skip
        body = {name: _plain(value) for name, value in given.items() if value is not UNSET}
        path = f"{_owner(user_id, agent_id)}/{layer}/{_name(memory_id)}"
        return _write("PUT", path, {**body, **_given(reason=reason)}, _as(Memory))

    def forget(
        self,
        memory_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer,
        reason: str | None = None,
    ) -> Asked[Memory]:
        """Remove a memory, and answer what it was; its log stays."""
        path = f"{_owner(user_id, agent_id)}/{layer}/{_name(memory_id)}"
        return Asked(method="DELETE", path=path, params=_params(reason=reason), answer=_as(Memory))

    def undo(self, log_id: str, *, reason: str | None = None) -> Asked[LogEntry]:
        """Take back the newest change of a memory; the log says so."""
        return _write("POST", f"/memory/logs/{_name(log_id)}/undo", _given(reason=reason), _as(LogEntry))

    def query(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        top_k: int = 10,
        everyone: bool = False,
    ) -> Asked[list[Found]]:
        """The memories of an owner that answer a question, best first; `everyone` needs a key with admin access."""
        body = _given(query=query, user_id=user_id, agent_id=agent_id, layer=layer, top_k=top_k)
        if everyone:
            body["everyone"] = True
        return Asked(method="POST", path="/memory/query", body=body, answer=_found, reads=True)

    def append_event(
        self,
        payload: Mapping[str, Any],
        *,
        session: str,
        obs_type: str = "message",
        actor: str | None = None,
        source_name: str = "",
        obs_id: str | None = None,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        gate_result: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Asked[Event]:
        """Note that something was observed; the same obs_id in the same session is one event."""
        body = _given(
            session_key=session, obs_type=obs_type, payload=payload, actor=actor, source_name=source_name,
            obs_id=obs_id, timestamp=timestamp, metadata=metadata, gate_result=gate_result, meta=meta,
        )  # fmt: skip
        return _write("POST", "/events", body, _as(Event))

    def recent_events(self, session: str | None = None, *, limit: int | None = None) -> Asked[list[Event]]:
        """What was observed last, newest first; in one session, or in all."""
        return _list("/events", _params(session=session, limit=limit), _Events, "events", 50)

    def turns(self, session: str, *, limit: int | None = None) -> Asked[list[Turn]]:
        """What the agent did last in a session, newest first."""
        return _list(f"/sessions/{_name(session)}/turns", _params(limit=limit), _Turns, "turns", 50)

    def sessions(self, *, limit: int | None = None) -> Asked[list[Session]]:
        """The sessions of the newest events, the latest first."""
        return _list("/sessions", _params(limit=limit), _Sessions, "sessions", 100)

    def stats(self) -> Asked[Stats]:
        """How much is remembered."""
        return _read("/stats", {}, _as(Stats))

    def queue(self) -> Asked[dict[str, Any]]:
        """What waits for the server's store, and what was given up; needs an admin key."""
        return _read("/queue", {}, _as(dict[str, Any]))

    def replay(self) -> Asked[Replayed]:
        """Bring what waits to the server's store now; needs an admin key."""
        return _write("POST", "/queue/replay", None, _as(Replayed))

    def health(self) -> Asked[Health]:
        """How the server is, also when it is down for want of a store; needs no key."""
        return Asked(method="GET", path="/health", answer=_as(Health), reads=True, also=(503,))

    def config(self) -> Asked[dict[str, Any]]:
        """The server's settings, without secrets; needs an admin key."""
        return _read("/config", {}, _within(_Configuration, "sections"))


class _Page(msgspec.Struct, kw_only=True):
    next: str | UnsetType = UNSET


class _Memories(_Page):
    memories: list[Memory]


class _Logs(_Page):
    logs: list[LogEntry]


class _Events(_Page):
    events: list[Event]


class _Turns(_Page):
    turns: list[Turn]


class _Sessions(_Page):
    sessions: list[Session]


class _Configuration(msgspec.Struct):
    sections: dict[str, Any]


class _Scored(Memory, frozen=True, kw_only=True):
    score: float


class _Answers(msgspec.Struct):
    memories: list[_Scored]


def _read(path: str, params: dict[str, str | int | float], answer: Callable[[bytes], T]) -> Asked[T]:
    return Asked(method="GET", path=path, params=params, answer=answer, reads=True)


def _list(
    path: str, params: dict[str, str | int | float], page: type[Any], name: str, most: int | None
) -> Asked[Any]:
    """A listing, of which the server gives `most` where the caller asks for no number."""
    limit = params.get("limit", most)
    return Asked(
        method="GET", path=path, params=params, answer=_as(page), reads=True, listed=name,
        most=None if limit is None else int(limit),
    )  # fmt: skip


def _write(method: str, path: str, body: dict[str, Any] | None, answer: Callable[[bytes], T]) -> Asked[T]:
    return Asked(method=method, path=path, body=body, answer=answer)


def _as(type_: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(type_).decode


def _within(type_: type[Any], name: str) -> Callable[[bytes], Any]:
    decode = _as(type_)
    return lambda body: getattr(decode(body), name)


def _found(body: bytes) -> list[Found]:
    answers = msgspec.json.decode(body, type=_Answers).memories
    return [
        Found(memory=msgspec.convert(each, Memory, from_attributes=True), score=each.score)
        for each in answers
    ]


def _owner(user_id: str | None, agent_id: str | None) -> str:
    if (user_id is None) == (agent_id is None):
        raise InvalidQuery(
            f"whose memory? give user_id or agent_id, and one of them; got {user_id!r}, {agent_id!r}"
        )
    return f"/memory/user/{_name(user_id)}" if user_id is not None else f"/memory/agent/{_name(agent_id)}"


def _name(given: str | None) -> str:
    """A name as one part of a path, whatever characters it holds."""
    if not given:
        raise InvalidQuery("an empty name names nothing")
    try:
        quoted = quote(given, safe="")
    except UnicodeEncodeError:
        raise InvalidQuery(f"{given!r} holds a character that UTF-8 cannot say") from None
    # A path is tidied on its way: these two would be taken for this folder and the one above.
    return quoted.replace(".", "%2E") if given in {".", ".."} else quoted


def _plain(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else value


def _given(**named: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in named.items() if value is not None}


def _params(**named: Any) -> dict[str, str | int | float]:
    return {
        name: utc(value).isoformat() if isinstance(value, datetime) else value
        for name, value in named.items()
        if value is not None
    }
