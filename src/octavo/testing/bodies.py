"""What goes in comes out: JSON bodies, times, scopes and every other field, in every collection."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec

from octavo.kernel.model import Add, Change, Query, Record, Scope
from octavo.kernel.ports import Store
from octavo.kernel.shapes import SHAPES
from octavo.testing.agreement import spelling
from octavo.testing.subject import Subject, on_a_store

BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"": ""},
    {"z": 1, "a": 2, "m": {"z": 1, "a": 2}},
    {"none": None, "list": [], "dict": {}, "nested": [[[{}]], [None], [{"a": []}]]},
    {"one": 1, "float": 1.0, "true": True, "text": "1"},
    {"zero": 0, "minus": -0.0, "false": False, "empty": ""},
    {"big": 2**63 - 1, "bigger": 2**64 - 1, "least": -(2**63), "odd": 2**53 + 1},
    {"floats": [1e22, 5e-324, -0.0, 1.7e308, 0.1, -2.5, 1e16, 123456789.123456789, 0.30000000000000004]},
    {
        "ключ": "值",
        "😀": "👩\u200d💻",
        "a.b": 1,
        "$set": 2,
        "a\nb": "\t",
        '"': "'",
        "\\": "\\\\",
        "é": 1,
        "e\u0301": 2,
    },
    {"text": "%s ? :name $1 {} \x7f \x01 \u2028 \ufeff", "html": "</script>&amp;", "path": "C:\\n"},
    {"depth": [[[[[[[[[[[[[[[[[[[[["end"]]]]]]]]]]]]]]]]]]]]]},
    {"many": list(range(1000)), "long": "x" * 10_000},
)


class Bodies(Subject):
    @on_a_store
    async def test_bodies_come_back(self, store: Store, home: Scope) -> None:
        """JSON comes back equal, with true and 1 kept apart, every float to the last bit and keys in their order."""
        written = [
            Record(collection="events", id=str(n), scope=home, data=body, metadata=body)
            for n, body in enumerate(BODIES)
        ]
        await store.apply([Add(written)])
        found = await store.find(Query(collection="events", scope=home))
        assert [msgspec.json.encode(record.data) for record in found] == [
            msgspec.json.encode(b) for b in BODIES
        ]
        assert [msgspec.json.encode(record.metadata) for record in found] == [
            msgspec.json.encode(b) for b in BODIES
        ]
        for record, body in zip(found, BODIES, strict=True):
            assert repr(record.data) == repr(body)

    @on_a_store
    async def test_changed_bodies_come_back(self, store: Store, home: Scope) -> None:
        """A body replaced or merged by a change is as exact as one that was added; 1, 1.0 and true are three values."""
        await store.apply([Add([Record(collection="events", id="a", scope=home)])])
        query = Query(collection="events", ids=("a",), scope=home)
        for body in BODIES[1:]:
            assert await store.apply([Change(query=query, data=body, metadata=body)]) == [1]
            assert await store.apply([Change(query=query, data=body, merge=body, metadata=body)]) == [0]
            (record,) = await store.find(query)
            assert (repr(record.data), repr(record.metadata)) == (repr(body), repr(body))
        await store.apply([Change(query=query, data={"n": 1, "m": 0})])
        for value in (True, 1.0, 1, "1", None, [1], {"deep": 1}):
            assert await store.apply([Change(query=query, merge={"n": value})]) == [1]
            (record,) = await store.find(query)
            assert repr(record.data) == repr({"n": value, "m": 0})

    @on_a_store
    async def test_every_field_in_every_collection(self, store: Store, home: Scope) -> None:
        """Whatever the collection, each field of a full record and of a bare one comes back as it was."""
        at = datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC)
        for collection in SHAPES:
            full = Record(
                collection=collection,
                id="full",
                kind="kind",
                scope=Scope(tenant=home.tenant, user="u", agent="a", session="s"),
                text="Text",
                data={"memory_layer": "event", "embedding_id": "e1", "input_event_id": "i1"},
                metadata={"topic": "x"},
                marks=("b", "a"),
                created_at=at,
                updated_at=at + timedelta(seconds=1),
                expires_at=at + timedelta(days=1),
                seq=7,
            )
            bare = Record(
                collection=collection, id="bare", scope=Scope(tenant=home.tenant), created_at=at, seq=8
            )
            kept = msgspec.structs.replace(bare, updated_at=at)
            assert await store.apply([Add([full, bare])]) == [2]
            query = Query(collection=collection, scope=Scope(tenant=home.tenant))
            assert await store.find(query) == [full, kept]
            assert spelling(await store.find(query)) == spelling([full, kept])
            assert (await store.tally(query)).by_kind == {"kind": 1, "": 1}

    @on_a_store
    async def test_times(self, store: Store, home: Scope) -> None:
        """Times keep their microsecond from the year 1000 to 9999, come back in UTC, and a naive one is local time."""
        east = timezone(timedelta(hours=5, minutes=45))
        times = [
            datetime(1000, 1, 1, tzinfo=UTC),
            datetime(1582, 10, 10, 1, 2, 3, 4, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2024, 3, 1, 5, 45, 0, 1, tzinfo=east),
            datetime(2024, 6, 1, 12, 0, 0, 5),  # noqa: DTZ001 - naive on purpose
            datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ]
        written = [
            Record(collection="episodes", id=str(n), scope=home, created_at=at, updated_at=at, expires_at=at)
            for n, at in enumerate(times)
        ]
        await store.apply([Add(written[::-1])])
        every = Query(collection="episodes", scope=home)
        found = await store.find(every)
        moments = [at.astimezone(UTC) for at in times]
        assert [record.created_at for record in found] == moments
        assert {record.created_at.tzinfo for record in found} == {UTC}
        assert [record.updated_at for record in found] == [record.expires_at for record in found] == moments
        tally = await store.tally(every)
        assert (tally.first, tally.last) == (moments[0], moments[-1])
        for number, at in enumerate(times):
            clauses = ({"since": at}, {"until": at}, {"alive_at": at}, {"expired_at": at})
            asked = [msgspec.structs.replace(every, **clause) for clause in clauses]
            counts = [8 - number, number, 7 - number, number + 1]
            assert [len(await store.find(query)) for query in asked] == counts
        dawn = datetime(1, 1, 1, tzinfo=UTC)
        always = msgspec.structs.replace(every, since=dawn, alive_at=dawn)
        assert len(await store.find(always)) == len(times)
        await store.apply([Change(query=always, kind="x", expires_at=times[5], updated_at=times[5])])
        assert {(record.expires_at, record.updated_at) for record in await store.find(always)} == {
            (moments[5],) * 2
        }

    @on_a_store
    async def test_readers_get_copies(self, store: Store, home: Scope) -> None:
        """Nothing a caller does to a dict it gave or got changes what is kept."""
        given: dict[str, Any] = {"list": [1], "dict": {"a": 1}}
        record = Record(collection="events", id="a", scope=home, data=given, metadata=given)
        await store.apply([Add([record])])
        given["list"].append(2)
        query = Query(collection="events", scope=home)
        for _ in range(2):
            (found,) = await store.find(query)
            assert found.data == found.metadata == {"list": [1], "dict": {"a": 1}}
            found.data["list"].append(3)
            found.metadata["dict"]["b"] = 2
        merged: dict[str, Any] = {"list": [4]}
        await store.apply([Change(query=query, merge=merged)])
        merged["list"].append(5)
        assert (await store.find(query))[0].data == {"list": [4], "dict": {"a": 1}}
