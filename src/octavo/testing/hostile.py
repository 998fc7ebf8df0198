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
#: A name that no store keeps, and what its refusal must say.
BAD_TEXTS = (("a\0b", "holds a NUL character"), (HALF, "holds half a surrogate pair"))
BAD_NAMES = (*BAD_TEXTS, ("x" * 256, "is 256 bytes long, at most 255 are kept"))


def _make_deep(levels: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for _ in range(levels - 1):
        body = {"a": body}
    return body


def _make_shared(levels: int) -> dict[str, Any]:
    """A few lists, each of which stands twice in the next: written out they are 2**levels."""
    body: list[Any] = [None]
    for _ in range(levels - 2):
        body = [body, body]
    return {"a": body}


_LARGE = "more than the 16777216 a record may have"
#: Fields of a record, and what its refusal must say.
RECORDS: tuple[tuple[dict[str, Any], str], ...] = (
    *(({name: bad}, f"{name} {said}") for name in ("id", "kind") for bad, said in BAD_NAMES),
    *(({"marks": ("ok", bad)}, f"mark {said}") for bad, said in BAD_NAMES),
    *(({"scope": {name: bad}}, f"{name} {said}") for name in ("user", "agent", "session") for bad, said in BAD_NAMES),
    *(({"scope": {"tenant": bad}}, f"tenant {said}") for bad, said in BAD_TEXTS),
    *(({"text": bad}, f"text {said}") for bad, said in BAD_TEXTS),
    *(({name: {"a": {"b": [bad]}}}, f"{name} {said}") for name in ("data", "metadata") for bad, said in BAD_TEXTS),
    *(({name: {"a": 1, bad: 1}}, f"{name} {said}") for name in ("data", "metadata") for bad, said in BAD_TEXTS),
    ({"scope": {"tenant": "x" * 65}}, "tenant is 65 bytes long, at most 64 are kept"),
    *(({name: bad}, f"{name} must be a text; got {bad!r}") for name in ("id", "kind", "text") for bad in (7, b"x")),
    *(({"scope": {name: 7}}, f"{name} must be a text; got 7") for name in ("tenant", "user", "agent", "session")),
    ({"text": None}, "text must be a text; got None"),
    ({"id": ""}, "id is empty"),
    ({"id": "é" * 128}, "id is 256 bytes long"),
    ({"text": "x" * (MAX_RECORD_BYTES + 1)}, _LARGE),
    ({"text": "计" * (MAX_RECORD_BYTES // 3)}, _LARGE),
    ({"data": {"a": "x" * MAX_RECORD_BYTES}}, _LARGE),
    ({"data": _make_shared(40)}, _LARGE),
    ({"data": dict.fromkeys(map(str, range(10_000)), "x" * 100_000)}, _LARGE),
    ({"data": {"a": [["x" * 100_000] * 10_000] * 10_000}}, _LARGE),
    ({"metadata": _make_shared(40)}, _LARGE),
    ({"data": {"a": float("nan")}}, "data holds nan"),
    ({"data": {"a": [float("inf")]}}, "data holds inf"),
    ({"metadata": {"a": {"b": -float("inf")}}}, "metadata holds -inf"),
    ({"data": {"a": [-(2**63) - 1]}}, "does not fit 64 bits"),
    ({"metadata": {"a": 2**64}}, "does not fit 64 bits"),
    ({"data": _make_deep(5000)}, "data is nested deeper than 64 levels"),
    ({"metadata": _make_deep(65)}, "metadata is nested deeper than 64 levels"),
    ({"data": {"a": object()}}, "data cannot be written as JSON"),
    ({"data": [1]}, "data must be a dict"),
    ({"data": None}, "data must be a dict"),
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
    *(({"kind": bad}, f"kind {said}") for bad, said in BAD_NAMES),
    *(({"mark": (bad,)}, f"mark {said}") for bad, said in BAD_NAMES),
    *(({"text": bad}, f"text {said}") for bad, said in BAD_TEXTS),
    *(({name: {bad: bad}}, f"{name} {said}") for name in ("data", "merge", "metadata") for bad, said in BAD_TEXTS),
    ({"data": {"a": float("nan")}}, "data holds nan"),
    ({"merge": {"a": 2**64}}, "does not fit 64 bits"),
    ({"merge": _make_deep(65)}, "merge is nested deeper than 64 levels"),
    ({"merge": _make_shared(40)}, _LARGE),
    ({"expires_at": datetime(1, 1, 1, tzinfo=UTC)}, "expires_at is outside the years"),
    ({"updated_at": datetime(1, 1, 1, tzinfo=UTC)}, "updated_at is outside the years"),
)  # fmt: skip

#: Questions that ask for what no record can hold: they find nothing, and that is all.
NEVER: tuple[dict[str, Any], ...] = (
    *({"text": bad} for bad, _ in BAD_TEXTS),
    *({name: (bad, "x" * 10_000)} for name in ("ids", "kinds", "marks") for bad, _ in BAD_TEXTS),
    *({name: ()} for name in ("ids", "kinds", "marks")),
    *({"where": {bad: "x"}} for bad, _ in BAD_TEXTS),
    *({"where": {"f": bad}} for bad in ("\0", HALF, float("nan"), float("inf"), 2**70)),
    *({"scope": {"user": bad, "agent": bad}} for bad, _ in BAD_TEXTS),
    {"scope": {"session": "x" * 10_000}},
    {"since": datetime.max.replace(tzinfo=UTC)},
    {"until": datetime(1, 1, 1, tzinfo=UTC)},
)

#: Questions without a meaning, and what their refusal must say.
NONSENSE: tuple[tuple[dict[str, Any], str], ...] = (
    ({"limit": -1}, "limit must be 0 or more, or None for all; got -1"),
    ({"limit": "5"}, "limit must be 0 or more, or None for all; got '5'"),
    ({"text": 5}, "the text to look for must be a string; got 5"),
    *(
        ({name: "noon"}, f"a time must be a datetime; got {{'{name}': 'noon'}}")
        for name in ("since", "until", "alive_at")
    ),
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


def _make(kind: type[T], home: Scope, fields: dict[str, Any], **more: Any) -> T:
    """A record or query of these fields in a scope of the test's own."""
    scope = Scope(**{"tenant": home.tenant, **fields.get("scope", {})})
    return kind(**{"collection": "messages", **more, **fields, "scope": scope})


class Hostile(StoreUnderTest):
    async def _assert_first_kept(self, store: Store, home: Scope) -> None:
        found = await store.find(messages(home))
        assert [(record.id, record.text, record.marks) for record in found] == [("first", "kept", ("m",))]

    async def _assert_refused(self, store: Store, home: Scope, hostile: list[tuple[Op, str]]) -> None:
        first = message("first", home, text="kept", marks=("m",), metadata={"f": None})
        await store.apply([Add([first])])
        async with self.reference() as right:
            for op, expected in hostile:
                good = Record(collection="messages", scope=home)
                batch: list[Op] = [Add([good]), Remove(messages(home)), op]
                said = await refuses(InvalidRecord, store.apply(batch), expected)
                assert said == await refuses(InvalidRecord, right.apply(batch))
                assert len(said) < 1000
        await self._assert_first_kept(store, home)

    @on_a_store
    async def test_hostile_records(self, store: Store, home: Scope) -> None:
        """A record no store can keep is refused in the same words by all; nothing of its batch is kept."""
        good = Record(collection="messages", scope=home)
        batches = [(_make(Record, home, fields, id="bad"), expected) for fields, expected in RECORDS]
        await self._assert_refused(store, home, [(Add([good, bad]), expected) for bad, expected in batches])

    @on_a_store
    async def test_hostile_changes(self, store: Store, home: Scope) -> None:
        """A change that would make such a record is refused likewise, whether or not it finds anything."""
        everything = messages(home)
        await self._assert_refused(
            store, home, [(Change(query=everything, **fields), expected) for fields, expected in CHANGES]
        )

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
            assert _LARGE in said
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
        for fields, expected in NONSENSE:
            query = _make(Query, home, fields)
            await refuses(InvalidQuery, store.find(query), expected)
            await refuses(InvalidQuery, store.tally(query), expected)
            await refuses(InvalidQuery, store.apply([Remove(query)]), expected)
            batch: list[Op] = [
                Add([Record(collection="messages", scope=home)]),
                Change(query=query, text="changed"),
            ]
            await refuses(InvalidQuery, store.apply(batch), expected)
        await self._assert_first_kept(store, home)
