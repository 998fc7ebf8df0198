"""LangGraph's own stores and savers and OpenAI Agents' SQLiteSession beside Octavo's; runs in an environment with all of them.

python -m bench.peers.frameworks FOLDER QUICK [OUR_POSTGRES THEIR_POSTGRES]

Both sides run in this process and take turns. One line of JSON is printed for each comparison.
"""

import asyncio
import itertools
import json
import sys
from contextlib import AsyncExitStack
from statistics import median
from time import perf_counter
from typing import Any

from agents import SQLiteSession
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.base import PutOp
from langgraph.store.postgres.aio import AsyncPostgresStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.rounds import FULL, QUICK, Entrant, Pace, alternate, ratio, spread
from bench.rows import Row, rows
from octavo.integrations.langgraph import OctavoSaver, OctavoStore
from octavo.integrations.openai_agents import OctavoSession
from octavo.stores import open_store

CROWD = LAST = 50
LONG = {"session": 10_000, "store": 10_000, "saver": 2000}  # in what is read from


class Contestant:
    """One side of a comparison: appends, and reads the last 50 of what is long."""

    async def timed(self, job: str, count: int) -> float:
        """Seconds that one job takes."""
        given: Any = count if job in {"last", "latest"} else rows(next(_starts) * 100_000, count, 1)
        began = perf_counter()
        await getattr(self, job)(given)
        return perf_counter() - began

    async def put(self, at: int, row: Row) -> None:
        """Keep one row in the place of this number, and wait for it."""
        raise NotImplementedError

    async def append(self, given: list[Row]) -> None:
        for row in given:
            await self.put(0, row)

    async def crowd(self, given: list[Row]) -> None:
        async def appender(at: int) -> None:
            for row in given[at::CROWD]:
                await self.put(at, row)

        await asyncio.gather(*map(appender, range(CROWD)))

    async def fill(self, given: list[Row]) -> None:
        """Make the last place long."""
        raise NotImplementedError

    async def last(self, count: int) -> None:
        for _ in range(count):
            found = await self.read()
            if len(found) != LAST:
                raise AssertionError(f"{type(self).__name__} answered {len(found)} instead of {LAST}")

    async def read(self) -> list[Any]:
        """The last 50 of the long place."""
        raise NotImplementedError


_starts = itertools.count()


class Session(Contestant):
    """Items of sessions, one for each of 50 users."""

    def __init__(self, sessions: list[Any]) -> None:
        self.sessions = sessions

    async def put(self, at: int, row: Row) -> None:
        await self.sessions[at].add_items([_item(row)])

    async def fill(self, given: list[Row]) -> None:
        for start in range(0, len(given), 1000):
            await self.sessions[-1].add_items([_item(row) for row in given[start : start + 1000]])

    async def read(self) -> list[Any]:
        return await self.sessions[-1].get_items(limit=LAST)


class Items(Contestant):
    """Values in a store of LangGraph's, in 50 namespaces."""

    def __init__(self, store: Any) -> None:
        self.store = store

    async def put(self, at: int, row: Row) -> None:
        await self.store.aput(("users", str(at)), row.id, row.data)

    async def fill(self, given: list[Row]) -> None:
        for start in range(0, len(given), 1000):
            await self.store.abatch(
                [PutOp(("users", "25b"), row.id, row.data) for row in given[start : start + 1000]]
            )

    async def read(self) -> list[Any]:
        return await self.store.asearch(("users", "25b"), limit=LAST)


class Checkpoints(Contestant):
    """States of threads in a saver of LangGraph's."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.before: dict[str, dict[str, Any]] = {}

    async def put(self, at: int | str, row: Row) -> None:
        checkpoint = empty_checkpoint()
        step = row.data["step"]
        checkpoint["channel_values"] = {"messages": [row.data["content"]], "step": step}
        checkpoint["channel_versions"] = versions = {"messages": f"{step:032}.0", "step": f"{step:032}.0"}
        at_first = {"configurable": {"thread_id": str(at), "checkpoint_ns": ""}}
        config = self.before.get(str(at), at_first)
        told = {"source": "loop", "step": step, "parents": {}}
        self.before[str(at)] = await self.saver.aput(config, checkpoint, told, versions)

    async def fill(self, given: list[Row]) -> None:
        for row in given:
            await self.put("long", row)
            writes = [("messages", row.data["content"]), ("step", row.data["step"])]
            await self.saver.aput_writes(self.before["long"], writes, row.id)

    async def read(self) -> list[Any]:
        config = {"configurable": {"thread_id": "long"}}
        return [one async for one in self.saver.alist(config, limit=LAST)]

    async def latest(self, count: int) -> None:
        """The state that a graph goes on from."""
        for _ in range(count):
            found = await self.saver.aget_tuple({"configurable": {"thread_id": "long", "checkpoint_ns": ""}})
            assert found.checkpoint["channel_values"]["messages"]


def _item(row: Row) -> dict[str, Any]:
    return {"role": "user", "content": row.data["content"]}


async def compare(
    kind: str, what: str, ours: Contestant, theirs: Contestant, pace: Pace, jobs: tuple
) -> None:
    """Print a line for each job."""
    long = LONG[kind] if pace is FULL else 100
    sides = [Entrant("ours", ours, ""), Entrant("theirs", theirs, "")]  # type: ignore[arg-type] # it is only timed
    for side in sides:
        await side.subject.fill(rows(0, long, 1))  # type: ignore[attr-defined]
    for job in jobs:
        rates = await alternate([side._replace(job=job) for side in sides], pace)
        mine, other = rates["ours"], rates["theirs"]
        told = [median(mine), median(other), ratio(mine, other), *spread(mine, other)]
        print(json.dumps([what, job, long, *told]), flush=True)


async def main(folder: str, quick: str, *postgres: str) -> None:
    """Every comparison, one after the other."""
    pace = QUICK if quick == "quick" else FULL
    reads = ("append", "crowd", "last")
    states = (*reads, "latest")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(f"sqlite:///{folder}/sessions.db"))
        ours = [OctavoSession(store, str(at)) for at in range(CROWD + 1)]
        theirs = [SQLiteSession(str(at), f"{folder}/agents.db") for at in range(CROWD + 1)]
        what = "OpenAI Agents SQLiteSession"
        await compare("session", what, Session(ours), Session(theirs), pace, reads)
        for session in theirs:
            session.close()
    async with AsyncExitStack() as stack:
        opened = AsyncSqliteStore.from_conn_string(f"{folder}/langgraph.db")
        other = await stack.enter_async_context(opened)
        await other.setup()
        kept = await stack.enter_async_context(open_store(f"sqlite:///{folder}/items.db"))
        what = "LangGraph AsyncSqliteStore"
        await compare("store", what, Items(OctavoStore(kept)), Items(other), pace, reads)
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(f"{folder}/saver.db"))
        await other.setup()
        kept = await stack.enter_async_context(open_store(f"sqlite:///{folder}/checkpoints.db"))
        what = "LangGraph AsyncSqliteSaver"
        await compare("saver", what, Checkpoints(OctavoSaver(kept)), Checkpoints(other), pace, states)
    if not postgres:
        return
    our_url, their_url = postgres
    async with AsyncExitStack() as stack:
        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool = AsyncConnectionPool(their_url, min_size=1, max_size=10, kwargs=settings, open=False)
        await stack.enter_async_context(pool)
        other_store, other_saver = AsyncPostgresStore(pool), AsyncPostgresSaver(pool)
        await other_store.setup()
        await other_saver.setup()
        kept = await stack.enter_async_context(open_store(our_url))
        what = "LangGraph AsyncPostgresStore"
        await compare("store", what, Items(OctavoStore(kept)), Items(other_store), pace, reads)
        what = "LangGraph AsyncPostgresSaver"
        await compare("saver", what, Checkpoints(OctavoSaver(kept)), Checkpoints(other_saver), pace, states)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
