"""From opening to closing, many callers and processes at once: nothing lost, nothing doubled, nobody pays for another's mistake."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from octavo.errors import InvalidRecord, StoreClosed
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.ids import new_id
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope
from octavo.kernel.ports import Describes, Searches, Store
from octavo.testing.agreement import assert_same, spelling
from octavo.testing.processes import BOARD, own_id, run_crowd, shared_id
from octavo.testing.subject import StoreUnderTest, count, message, messages, on_a_store, refuses
from octavo.testing.texts import BODIES, NAMES


class Life(StoreUnderTest):
    @on_a_store
    async def test_it_is_a_store(self, store: Store, home: Scope) -> None:
        """It has the verbs of the port, and what it says about itself is named."""
        assert isinstance(store, Store)
        assert await store.find(Query(collection="events", scope=home)) == []
        if isinstance(store, Describes):
            findings = await store.describe()
            assert findings[0].name == "store"
            assert all(finding.name and finding.value for finding in findings)

    @on_a_store
    async def test_use_after_close(self, store: Store, home: Scope) -> None:
        """`async with` gives the store itself and closes it, used or not; a closed store refuses every verb."""
        query = messages(home)
        async with self.opened() as unused:
            await unused.close()
            await refuses(StoreClosed, unused.find(query))
        async with store as entered:
            assert entered is store
            await store.apply([Add([Record(collection="messages", scope=home)])])
        await store.close()
        await refuses(StoreClosed, store.apply([Remove(query)]))
        await refuses(StoreClosed, store.find(query))
        await refuses(StoreClosed, store.tally(query))
        await refuses(StoreClosed, store.__aenter__())
        if isinstance(store, Searches):
            await refuses(StoreClosed, store.search(query, ("fox",)))
            await refuses(StoreClosed, store.reindex("messages"))
            await refuses(StoreClosed, store.verify("messages"))

    @on_a_store
    async def test_close_finishes_what_was_begun(self, store: Store, home: Scope) -> None:
        """Writes under way when the store is closed are done and acknowledged, or refused, and never half of each."""
        await store.find(messages(home))
        batches = [[Record(collection="messages", scope=home) for _ in range(3)] for _ in range(20)]
        tasks = [asyncio.create_task(store.apply([Add(batch)])) for batch in batches]
        await asyncio.sleep(0)
        await store.close()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(answer == [3] or isinstance(answer, StoreClosed) for answer in answers)
        async with self.opened_again() as later:
            found = {record.id for record in await later.find(messages(home))}
        for batch, answer in zip(batches, answers, strict=True):
            kept = len(found & {record.id for record in batch})
            assert kept == (3 if answer == [3] else 0)

    @on_a_store
    async def test_reopened(self, store: Store, home: Scope) -> None:
        """What was kept, changed and removed before a store was closed is so when it is opened again."""
        written = [
            message(name, home, kind=name, text=name, data=body, metadata=body)
            for name, body in zip(NAMES, BODIES * 20, strict=False)
        ]
        some = messages(home, ids=NAMES[:10])
        async with self.reference() as right:
            for one in (store, right):
                await one.apply([Add(written)])
                at = written[0].created_at
                await one.apply([Change(query=some, merge={"new": True}, mark=("m", "n"), updated_at=at)])
                await one.apply([Change(query=some, unmark=("m",), text="after", updated_at=at)])
                await one.apply([Remove(messages(home, ids=NAMES[5:20]))])
            await store.close()
            async with self.opened_again() as later:
                await assert_same(later, right, messages(home))
                await assert_same(later, right, messages(home, marks=("n",)))
                await assert_same(later, right, messages(home, text="AFTER"))
                assert await later.apply([Add(written)]) == await right.apply([Add(written)]) == [15]
                await assert_same(later, right, messages(home))

    @on_a_store
    async def test_two_at_once(self, store: Store, home: Scope) -> None:
        """Two stores on the same records see each other's acknowledged writes at once, and never add an id twice."""
        query = messages(home)
        async with self.opened_again() as other:
            for number in range(20):
                one, two = (store, other) if number % 2 else (other, store)
                record = message(str(number), home)
                assert await count(one, Add([record])) == 1
                assert await two.apply([Add([record]), Change(query=query, merge={str(number): 1})]) == [
                    0,
                    number + 1,
                ]
                assert spelling(await one.find(query)) == spelling(await two.find(query))
                assert await one.tally(query) == await two.tally(query)
            names = [f"race-{number}" for number in range(50)]
            counts = await asyncio.gather(
                *(one.apply([Add([message(name, home)])]) for name in names for one in (store, other))
            )
            assert sum(count for (count,) in counts) == 50
            merges = [Change(query=query, merge={f"m{n}": n}) for n in range(20)]
            await asyncio.gather(*((store, other)[n % 2].apply([merge]) for n, merge in enumerate(merges)))
            found = await store.find(query)
            assert len(found) == 70
            assert all({f"m{n}" for n in range(20)} <= {*record.data} for record in found)
            assert await count(other, Remove(query)) == 70
            assert await store.find(query) == []


def _notes(home: Scope, names: Sequence[str], **fields: Any) -> Add:
    return Add([message(name, home, **fields) for name in names])


class Races(StoreUnderTest):
    @on_a_store
    async def test_merges_at_once(self, store: Store, home: Scope) -> None:
        """Changes of one record made at the same time all stay: each read what the one before had written."""
        await store.apply([_notes(home, ["a", "b"])])
        query = messages(home)
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
        query = messages(home)
        one = messages(home, ids=("1", "2", "3"))

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
        query = messages(home)
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
        too_much = Change(query=messages(home, ids=("large",)), merge={"more": "x" * 1000})
        calls: list[list[Op]] = [[_notes(home, [f"good-{n}"])] for n in range(30)]
        # The first kind is refused before it reaches the backend, the second only once the record has been read.
        calls[5:5] = [[_notes(home, ["lost", "\0"])], [_notes(home, ["lost"]), too_much]]
        calls[20:20] = [[_notes(home, ["lost"]), too_much], [_notes(home, ["lost", "x" * 300])]]
        answers = await asyncio.gather(*(store.apply(ops) for ops in calls), return_exceptions=True)
        bad = {5, 6, 20, 21}
        assert {n for n, answer in enumerate(answers) if isinstance(answer, InvalidRecord)} == bad
        assert [answer for n, answer in enumerate(answers) if n not in bad] == [[1]] * 30
        found = await store.find(messages(home, without=("none",)))
        assert sorted(record.id for record in found) == sorted(["large", *(f"good-{n}" for n in range(30))])

    @on_a_store
    async def test_cancelled_callers(self, store: Store, home: Scope) -> None:
        """Callers that give up lose nobody else's write, answer or search; their own batch is there whole or not at all."""
        query = messages(home)
        for turns in (0, 1, 2, 5, 20):
            names = [[f"{turns}-{caller}-{n}" for n in range(3)] for caller in range(40)]
            tasks = [asyncio.create_task(store.apply([_notes(home, batch, text="fox")])) for batch in names]
            readers: list[asyncio.Task[Any]] = [asyncio.create_task(store.find(query)) for _ in range(10)]
            if isinstance(store, Searches):
                readers += [asyncio.create_task(store.search(query, ("fox",))) for _ in range(6)]
            for _ in range(turns):
                await asyncio.sleep(0)
            given_up = tasks[::3] if turns % 2 else tasks[1::2]
            for task in (*given_up, *readers[::2]):
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            read = await asyncio.gather(*readers, return_exceptions=True)
            assert not [answer for answer in read[1::2] if isinstance(answer, BaseException)]
            found = {record.id for record in await store.find(query)}
            for task, batch, answer in zip(tasks, names, answers, strict=True):
                kept = len(found & {*batch})
                if task in given_up and isinstance(answer, asyncio.CancelledError):
                    assert kept in {0, 3}
                else:
                    assert (answer, kept) == ([3], 3)
            if isinstance(store, Searches):
                assert {match.id for match in (await store.search(query, ("fox",))).found} == found
        await store.apply([_notes(home, ["after"])])
        assert (await store.tally(query)).total == len(await store.find(query))

    @on_a_store
    async def test_first_use_by_many(self, store: Store, home: Scope) -> None:
        """A store used for the first time by twenty tasks at once opens once and serves them all."""
        query = messages(home)

        async def use(number: int) -> None:
            if number % 2:
                await store.find(query)
                await store.tally(query)
            assert await count(store, _notes(home, [str(number)])) == 1

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
        names = {record.id for record in await store.find(messages(home))}
        assert names in ({"kept"}, {"kept", "gone"})


class Crowds(StoreUnderTest):
    """`OCTAVO_TORTURE=full` makes the crowd large."""

    def test_many_processes(self) -> None:
        """Processes that write at the same moment lose nothing, double nothing, and none of them sees an error."""
        if not self.url:
            pytest.skip("other processes cannot open this store: no `url` is given")
        processes, writes = (8, 2000) if os.environ.get("OCTAVO_TORTURE") == "full" else (4, 200)

        async def body() -> None:
            tenant = new_id()
            reports = await run_crowd(self.url, tenant, processes, writes)
            writers = [f"w{number}" for number in range(processes)]
            names = [BOARD, *(shared_id(number) for number in range(writes))]
            names += [own_id(writer, number) for writer in writers for number in range(writes)]
            async with self.opened() as store:
                found = await store.find(Query(collection="messages", scope=Scope(tenant=tenant)))
                tally = await store.tally(Query(collection="messages", scope=Scope(tenant=tenant)))
            assert Counter(record.id for record in found) == Counter(names)
            assert tally.total == sum(report.added for report in reports) == len(names)
            merged = {own_id(writer, number): number for writer in writers for number in range(0, writes, 10)}
            assert next(record.data for record in found if record.id == BOARD) == merged
            assert sum(report.merged for report in reports) == len(merged)

        asyncio.run(body())
