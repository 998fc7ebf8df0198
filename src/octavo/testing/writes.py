"""What a write does: adds that repeat, batches that see themselves, exact counts, pages that fit together, ends, and volume."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from octavo.errors import Conflict, InvalidQuery, InvalidRecord
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.model import START, Add, Change, Op, Query, Rank, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store, walk
from octavo.testing.subject import NOON, StoreUnderTest, count, ids, message, messages, on_a_store, refuses


def _note(name: str, home: Scope, text: str = "") -> Record:
    return message(name, home, text=text, created_at=NOON, seq=1)


class Writes(StoreUnderTest):
    @on_a_store
    async def test_what_is_expected(self, store: Store, home: Scope) -> None:
        """An op that meets another number of records than it expects leaves its whole batch undone."""
        all_of_it = Query(collection="messages", scope=home)
        one, none = (replace(all_of_it, ids=(name,)) for name in ("a", "z"))
        a, b, new = _note("a", home, "old"), _note("b", home), _note("new", home)
        await refuses(Conflict, store.apply([Add([], expect=1)]), "expected 1 record and met 0")
        assert await store.apply([Add([a, b, a], expect=2)]) == [2]
        assert await store.apply([Add([a], expect=0), Change(query=one, text="old", expect=1)]) == [0, 0]
        unmet: list[Op] = [
            Add([a], expect=1),
            Add([new, b], expect=2),
            Change(query=one, text="changed", expect=0),
            Change(query=none, text="changed", expect=1),
            Change(query=all_of_it, text="changed", expect=1),
            Remove(all_of_it, expect=1),
            Remove(replace(all_of_it, limit=1), expect=2),
        ]
        half: list[Op] = [Change(query=one, text="half"), Add([_note("half", home)])]
        for op in unmet:
            for batch in ([op], [*half, op], [op, *half]):
                await refuses(Conflict, store.apply(batch), "nothing of its batch was applied")
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
            await refuses(InvalidQuery, store.apply([Remove(one, expect=bad)]), "expect must be")  # type: ignore[arg-type]

    @on_a_store
    async def test_of_many_who_expect_the_same_one_wins(self, store: Store, home: Scope) -> None:
        """So a version can be changed once, however many try at the same moment."""
        query = Query(collection="messages", scope=home, ids=("memory",), marks=("v1",))
        await store.apply([Add([replace(_note("memory", home), marks=("v1",))])])

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
        query = messages(home)
        await store.apply([Add([_note("a", home, "old")])])
        bad = message("", home)
        batch: list[Op] = [Add([_note("b", home)]), Change(query=query, text="new"), Remove(query)]
        await refuses(InvalidRecord, store.apply([*batch, Add([bad])]))
        await refuses(InvalidQuery, store.apply([*batch, Remove(Query(collection="messages", limit=-1))]))
        assert [(record.id, record.text) for record in await store.find(query)] == [("a", "old")]
        counts = await store.apply(
            [
                Add([_note("b", home), _note("c", home)]),
                Change(query=query, text="seen"),
                Remove(messages(home, ids=("a", "b"))),
                Add([_note("b", home, "again")]),
                Change(query=messages(home, text="AGAIN"), mark=("m",)),
                Remove(messages(home, marks=("none",))),
            ]
        )
        assert counts == [2, 3, 2, 1, 1, 0]
        assert await store.apply([]) == []
        found = await store.find(query)
        assert [(r.id, r.text, r.marks) for r in found] == [("b", "again", ("m",)), ("c", "seen", ())]
        assert await store.tally(query) == Tally(total=2, by_kind={"": 2}, first=NOON, last=NOON)

    @on_a_store
    async def test_a_record_may_return_with_another_time(self, store: Store, home: Scope) -> None:
        """Removed and added again in one call, a record stands where its new time puts it."""
        query = messages(home)
        await store.apply([Add([_note("a", home), _note("b", home)])])
        later = replace(_note("a", home), created_at=NOON + timedelta(days=1), kind="k", marks=("m",))
        assert await store.apply([Remove(query), Add([later])]) == [2, 1]
        assert await ids(store, query) == ["a"]
        assert await store.tally(query) == Tally(
            total=1, by_kind={"k": 1}, first=later.created_at, last=later.created_at
        )
        assert await count(store, Remove(query)) == 1
        assert await store.find(query) == []
        assert await store.tally(query) == Tally()

    @on_a_store
    async def test_pages_are_complete(self, store: Store, home: Scope) -> None:
        """Pages by cursor hold every record once, in order, also where times, sequences and ids are equal."""
        scopes = [replace(home, session=f"s{number}") for number in range(7)]
        written = [
            message(f"i{number}", scope, created_at=NOON, seq=number % 2)
            for number in range(6)
            for scope in scopes
        ]
        await store.apply([Add(written)])
        ranks = sorted(record.rank for record in written)
        query = messages(home)
        assert [record.rank for record in await store.find(query)] == ranks
        for size in (1, 5, 14, 42, 43):
            walked: list[Rank] = []
            async for page in walk(store, query, size):
                walked += [record.rank for record in page]
                assert len(walked) <= len(ranks), "pages repeat"  # else a faulty store would never end
            assert walked == ranks
        backwards: list[Rank] = []
        cursor = START
        while page := await store.find(replace(query, after=cursor, limit=5, newest_first=True)):
            backwards += [record.rank for record in page]
            assert len(backwards) <= len(ranks), "pages repeat"
            cursor = page[-1].cursor
        assert backwards == ranks[::-1]


class WriteEnding(StoreUnderTest):
    @on_a_store
    async def test_an_end_moves_with_its_record(self, store: Store, home: Scope) -> None:
        """A record that ends at another time, no longer, or is gone, is not found by the end it had."""
        every = Query(collection="profile", scope=home)

        async def ended(hours: int) -> list[str]:
            at = NOON + timedelta(hours=hours)
            return await ids(store, replace(every, expired_at=at))

        def one(id_: str) -> Query:
            return replace(every, ids=(id_,))

        await store.apply(
            [Add([Record(collection="profile", id=i, scope=home, expires_at=NOON) for i in "abcd"])]
        )
        await store.apply([Add([Record(collection="profile", id="e", scope=home)])])
        assert await ended(-1) == []
        assert await ended(0) == ["a", "b", "c", "d"]
        await store.apply([Change(query=one("a"), expires_at=NOON + timedelta(hours=5))])
        await store.apply([Change(query=one("b"), expires_at=None), Change(query=one("e"), expires_at=NOON)])
        await store.apply([Remove(one("c"))])
        assert await ended(4) == ["d", "e"]
        assert await ended(5) == ["a", "d", "e"]
        await store.apply([Change(query=one("a"), expires_at=NOON), Change(query=one("d"), kind="k")])
        assert await ended(0) == ["a", "d", "e"]
        await store.apply([Add([Record(collection="profile", id="c", scope=home)])])
        assert await ended(9) == ["a", "d", "e"]
        taken = Remove(replace(every, expired_at=NOON, limit=2))
        assert await store.apply([taken, taken]) == [2, 1]
        assert await ended(9) == []
        assert await ids(store, every) == ["b", "c"]


class Volume(StoreUnderTest):
    @on_a_store
    async def test_forty_thousand_at_once(self, store: Store, home: Scope) -> None:
        """A batch of 40,000 records (`largest_batch`) is one call: kept whole, counted, paged, changed and removed."""
        many = self.largest_batch
        written = [
            Record(
                collection="events",
                id=f"e{number:05}",
                kind=("user", "tool")[number % 2],
                scope=Scope(tenant=home.tenant, session=f"s{number % 100}"),
                text=f"event number {number}",
                created_at=NOON + timedelta(microseconds=number),
                seq=number,
            )
            for number in range(many)
        ]
        query = Query(collection="events", scope=home)
        assert await count(store, Add(written)) == many
        assert await count(store, Add(written[: many // 2])) == 0
        tally = await store.tally(query)
        assert (tally.total, tally.by_kind) == (many, {"user": many // 2, "tool": many // 2})
        assert (tally.first, tally.last) == (written[0].created_at, written[-1].created_at)
        newest = await store.find(Query(collection="events", scope=home, limit=3))
        assert [record.id for record in newest] == [record.id for record in written[-3:]]
        session = Query(collection="events", scope=Scope(tenant=home.tenant, session="s7"), limit=2)
        assert await ids(store, session) == [record.id for record in written[7::100]][-2:]
        names = tuple(record.id for record in written)
        assert (await store.tally(Query(collection="events", scope=home, ids=names))).total == many
        pages: list[list[str]] = []
        size = many * 3 // 8
        async for page in walk(store, query, size):
            pages.append([record.id for record in page])
            assert len(pages) <= 3, "pages repeat"
        assert [len(page) for page in pages] == [size, size, many - 2 * size]
        assert [name for page in pages for name in page] == [record.id for record in written]
        assert await count(store, Change(query=query, kind="tool")) == many // 2
        assert (await store.tally(query)).by_kind == {"tool": many}
        assert await count(store, Remove(query)) == many
        assert (await store.tally(query)).total == 0

    @on_a_store
    async def test_the_largest_record(self, store: Store, home: Scope) -> None:
        """What the edge lets through is kept whole, one by one and side by side, and a word at its end is found."""
        text = "x" * (MAX_RECORD_BYTES - 11) + "the END"  # beside it stand the two empty bodies, {} and {}
        data = {"a": "y" * (MAX_RECORD_BYTES - 15) + "finis"}
        query = messages(home)
        assert await count(store, Add([message("a", home, text=text)])) == 1
        others = [message(name, home, data=data) for name in ("b", "c")]
        assert await count(store, Add(others)) == 2
        assert await count(store, Change(query=query, mark=("m",))) == 3
        found = await store.find(query)
        assert [record.id for record in found] == ["a", "b", "c"]
        assert [record.text == text for record in found] == [True, False, False]
        assert [record.data == data for record in found] == [False, True, True]
        assert await ids(store, messages(home, text="The End")) == ["a"]
        assert await ids(store, messages(home, text="FINIS")) == ["b", "c"]
