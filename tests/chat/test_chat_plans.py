"""A long session costs no more than a short one: what is asked for by mark or by id is looked up, not looked for."""

import time

import apsw
import pytest

from octavo.chat import ChatMemory, Msg
from octavo.kernel.model import START, Query, Scope
from octavo.kernel.shapes import SHAPES
from octavo.stores.sql.dialects.sqlite import SQLite
from octavo.stores.sql.reading import find
from octavo.stores.sql.schema import Table

SESSION = Scope(user="u", agent="", session="s")


@pytest.mark.parametrize(
    ("clauses", "index"),
    [
        ({"marks": ("hint",)}, "INTEGER PRIMARY KEY (rowid=?)"),
        ({"marks": ("hint", "done")}, "INTEGER PRIMARY KEY (rowid=?)"),
        ({"ids": ("1",)}, "(id=? AND scope_key=?)"),
        ({"ids": ("1", "2", "3")}, "(id=? AND scope_key=?)"),
        ({"ids": ("1", "2", "3"), "without": ("hint",)}, "(id=? AND scope_key=?)"),
        ({"ids": ("1", "2", "3"), "limit": 1000, "after": START}, "(id=? AND scope_key=?)"),
        ({"ids": ("1", "2", "3"), "marks": ("hint",)}, "(id=? AND scope_key=?)"),
        ({"ids": tuple(map(str, range(100))), "marks": ("hint",)}, "(id=? AND scope_key=?)"),
    ],
)
async def test_sqlite_does_not_walk_the_session(clauses, index, tmp_path):
    """Neither before the database has statistics nor after."""
    async with ChatMemory.open(f"sqlite:///{tmp_path}/chat.db", "u", "s") as memory:
        await memory.add([Msg("a", str(n), "user") for n in range(2000)])
        await memory.add(Msg("a", "marked", "user"), marks="hint")
    query = Query(collection="messages", scope=SESSION, **clauses)
    asked = next(find(Table(SHAPES["messages"], SQLite(), ""), query))
    with apsw.Connection(str(tmp_path / "chat.db")) as connection:
        for statistics in (False, True):
            if statistics:
                connection.execute("ANALYZE")
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {asked.sql}", asked.values)]
            [used] = [step for step in plan if "SEARCH messages " in step or "SCAN messages" in step]
            assert index in used, (statistics, plan)
    connection.close()


@pytest.mark.parametrize("place", ["memory", "file", "sqlite", "postgres", "mysql", "redis"], indirect=True)
async def test_many_ids_cost_each_the_same(place):
    """Marks of eight times as many messages take about eight times the work to change, not sixty-four times.

    Counted is this process's own work, which is the same however busy the machine is; that of a database shows in its plans.
    """
    seconds = {}
    for many in (250, 2000):
        memory = await place.memory(f"with {many}")
        messages = [Msg("a", str(n), "user") for n in range(many)]
        await memory.add(messages, marks="old")
        ids = [message.id for message in messages]
        for name, verb, given in (
            ("add", memory.update_messages_mark, ("more", None, ids)),
            ("replace", memory.update_messages_mark, ("new", "old", ids)),
            ("replace again", memory.update_messages_mark, ("old", "new", ids)),
            ("remove", memory.update_messages_mark, (None, "old", ids)),
            ("remove all", memory.update_messages_mark, (None, None, ids)),
            ("delete", memory.delete, (ids,)),
        ):
            began = time.process_time()
            assert await verb(*given) == many, name
            seconds[name, many] = time.process_time() - began
    factors = {name: took / seconds[name, 250] for (name, many), took in seconds.items() if many == 2000}
    # One of them may meet a collection of garbage; the sum does not grow with the square by chance.
    assert sum(factors.values()) < 32 * len(factors), factors
