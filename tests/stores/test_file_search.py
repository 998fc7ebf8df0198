"""The file store's index of terms: made on the first search, and right after the files were read anew."""

import asyncio

from octavo import Add, Query, Record, Scope, open_store
from sampled import FULL

HOME = Scope(tenant="t", session="s")
MANY = 3000 if FULL else 1000
EVERY = Query(collection="messages", scope=HOME)


def note(name, text):
    return Record(collection="messages", id=name, scope=HOME, text=text)


async def ids(store, *terms):
    return [match.id for match in (await store.search(EVERY, terms)).found]


async def test_what_a_person_edited_is_searched(tmp_path):
    """Once the store has noticed that a file was edited, searches find what it says now."""
    async with open_store(f"file://{tmp_path}") as store:
        await store.apply([Add([note("a", "red fox"), note("b", "blue owl")])])
        assert await ids(store, "fox", "owl") == ["a", "b"]
        (path,) = tmp_path.glob("messages/*.jsonl")
        path.write_text(path.read_text().replace("red fox", "old grey whale"))
        await store.apply([Add([note("c", "late whale")])])
        assert await ids(store, "fox") == []
        assert await ids(store, "whale", "owl") == ["a", "b", "c"]


async def test_idle_time_is_used_by_the_thread(tmp_path):
    """Once something was searched for, what is written later is indexed while nobody asks for anything."""
    async with open_store(f"file://{tmp_path}") as store:
        await store.apply([Add([note("a", "red fox")])])
        assert (await store.verify("messages")).waiting == 1
        assert await ids(store, "fox") == ["a"]
        await store.apply([Add([note(str(number), "blue fox") for number in range(MANY)])])
        async with asyncio.timeout(60):
            while (await store.verify("messages")).waiting:
                await asyncio.sleep(0.1)  # to look takes as long as to index
        lexicon = await store.verify("messages")
        assert (lexicon.records, lexicon.missing, lexicon.stray) == (MANY + 1, (), 0)


async def test_closing_does_not_wait_for_the_index(tmp_path):
    """A store that is closed while much waits to be indexed closes; nothing of what was written is lost."""
    async with open_store(f"file://{tmp_path}") as store:
        await store.apply([Add([note("a", "red fox")])])
        assert await ids(store, "fox") == ["a"]
        await store.apply([Add([note(str(number), "blue fox " * 50) for number in range(1000)])])
    async with open_store(f"file://{tmp_path}") as store:
        assert (await store.verify("messages")).records == 1001
        assert len(await ids(store, "red")) == 1


async def test_others_are_served_while_the_index_is_made(tmp_path):
    """The first search of many records lets other callers' reads and writes in between its steps."""
    async with open_store(f"file://{tmp_path}") as store:
        await store.apply([Add([note(str(number), f"blue fox number{number}") for number in range(8000)])])
        searching = asyncio.create_task(ids(store, "number7"))
        await asyncio.sleep(0)
        written = 0
        while not searching.done():
            await store.apply([Add([note(f"new-{written}", "number7")])])
            written += 1
        assert "7" in await searching
        assert written > 2
