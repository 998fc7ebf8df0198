"""The index of terms lags behind the records and no search ever sees it: among writers, beside other stores, rebuilt."""

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from octavo.errors import StoreClosed
from octavo.kernel.model import Add, Change, Op, Remove, Scope
from octavo.kernel.ports import IndexesLater, Store
from octavo.testing.searching import everything, found, note, right, searching
from octavo.testing.subject import NOON, Subject, on_a_store, refused


class Indexing(Subject):
    """Run only for stores that are `octavo.kernel.ports.Searches`."""

    @on_a_store
    async def test_searched_right_after_each_write(self, store: Store, home: Scope) -> None:
        """What was acknowledged is what the next search sees: added, changed, removed, added again, marked, expired."""
        searching(store)
        all_of_it = everything(home)
        for turn in range(5):
            await store.apply([Add([note("a", home, "a red fox"), note("b", home, "红色的狐狸")])])
            assert await found(store, all_of_it, "fox") == ["a"], turn
            assert await found(store, all_of_it, "fox", "狐狸") == ["a", "b"], turn
            await store.apply([Change(query=everything(home, ids=("a",)), text="a blue whale")])
            assert await found(store, all_of_it, "fox") == [], turn
            assert await found(store, all_of_it, "whale", "blue") == ["a"], turn
            await store.apply([Change(query=all_of_it, kind="k", mark=("m",), expires_at=NOON)])
            assert await found(store, everything(home, kinds=("k",), marks=("m",)), "whale") == ["a"], turn
            assert await found(store, everything(home, alive_at=NOON), "whale") == [], turn
            assert await found(store, everything(home, without=("m",)), "whale") == [], turn
            await store.apply([Change(query=all_of_it, kind="", unmark=None, expires_at=None)])
            assert await found(store, everything(home, kinds=("k",)), "whale") == [], turn
            assert await found(store, everything(home, marks=("m",)), "whale") == [], turn
            assert await found(store, everything(home, alive_at=NOON), "whale") == ["a"], turn
            await store.apply([Remove(everything(home, ids=("a",)))])
            assert await found(store, all_of_it, "whale", "fox", "狐狸") == ["b"], turn
            await store.apply([Add([note("a", home, "an old oak")])])
            assert await found(store, all_of_it, "whale", "fox", "oak") == ["a"], turn
            batch: list[Op] = [
                Remove(all_of_it),
                Add([note("a", home, "fox")]),
                Change(query=all_of_it, text="owl"),
            ]
            await store.apply(batch)
            assert await found(store, all_of_it, "fox", "oak", "狐狸", "owl") == ["a"], turn
            await store.apply([Remove(all_of_it)])
            assert await found(store, all_of_it, "fox", "oak", "狐狸", "owl") == [], turn

    @on_a_store
    async def test_searches_among_writers(self, store: Store, home: Scope) -> None:
        """While twenty writers append, a search finds every record that was acknowledged before it began, once."""
        searching(store)
        acknowledged: set[str] = set()
        done = 0

        async def write(writer: int) -> None:
            nonlocal done
            try:
                for number in range(8):
                    name = f"{writer}-{number}"
                    await store.apply([Add([note(name, home, f"common word{writer} number{number}")])])
                    acknowledged.add(name)
            finally:
                done += 1

        async def search() -> None:
            while done < 20:
                before = set(acknowledged)
                names = await found(store, everything(home), "common")
                assert len(names) == len({*names})
                assert before <= {*names}
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(search())
            for writer in range(20):
                group.create_task(write(writer))
        records = await store.find(everything(home))
        await right(store, everything(home), ("common", "word7", "number3"), records)

    @on_a_store
    async def test_searches_given_up(self, store: Store, home: Scope) -> None:
        """Searches that are cancelled in the middle leave a store whose next search finds everything."""
        searching(store)
        for turns in (0, 1, 2, 5, 20):
            await store.apply([Add([note(f"{turns}-{number}", home, "common oak") for number in range(50)])])
            tasks = [asyncio.create_task(found(store, everything(home), "oak")) for _ in range(6)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert len({len(task.result()) for task in tasks[1::2]}) == 1
        assert len(await found(store, everything(home), "oak")) == 250

    @on_a_store
    async def test_two_stores_search_alike(self, store: Store, home: Scope) -> None:
        """Two stores on the same records: what one of them acknowledged, the other's next search sees."""
        searching(store)
        async with self.opened_again() as other:
            for number in range(6):
                one, two = (store, other) if number % 2 else (other, store)
                name = str(number)
                await one.apply([Add([note(name, home, f"fox number{number}")])])
                assert await found(two, everything(home), f"number{number}") == [name]
                await two.apply([Change(query=everything(home, ids=(name,)), text=f"owl thing{number}")])
                assert await found(one, everything(home), f"number{number}") == []
                assert await found(one, everything(home), f"thing{number}") == [name]
                assert len(await found(two, everything(home), "owl")) == number + 1
                await one.apply([Add([note("gone", home, "whale")])])
                assert await found(two, everything(home), "whale") == ["gone"]
                await two.apply([Remove(everything(home, ids=("gone",)))])
                assert await found(one, everything(home), "whale") == []
        assert len(await found(store, everything(home), "owl", "fox")) == 6

    @on_a_store
    async def test_searched_after_reopening(self, store: Store, home: Scope) -> None:
        """A store that is opened again finds what was kept, indexed or still waiting when it was closed."""
        searching(store)
        await store.apply([Add([note("a", home, "red fox"), note("b", home, "blue fox")])])
        assert await found(store, everything(home), "fox") == ["a", "b"]
        await store.apply([Add([note("c", home, "late fox")]), Remove(everything(home, ids=("a",)))])
        await store.apply([Change(query=everything(home, ids=("b",)), text="blue owl")])
        await store.close()
        async with self.opened_again() as later:
            records = await later.find(everything(home))
            answer = await right(later, everything(home), ("fox", "owl", "red", "blue"), records)
            assert [match.id for match in answer.found] == ["b", "c"]
            assert answer.held == (1, 1, 0, 1)

    @on_a_store
    async def test_reindexed(self, store: Store, home: Scope) -> None:
        """An index built anew answers as the old one did; comparing it with the records names nothing, before and after."""
        index = searching(store)
        words = ("fox", "owl", "oak", "狐狸", "whale")
        await store.apply(
            [Add([note(f"{n}", home, " ".join(words[: n % 6]), kind="ab"[n % 2]) for n in range(300)])]
        )
        assert len(await found(store, everything(home), "fox")) == 250
        await store.apply([Change(query=everything(home, ids=("1", "2", "3")), text="an elm")])
        await store.apply([Remove(everything(home, ids=("10", "11", "12")))])
        await store.apply([Add([note("late", home, "late fox")])])
        told: list[tuple[int, int]] = []
        lexicon = await index.verify("exchanges", lambda *step: told.append(step))
        assert (lexicon.collection, lexicon.missing, lexicon.stray) == ("exchanges", (), 0)
        assert lexicon.records >= 298
        assert told
        assert told[-1][0] == told[-1][1]
        records = await store.find(everything(home))
        before = [await right(store, everything(home), (word, "elm"), records) for word in words]
        told.clear()
        assert await index.reindex("exchanges", lambda *step: told.append(step)) == lexicon.records
        assert told[-1:] == [(lexicon.records, lexicon.records)]
        assert [await right(store, everything(home), (word, "elm"), records) for word in words] == before
        again = await index.verify("exchanges")
        assert again == replace(lexicon, waiting=again.waiting)
        await store.apply([Remove(everything(home)), Add([note("b", home, "fox")])])
        assert await found(store, everything(home), "fox", "elm") == ["b"]
        assert (await index.verify("exchanges")).missing == ()
        assert await index.reindex("turns") >= 0  # a collection nothing was ever written to

    @on_a_store
    async def test_what_waits_is_told(self, store: Store, home: Scope) -> None:
        """A store that indexes later says which records wait, finds them all the same, and indexes them once it was asked."""
        searching(store)
        if not isinstance(store, IndexesLater):
            pytest.skip("not octavo.kernel.ports.IndexesLater")
        assert await store.unindexed(everything(home)) == set()
        await store.apply([Add([note(f"{n}", home, "a red fox") for n in range(3)])])
        waiting = await store.unindexed(everything(home))
        assert waiting <= {"0", "1", "2"}  # another test on the same database may have had them indexed
        assert await store.unindexed(everything(home, ids=("0",))) == waiting & {"0"}
        assert await store.unindexed(everything(replace(home, user="nobody"))) == set()
        assert await found(store, everything(home), "fox") == ["0", "1", "2"]
        while await store.lag("exchanges", 10):
            await asyncio.sleep(0.05)
        assert await store.unindexed(everything(home)) == set()
        await store.apply([Change(query=everything(home, ids=("1",)), text="a blue whale")])
        assert await store.unindexed(everything(home)) <= {"1"}
        assert await store.lag("turns", 10) >= 0  # a collection nothing was ever written to

    @on_a_store
    async def test_searches_while_reindexed(self, store: Store, home: Scope) -> None:
        """While the index is built anew, searches find everything and writes go on."""
        index = searching(store)
        await store.apply([Add([note(f"old-{n}", home, f"common word{n}") for n in range(200)])])
        written = {f"old-{n}" for n in range(200)}
        rebuilding = asyncio.create_task(index.reindex("exchanges"))
        number = 0
        while not rebuilding.done() or number < 3:
            assert written <= {*await found(store, everything(home), "common")}
            await store.apply([Add([note(f"new-{number}", home, "common")])])
            written.add(f"new-{number}")
            number += 1
            await asyncio.sleep(0)
        await rebuilding
        assert Counter(await found(store, everything(home), "common")) == Counter(written)
        lexicon = await index.verify("exchanges")
        assert (lexicon.missing, lexicon.stray) == ((), 0)

    @on_a_store
    async def test_search_after_close(self, store: Store, home: Scope) -> None:
        """A closed store refuses to search, to reindex and to verify."""
        index = searching(store)
        await store.apply([Add([note("a", home, "fox")])])
        assert await found(store, everything(home), "fox") == ["a"]
        await store.close()
        await refused(StoreClosed, index.search(everything(home), ("fox",)))
        await refused(StoreClosed, index.reindex("exchanges"))
        await refused(StoreClosed, index.verify("exchanges"))
