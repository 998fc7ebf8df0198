"""Large batches and large records."""

from datetime import UTC, datetime, timedelta

from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.model import Add, Change, Query, Record, Remove, Scope
from octavo.kernel.ports import Store, walk
from octavo.testing.subject import Subject, on_a_store

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
TEN_MB = 10_000_000


class Volume(Subject):
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
        assert await store.apply([Add(written)]) == [many]
        assert await store.apply([Add(written[: many // 2])]) == [0]
        tally = await store.tally(query)
        assert (tally.total, tally.by_kind) == (many, {"user": many // 2, "tool": many // 2})
        assert (tally.first, tally.last) == (written[0].created_at, written[-1].created_at)
        newest = await store.find(Query(collection="events", scope=home, limit=3))
        assert [record.id for record in newest] == [record.id for record in written[-3:]]
        session = Query(collection="events", scope=Scope(tenant=home.tenant, session="s7"), limit=2)
        assert [record.id for record in await store.find(session)] == [
            record.id for record in written[7::100]
        ][-2:]
        names = tuple(record.id for record in written)
        assert (await store.tally(Query(collection="events", scope=home, ids=names))).total == many
        pages: list[list[str]] = []
        size = many * 3 // 8
        async for page in walk(store, query, size):
            pages.append([record.id for record in page])
            assert len(pages) <= 3, "pages repeat"
        assert [len(page) for page in pages] == [size, size, many - 2 * size]
        assert [name for page in pages for name in page] == [record.id for record in written]
        assert await store.apply([Change(query=query, kind="tool")]) == [many // 2]
        assert (await store.tally(query)).by_kind == {"tool": many}
        assert await store.apply([Remove(query)]) == [many]
        assert (await store.tally(query)).total == 0

    @on_a_store
    async def test_ten_megabytes(self, store: Store, home: Scope) -> None:
        """Ten megabytes of text, and of data, come back whole, and a word at their end is found."""
        text = "计算 Straße " * (TEN_MB // 21) + "the END"
        data = {"chunks": ["Straße" * 1000] * (TEN_MB // 7000), "last": "finis"}
        written = [
            Record(collection="messages", id="text", scope=home, text=text, created_at=NOON, seq=1),
            Record(collection="messages", id="data", scope=home, data=data, created_at=NOON, seq=2),
        ]
        assert await store.apply([Add(written)]) == [2]
        found = await store.find(Query(collection="messages", scope=home))
        assert [record.id for record in found] == ["text", "data"]
        assert found[0].text == text
        assert found[1].data == data
        for needle, name in (("The End", "text"), ("FINIS", "data")):
            found = await store.find(Query(collection="messages", scope=home, text=needle))
            assert [record.id for record in found] == [name]

    @on_a_store
    async def test_the_largest_record(self, store: Store, home: Scope) -> None:
        """What the edge lets through is kept: records of exactly the largest size, one by one and side by side."""
        text = "x" * (MAX_RECORD_BYTES - 4)  # beside it stand the two empty bodies, {} and {}
        data = {"a": "y" * (MAX_RECORD_BYTES - 10)}
        query = Query(collection="messages", scope=home)
        assert await store.apply([Add([Record(collection="messages", id="a", scope=home, text=text)])]) == [1]
        others = [Record(collection="messages", id=name, scope=home, data=data) for name in ("b", "c")]
        assert await store.apply([Add(others)]) == [2]
        assert await store.apply([Change(query=query, mark=("m",))]) == [3]
        found = await store.find(query)
        assert [record.id for record in found] == ["a", "b", "c"]
        assert [record.text == text for record in found] == [True, False, False]
        assert [record.data == data for record in found] == [False, True, True]
