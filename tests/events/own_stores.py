"""Memory stores as users write them: only the seven documented methods."""

from typing import Any

from octavo import AgentEvent, BaseMemoryStore


class ListMemoryStore(BaseMemoryStore):
    """Events in a list: no ids looked at, no limits but those documented, and no call of super().__init__."""

    def __init__(self):
        self.events: list[AgentEvent] = []
        self.calls: list[str] = []
        self.failing: Any = None  # False or an exception, for the next `store`

    async def initialize(self):
        self.calls.append("initialize")

    async def store(self, event: AgentEvent) -> bool:
        self.calls.append("store")
        if isinstance(self.failing, Exception):
            raise self.failing
        if self.failing is False:
            return False
        self.events.append(event)
        return True

    async def retrieve(
        self, agent_name=None, session_id=None, event_type=None, limit=100, start_time=None, end_time=None
    ) -> list[AgentEvent]:
        found = self._those(agent_name, session_id, start_time, end_time)
        found = [event for event in found if event_type is None or event.event_type == event_type]
        return sorted(found, key=lambda event: event.timestamp)[-limit:] if limit else []

    async def clear(self, agent_name=None, session_id=None, start_time=None, end_time=None):
        gone = self._those(agent_name, session_id, start_time, end_time)
        self.events = [event for event in self.events if event not in gone]
        return len(gone)

    async def get_stats(self, agent_name=None, session_id=None) -> dict:
        found = self._those(agent_name, session_id)
        kinds = [str(event.event_type) for event in found]
        return {"total_events": len(found), "by_type": {kind: kinds.count(kind) for kind in kinds}}

    async def search(self, query: str, agent_name=None, session_id=None, limit=10) -> list[AgentEvent]:
        found = [event for event in self._those(agent_name, session_id) if query in str(event.data)]
        return found[::-1][:limit]

    async def close(self):
        self.calls.append("close")

    def _those(self, agent_name, session_id, start_time=None, end_time=None):
        return [
            event
            for event in self.events
            if agent_name in (None, event.agent_name)
            and session_id in (None, event.session_id)
            and (start_time is None or event.timestamp >= start_time)
            and (end_time is None or event.timestamp < end_time)
        ]
