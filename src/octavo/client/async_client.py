"""Every call of the server, to be awaited: what each sends, and what its answer is."""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

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
from octavo.client.exchange import (
    Request,
    backoff_seconds,
    checked_key,
    checked_url,
    given,
    given_params,
    owner_path,
    path_name,
)
from octavo.errors import ConfigError, InvalidQuery, StoreClosed, StoreError, StoreUnavailable
from octavo.layers.values import Action, Extracted, Found, Layer, LogEntry, Memory
from octavo.util.attributes import Fixed
from octavo.util.secrets import shown

T = TypeVar("T")
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
NEW_CLIENT = "make another client for another server"


class AsyncClient:
    """The server's memory, for callers who await; it belongs to one event loop.

    Without arguments the server is OCTAVO_SERVER, else the one on this machine, and the key is OCTAVO_API_KEY.
    `timeout` is in seconds and for each try; of what is safe to repeat there are `retries` more tries. Whose memory is
    meant is said by exactly one of user_id and agent_id.
    """

    base_url: Fixed[str] = Fixed(NEW_CLIENT)

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
    ) -> None:
        self.base_url = checked_url(base_url)
        headers = {"Content-Type": "application/json", "User-Agent": "octavo-client"}
        if key := checked_key(api_key):
            headers["Authorization"] = f"Bearer {key}"
        if timeout <= 0:
            raise ConfigError(f"timeout must be more than 0 seconds; got {timeout}")
        if retries < 0:
            raise ConfigError(f"retries must be 0 or more; got {retries}")
        self._retries = retries
        self._closed = False
        self._server = shown(self.base_url)
        self._httpx = _import_httpx()
        self._http = self._httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            timeout=timeout,
            trust_env=urlsplit(self.base_url).hostname
            not in _LOOPBACK,  # no proxy leads to this machine itself
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server!r})"

    async def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        self._closed = True
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def remember(
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
    ) -> Remembered:
        """Remember this as it stands."""
        body = given(
            content=content,
            memory_layer=layer,
            category=category,
            metadata=metadata,
            is_permanent=is_permanent,
            expiry_date=expiry_date,
            ttl_seconds=ttl_seconds,
            reason=reason,
        )
        return await self._ask(Request("POST", owner_path(user_id, agent_id), body=body), Remembered)

    async def extract(
        self,
        text: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Extracted:
        """Split a text into single facts, and remember what is new in it."""
        body = given(content=text, auto_extract=True, metadata=metadata)
        return await self._ask(
            Request("POST", owner_path(user_id, agent_id), body=body, keeps=True), Extracted
        )

    async def profile(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        as_of: datetime | None = None,
    ) -> list[Memory]:
        """Who somebody is, what changed last first; `as_of` is how it was then."""
        params = given_params(category=category, limit=limit, as_of=as_of)
        return await self._list(
            f"{owner_path(user_id, agent_id)}/profile", "memories", Memory, params, 10_000
        )

    async def events(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        category: str | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
    ) -> list[Memory]:
        """What happened to somebody, newest first; 50 unless told otherwise."""
        params = given_params(category=category, limit=limit, since=since, until=until, as_of=as_of)
        return await self._list(f"{owner_path(user_id, agent_id)}/events", "memories", Memory, params, 50)

    async def get(self, memory_id: str) -> MemoryWithHistory:
        """One memory, with every change of it."""
        return await self._ask(
            Request("GET", f"/memory/{path_name(memory_id)}", reads=True), MemoryWithHistory
        )

    async def history(self, memory_id: str) -> list[LogEntry]:
        """Every change of a memory that is there, oldest first."""
        return await self._list(
            f"/memory/{path_name(memory_id)}", "history", LogEntry, {}, None, backwards=True
        )

    async def logs(
        self,
        memory_id: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        memory_layer: Layer | None = None,
        action: Action | None = None,
        limit: int | None = None,
    ) -> list[LogEntry]:
        """What was done and why, newest first: to one memory, also when it is gone, or to all of somebody's."""
        if memory_id is None:
            path = f"{owner_path(user_id, agent_id)}/logs"
        elif user_id is not None or agent_id is not None:
            raise InvalidQuery("logs takes a memory_id, or a user_id or agent_id, not both")
        else:
            path = f"/memory/{path_name(memory_id)}/logs"
        params = given_params(memory_layer=memory_layer, action=action, limit=limit)
        return await self._list(path, "logs", LogEntry, params, 100)

    async def revise(
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
    ) -> Memory:
        """Change a memory; what is left out stays, and an expiry_date of None takes the date away."""
        body = given(
            content=content,
            category=category,
            metadata=metadata,
            is_permanent=is_permanent,
            expiry_date=expiry_date,
            reason=reason,
        )
        if expiry_date is None:
            body["expiry_date"] = None
        path = f"{owner_path(user_id, agent_id)}/{layer}/{path_name(memory_id)}"
        return await self._ask(Request("PUT", path, body=body), Memory)

    async def forget(
        self,
        memory_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer,
        reason: str | None = None,
    ) -> Memory:
        """Remove a memory, and answer what it was; its log stays."""
        path = f"{owner_path(user_id, agent_id)}/{layer}/{path_name(memory_id)}"
        return await self._ask(Request("DELETE", path, given_params(reason=reason)), Memory)

    async def undo(self, log_id: str, *, reason: str | None = None) -> LogEntry:
        """Take back the newest change of a memory; the log says so."""
        path = f"/memory/logs/{path_name(log_id)}/undo"
        return await self._ask(Request("POST", path, body=given(reason=reason)), LogEntry)

    async def query(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        top_k: int = 10,
        everyone: bool = False,
    ) -> list[Found]:
        """The memories of an owner that answer a question, best first; `everyone` needs a key with admin access."""
        body = given(query=query, user_id=user_id, agent_id=agent_id, layer=layer, top_k=top_k)
        if everyone:
            body["everyone"] = True
        found = await self._ask(Request("POST", "/memory/query", body=body, reads=True), _Answers)
        return [
            Found(memory=msgspec.convert(each, Memory, from_attributes=True), score=each.score)
            for each in found.memories
        ]

    async def append_event(
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
    ) -> Event:
        """Note that something was observed; the same obs_id in the same session is one event."""
        body = given(
            session_key=session,
            obs_type=obs_type,
            payload=payload,
            actor=actor,
            source_name=source_name,
            obs_id=obs_id,
            timestamp=timestamp,
            metadata=metadata,
            gate_result=gate_result,
            meta=meta,
        )
        return await self._ask(Request("POST", "/events", body=body), Event)

    async def recent_events(self, session: str | None = None, *, limit: int | None = None) -> list[Event]:
        """What was observed last, newest first; in one session, or in all."""
        return await self._list("/events", "events", Event, given_params(session=session, limit=limit), 50)

    async def turns(self, session: str, *, limit: int | None = None) -> list[Turn]:
        """What the agent did last in a session, newest first."""
        return await self._list(
            f"/sessions/{path_name(session)}/turns", "turns", Turn, given_params(limit=limit), 50
        )

    async def sessions(self, *, limit: int | None = None) -> list[Session]:
        """The sessions of the newest events, the latest first."""
        return await self._list("/sessions", "sessions", Session, given_params(limit=limit), 100)

    async def stats(self) -> Stats:
        """How much is remembered."""
        return await self._ask(Request("GET", "/stats", reads=True), Stats)

    async def queue(self) -> dict[str, Any]:
        """What waits for the server's store, and what was given up; needs an admin key."""
        return await self._ask(Request("GET", "/queue", reads=True), dict[str, Any])

    async def replay(self) -> Replayed:
        """Bring what waits to the server's store now; needs an admin key."""
        return await self._ask(Request("POST", "/queue/replay"), Replayed)

    async def health(self) -> Health:
        """How the server is, also when it is down for want of a store; needs no key."""
        return await self._ask(Request("GET", "/health", reads=True, also=(503,)), Health)

    async def config(self) -> dict[str, Any]:
        """The server's settings, without secrets; needs an admin key."""
        return (await self._ask(Request("GET", "/config", reads=True), _Configuration)).sections

    async def _list(
        self,
        path: str,
        name: str,
        row: type[T],
        params: dict[str, str | int | float],
        most: int | None,
        *,
        backwards: bool = False,
    ) -> list[T]:
        """The rows of a listing, page by page: as many as were asked for, or `most`; each page may stand before the last."""
        left = params.get("limit", most)
        rows: list[T] = []
        while True:
            page = await self._ask(Request("GET", path, params, reads=True), dict[str, msgspec.Raw])
            found = self._decode(page.get(name, b""), list[row])  # type: ignore[valid-type]
            rows = [*found, *rows] if backwards else [*rows, *found]
            if left is not None:
                left = int(left) - len(found)
                params = {**params, "limit": left}
            if "next" not in page or (left is not None and left <= 0):
                return rows
            params = {**params, "after": self._decode(page["next"], str)}

    async def _ask(self, request: Request, answer: type[T]) -> T:
        """Send a request until it is answered or given up."""
        if self._closed:
            raise StoreClosed(f"this {type(self).__name__} was closed; open another")
        content = None if request.body is None else msgspec.json.encode(request.body)
        for tried in itertools.count():
            last = tried == self._retries
            try:
                reply = await self._http.request(
                    request.method, request.path, params=request.params or None, content=content
                )
            except self._httpx.RequestError as error:
                pause = self._pause_after_error(request, error, tried, last)
            else:
                again = request.pause_after(reply.status_code, reply.headers, tried)
                if again is None or last:
                    break
                pause = again
            await asyncio.sleep(pause)
        if not request.answered_by(reply.status_code):
            raise request.error(reply.status_code, reply.content, self._server)
        return self._decode(reply.content, answer)

    def _pause_after_error(self, request: Request, error: Exception, tried: int, last: bool) -> float:
        """The seconds to wait after a try that got no answer; StoreUnavailable when there is no other."""
        httpx = self._httpx
        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        harmless = unsent or request.reads
        if harmless and not last:
            return backoff_seconds(tried)
        doubt = "" if harmless else "; whether the change was made is not known"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreUnavailable(f"no answer from {self._server}: {reason}{doubt}") from error

    def _decode(self, body: bytes | msgspec.Raw, answer: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self._server} gave an answer that this client cannot read ({error}); is it an Octavo server?"
            ) from error


class _Scored(Memory, frozen=True, kw_only=True):
    score: float


class _Answers(msgspec.Struct):
    memories: list[_Scored]


class _Configuration(msgspec.Struct):
    sections: dict[str, Any]


def _import_httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ConfigError("the client needs the package httpx: pip install 'octavo[client]'") from error
    return httpx
