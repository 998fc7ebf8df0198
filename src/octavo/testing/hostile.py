"""Input that some backend would choke on: one verdict, in the same words, everywhere, and nothing half-done."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.model import Add, Change, Cursor, Op, Query, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store
from octavo.testing.subject import Subject, count, message, messages, on_a_store, refused

HALF = "half \ud83d of an emoji"
_NUL = "holds a NUL character"
_SURROGATE = "holds half a surrogate pair"


def _deep(levels: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for _ in range(levels - 1):
        body = {"a": body}
    return body


def _shared(levels: int) -> dict[str, Any]:
    """A few lists, each of which stands twice in the next: written out they are 2**levels."""
    body: list[Any] = [None]
    for _ in range(levels - 2):
        body = [body, body]
    return {"a": body}


_LARGE = "more than the 16777216 a record may have"
#: Fields of a record, and what its refusal must say.
RECORDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"id": ""}, "id is empty"),
    ({"id": "a\0b"}, f"id {_NUL}"),
    ({"id": HALF}, f"id {_SURROGATE}"),
    ({"id": "x" * 256}, "id is 256 bytes long, at most 255 are kept"),
    ({"id": "é" * 128}, "id is 256 bytes long"),
    ({"kind": "\0"}, f"kind {_NUL}"),
    ({"kind": HALF}, f"kind {_SURROGATE}"),
    ({"kind": "x" * 256}, "kind is 256 bytes long"),
    ({"text": "a\0"}, f"text {_NUL}"),
    ({"text": HALF}, f"text {_SURROGATE}"),
    ({"text": "x" * (MAX_RECORD_BYTES + 1)}, _LARGE),
    ({"text": "计" * (MAX_RECORD_BYTES // 3)}, _LARGE),
    ({"data": {"a": "x" * MAX_RECORD_BYTES}}, _LARGE),
    ({"data": _shared(40)}, _LARGE),
    ({"data": dict.fromkeys(map(str, range(10_000)), "x" * 1_000_000)}, _LARGE),
    ({"data": {"a": [["x" * 1_000_000] * 10_000] * 10_000}}, _LARGE),
    ({"metadata": _shared(40)}, _LARGE),
    ({"data": {"a": {"b": ["\0"]}}}, f"data {_NUL}"),
    ({"data": {"a\0": 1}}, f"data {_NUL}"),
    ({"data": {"a": HALF}}, f"data {_SURROGATE}"),
    ({"data": {HALF: 1}}, f"data {_SURROGATE}"),
    ({"data": {"a": float("nan")}}, "data holds nan"),
    ({"data": {"a": [float("inf")]}}, "data holds inf"),
    ({"data": {"a": {"b": -float("inf")}}}, "data holds -inf"),
    ({"data": {"a": 2**64}}, "does not fit 64 bits"),
    ({"data": {"a": [-(2**63) - 1]}}, "does not fit 64 bits"),
    ({"data": _deep(65)}, "data is nested deeper than 64 levels"),
    ({"data": _deep(5000)}, "data is nested deeper than 64 levels"),
    ({"data": {"a": object()}}, "data cannot be written as JSON"),
    ({"data": [1]}, "data must be a dict"),
    ({"data": None}, "data must be a dict"),
    ({"metadata": {"a": "\0"}}, f"metadata {_NUL}"),
    ({"metadata": {"\0": "a"}}, f"metadata {_NUL}"),
    ({"metadata": {"a": HALF}}, f"metadata {_SURROGATE}"),
    ({"metadata": {"a": 1, HALF: 1}}, f"metadata {_SURROGATE}"),
    ({"metadata": {"a": float("nan")}}, "metadata holds nan"),
    ({"metadata": {"a": 10**30}}, "does not fit 64 bits"),
    ({"metadata": _deep(65)}, "metadata is nested deeper than 64 levels"),
    ({"marks": ("ok", "\0")}, f"mark {_NUL}"),
    ({"marks": (HALF,)}, f"mark {_SURROGATE}"),
    ({"marks": ("x" * 256,)}, "mark is 256 bytes long"),
    ({"scope": {"tenant": "\0"}}, f"tenant {_NUL}"),
    ({"scope": {"tenant": HALF}}, f"tenant {_SURROGATE}"),
    ({"scope": {"tenant": "x" * 65}}, "tenant is 65 bytes long, at most 64 are kept"),
    ({"scope": {"user": "\0"}}, f"scope {_NUL}"),
    ({"scope": {"agent": HALF}}, f"scope {_SURROGATE}"),
    ({"scope": {"session": "x" * 256}}, "scope is 256 bytes long"),
    ({"created_at": datetime(999, 12, 31, tzinfo=UTC)}, "created_at is outside the years 1000 to 9999"),
    ({"updated_at": datetime(1, 1, 1, tzinfo=UTC)}, "updated_at is outside the years 1000 to 9999"),
    ({"expires_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))}, "expires_at is outside the years"),
    ({"expires_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))}, "expires_at is outside the years"),
    ({"seq": -1}, "seq must be 0 to 2**53 - 1"),
    ({"seq": 2**53}, "seq must be 0 to 2**53 - 1"),
    ({"collection": "nowhere"}, "unknown collection 'nowhere'"),
    ({"collection": "messages; DROP TABLE messages"}, "unknown collection"),
    ({"collection": "\0"}, "unknown collection"),
)  # fmt: skip

#: Fields of a change, and what its refusal must say.
CHANGES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"kind": "\0"}, f"kind {_NUL}"),
    ({"kind": "x" * 256}, "kind is 256 bytes long"),
    ({"text": HALF}, f"text {_SURROGATE}"),
    ({"data": {"a": float("nan")}}, "data holds nan"),
    ({"merge": {"a\0": 1}}, f"merge {_NUL}"),
    ({"merge": {"a": 2**64}}, "does not fit 64 bits"),
    ({"merge": _deep(65)}, "merge is nested deeper than 64 levels"),
    ({"merge": _shared(40)}, _LARGE),
    ({"metadata": {"a": HALF}}, f"metadata {_SURROGATE}"),
    ({"mark": ("\0",)}, f"mark {_NUL}"),
    ({"mark": ("x" * 256,)}, "mark is 256 bytes long"),
    ({"expires_at": datetime(1, 1, 1, tzinfo=UTC)}, "expires_at is outside the years"),
    ({"updated_at": datetime(1, 1, 1, tzinfo=UTC)}, "updated_at is outside the years"),
)  # fmt: skip

#: Questions that ask for what no record can hold: they find nothing, and that is all.
NEVER: tuple[dict[str, Any], ...] = (
    {"text": "\0"},
    {"text": HALF},
    {"ids": ("\0",)},
    {"ids": (HALF, "x" * 10_000)},
    {"ids": ()},
    {"kinds": ("\0", HALF)},
    {"kinds": ()},
    {"marks": ("\0",)},
    {"marks": (HALF,)},
    {"marks": ()},
    {"where": {"\0": "x"}},
    {"where": {"f": "\0"}},
    {"where": {"f": HALF}},
    {"where": {HALF: "x"}},
    {"where": {"f": float("nan")}},
    {"where": {"f": float("inf")}},
    {"where": {"f": 2**70}},
    {"scope": {"user": "\0"}},
    {"scope": {"agent": HALF}},
    {"scope": {"session": "x" * 10_000}},
    {"since": datetime.max.replace(tzinfo=UTC)},
    {"until": datetime(1, 1, 1, tzinfo=UTC)},
)

#: Questions without a meaning, and what their refusal must say.
NONSENSE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"limit": -1}, "limit must be 0 or more, or None for all; got -1"),
    ({"offset": -1}, "offset must be 0 or more; got -1"),
    ({"where": {"f": [1]}}, "where['f'] must be a string, number, boolean or None"),
    ({"where": {"f": {}}}, "where['f'] must be a string, number, boolean or None"),
    ({"collection": "nowhere"}, "unknown collection 'nowhere'"),
    ({"since": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))}, "cannot be said in UTC"),
    ({"after": Cursor(at=datetime(2024, 1, 1, tzinfo=UTC), id="\0")}, "after is no position between records"),
    ({"after": Cursor(at=datetime(2024, 1, 1, tzinfo=UTC), id=HALF)}, "after is no position between records"),
    (
        {"after": Cursor(at=datetime(2024, 1, 1, tzinfo=UTC), seq=2**63)},
        "after is no position between records",
    ),
)


def _record(home: Scope, fields: dict[str, Any]) -> Record:
    given = {"collection": "messages", "id": "bad", **fields}
    given["scope"] = Scope(**{"tenant": home.tenant, **fields.get("scope", {})})
    return Record(**given)


def _query(home: Scope, fields: dict[str, Any]) -> Query:
    given = {"collection": "messages", **fields}
    given["scope"] = Scope(**{"tenant": home.tenant, **fields.get("scope", {})})
    return Query(**given)


class Hostile(Subject):
    async def _only_the_first_is_kept(self, store: Store, home: Scope) -> None:
        found = await store.find(messages(home))
        assert [(record.id, record.text, record.marks) for record in found] == [("first", "kept", ("m",))]

    async def _refused_alike(self, store: Store, home: Scope, hostile: list[tuple[Op, str]]) -> None:
        first = message("first", home, text="kept", marks=("m",), metadata={"f": None})
        await store.apply([Add([first])])
        async with self.reference() as right:
            for op, expected in hostile:
                good = Record(collection="messages", scope=home)
                batch: list[Op] = [Add([good]), Remove(messages(home)), op]
                said = await refused(InvalidRecord, store.apply(batch), expected)
                assert said == await refused(InvalidRecord, right.apply(batch))
                assert len(said) < 1000
        await self._only_the_first_is_kept(store, home)

    @on_a_store
    async def test_hostile_records(self, store: Store, home: Scope) -> None:
        """A record no store can keep is refused in the same words by all; nothing of its batch is kept."""
        ops: list[tuple[Op, str]] = []
        for fields, expected in RECORDS:
            ops.append((Add([Record(collection="messages", scope=home), _record(home, fields)]), expected))
        await self._refused_alike(store, home, ops)

    @on_a_store
    async def test_hostile_changes(self, store: Store, home: Scope) -> None:
        """A change that would make such a record is refused likewise, whether or not it finds anything."""
        everything = messages(home)
        ops: list[tuple[Op, str]] = []
        for fields, expected in CHANGES:
            ops.append((Change(query=everything, **fields), expected))
        await self._refused_alike(store, home, ops)

    @on_a_store
    async def test_a_change_may_not_outgrow_the_limit(self, store: Store, home: Scope) -> None:
        """A merge that would make a record too large is refused by size after merging, and undone with its batch."""
        half = "x" * (MAX_RECORD_BYTES // 2)
        record = message("a", home, data={"a": half})
        query = messages(home)
        batch: list[Op] = [Add([message("b", home)]), Change(query=query, merge={"b": half})]
        await store.apply([Add([record])])
        async with self.reference() as right:
            await right.apply([Add([record])])
            said = await refused(InvalidRecord, store.apply(batch))
            assert said == await refused(InvalidRecord, right.apply(batch))
            assert "record 'a' of 'messages'" in said
            assert _LARGE in said
        assert [(one.id, list(one.data)) for one in await store.find(query)] == [("a", ["a"])]

    @on_a_store
    async def test_questions_nothing_can_answer(self, store: Store, home: Scope) -> None:
        """A question that names what no record can hold finds, counts, changes and removes nothing."""
        first = message("first", home, text="kept", marks=("m",), metadata={"f": None})
        await store.apply([Add([first])])
        for fields in NEVER:
            query = _query(home, fields)
            assert await store.find(query) == [], fields
            assert await store.tally(query) == Tally(), fields
            assert await store.apply([Change(query=query, text="changed"), Remove(query)]) == [0, 0], fields
        await self._only_the_first_is_kept(store, home)

    @on_a_store
    async def test_impossible_names_beside_possible_ones(self, store: Store, home: Scope) -> None:
        """In a list of names, or among those excluded, an impossible one is simply no match."""
        first = message("first", home, kind="k", text="kept", marks=("m",))
        await store.apply([Add([first])])
        for fields in (
            {"ids": ("\0", "first", HALF)},
            {"kinds": (HALF, "k")},
            {"marks": ("\0", "m")},
            {"without": ("\0", HALF)},
        ):
            found = await store.find(_query(home, fields))
            assert [record.id for record in found] == ["first"], fields
            assert (await store.tally(_query(home, fields))).total == 1
        unmarked = Change(query=messages(home), unmark=("\0", HALF, "x" * 300))
        assert await count(store, unmarked) == 0
        await self._only_the_first_is_kept(store, home)

    @on_a_store
    async def test_nonsense_questions(self, store: Store, home: Scope) -> None:
        """A question without a meaning is InvalidQuery on every verb, in the same words, and the store goes on."""
        first = message("first", home, text="kept", marks=("m",))
        await store.apply([Add([first])])
        for fields, expected in NONSENSE:
            query = _query(home, fields)
            await refused(InvalidQuery, store.find(query), expected)
            await refused(InvalidQuery, store.tally(query), expected)
            await refused(InvalidQuery, store.apply([Remove(query)]), expected)
            batch: list[Op] = [
                Add([Record(collection="messages", scope=home)]),
                Change(query=query, text="changed"),
            ]
            await refused(InvalidQuery, store.apply(batch), expected)
        await self._only_the_first_is_kept(store, home)
