"""Agents, tools and memory stores that tests of agents share."""

import asyncio

from octavo import Agent, AgentEvent, BaseMemoryStore, EventType, MockAdapter

call = MockAdapter.call


def calculator(expression: str) -> str:
    """Work out an arithmetic expression.

    Args:
        expression: such as 2+2
    """
    return str(eval(expression))


def agent(*script, name="assistant", **more):
    """An agent whose model follows this script."""
    return Agent.create(name=name, model_adapter=MockAdapter(script=script), **more)


async def lived(made, session_id=None):
    """The types of everything an agent recorded, in order."""
    return [event.event_type.name for event in await made.get_memory(limit=1000, session_id=session_id)]


async def data_of(made, event_type):
    return [event.data for event in await made.get_memory(event_type=event_type)]


class ListStore(BaseMemoryStore):
    """A memory store as a user writes one: the seven methods over a list, and a switch that makes it fail."""

    def __init__(self, config=None):
        self.events: list[AgentEvent] = []
        self.down = False
        self.answers = True
        self.hanging: asyncio.Event | None = None

    async def initialize(self):
        self._check()

    async def store(self, event):
        if self.hanging is not None:
            await self.hanging.wait()
        self._check()
        if not self.answers:
            return False
        self.events.append(event)
        return True

    async def retrieve(self, **kwargs):
        self._check()
        found = [event for event in self.events if self._named(event, kwargs)]
        return found[-kwargs.get("limit", 100) :]

    async def clear(self, **kwargs):
        self._check()
        self.events = [event for event in self.events if not self._named(event, kwargs)]

    async def get_stats(self, **kwargs):
        self._check()
        found = [event for event in self.events if self._named(event, kwargs)]
        return {
            "total_events": len(found),
            "by_type": {kind.name: 0 for kind in EventType} | {event.event_type.name: 1 for event in found},
        }

    async def search(self, query, **kwargs):
        self._check()
        return [e for e in self.events if self._named(e, kwargs) and query in str(e.data)]

    async def close(self):
        pass

    def _check(self):
        if self.down:
            raise RuntimeError("the list is down")

    @staticmethod
    def _named(event, kwargs):
        return all(
            getattr(event, name) == kwargs[name]
            for name in ("agent_name", "session_id", "event_type")
            if kwargs.get(name) is not None
        )
