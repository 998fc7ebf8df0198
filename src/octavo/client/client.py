"""Every call of the server, what each sends and what its answer is: to be awaited, and made from that for callers who block."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import UNSET, UnsetType

from octavo.client.answers import (
    Answers,
    BatchAnswer,
    Batched,
    Configuration,
    Event,
    Health,
    MemoryWithHistory,
    Remembered,
    Replayed,
    SearchAnswer,
    Session,
    Stats,
    Turn,
    User,
)
from octavo.client.exchange import (
    NEW_CLIENT,
    Exchange,
    Request,
    drop_unset,
    make_params,
    owner_path,
    path_name,
)
from octavo.erasing.certificate import Certificate
from octavo.errors import InvalidQuery, StoreClosed
from octavo.layers.values import Action, Extracted, Fact, Found, Layer, LogEntry, Page, Undone
from octavo.search.hits import Context, Hits
from octavo.util.secrets import mask_url
from octavo.util.sync import Portal, blocking
from octavo.util.user_code import Fixed


class AsyncClient(Exchange):
    """The server's memory, for callers who await; it belongs to one event loop.

    Without arguments the server is OCTAVO_SERVER, else the one on this machine, and the key is OCTAVO_API_KEY.
    `timeout` is in seconds and for each try; of what is safe to repeat there are `retries` more tries. Whose memory is
    meant is said by exactly one of user_id and agent_id.
    """

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
        body = drop_unset(
            content=content, memory_layer=layer, category=category, metadata=metadata, is_permanent=is_permanent,
            expiry_date=expiry_date, ttl_seconds=ttl_seconds, reason=reason,
        )  # fmt: skip
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
        body = drop_unset(content=text, auto_extract=True, metadata=metadata)
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
    ) -> list[Fact]:
        """Who somebody is, what changed last first; `as_of` is how it was then."""
        params = make_params(category=category, limit=limit, as_of=as_of)
        path = f"{owner_path(user_id, agent_id)}/profile"
        return await self._list(path, "memories", Fact, params, 10_000, page=10_000)

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
    ) -> list[Fact]:
        """What happened to somebody, newest first; 50 unless told otherwise."""
        params = make_params(category=category, limit=limit, since=since, until=until, as_of=as_of)
        return await self._list(f"{owner_path(user_id, agent_id)}/events", "memories", Fact, params, 50)

    async def get(self, memory_id: str) -> MemoryWithHistory:
        """One memory, with every change of it."""
        return await self._read(f"/memory/{path_name(memory_id)}", MemoryWithHistory)

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
        params = make_params(memory_layer=memory_layer, action=action, limit=limit)
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
    ) -> Fact:
        """Change a memory; what is left out stays, and an expiry_date of None takes the date away."""
        body = drop_unset(
            content=content, category=category, metadata=metadata, is_permanent=is_permanent,
            expiry_date=expiry_date, reason=reason,
        )  # fmt: skip
        if expiry_date is None:
            body["expiry_date"] = None
        path = f"{owner_path(user_id, agent_id)}/{layer}/{path_name(memory_id)}"
        return await self._ask(Request("PUT", path, body=body), Fact)

    async def forget(
        self,
        memory_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer,
        reason: str | None = None,
        forever: bool = False,
    ) -> Fact:
        """Remove a memory, and answer what it was; its log stays. What goes `forever` is not learnt again."""
        path = f"{owner_path(user_id, agent_id)}/{layer}/{path_name(memory_id)}"
        params = make_params(reason=reason, forever="true" if forever else None)
        return await self._ask(Request("DELETE", path, params), Fact)

    async def allow(self, memory_id: str, *, user_id: str | None = None, agent_id: str | None = None) -> None:
        """Let what a memory said be learnt again, after it was removed forever."""
        path = f"{owner_path(user_id, agent_id)}/allow/{path_name(memory_id)}"
        await self._ask(Request("POST", path), dict[str, str])

    async def forget_user(
        self, user_id: str, *, dry_run: bool = False, scrub: bool = False, keep_rejected: bool = False
    ) -> Certificate:
        """Erase all that is kept of a user for good, its log too, and answer the certificate; a dry run only counts.

        What was rejected can stay so: its digests are kept.
        """
        params = make_params(
            dry_run=dry_run or None, scrub=scrub or None, keep_rejected=keep_rejected or None
        )
        return await self._ask(Request("DELETE", f"/users/{path_name(user_id)}", params), Certificate)

    async def undo(self, log_id: str, *, reason: str | None = None) -> LogEntry:
        """Take back the newest change of a memory; the log says so."""
        path = f"/memory/logs/{path_name(log_id)}/undo"
        return await self._ask(Request("POST", path, body=drop_unset(reason=reason)), LogEntry)

    async def undo_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        add: Sequence[str] | None = None,
        since: datetime | None = None,
        undo: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> Undone:
        """Take back what one add did (the ids of its messages), all since a moment, or an earlier `undo_all` (its id)."""
        body = drop_unset(add=add, since=since, undo=undo, reason=reason, dry_run=dry_run)
        return await self._ask(Request("POST", f"{owner_path(user_id, agent_id)}/undo", body=body), Undone)

    async def query(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        layer: Layer | None = None,
        top_k: int = 10,
        everyone: bool = False,
    ) -> Page[Found]:
        """The memories of an owner that answer a question, best first; `everyone` needs a key with admin access."""
        body = drop_unset(
            query=query, user_id=user_id, agent_id=agent_id, layer=layer, top_k=top_k, everyone=everyone
        )
        found = await self._ask(Request("POST", "/memory/query", body=body, reads=True), Answers)
        memories = [
            Found(memory=msgspec.convert(each, Fact, from_attributes=True), score=each.score)
            for each in found.memories
        ]
        return Page(memories, left_out=found.left_out or 0, probably_absent=found.probably_absent)

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        sources: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        limit: int = 10,
        everyone: bool = False,
        as_of: datetime | None = None,
    ) -> Hits:
        """What answers a question best, of everything that is kept for somebody: facts, messages, events, documents."""
        body = drop_unset(
            query=query, user_id=user_id, agent_id=agent_id, session_id=session_id, sources=sources, since=since,
            until=until, metadata=metadata, limit=limit, everyone=everyone, as_of=as_of,
        )  # fmt: skip
        found = await self._ask(Request("POST", "/search", body=body, reads=True), SearchAnswer)
        return Hits(
            found.hits, probably_absent=found.probably_absent, notes=found.notes, left_out=found.left_out
        )

    async def context(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        max_tokens: int = 1000,
        as_of: datetime | None = None,
    ) -> Context:
        """One fenced block for a prompt: who the user is, this session so far, and what else was found."""
        body = drop_unset(
            query=query, user_id=user_id, agent_id=agent_id, session_id=session_id, max_tokens=max_tokens, as_of=as_of
        )  # fmt: skip
        return await self._ask(Request("POST", "/context", body=body, reads=True), Context)

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
        user_id: str | None = None,
    ) -> Event:
        """Note that something was observed; the same obs_id in the same session is one event.

        It is remembered for the user named, or else for the actor.
        """
        body = drop_unset(
            session_key=session, payload=payload, obs_type=obs_type, actor=actor, source_name=source_name, obs_id=obs_id,
            timestamp=timestamp, metadata=metadata, gate_result=gate_result, meta=meta, user_id=user_id,
        )  # fmt: skip
        return await self._ask(Request("POST", "/events", body=body), Event)

    async def recent_events(
        self, session: str | None = None, *, limit: int | None = None, user_id: str | None = None
    ) -> list[Event]:
        """What was observed last, newest first; in one session or in all, for one user or for all."""
        params = make_params(session=session, limit=limit, user_id=user_id)
        return await self._list("/events", "events", Event, params, 50)

    async def turns(self, session: str, *, limit: int | None = None) -> list[Turn]:
        """What the agent did last in a session, newest first."""
        return await self._list(
            f"/sessions/{path_name(session)}/turns", "turns", Turn, make_params(limit=limit), 50
        )

    async def sessions(self, *, limit: int | None = None) -> list[Session]:
        """The sessions of the newest events, the latest first."""
        return await self._list("/sessions", "sessions", Session, make_params(limit=limit), 100)

    async def users(self, *, limit: int | None = None) -> list[User]:
        """Who has memories, by name; 100 unless told otherwise."""
        return await self._list("/users", "users", User, make_params(limit=limit), 100)

    async def export(self, to: Path | str, *, user_id: str, page: bool = False) -> int:
        """Write everything of a user to a file, as the lines that `octavo import` reads or as a page for people; how many bytes."""
        return await self._download(
            f"/users/{path_name(user_id)}/export", {"page": str(page).lower()}, Path(to)
        )

    async def batch(self, requests: Sequence[Mapping[str, Any]]) -> list[BatchAnswer]:
        """Send several requests at once, each a `path`, and perhaps a `method` (else GET) and a `body`.

        Every one has its own status and body in the answer, in their order: one that fails raises nothing.
        """
        body = {"requests": [dict(each) for each in requests]}
        reads = all(each.get("method", "GET") == "GET" for each in requests)
        return (await self._ask(Request("POST", "/batch", body=body, reads=reads), Batched)).answers

    async def stats(self) -> Stats:
        """How much is remembered."""
        return await self._read("/stats", Stats)

    async def queue(self) -> dict[str, Any]:
        """What waits for the server's store, and what was given up; needs an admin key."""
        return await self._read("/queue", dict[str, Any])

    async def replay(self) -> Replayed:
        """Bring what waits to the server's store now; needs an admin key."""
        return await self._ask(Request("POST", "/queue/replay"), Replayed)

    async def health(self) -> Health:
        """How the server is, also when it is down for want of a store; needs no key."""
        return await self._ask(Request("GET", "/health", reads=True, also=(503,)), Health)

    async def config(self) -> dict[str, Any]:
        """The server's settings, without secrets; needs an admin key."""
        return (await self._read("/config", Configuration)).sections


class Client:
    """The server's memory, for callers who block; threads may share it. The same calls and settings as `AsyncClient`."""

    base_url: Fixed[str] = Fixed(NEW_CLIENT)

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
    ) -> None:
        self._behind = AsyncClient(base_url, api_key=api_key, timeout=timeout, retries=retries)
        self.base_url = self._behind.base_url
        self.portal = Portal("octavo-client")
        self._closed = False

    @property
    def behind(self) -> AsyncClient:
        """The client that is asked, on a thread of its own."""
        if self._closed:
            raise StoreClosed("this Client was closed; open another")
        return self._behind

    def __repr__(self) -> str:
        return f"Client({mask_url(self.base_url)!r})"

    def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        if not self._closed:
            self._closed = True
            # After a fork the connections are the parent's, and there is nothing to let go of.
            with suppress(StoreClosed):
                self.portal.call(self._behind.close())
            self.portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    remember = blocking(AsyncClient.remember)
    extract = blocking(AsyncClient.extract)
    search = blocking(AsyncClient.search)
    context = blocking(AsyncClient.context)
    profile = blocking(AsyncClient.profile)
    events = blocking(AsyncClient.events)
    get = blocking(AsyncClient.get)
    history = blocking(AsyncClient.history)
    logs = blocking(AsyncClient.logs)
    revise = blocking(AsyncClient.revise)
    forget = blocking(AsyncClient.forget)
    allow = blocking(AsyncClient.allow)
    forget_user = blocking(AsyncClient.forget_user)
    undo = blocking(AsyncClient.undo)
    undo_all = blocking(AsyncClient.undo_all)
    query = blocking(AsyncClient.query)
    append_event = blocking(AsyncClient.append_event)
    recent_events = blocking(AsyncClient.recent_events)
    turns = blocking(AsyncClient.turns)
    sessions = blocking(AsyncClient.sessions)
    users = blocking(AsyncClient.users)
    export = blocking(AsyncClient.export)
    batch = blocking(AsyncClient.batch)
    stats = blocking(AsyncClient.stats)
    queue = blocking(AsyncClient.queue)
    replay = blocking(AsyncClient.replay)
    health = blocking(AsyncClient.health)
    config = blocking(AsyncClient.config)
