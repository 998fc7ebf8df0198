"""What recording costs an agent: the same runs with and without memory, on each kind of SQLite durability."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import NamedTuple

from bench.places import Places
from octavo import Agent, AgentEvent, BaseMemoryStore, EventStore, InMemoryMemoryStore, MockAdapter
from octavo.agent import Reply

EVENTS = 4  # of each run: the message, the call of a tool, its result, the response
GOAL_US = 500  # "a few hundred microseconds per event on SQLite"
STORES = ("without memory", "memory", "sqlite fast", "sqlite full")
NAIVE = "sqlite full, each event awaited"  # what an agent would pay that stores its events one by one


class Size(NamedTuple):
    """How many runs are timed in each round; rounds of all stores take turns, so that a busy moment meets all of them."""

    runs: int
    rounds: int


QUICK = Size(5, 2)
FULL = Size(100, 30)


class Line(NamedTuple):
    """One store at one pace: microseconds of a run, and of an event in it beyond the same run without memory."""

    model: str
    store: str
    run_us: float
    event_us: float
    ratio: float


class Waiting(MockAdapter):
    """A model that calls a tool and then answers; `seconds` is what each of the two takes."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def complete(self, messages, tools) -> Reply:  # noqa: ARG002
        if self._seconds:
            await asyncio.sleep(self._seconds)
        called = messages[-1]["role"] == "tool"
        return (
            Reply(content="It is 4.")
            if called
            else Reply(tool_calls=[self.call("calculator", expression="2+2")])
        )


async def calculator(expression: str) -> str:
    """Pretend to work it out."""
    return str(len(expression))


@asynccontextmanager
async def _agents(places: Places, seconds: float) -> AsyncIterator[dict[str, Agent]]:
    stores = {
        "memory": InMemoryMemoryStore(),
        "sqlite fast": EventStore(f"sqlite:///{places.path('.db')}?durability=fast"),
        "sqlite full": EventStore(f"sqlite:///{places.path('.db')}?durability=full"),
    }
    agents = {
        name: Agent.create(
            name="bench",
            model_adapter=Waiting(seconds),
            tools=[calculator],
            memory_store=stores.get(name),
            enable_memory=name in stores,
        )
        for name in STORES
    }
    try:
        for agent in agents.values():
            await agent.initialize()
        yield agents
    finally:
        for agent in agents.values():
            await agent.aclose()
        for store in stores.values():
            await store.close()


async def _timed(agent: Agent, runs: int) -> float:
    """Microseconds of one run. Each is a conversation of its own, so that the last costs what the first does."""
    spent = 0.0
    for _ in range(runs):
        agent.reset_context()
        began = perf_counter()
        await agent.run("What is 2+2?")
        spent += perf_counter() - began
    return spent / runs * 1e6


async def _awaited(store: BaseMemoryStore, bare: float, runs: int) -> float:
    """Microseconds of a run whose events are stored one by one, each before the agent goes on."""
    began = perf_counter()
    for _ in range(runs):
        for _ in range(EVENTS):
            await store.store(
                AgentEvent(agent_name="bench", session_id="s", data={"message": "What is 2+2?"})
            )
    return bare + (perf_counter() - began) / runs * 1e6


async def measured(places: Places, size: Size) -> list[Line]:
    """An instant model, where every microsecond shows, and one of 20 ms, behind which most of the writing happens."""
    lines = []
    for model, seconds, runs in (("instant", 0.0, size.runs), ("2 × 10 ms", 0.01, max(1, size.runs // 10))):
        async with _agents(places, seconds) as agents:
            rounds: dict[str, list[float]] = {name: [] for name in agents}
            for agent in agents.values():
                await _timed(agent, 2)
            for _ in range(size.rounds):
                for name, agent in agents.items():
                    rounds[name].append(await _timed(agent, runs))
            for name, agent in agents.items():
                if agent.recorder is not None and (agent.recorder.lost or agent.recorder.held):
                    raise RuntimeError(
                        f"{name}: {agent.recorder.lost} events lost, {agent.recorder.held} held"
                    )
            # The best round: a busy machine only ever adds.
            bare = min(rounds[STORES[0]])
            store = agents["sqlite full"].memory_store
            rounds[NAIVE] = [await _awaited(store, bare, runs) for _ in range(size.rounds)]
            for name, times in rounds.items():
                run = min(times)
                lines.append(Line(model, name, run, (run - bare) / EVENTS, run / bare))
    return lines


def table(lines: list[Line], *, markdown: bool) -> str:
    """One row for each store and pace."""
    rows = [("model", "memory", "run, µs", "each event, µs", "ratio", "goal")]
    for line in lines:
        bare = line.store == STORES[0]
        judged = (
            "" if bare or line.store == NAIVE else "ok" if line.event_us <= GOAL_US else f"over {GOAL_US} µs"
        )
        event = "" if bare else f"{line.event_us:,.0f}"
        rows.append((line.model, line.store, f"{line.run_us:,.0f}", event, f"{line.ratio:.2f}×", judged))
    if markdown:
        shown = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([shown[0], "|" + "---|" * len(rows[0]), *shown[1:]])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
