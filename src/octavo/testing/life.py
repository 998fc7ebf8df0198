"""From opening to closing, and what is still there afterwards."""

import asyncio

from octavo.errors import StoreClosed
from octavo.kernel.model import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.ports import Describes, Store
from octavo.testing.agreement import same, spelling
from octavo.testing.bodies import BODIES
from octavo.testing.subject import Subject, on_a_store, refused
from octavo.testing.texts import NAMES


class Life(Subject):
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
        """A closed store refuses every verb; closing it again does nothing."""
        query = Query(collection="messages", scope=home)
        await store.apply([Add([Record(collection="messages", scope=home)])])
        await store.close()
        await store.close()
        await refused(StoreClosed, store.apply([Remove(query)]))
        await refused(StoreClosed, store.find(query))
        await refused(StoreClosed, store.tally(query))
        await refused(StoreClosed, store.__aenter__())

    @on_a_store
    async def test_close_without_use(self, store: Store, home: Scope) -> None:
        """A store that was never used closes, and then is closed."""
        await store.close()
        await refused(StoreClosed, store.find(Query(collection="messages", scope=home)))

    @on_a_store
    async def test_async_with(self, store: Store, home: Scope) -> None:
        """`async with` gives the store itself and closes it at the end."""
        query = Query(collection="messages", scope=home)
        async with store as entered:
            assert entered is store
            assert await entered.find(query) == []
        await refused(StoreClosed, store.find(query))

    @on_a_store
    async def test_close_finishes_what_was_begun(self, store: Store, home: Scope) -> None:
        """Writes under way when the store is closed are done and acknowledged, or refused, and never half of each."""
        await store.find(Query(collection="messages", scope=home))
        batches = [[Record(collection="messages", scope=home) for _ in range(3)] for _ in range(20)]
        tasks = [asyncio.create_task(store.apply([Add(batch)])) for batch in batches]
        await asyncio.sleep(0)
        await store.close()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(answer == [3] or isinstance(answer, StoreClosed) for answer in answers)
        async with self.opened_again() as later:
            found = {record.id for record in await later.find(Query(collection="messages", scope=home))}
        for batch, answer in zip(batches, answers, strict=True):
            kept = len(found & {record.id for record in batch})
            assert kept == (3 if answer == [3] else 0)

    @on_a_store
    async def test_reopened(self, store: Store, home: Scope) -> None:
        """What was kept, changed and removed before a store was closed is so when it is opened again."""
        written = [
            Record(collection="messages", id=name, scope=home, kind=name, text=name, data=body, metadata=body)
            for name, body in zip(NAMES, BODIES * 20, strict=False)
        ]
        some = Query(collection="messages", scope=home, ids=NAMES[:10])
        async with self.reference() as right:
            for one in (store, right):
                await one.apply([Add(written)])
                at = written[0].created_at
                await one.apply([Change(query=some, merge={"new": True}, mark=("m", "n"), updated_at=at)])
                await one.apply([Change(query=some, unmark=("m",), text="after", updated_at=at)])
                await one.apply([Remove(Query(collection="messages", scope=home, ids=NAMES[5:20]))])
            await store.close()
            async with self.opened_again() as later:
                await same(later, right, Query(collection="messages", scope=home))
                await same(later, right, Query(collection="messages", scope=home, marks=("n",)))
                await same(later, right, Query(collection="messages", scope=home, text="AFTER"))
                assert await later.apply([Add(written)]) == await right.apply([Add(written)]) == [15]
                await same(later, right, Query(collection="messages", scope=home))

    @on_a_store
    async def test_two_at_once(self, store: Store, home: Scope) -> None:
        """Two stores on the same records see each other's acknowledged writes at once, and never add an id twice."""
        query = Query(collection="messages", scope=home)
        async with self.opened_again() as other:
            for number in range(20):
                one, two = (store, other) if number % 2 else (other, store)
                record = Record(collection="messages", id=str(number), scope=home)
                assert await one.apply([Add([record])]) == [1]
                assert await two.apply([Add([record]), Change(query=query, merge={str(number): 1})]) == [
                    0,
                    number + 1,
                ]
                assert spelling(await one.find(query)) == spelling(await two.find(query))
                assert await one.tally(query) == await two.tally(query)
            names = [f"race-{number}" for number in range(50)]
            counts = await asyncio.gather(
                *(
                    one.apply([Add([Record(collection="messages", id=name, scope=home)])])
                    for name in names
                    for one in (store, other)
                )
            )
            assert sum(count for (count,) in counts) == 50
            merges = [Change(query=query, merge={f"m{n}": n}) for n in range(20)]
            await asyncio.gather(*((store, other)[n % 2].apply([merge]) for n, merge in enumerate(merges)))
            found = await store.find(query)
            assert len(found) == 70
            assert all({f"m{n}" for n in range(20)} <= {*record.data} for record in found)
            assert await other.apply([Remove(query)]) == [70]
            assert await store.find(query) == []
