"""Two that index at once, step by step: whoever comes late with what it read does no harm."""

from contextlib import asynccontextmanager

import pytest

from octavo import Add, Change, Query, Record, Remove, Scope, open_store
from octavo.stores.redis.indexing import Gone

ALL = Query(collection="messages")
ONLY = Query(collection="messages", ids=("a",))


def note(text: str) -> Record:
    return Record(collection="messages", id="a", text=text)


class Two:
    """Two stores on one Redis; the late one has read what is in line and not entered it yet."""

    def __init__(self, late, other) -> None:
        self.late, self.other = late, other

    async def read(self) -> None:
        self.index = self.late._line.indexes.index("messages", "")
        self.state = await self.index.begin()
        self.page = await self.index.fetch(self.state.id, b"waiting", b"0", self.state.ticket.encode())

    async def enter(self) -> None:
        await self.index._enter(self.state.id, self.page)

    async def indexed(self) -> list[str]:
        """The terms the index holds of the record now, whatever waits."""
        index = self.other._line.indexes.index("messages", "")
        kept = [await index.block(n) for n in range(1, 1 + await index.last_block())]
        return [" ".join(terms) for block in kept for terms in block.counts.values()]

    async def write(self, text: str) -> None:
        await self.other.apply([Change(query=ONLY, text=text)])

    async def search(self, term: str) -> list[str]:
        return [match.id for match in (await self.other.search(ALL, [term])).found]

    async def sound(self) -> None:
        lexicon = await self.other.verify("messages")
        assert (lexicon.missing, lexicon.stray, lexicon.waiting) == ((), 0, 0)


@pytest.fixture
async def two(fresh_redis, monkeypatch):
    for name in ("_QUIET_SECONDS", "_PATIENT_SECONDS"):  # nobody but these two indexes anything
        monkeypatch.setattr(f"octavo.stores.redis.idle.{name}", 1000)
    async with begun(fresh_redis) as two:
        yield two


@asynccontextmanager
async def begun(url: str):
    async with open_store(url) as late, open_store(url) as other:
        stays = Record(collection="messages", id="z", scope=Scope(user="z"), text="")
        await other.apply([Add([stays])])
        for store in (late, other):
            await store.search(Query(collection="messages", scope=Scope(user="z")), ["fox"])
        await other.apply(
            [Add([note("first")]), Change(query=Query(collection="messages", ids=("z",)), kind="k")]
        )
        yield Two(late, other)


async def test_what_is_read_late_is_entered_while_it_waits(two):
    """A record that has changed since is found as it was, and stays in line."""
    await two.read()
    await two.write("second")
    await two.enter()
    assert await two.indexed() == ["first"]
    assert await two.search("first") == []
    assert await two.search("second") == ["a"]
    await two.sound()


async def test_what_others_have_indexed_since_stays(two):
    await two.read()
    await two.write("second")
    assert await two.search("second") == ["a"]
    await two.enter()
    assert await two.search("first") == []
    assert await two.search("second") == ["a"]
    await two.sound()


async def test_nobody_goes_back_behind_what_others_have_read(two):
    """In line again, and yet what the late one read is older than what is indexed."""
    await two.read()
    await two.write("second")
    assert await two.search("second") == ["a"]
    await two.write("third")
    await two.enter()
    assert await two.indexed() == ["second"]
    assert await two.search("third") == ["a"]
    await two.sound()


async def test_what_was_removed_does_not_come_back(two):
    await two.read()
    await two.other.apply([Remove(ONLY)])
    assert await two.search("first") == []
    await two.enter()
    assert await two.indexed() == []
    assert await two.search("first") == []
    await two.sound()


async def test_what_was_removed_and_added_is_not_found_as_it_was(two):
    await two.read()
    await two.other.apply([Remove(ONLY)])
    assert await two.search("first") == []
    await two.other.apply([Add([note("second")])])
    await two.enter()
    assert await two.indexed() == ["second"]
    assert await two.search("first") == []
    assert await two.search("second") == ["a"]
    await two.sound()


async def test_what_changed_back_is_right(two):
    """The record is as the late one read it, while the index knows it as it was in between."""
    record = (await two.other.find(ONLY))[0]
    await two.read()
    await two.other.apply([Change(query=ONLY, text="second")])
    between = Two(two.other, two.late)
    await between.read()
    await two.other.apply([Change(query=ONLY, text="first", updated_at=record.updated_at)])
    await between.enter()
    assert await two.indexed() == ["second"]
    await two.enter()
    assert await two.indexed() == ["first"]
    assert await two.search("first") == ["a"]
    await two.sound()


async def test_what_changed_back_is_newer_than_what_was_in_between(two):
    """Whoever read it in between comes last, and must not bring that back."""
    record = (await two.other.find(ONLY))[0]
    await two.read()
    await two.write("second")
    between = Two(two.other, two.late)
    await between.read()
    await two.other.apply([Change(query=ONLY, text="first", updated_at=record.updated_at)])
    await two.enter()
    await two.write("third")
    await between.enter()
    assert await two.indexed() == ["first"]
    assert await two.search("third") == ["a"]
    await two.sound()


async def test_an_index_that_is_no_more_is_left_alone(two):
    """All was removed and the index with it; what the late one read goes nowhere."""
    await two.read()
    await two.other.apply([Remove(ALL)])
    assert await two.search("first") == []
    with pytest.raises(Gone):
        await two.enter()
    await two.other.apply([Add([note("second")])])
    assert await two.search("second") == ["a"]
    await two.sound()
