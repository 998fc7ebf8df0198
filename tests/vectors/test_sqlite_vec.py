"""Vectors inside a SQLite file, beside a store and beside other processes."""

import asyncio
import subprocess

import apsw
import pytest

from octavo import Add, Query, Record, Scope, open_store
from octavo.errors import ConfigError, StoreError, StoreUnavailable
from octavo.testing.vectors import Home, keys, plane
from octavo.vectors import SqliteVecIndex, open_vectors
from warm import programs

HOME = Home("model", "t")


async def test_in_the_file_of_the_store(tmp_path):
    """A store and an index write to one file at the same time, and neither waits for ever nor sees the other's tables."""
    url = f"sqlite:///{tmp_path}/octavo.db"
    async with open_store(url) as store, open_vectors(url) as index:

        async def remember(number):
            await store.apply([Add([Record(collection="messages", id=str(number), scope=HOME.scope())])])
            await index.put(HOME.space, [HOME.entry(str(number), plane(1, number))])

        await asyncio.gather(*(remember(number) for number in range(100)))
        assert len(await store.find(Query(collection="messages", scope=HOME.scope()))) == 100
        assert len(await keys(index, HOME.space)) == 100
        assert await store.tally(Query(collection="vectors", scope=HOME.scope())) == await store.tally(
            Query(collection="turns", scope=HOME.scope())
        )


async def test_prefixes_keep_apart(tmp_path):
    """Two prefixes are two indexes in one file; a prefix that is no plain name is refused."""
    path = str(tmp_path / "octavo.db")
    async with SqliteVecIndex(path, "a_") as one, SqliteVecIndex(path, "b_") as two:
        await one.put(HOME.space, [HOME.entry("x", plane(1, 0))])
        assert await two.spaces() == []
        assert [space.entries for space in await one.spaces()] == [1]
    with pytest.raises(ConfigError, match="bad prefix"):
        SqliteVecIndex(path, 'a"; --')


async def test_the_scope_comes_first(tmp_path, monkeypatch):
    """A scope is read off its index: no table is scanned, whatever form the scope has."""
    path = str(tmp_path / "octavo.db")
    plans = []

    def explain(connection):
        def trace(cursor, sql, bindings):
            if "vec_distance_cosine" in sql and not sql.startswith("EXPLAIN"):
                plans.append(connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings).fetchall())
            return True

        connection.exec_trace = trace

    monkeypatch.setattr(apsw, "connection_hooks", [explain])
    async with SqliteVecIndex(path) as index:
        await index.put(
            HOME.space, [HOME.entry(str(n), plane(1, n), scope=HOME.scope(user=str(n))) for n in range(50)]
        )
        exact = HOME.scope(user="7", agent="", session="")
        for scope in (
            HOME.scope(user="7"),
            HOME.scope(session=""),
            HOME.scope(agent="", user="1"),
            HOME.scope(),
            exact,
        ):
            await index.nearest(HOME.space, plane(1, 0), scope, ["messages", "events"], 5)
    assert len(plans) == 5
    for plan in plans:
        steps = [step[3] for step in plan]
        assert any("octavo_space_1_by_" in step for step in steps), steps
        assert not any(step.startswith("SCAN") for step in steps), steps


WRITER = """
import asyncio, sys
from octavo.testing.vectors import Home, plane
from octavo.vectors import open_vectors

async def main(url, writer):
    home = Home("model", "t")
    async with open_vectors(url) as index:
        for number in range(50):
            await index.put(home.space, [home.entry(f"{writer}-{number}", plane(1, number)), home.entry("shared", plane(1, 0))])

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.parametrize("how", ["", "exact+"])
async def test_many_processes(tmp_path, how):
    """Processes that begin at the same moment with a file that is not there lose nothing and double nothing."""
    url = f"{how}sqlite:///{tmp_path}/octavo.db"
    async with open_vectors(url) as index:
        before = await index.nearest(HOME.space, plane(1, 0), HOME.scope(), ["messages"], 5)
        writers = [
            subprocess.Popen(
                [f"{programs()}/python", "-c", WRITER, url, f"w{n}"], stderr=subprocess.PIPE, text=True
            )
            for n in range(4)
        ]
        while any(writer.poll() is None for writer in writers):
            await index.nearest(HOME.space, plane(1, 0), HOME.scope(), ["messages"], 5)
            await asyncio.sleep(0.01)
        said = [writer.communicate()[1] for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * 4, said
        names = sorted(["shared", *(f"w{n}-{number}" for n in range(4) for number in range(50))])
        found = await index.nearest(HOME.space, plane(1, 0), HOME.scope(), ["messages"], 1000)
        assert before == []
        assert sorted(near.key.id for near in found) == names
        assert [key.id for key, _ in await keys(index, HOME.space)] == names


async def test_a_file_that_cannot_be_opened(tmp_path):
    """A folder in the place of the file, or something that is no database, is an error with its cause."""
    with pytest.raises(StoreUnavailable) as refusal:
        await SqliteVecIndex(str(tmp_path)).spaces()
    assert isinstance(refusal.value.__cause__, apsw.Error)
    (tmp_path / "notes.txt").write_text("no database " * 1000)
    with pytest.raises(StoreError) as refusal:
        await SqliteVecIndex(str(tmp_path / "notes.txt")).spaces()
    assert isinstance(refusal.value.__cause__, apsw.Error)


async def test_closed_at_once(tmp_path):
    """Writes under way when the index is closed are done, or refused, and never half of each."""
    path = str(tmp_path / "octavo.db")
    index = SqliteVecIndex(path)
    await index.spaces()
    tasks = [
        asyncio.create_task(index.put(HOME.space, [HOME.entry(f"{n}-{m}", plane(1, m)) for m in range(3)]))
        for n in range(20)
    ]
    await asyncio.sleep(0)
    await index.close()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    async with SqliteVecIndex(path) as later:
        found = {key.id for key, _ in await keys(later, HOME.space)}
    for n, answer in enumerate(answers):
        assert len(found & {f"{n}-{m}" for m in range(3)}) == (3 if answer is None else 0)


async def test_scopes_are_places(tmp_path):
    """Two spellings of one scope have one key."""
    async with SqliteVecIndex(str(tmp_path / "octavo.db")) as index:
        await index.put(
            HOME.space, [HOME.entry("a", plane(1, 0), scope=Scope(tenant="t", user="u", agent=""))]
        )
        await index.put(HOME.space, [HOME.entry("a", plane(0, 1), scope=Scope(tenant="t", user="u"))])
        assert [space.entries for space in await index.spaces()] == [1]
