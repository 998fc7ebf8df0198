"""Many callers at once: nothing lost, nothing doubled, and nobody pays for another's mistake."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from octavo.errors import InvalidRecord
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Store
from octavo.testing.subject import Subject, on_a_store


def _notes(home: Scope, names: Sequence[str], **fields: Any) -> Add:
    return Add([Record(collection="messages", id=name, scope=home, **fields) for name in names])


class Races(Subject):
    @on_a_store
    async def test_the_same_ids_at_once(self, store: Store, home: Scope) -> None:
        """Fifty callers adding the same ids keep each once, and their counts add up to what is kept."""
        shared = [f"shared-{number}" for number in range(20)]
        counts = await asyncio.gather(
            *(store.apply([_notes(home, [*shared, f"own-{caller}"])]) for caller in range(50))
        )
        assert sum(count for (count,) in counts) == 70
        found = await store.find(Query(collection="messages", scope=home))
        assert Counter(record.id for record in found) == Counter([*shared, *(f"own-{n}" for n in range(50))])
        assert (await store.tally(Query(collection="messages", scope=home))).total == 70

    @on_a_store
    async def test_merges_at_once(self, store: Store, home: Scope) -> None:
        """Changes of one record made at the same time all stay: each read what the one before had written."""
        await store.apply([_notes(home, ["a", "b"])])
        query = Query(collection="messages", scope=home)
        counts = await asyncio.gather(
            *(store.apply([Change(query=query, merge={f"k{n}": n}, mark=(f"m{n}",))]) for n in range(30))
        )
        assert counts == [[2]] * 30
        for record in await store.find(query):
            assert record.data == {f"k{n}": n for n in range(30)}
            assert sorted(record.marks) == sorted(f"m{n}" for n in range(30))

    @on_a_store
    async def test_adds_and_removes_at_once(self, store: Store, home: Scope) -> None:
        """Adds, changes and removes of the same ids leave as many records as the counts say."""
        names = [str(number) for number in range(10)]
        query = Query(collection="messages", scope=home)
        one = Query(collection="messages", scope=home, ids=("1", "2", "3"))

        async def turn(number: int) -> int:
            if number % 3 == 0:
                return -(await store.apply([Remove(one)]))[0]
            if number % 3 == 1:
                await store.apply([Change(query=one, merge={str(number): number})])
                return 0
            return (await store.apply([_notes(home, names, kind=str(number % 2))]))[0]

        balance = sum(await asyncio.gather(*(turn(number) for number in range(60))))
        found = await store.find(query)
        assert len(found) == balance == (await store.tally(query)).total
        assert (await store.tally(query)).by_kind == Counter(record.kind for record in found)

    @on_a_store
    async def test_a_batch_is_seen_whole(self, store: Store, home: Scope) -> None:
        """Readers see all of a call or nothing of it."""
        query = Query(collection="messages", scope=home)
        written = asyncio.Event()

        async def write(batch: int) -> None:
            await store.apply(
                [_notes(home, [f"{batch}-{n}" for n in range(10)]), Change(query=query, kind=f"k{batch}")]
            )

        async def read() -> None:
            while not written.is_set():
                kinds = {record.kind for record in await store.find(query)}
                assert len(kinds) <= 1, "half a change was seen"
                assert (await store.tally(query)).total % 10 == 0
                await asyncio.sleep(0)  # a store that never waits must let the writers run too

        async def write_all() -> None:
            try:
                for number in range(6):
                    await asyncio.gather(write(2 * number), write(2 * number + 1))
            finally:
                written.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(write_all())
            for _ in range(2):
                group.create_task(read())
        assert (await store.tally(query)).total == 120

    @on_a_store
    async def test_neighbours(self, store: Store, home: Scope) -> None:
        """A caller whose ops are refused fails alone: those that wrote at the same moment are served."""
        large = "x" * (MAX_RECORD_BYTES - 1000)
        await store.apply([_notes(home, ["large"], text=large)])
        too_much = Change(
            query=Query(collection="messages", scope=home, ids=("large",)), merge={"more": "x" * 1000}
        )
        calls: list[list[Op]] = [[_notes(home, [f"good-{n}"])] for n in range(30)]
        # The first kind is refused before it reaches the backend, the second only once the record has been read.
        calls[5:5] = [[_notes(home, ["lost", "\0"])], [_notes(home, ["lost"]), too_much]]
        calls[20:20] = [[_notes(home, ["lost"]), too_much], [_notes(home, ["lost", "x" * 300])]]
        answers = await asyncio.gather(*(store.apply(ops) for ops in calls), return_exceptions=True)
        bad = {5, 6, 20, 21}
        assert {n for n, answer in enumerate(answers) if isinstance(answer, InvalidRecord)} == bad
        assert [answer for n, answer in enumerate(answers) if n not in bad] == [[1]] * 30
        found = await store.find(Query(collection="messages", scope=home, without=("none",)))
        assert sorted(record.id for record in found) == sorted(["large", *(f"good-{n}" for n in range(30))])

    @on_a_store
    async def test_cancelled_callers(self, store: Store, home: Scope) -> None:
        """A caller that gives up loses nobody else's write; its own batch is there whole or not at all."""
        for turns in (0, 1, 2, 5, 20):
            names = [[f"{turns}-{caller}-{n}" for n in range(3)] for caller in range(40)]
            tasks = [asyncio.create_task(store.apply([_notes(home, batch)])) for batch in names]
            for _ in range(turns):
                await asyncio.sleep(0)
            given_up = tasks[::3] if turns % 2 else tasks[1::2]
            for task in given_up:
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            found = {record.id for record in await store.find(Query(collection="messages", scope=home))}
            for task, batch, answer in zip(tasks, names, answers, strict=True):
                kept = len(found & {*batch})
                if task in given_up and isinstance(answer, asyncio.CancelledError):
                    assert kept in {0, 3}
                else:
                    assert (answer, kept) == ([3], 3)
        await store.apply([_notes(home, ["after"])])
        query = Query(collection="messages", scope=home)
        assert (await store.tally(query)).total == len(await store.find(query))

    @on_a_store
    async def test_cancelled_readers(self, store: Store, home: Scope) -> None:
        """Readers that give up in the middle leave a store that answers the next question."""
        await store.apply([_notes(home, [str(number) for number in range(500)])])
        query = Query(collection="messages", scope=home)
        for turns in (0, 1, 3, 10):
            tasks = [asyncio.create_task(store.find(query)) for _ in range(20)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(answer, list) and len(answer) == 500 for answer in answers[1::2])
        assert len(await store.find(query)) == 500

    @on_a_store
    async def test_first_use_by_many(self, store: Store, home: Scope) -> None:
        """A store used for the first time by twenty tasks at once opens once and serves them all."""
        query = Query(collection="messages", scope=home)

        async def use(number: int) -> None:
            if number % 2:
                await store.find(query)
                await store.tally(query)
            assert await store.apply([_notes(home, [str(number)])]) == [1]

        await asyncio.gather(*(use(number) for number in range(20)))
        assert (await store.tally(query)).total == 20

    @on_a_store
    async def test_first_use_given_up(self, store: Store, home: Scope) -> None:
        """A first caller that gives up while the store is opening leaves it openable."""
        for turns in (0, 1, 2, 4):
            task = asyncio.create_task(store.apply([_notes(home, ["gone"])]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await store.apply([_notes(home, ["kept"])])
        names = {record.id for record in await store.find(Query(collection="messages", scope=home))}
        assert names in ({"kept"}, {"kept", "gone"})
