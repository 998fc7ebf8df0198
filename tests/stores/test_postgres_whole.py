"""PostgreSQL in as few words as possible: inserts that are a transaction by themselves, and connections given back as they are."""

import asyncio
import contextlib

import pytest

from octavo import Add, Query, Record, Remove, Scope, StoreUnavailable, open_store
from octavo.stores.sql import drivers
from octavo.stores.sql.statements import ConnectionLost, Fetch

ALL = Query(collection="events")


def record(number, kind="k", agent="a"):
    return Record(collection="events", id=str(number), kind=kind, scope=Scope(agent=agent, session="s"))


@contextlib.contextmanager
def heard(store, monkeypatch):
    """The first word of each statement that is sent, but for reads."""
    words = []
    real = store._driver.send

    def send(connection, statement):
        word = statement.sql.split()[0]
        if word != "SELECT":
            words.append(word)
        return real(connection, statement)

    with monkeypatch.context() as patch:
        patch.setattr(store._driver, "send", send)
        yield words


@pytest.fixture
async def store(fresh_postgres, monkeypatch):
    monkeypatch.setattr(drivers, "_LATELY_SECONDS", 60)  # a busy machine must not look like a quiet one
    async with open_store(fresh_postgres) as store:
        await store.apply([Add([record(0)])])
        yield store


async def test_an_append_is_one_statement(store, monkeypatch):
    with heard(store, monkeypatch) as words:
        assert await store.apply([Add([record(1)])]) == [1]
        assert words == ["WITH"]


async def test_the_first_write_in_a_while_finds_out_whether_the_server_is_there(store, monkeypatch):
    monkeypatch.setattr(drivers, "_LATELY_SECONDS", 0)
    with heard(store, monkeypatch) as words:
        assert await store.apply([Add([record(1)])]) == [1]
        assert words == ["BEGIN", "WITH", "COMMIT"]


async def test_what_is_not_all_of_it_is_a_transaction(store, monkeypatch):
    """Marks, removals and several collections take several statements."""
    marked = Record(collection="messages", id="m", marks=("x",))
    await store.apply([Add([Record(collection="messages", id="first")])])
    for ops in (
        [Add([marked])],
        [Add([record(1)]), Remove(Query(collection="events", ids=("0",)))],
        [Add([record(2), Record(collection="messages", id="n")])],
    ):
        with heard(store, monkeypatch) as words:
            await store.apply(ops)
            assert (words[0], words[-1]) == ("BEGIN", "COMMIT")


async def test_counted_as_it_went_in(store):
    """What is there already, and what comes twice, is counted once; each caller has the count of its own."""
    given = [record(number % 30, kind=f"k{number % 3}", agent=f"a{number % 2}") for number in range(60)]
    counts = await asyncio.gather(*(store.apply([Add([one, one])]) for one in given))
    kept = await store.find(ALL)
    assert sum(count for [count] in counts) + 1 == len(kept)
    for scope in (Scope(), Scope(agent="a0"), Scope(agent="a1"), Scope(agent="a")):
        inside = [one for one in kept if scope.covers(one.scope)]
        tally = await store.tally(Query(collection="events", scope=scope))
        assert tally.total == len(inside)
        for kind, n in tally.by_kind.items():
            assert n == sum(one.kind == kind for one in inside)


async def test_an_answer_that_is_lost(store, monkeypatch):
    """Nobody can tell whether it was kept: it is not tried again, which would answer that nothing was added."""
    real = store._driver.send
    sent = []

    async def send(connection, statement):
        sent.append(await real(connection, statement))
        raise ConnectionLost("gone right after the commit")

    with monkeypatch.context() as patch:
        patch.setattr(store._driver, "send", send)
        with pytest.raises(StoreUnavailable, match="lost while committing"):
            await store.apply([Add([record(1)])])
    assert len(sent) == 1
    assert [one.id for one in await store.find(ALL)] == ["0", "1"]


async def test_a_cancelled_transaction_leaves_nothing_open(fresh_postgres):
    async with open_store(f"{fresh_postgres}?pool_size=1") as store:
        await store.apply([Add([record(0)])])

        def slow():
            yield Fetch("SELECT 1")
            begun.set()
            yield Fetch("SELECT pg_sleep(60)")

        begun = asyncio.Event()
        cancelled = asyncio.create_task(store._driver.write(slow))
        await begun.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert await store.apply([Add([record(1)])]) == [1]
        assert (await store.tally(ALL)).total == 2
