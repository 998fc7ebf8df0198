"""The console: how long its pages take the server with much in the store, by the page, the first time and after that."""

import itertools
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from statistics import median
from typing import NamedTuple
from urllib.parse import quote

import httpx

from bench.places import Places
from bench.serving import Served, cpu_seconds, serve
from octavo import Add, Record, Scope, open_store
from octavo.kernel.ids import now
from octavo.kernel.model import Query
from octavo.layers.records import Owner, log_record, new_memory
from octavo.layers.values import CATEGORIES

GOAL_MS = 150
_AT_ONCE = 2000
_DAYS = 40
_KINDS = ("user_message", "model_response", "tool_call_start", "tool_call_success")
_NAMED = (
    "Lisbon",
    "Kyoto",
    "Berlin",
    "cello",
    "violin",
    "tea",
    "coffee",
    "garden",
    "river",
    "train",
    "letter",
    "nurse",
)
#: As in any language: few words are in most texts, and most words in few.
_WORDS = [_NAMED[n // 40 % len(_NAMED)] if n % 40 == 39 and n < 480 else f"thing{n}" for n in range(5000)]
_WEIGHTS = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(_WORDS))))


class Size(NamedTuple):
    """How much is kept. One user and one session have a tenth of all."""

    memories: int
    events: int
    users: int
    sessions: int
    rounds: int


FULL = Size(100_000, 1_000_000, 1_000, 5_000, 5)
QUICK = Size(200, 400, 5, 5, 1)


def records(size: Size) -> Iterator[Record]:
    """Memories with their log, and the events of agents, spread over forty days."""
    chance = random.Random(1)
    at = now()
    for number in range(size.memories):
        user = 0 if number % 10 == 0 else number % size.users
        then = at - timedelta(seconds=_DAYS * 86_400 * number / size.memories)
        layer = "profile" if number // 10 % 2 else "event"
        text = f"user {user} said, number {number}: {' '.join(chance.choices(_WORDS, cum_weights=_WEIGHTS, k=8))}"
        owner = Owner("agent", f"agent {number % 7}") if number % 50 == 49 else Owner("user", f"user {user}")
        made = new_memory(
            owner, "", layer, then,
            category=chance.choice(CATEGORIES[layer]), content=text, metadata={}, expires_at=None,
            data={"is_permanent": True}, embeds=False,
        )  # fmt: skip
        yield made
        yield log_record(made.scope, made.id, layer, "insert", "it was said", then, 1, None, made)
    for number in range(size.events):
        large = number % 10 == 0
        session = f"session {'long' if large else number % size.sessions}"
        user = f"user {0 if large else number % size.sessions % size.users}"
        yield Record(
            collection="events",
            kind=_KINDS[number % 4],
            scope=Scope(user=user, agent=f"agent {number % 7}", session=session),
            data={"text": f"step {number}: {' '.join(chance.choices(_WORDS, cum_weights=_WEIGHTS, k=8))}"},
            created_at=at - timedelta(seconds=_DAYS * 86_400 * number / size.events),
        )


async def fill(url: str, size: Size) -> str:
    """Keep all of it, and wait until words are found by the index; the id of a memory of the large user."""
    async with open_store(url) as store:
        batch: list[Record] = []
        for record in records(size):
            batch.append(record)
            if len(batch) == _AT_ONCE:
                await store.apply([Add(batch)])
                batch = []
        await store.apply([Add(batch)])
        for collection in ("profile", "episodes", "events"):
            await store.search(Query(collection=collection), ["tea"])
        query = Query(collection="profile", scope=Scope(user="user 0"), newest_first=True, limit=1)
        return (await store.find(query))[0].id


def pages(memory: str) -> dict[str, str]:
    """The pages that are measured, by what is said of them."""
    user = quote("user 0")
    return {
        "overview": "",
        "chart": "/activity.svg",
        "people": "/people",
        "person, the largest": f"/people/{user}",
        "agents": "/agents",
        "agent": f"/agents/{quote('agent 0')}",
        "memory": f"/memories/{memory}",
        "search, the largest person": f"/search?q=who+plays+the+cello+in+Lisbon&user={user}",
        "search, another person": "/search?q=who+plays+the+cello+in+Lisbon&user=user+7",
        "search, everyone": "/search?q=who+plays+the+cello+in+Lisbon&everyone=on",
        "search, the largest person, common words": f"/search?q=thing0+thing1+thing2&user={user}",
        "search, everyone, common words": "/search?q=thing0+thing1+thing2&everyone=on",
        "context, the largest person": f"/context?q=who+plays+the+cello+in+Lisbon&user={user}",
        "context, a session": f"/context?q=who+plays+the+cello&user={user}&session=session+long",
        "log": "/log",
        "log, a user, a day": f"/log?user={user}&since={(now() - timedelta(days=20)):%Y-%m-%d}",
        "log, one action": "/log?action=delete",
        "log, one layer": "/log?layer=profile",
        "sessions": "/sessions",
        "session, the longest": f"/sessions/{quote('session long')}",
        "session, one kind": f"/sessions/{quote('session long')}?kind=agent_error",
        "reliability": "/reliability",
        "vault": "/vault",
        "access": "/access",
        "forget, the largest person": f"/people/{user}/forget",
    }


async def measured(places: Places, size: Size) -> str:
    """A table of the times on SQLite and PostgreSQL."""
    urls = {"SQLite": f"sqlite:///{places.path('.db')}", "PostgreSQL": places.database("postgres")}
    found = {}
    for name, url in urls.items():
        memory = await fill(url, size)
        with serve(url, places) as served:
            found[name] = await timed(served, url, pages(memory), size.rounds)
    return table(found, size, _loop_seconds())


class Took(NamedTuple):
    """The milliseconds of a page: the first time, the median after that, and of the processor in Python and the database."""

    first: float
    median: float
    python: float
    database: float


async def timed(served: Served, url: str, asked: dict[str, str], rounds: int) -> dict[str, Took]:
    """What each page takes."""
    told: dict[str, Took] = {}
    address = f"http://127.0.0.1:{served.port}/console"
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        for name, path in asked.items():
            took, spent = [], (0.0, 0.0)
            for number in range(rounds + 1):
                if number == 1:
                    spent = cpu_seconds(served.pid) or 0.0, await _database_seconds(url)
                began = time.perf_counter()
                answer = await client.get(f"{address}{path}")
                took.append((time.perf_counter() - began) * 1000)
                if answer.status_code != 200:
                    print(f"{name}: {answer.status_code}")
            python = (cpu_seconds(served.pid) or 0.0) - spent[0]
            database = await _database_seconds(url) - spent[1]
            told[name] = Took(
                took[0], median(took[1:]), python * 1000 / rounds, max(database, 0.0) * 1000 / rounds
            )
    return told


async def _database_seconds(url: str) -> float:
    """The seconds of a core that a server's processes for this database have used; nothing of one inside Python."""
    if not url.startswith("postgresql"):
        return 0.0
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        mine = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        rows = await connection.fetch(f"SELECT pid FROM pg_stat_activity WHERE {mine}")
    finally:
        await connection.close()
    return sum(cpu_seconds(row[0]) or 0.0 for row in rows)


def _loop_seconds() -> float:
    """How long this machine's Python takes to count to five million now: the same on one that is not busy is 0.35 s."""
    began = time.process_time()
    exec("x = 0\nfor i in range(5_000_000): x += i", {})
    return time.process_time() - began


def table(found: dict[str, dict[str, Took]], size: Size, loop: float) -> str:
    """The times as Markdown; what takes longer than it should is marked."""
    lines = [
        f"{size.memories:,} memories, {size.events:,} events; ms the first time, the median after that; processor: Python + database",
        f"a bare loop to five million took {loop:.2f} s of the processor",
        "",
        f"| page | {' | '.join(found)} |",
        f"|---|{'---|' * len(found)}",
    ]
    for name in next(iter(found.values())):
        cells = []
        for times in found.values():
            first, then, python, database = times[name]
            late = " (!)" if max(first, then) > GOAL_MS else ""
            cells.append(f"{first:.0f}, {then:.0f}{late}; {python:.0f} + {database:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
