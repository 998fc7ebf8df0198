"""Sessions and memory for agents of Google's ADK: what was said is kept in any store, and found again in later sessions.

    from octavo.integrations.adk import OctavoMemoryService, OctavoSessionService

    runner = Runner(
        app_name="helper", agent=agent,
        session_service=OctavoSessionService(memory.store), memory_service=OctavoMemoryService(memory),
    )

As ADK has it, an event is part of memory as soon as its session is added to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo.chat.messages import MESSAGES
from octavo.integrations import require_package
from octavo.integrations.tools import run_on, unwrap
from octavo.kernel.model import Change, Query, Remove, Scope
from octavo.memory import AsyncMemory, Memory
from octavo.memory.searching import Whose
from octavo.search.hits import MemoryHit

with require_package(__name__, "Google's ADK", "google-adk"):
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types

from octavo.integrations.adk.sessions import DELETED, EVENT, UNLEARNT, OctavoSessionService, to_message

__all__ = ["OctavoMemoryService", "OctavoSessionService"]

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
