"""What a write does: adds that repeat, batches that see themselves, counts that are exact, pages that fit together."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from octavo.errors import Conflict, InvalidQuery, InvalidRecord
from octavo.kernel.model import START, Add, Change, Op, Query, Rank, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store, walk
from octavo.testing.subject import Subject, on_a_store, refused

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


def _note(name: str, home: Scope, text: str = "") -> Record:
    return Record(collection="messages", id=name, scope=home, text=text, created_at=NOON, seq=1)


class Writes(Subject):
    @on_a_store
    async def test_the_first_of_an_id_wins(self, store: Store, home: Scope) -> None:
        """An id that is kept is left alone, in the same call and in later ones; counts say what was really added."""
        first, second = _note("a", home, "first"), _note("a", home, "second")
        assert await store.apply([Add([first, second, _note("b", home)]), Add([second])]) == [2, 0]
        assert await store.apply([Add([second, _note("c", home)])]) == [1]
        assert await store.apply([Add([])]) == [0]
        assert await store.apply([]) == []
        found = await store.find(Query(collection="messages", scope=home))
        assert [(record.id, record.text) for record in found] == [("a", "first"), ("b", ""), ("c", "")]

    @on_a_store
    async def test_an_id_belongs_to_its_scope_and_collection(self, store: Store, home: Scope) -> None:
        """One id in several scopes or collections names several records, and each is changed and removed alone."""
        scopes = [
            home,
            *(msgspec.structs.replace(home, **{part: "x"}) for part in ("user", "agent", "session")),
        ]
        records = [_note("a", scope) for scope in scopes]
        events = [msgspec.structs.replace(record, collection="events") for record in records]
        assert await store.apply([Add([*records, *events])]) == [8]
        only = Query(collection="messages", ids=("a",), scope=Scope(tenant=home.tenant, user="x"))
        assert await store.apply([Change(query=only, text="mine")]) == [1]
        assert await store.apply([Remove(msgspec.structs.replace(only, scope=scopes[2]))]) == [1]
        found = await store.find(Query(collection="messages", scope=home))
        assert {record.scope: record.text for record in found} == {
            scopes[0]: "",
            scopes[1]: "mine",
            scopes[3]: "",
        }
        assert (await store.tally(Query(collection="events", scope=home))).total == 4

    @on_a_store
    async def test_what_is_expected(self, store: Store, home: Scope) -> None:
        """An op that meets another number of records than it expects leaves its whole batch undone."""
        all_of_it = Query(collection="messages", scope=home)
        one, none = (msgspec.structs.replace(all_of_it, ids=(name,)) for name in ("a", "z"))
        a, b, new = _note("a", home, "old"), _note("b", home), _note("new", home)
        await refused(Conflict, store.apply([Add([], expect=1)]), "expected 1 records and met 0")
        assert await store.apply([Add([a, b, a], expect=2)]) == [2]
        assert await store.apply([Add([a], expect=0), Change(query=one, text="old", expect=1)]) == [0, 0]
        unmet: list[Op] = [
            Add([a], expect=1),
            Add([new, b], expect=2),
            Change(query=one, text="changed", expect=0),
            Change(query=none, text="changed", expect=1),
            Change(query=all_of_it, text="changed", expect=1),
            Remove(all_of_it, expect=1),
            Remove(msgspec.structs.replace(all_of_it, limit=1), expect=2),
        ]
        half: list[Op] = [Change(query=one, text="half"), Add([_note("half", home)])]
        for op in unmet:
            for batch in ([op], [*half, op], [op, *half]):
                await refused(Conflict, store.apply(batch), "nothing of its batch was applied")
        found = await store.find(all_of_it)
        assert [(record.id, record.text) for record in found] == [("a", "old"), ("b", "")]
        assert (await store.tally(all_of_it)).total == 2
        # A batch sees itself: what it has added is there to be met.
        assert await store.apply([Add([new]), Change(query=all_of_it, text="seen", expect=3)]) == [1, 3]
        assert await store.apply([Remove(one, expect=1), Remove(one, expect=0), Add([a], expect=1)]) == [
            1,
            0,
            1,
        ]
        for bad in (-1, "1", 1.5):
            await refused(InvalidQuery, store.apply([Remove(one, expect=bad)]), "expect must be")  # type: ignore[arg-type]

    @on_a_store
    async def test_of_many_who_expect_the_same_one_wins(self, store: Store, home: Scope) -> None:
        """So a version can be changed once, however many try at the same moment."""
        query = Query(collection="messages", scope=home, ids=("memory",), marks=("v1",))
        await store.apply([Add([msgspec.structs.replace(_note("memory", home), marks=("v1",))])])

        async def change(number: int) -> int:
            ops: list[Op] = [
                Change(query=query, text=f"{number}", unmark=None, mark=("v2",), expect=1),
                Add([_note(f"log{number}", home)], expect=1),
            ]
            try:
                await store.apply(ops)
            except Conflict:
                return 0
            return 1

        assert sum(await asyncio.gather(*map(change, range(20)))) == 1
        found = {record.id: record for record in await store.find(Query(collection="messages", scope=home))}
        memory = found.pop("memory")
        assert memory.marks == ("v2",)
        assert list(found) == [f"log{memory.text}"]

    @on_a_store
    async def test_one_call_is_one_transaction(self, store: Store, home: Scope) -> None:
        """A call whose last op is refused has done nothing; the ops of one call see what those before them did."""
        query = Query(collection="messages", scope=home)
        await store.apply([Add([_note("a", home, "old")])])
        bad = Record(collection="messages", id="", scope=home)
        batch: list[Op] = [Add([_note("b", home)]), Change(query=query, text="new"), Remove(query)]
        await refused(InvalidRecord, store.apply([*batch, Add([bad])]))
        await refused(InvalidQuery, store.apply([*batch, Remove(Query(collection="messages", limit=-1))]))
        assert [(record.id, record.text) for record in await store.find(query)] == [("a", "old")]
        counts = await store.apply(
            [
                Add([_note("b", home), _note("c", home)]),
                Change(query=query, text="seen"),
                Remove(Query(collection="messages", scope=home, ids=("a", "b"))),
                Add([_note("b", home, "again")]),
                Change(query=Query(collection="messages", scope=home, text="AGAIN"), mark=("m",)),
                Remove(Query(collection="messages", scope=home, marks=("none",))),
            ]
        )
        assert counts == [2, 3, 2, 1, 1, 0]
        found = await store.find(query)
        assert [(r.id, r.text, r.marks) for r in found] == [("b", "again", ("m",)), ("c", "seen", ())]
        assert await store.tally(query) == Tally(total=2, by_kind={"": 2}, first=NOON, last=NOON)

    @on_a_store
    async def test_a_record_may_return_with_another_time(self, store: Store, home: Scope) -> None:
        """Removed and added again in one call, a record stands where its new time puts it."""
        query = Query(collection="messages", scope=home)
        await store.apply([Add([_note("a", home), _note("b", home)])])
        later = msgspec.structs.replace(
            _note("a", home), created_at=NOON + timedelta(days=1), kind="k", marks=("m",)
        )
        assert await store.apply([Remove(query), Add([later])]) == [2, 1]
        assert [record.id for record in await store.find(query)] == ["a"]
        assert await store.tally(query) == Tally(
            total=1, by_kind={"k": 1}, first=later.created_at, last=later.created_at
        )
        assert await store.apply([Remove(query)]) == [1]
        assert await store.find(query) == []
        assert await store.tally(query) == Tally()

    @on_a_store
    async def test_counts_are_exact(self, store: Store, home: Scope) -> None:
        """A change counts the records it altered, not those it looked at, and touches `updated_at` of those alone."""
        names = [str(number) for number in range(10)]
        await store.apply([Add([_note(name, home, "even" if int(name) % 2 else "odd") for name in names])])
        query = Query(collection="messages", scope=home)
        assert await store.apply([Change(query=query, text="odd", updated_at=NOON + timedelta(hours=1))]) == [
            5
        ]
        changed = [record.id for record in await store.find(query) if record.updated_at != NOON]
        assert changed == ["1", "3", "5", "7", "9"]
        assert await store.apply([Change(query=query)]) == [0]
        assert await store.apply([Change(query=query, unmark=None)]) == [0]
        assert await store.apply([Change(query=query, mark=("m",)), Change(query=query, mark=("m",))]) == [
            10,
            0,
        ]
        newest = msgspec.structs.replace(query, limit=3)
        assert await store.apply([Change(query=newest, kind="new"), Remove(newest)]) == [3, 3]
        assert [record.id for record in await store.find(query)] == names[:7]
        assert await store.apply([Remove(msgspec.structs.replace(query, limit=0))]) == [0]
        assert await store.apply([Remove(query), Remove(query)]) == [7, 0]

    @on_a_store
    async def test_limits(self, store: Store, home: Scope) -> None:
        """Without a cursor the newest are kept and given oldest first; None is all, 0 is none, more than all is all."""
        times = [NOON + timedelta(seconds=number) for number in range(10)]
        await store.apply(
            [
                Add(
                    [
                        Record(collection="messages", id=str(n), scope=home, created_at=at)
                        for n, at in enumerate(times)
                    ]
                )
            ]
        )
        table = [
            ({}, "0123456789"),
            ({"limit": 3}, "789"),
            ({"limit": 3, "newest_first": True}, "987"),
            ({"limit": 3, "offset": 2}, "567"),
            ({"offset": 8}, "01"),
            ({"offset": 10}, ""),
            ({"offset": 99, "limit": 5}, ""),
            ({"limit": 0}, ""),
            ({"limit": 99}, "0123456789"),
            ({"limit": 2**70, "offset": 1}, "012345678"),
            ({"offset": 2**70}, ""),
            ({"after": START, "limit": 3}, "012"),
            ({"after": START, "limit": 3, "offset": 1}, "123"),
            ({"after": START, "limit": 3, "newest_first": True}, "987"),
        ]
        for paging, expected in table:
            found = await store.find(Query(collection="messages", scope=home, **paging))  # type: ignore[arg-type]
            assert "".join(record.id for record in found) == expected, paging

    @on_a_store
    async def test_pages_are_complete(self, store: Store, home: Scope) -> None:
        """Pages by cursor hold every record once, in order, also where times, sequences and ids are equal."""
        scopes = [msgspec.structs.replace(home, session=f"s{number}") for number in range(7)]
        written = [
            Record(collection="messages", id=f"i{number}", scope=scope, created_at=NOON, seq=number % 2)
            for number in range(6)
            for scope in scopes
        ]
        await store.apply([Add(written)])
        ranks = sorted(record.rank for record in written)
        query = Query(collection="messages", scope=home)
        assert [record.rank for record in await store.find(query)] == ranks
        for size in (1, 5, 14, 42, 43):
            walked: list[Rank] = []
            async for page in walk(store, query, size):
                walked += [record.rank for record in page]
                assert len(walked) <= len(ranks), (
                    "pages repeat"
                )  # else the walk of a faulty store would never end
            assert walked == ranks
        backwards: list[Rank] = []
        cursor = START
        while page := await store.find(
            msgspec.structs.replace(query, after=cursor, limit=5, newest_first=True)
        ):
            backwards += [record.rank for record in page]
            assert len(backwards) <= len(ranks), "pages repeat"
            cursor = page[-1].cursor
        assert backwards == ranks[::-1]

    @on_a_store
    async def test_walking_while_others_write(self, store: Store, home: Scope) -> None:
        """A walk gives each record once although records arrive behind its cursor and at the end."""
        times = [NOON + timedelta(seconds=number) for number in range(30)]
        old = [Record(collection="messages", scope=home, created_at=at) for at in times]
        await store.apply([Add(old)])
        seen: list[str] = []
        late: list[Record] = []
        async for page in walk(store, Query(collection="messages", scope=home), 10):
            seen += [record.id for record in page]
            assert len(seen) <= 100, "pages repeat"
            if len(late) < 15:
                late += [
                    Record(collection="messages", scope=home, created_at=NOON + timedelta(days=1))
                    for _ in range(5)
                ]
                early = Record(collection="messages", scope=home, created_at=NOON - timedelta(days=1))
                await store.apply([Add([*late, early])])
        assert seen == [record.id for record in (*old, *late)]
