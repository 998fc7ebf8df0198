"""Input that some backend would choke on: one verdict, in the same words, everywhere, and nothing half-done."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeVar

from octavo.errors import InvalidQuery, InvalidRecord
from octavo.kernel.codec import MAX_RECORD_BYTES
from octavo.kernel.model import Add, Change, Cursor, Op, Query, Record, Remove, Scope, Tally
from octavo.kernel.ports import Store
from octavo.testing.subject import StoreUnderTest, count, message, messages, on_a_store, refuses

T = TypeVar("T", Record, Query)

HALF = "half \ud83d of an emoji"


def _make_deep(levels: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for _ in range(levels - 1):
        body = {"a": body}
    return body


#: Of each kind of refusal one: a store that asks the edge about these asks it about all. Fields of a record,
RECORDS: tuple[dict[str, Any], ...] = (
    {"id": ""}, {"id": "a\0"}, {"id": 7}, {"kind": HALF}, {"marks": ("ok", "x" * 256)}, {"scope": {"user": "a\0"}},
    {"scope": {"tenant": "x" * 65}}, {"text": HALF}, {"text": None}, {"text": "计" * (MAX_RECORD_BYTES // 3)},
    {"data": {"a": {"b": ["a\0"]}}}, {"data": {"a": 1, HALF: 1}}, {"data": {"a": "x" * MAX_RECORD_BYTES}}, {"data": [1]},
    {"data": _make_deep(65)}, {"data": {"a": object()}}, {"metadata": {"a": [float("nan")]}}, {"metadata": {"a": 2**64}},
    {"created_at": datetime(999, 12, 31, tzinfo=UTC)}, {"expires_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))},
    {"seq": -1}, {"seq": 2**53}, {"collection": "messages; DROP TABLE messages"}, {"collection": "\0"},
)  # fmt: skip

#: of a change,
CHANGES: tuple[dict[str, Any], ...] = (
    {"kind": "x" * 256}, {"mark": ("a\0",)}, {"text": HALF}, {"data": {"a": float("nan")}}, {"merge": {HALF: 1}},
    {"merge": _make_deep(65)}, {"metadata": {"a": 2**64}}, {"expires_at": datetime(1, 1, 1, tzinfo=UTC)},
)  # fmt: skip

#: of a question that asks for what no record can hold: it finds nothing, and that is all;
NEVER: tuple[dict[str, Any], ...] = (
    {"text": "a\0b"}, {"text": HALF}, {"ids": ("a\0b", "x" * 10_000)}, {"kinds": (HALF,)}, {"marks": ()},
    {"where": {HALF: "x"}}, {"where": {"f": "\0"}}, {"where": {"f": float("inf")}}, {"where": {"f": 2**70}},
    {"scope": {"user": HALF, "agent": "a\0b"}}, {"scope": {"session": "x" * 10_000}},
    {"since": datetime.max.replace(tzinfo=UTC)}, {"until": datetime(1, 1, 1, tzinfo=UTC)},
)  # fmt: skip

#: and of one without a meaning.
NONSENSE: tuple[dict[str, Any], ...] = (
    {"limit": -1}, {"limit": "5"}, {"text": 5}, {"since": "noon"}, {"offset": -1}, {"where": {"f": [1]}},
    {"collection": "nowhere"}, {"since": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))},
    {"after": Cursor(at=datetime(2024, 1, 1, tzinfo=UTC), id=HALF)},
)  # fmt: skip


def _make(kind: type[T], home: Scope, fields: dict[str, Any], **more: Any) -> T:
    """A record or query of these fields in a scope of the test's own."""
    scope = Scope(**{"tenant": home.tenant, **fields.get("scope", {})})
    return kind(**{"collection": "messages", **more, **fields, "scope": scope})


class Hostile(StoreUnderTest):
    async def _assert_first_kept(self, store: Store, home: Scope) -> None:
        found = await store.find(messages(home))
        assert [(record.id, record.text, record.marks) for record in found] == [("first", "kept", ("m",))]

    async def _assert_refused(self, store: Store, home: Scope, hostile: list[Op]) -> None:
        first = message("first", home, text="kept", marks=("m",), metadata={"f": None})
        await store.apply([Add([first])])
        async with self.reference() as right:
            for op in hostile:
                good = Record(collection="messages", scope=home)
                batch: list[Op] = [Add([good]), Remove(messages(home)), op]
                said = await refuses(InvalidRecord, store.apply(batch))
                assert said == await refuses(InvalidRecord, right.apply(batch))
        await self._assert_first_kept(store, home)

    @on_a_store
    async def test_hostile_records(self, store: Store, home: Scope) -> None:
        """A record no store can keep is refused in the same words by all; nothing of its batch is kept."""
        good = Record(collection="messages", scope=home)
        batches = [Add([good, _make(Record, home, fields, id="bad")]) for fields in RECORDS]
        await self._assert_refused(store, home, [*batches])

    @on_a_store
    async def test_hostile_changes(self, store: Store, home: Scope) -> None:
        """A change that would make such a record is refused likewise, whether or not it finds anything."""
        everything = messages(home)
        await self._assert_refused(store, home, [Change(query=everything, **fields) for fields in CHANGES])

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
            said = await refuses(InvalidRecord, store.apply(batch))
            assert said == await refuses(InvalidRecord, right.apply(batch))
            assert "record 'a' of 'messages'" in said
        assert [(one.id, list(one.data)) for one in await store.find(query)] == [("a", ["a"])]

    @on_a_store
    async def test_questions_nothing_can_answer(self, store: Store, home: Scope) -> None:
        """A question that names what no record can hold finds, counts, changes and removes nothing."""
        first = message("first", home, text="kept", marks=("m",), metadata={"f": None})
        await store.apply([Add([first])])
        for fields in NEVER:
            query = _make(Query, home, fields)
            assert await store.find(query) == [], fields
            assert await store.tally(query) == Tally(), fields
            assert await store.apply([Change(query=query, text="changed"), Remove(query)]) == [0, 0], fields
        await self._assert_first_kept(store, home)

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
            found = await store.find(_make(Query, home, fields))
            assert [record.id for record in found] == ["first"], fields
            assert (await store.tally(_make(Query, home, fields))).total == 1
        unmarked = Change(query=messages(home), unmark=("\0", HALF, "x" * 300))
        assert await count(store, unmarked) == 0
        await self._assert_first_kept(store, home)

    @on_a_store
    async def test_nonsense_questions(self, store: Store, home: Scope) -> None:
        """A question without a meaning is InvalidQuery on every verb, in the same words, and the store goes on."""
        first = message("first", home, text="kept", marks=("m",))
        await store.apply([Add([first])])
        for fields in NONSENSE:
            query = _make(Query, home, fields)
            said = await refuses(InvalidQuery, self.reference().find(query))
            await refuses(InvalidQuery, store.find(query), said)
            await refuses(InvalidQuery, store.tally(query), said)
            good = Add([Record(collection="messages", scope=home)])
            for op in (Remove(query), Change(query=query, text="changed")):
                await refuses(InvalidQuery, store.apply([good, op]), said)
        await self._assert_first_kept(store, home)
