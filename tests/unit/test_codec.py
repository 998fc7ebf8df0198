"""The edge: what is let through, in which form, and the JSON of writes."""

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import msgspec
import pytest
from hostile_tables import CHANGES, NEVER, NONSENSE, RECORDS
from hypothesis import given
from hypothesis import strategies as st

from octavo import START, Add, Change, Cursor, InvalidQuery, InvalidRecord, Query, Record, Remove, Scope
from octavo.kernel.codec import (
    MAX_RECORD_BYTES,
    check_query,
    decode_record,
    encode_ops,
    encode_record,
    is_answerable,
    prepare,
    seal,
)
from octavo.kernel.model import Op
from octavo.kernel.shapes import encode_entry
from octavo.testing.strategies import Program, Write, programs

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
HALF = "\ud83d"


def record(**fields):
    return Record(**{"collection": "messages", "id": "a", "created_at": NOON, "seq": 1, **fields})


class Text(str):
    __slots__ = ()


def test_a_subclass_of_a_text_is_stored_as_the_text():
    scope = Scope(tenant=Text("t"), user=Text("u"), agent=Text("a"), session=Text("s"))
    given = record(id=Text("a"), kind=Text("k"), scope=scope, text=Text("x"), marks=(Text("m"),))
    kept = seal(given)
    plain = (kept.id, kept.kind, kept.text, *kept.marks, *msgspec.structs.astuple(kept.scope))
    assert {type(each) for each in plain} == {str}
    assert seal(record(data={"x": Text("y")})).data == {"x": "y"}
    with pytest.raises(InvalidRecord, match="NUL"):
        seal(record(data={"x": Text("\0")}))
    [change] = prepare(
        [Change(query=Query(collection="messages"), kind=Text("k"), text=Text("x"), mark=(Text("m"),))]
    )
    assert {type(each) for each in (change.kind, change.text, *change.mark)} == {str}


def nested(levels):
    body = {}
    for _ in range(levels - 1):
        body = {"a": body}
    return body


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "x" * 255},
        {"id": "é" * 127},
        {"kind": "x" * 255},
        {"scope": Scope(tenant="x" * 64, user="x" * 255, agent="x" * 255, session="x" * 255)},
        {"marks": ("x" * 255,)},
        {"data": nested(64)},
        {"metadata": nested(64)},
        {"data": {"a": [[]] * 200}},
        {"data": {"a": 2**64 - 1, "b": -(2**63), "text": "1" * 50, "null": None, "what": "null"}},
        {"data": {"a": "\\u0000"}},
        {"text": "x" * (MAX_RECORD_BYTES - 4)},
        {"text": "计" * ((MAX_RECORD_BYTES - 4) // 3)},
        {"created_at": datetime(1000, 1, 1, tzinfo=UTC), "expires_at": datetime.max.replace(tzinfo=UTC)},
        {"seq": 0},
        {"seq": 2**53 - 1},
    ],
)
def test_let_through(fields):
    """What is just inside every limit is kept, and comes back as it was."""
    given_record = record(**fields)
    kept = seal(given_record).record
    assert kept == msgspec.structs.replace(given_record, updated_at=given_record.created_at)
    assert seal(kept).record == kept


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"id": ""}, "record '' of 'messages': id is empty"),
        ({"id": None}, "record None of 'messages': id is empty"),
        ({"id": 5}, "record 5 of 'messages': "),
        ({"id": "a\0"}, "record 'a\\x00' of 'messages': id holds a NUL character: 'a\\x00'"),
        ({"id": HALF}, "id holds half a surrogate pair at 0"),
        ({"id": "x" * 256}, "id is 256 bytes long, at most 255 are kept: 'xxxx"),
        ({"kind": None}, "record 'a' of 'messages': "),
        ({"text": None}, "record 'a' of 'messages': "),
        ({"text": "a" + HALF}, "text holds half a surrogate pair at 1"),
        ({"data": {"a": [1, {"b": "\0"}]}}, "data holds a NUL character"),
        ({"data": {"a": [float("nan")]}}, "data holds nan, which JSON cannot say"),
        ({"data": {"a": 2**64}}, "data holds 18446744073709551616, which does not fit 64 bits"),
        ({"data": {"a": [2**64]}}, "which does not fit 64 bits"),
        ({"data": {"a": {"b": -(2**63) - 1}}}, "which does not fit 64 bits"),
        ({"data": nested(65)}, "data is nested deeper than 64 levels"),
        ({"data": {"a": object()}}, "data cannot be written as JSON"),
        ({"data": {None: 1}}, "data cannot be written as JSON"),
        ({"data": []}, "data must be a dict; got list"),
        ({"data": "x"}, "data must be a dict; got str"),
        ({"metadata": [1]}, "metadata must be a dict; got list"),
        ({"metadata": {"a": HALF}}, "metadata holds half a surrogate pair"),
        ({"marks": ("\0",)}, "mark holds a NUL character"),
        ({"scope": Scope(tenant="x" * 65)}, "tenant is 65 bytes long, at most 64 are kept"),
        ({"scope": Scope(user="é" * 128)}, "user is 256 bytes long, at most 255 are kept"),
        ({"text": "x" * MAX_RECORD_BYTES}, "16777220 bytes are more than the 16777216 a record may have"),
        ({"seq": -1}, "seq must be 0 to 2**53 - 1; got -1"),
        ({"seq": 1.5}, "seq must be 0 to 2**53 - 1; got 1.5"),
        (
            {"created_at": datetime(999, 1, 1, tzinfo=UTC)},
            "created_at is outside the years 1000 to 9999 in UTC",
        ),
        ({"created_at": datetime.min}, "created_at is outside the years 1000 to 9999 in UTC"),  # noqa: DTZ901
        ({"created_at": "2024"}, "record 'a' of 'messages': "),
        ({"collection": "nowhere"}, "record 'a' of 'nowhere': unknown collection 'nowhere'; known: events, "),
    ],
)
def test_refused(fields, words):
    """The refusal names the record and says what is wrong, in words that fit a log line."""
    with pytest.raises(InvalidRecord) as refusal:
        seal(record(**fields))
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 700
    str(refusal.value).encode()


@pytest.mark.parametrize(("fields", "said"), RECORDS)
def test_hostile_records(fields, said):
    """A record that no store can keep is refused, in words that name it."""
    fields = {**fields, "scope": Scope(**fields.get("scope", {}))}
    with pytest.raises(InvalidRecord) as refusal:
        prepare([Add([record(**fields)])])
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize(("fields", "said"), CHANGES)
def test_hostile_changes(fields, said):
    """So is a change that would make such a record."""
    with pytest.raises(InvalidRecord) as refusal:
        prepare([Change(query=Query(collection="messages"), **fields)])
    assert said in str(refusal.value)


@pytest.mark.parametrize("fields", NEVER)
def test_hostile_questions(fields):
    """A question that names what no record can hold is no error."""
    asked = {"collection": "messages", **fields, "scope": Scope(**fields.get("scope", {}))}
    assert prepare([Remove(Query(**asked))])


@pytest.mark.parametrize(("fields", "said"), NONSENSE)
def test_nonsense_questions(fields, said):
    """A question without a meaning is refused."""
    with pytest.raises(InvalidQuery) as refusal:
        check_query(Query(**{"collection": "messages", **fields}))
    assert said in str(refusal.value)


def shared(levels, end=None):
    """A dict that written out has 2**(levels - 1) ends, and holds one."""
    body = [end]
    for _ in range(levels - 2):
        body = [body, body]
    return {"a": body}


@dataclasses.dataclass
class Pair:
    one: object
    other: object


def pairs(levels):
    body = None
    for _ in range(levels):
        body = Pair(body, body)
    return body


@pytest.mark.parametrize(
    "data",
    [
        shared(40),
        shared(40, 0),
        {"a": pairs(40)},
        {"a": [["x" * 1_000_000] * 10_000] * 10_000},
        dict.fromkeys(map(str, range(10_000)), "x" * 1_000_000),
    ],
    ids=["null", "zero", "objects", "texts", "flat"],
)
def test_a_body_that_would_be_too_large_is_never_written_out(data):
    """A few values that occur many times are refused for what they would be, in no time."""
    with pytest.raises(InvalidRecord, match="more than the 16777216 a record may have"):
        seal(record(data=data))
    with pytest.raises(InvalidRecord, match="more than the 16777216 a record may have"):
        prepare([Change(query=Query(collection="messages"), merge=data)])


def test_shared_values_are_kept_in_each_of_their_places():
    """What occurs many times and is not too large is kept each time; its depth is that of the deepest."""
    kept = seal(record(data=shared(18))).data["a"]
    for _ in range(16):
        assert kept[0] == kept[1]
        kept = kept[0]
    assert kept == [None]
    deep = nested(40)
    assert seal(record(data={"a": deep, "b": [[deep]]})).data == {"a": deep, "b": [[deep]]}
    lower = deep
    for _ in range(24):
        lower = [lower]
    with pytest.raises(InvalidRecord, match="nested deeper than 64 levels"):
        seal(record(data={"a": deep, "b": lower}))
    circle = []
    circle += [circle, circle]
    with pytest.raises(InvalidRecord, match="nested deeper than 64 levels"):
        seal(record(data={"a": circle}))


def test_stored_form():
    """Marks are told once, empty scope parts are none, times are UTC and `updated_at` is filled in."""
    east = timezone(timedelta(hours=8))
    sealed = seal(
        record(marks=("b", "a", "b"), scope=Scope(user="", agent="x"), created_at=NOON.astimezone(east))
    )
    assert sealed.marks == ("b", "a")
    assert sealed.scope == Scope(agent="x")
    assert (sealed.created_at, sealed.created_at.tzinfo, sealed.updated_at) == (NOON, UTC, NOON)
    assert sealed.key == sealed.record.key
    assert sealed.rank == sealed.record.rank


def test_values_json_does_not_know():
    """What JSON has no word for is spelled as text or a list, the same beside other entries as alone."""
    odd = {"price": Decimal("1.10"), "nan": Decimal("NaN"), "pair": (1, 2), "at": NOON}
    kept = {"price": "1.10", "nan": "NaN", "pair": [1, 2], "at": "2024-06-01T12:00:00Z"}
    assert seal(record(data=odd)).data == kept
    assert seal(record(metadata=odd)).metadata == kept
    for name, value in odd.items():
        assert seal(record(metadata={name: value})).metadata == {name: kept[name]}
    assert seal(record(metadata={1: "a", "1": "b"})).metadata == {"1": "b"}


_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
_words = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
_bodies = st.dictionaries(
    _words,
    st.recursive(
        _scalars | _words,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    ),
    max_size=4,
)


@given(_bodies, _bodies)
def test_bodies_come_back(data, metadata):
    """Any JSON document comes back as it was, spelled alike, with its keys in order."""
    kept = seal(record(data=data, metadata=metadata))
    assert repr(kept.data) == repr(data)
    assert repr(kept.metadata) == repr(metadata)
    for name, value in metadata.items():
        assert f"\n{encode_entry(name, msgspec.json.encode(value).decode())}\n" in kept.metadata_lines
    assert kept.metadata_lines.count("\n") == 2 * len(metadata)


def test_nobody_shares_a_body():
    """Each record handed out has bodies of its own."""
    sealed = seal(record(data={"a": [1]}, metadata={"a": [1]}))
    sealed.record.data["a"].append(2)
    sealed.record.metadata["a"].append(2)
    assert sealed.record.data == sealed.record.metadata == {"a": [1]}


def test_one_bad_op_refuses_the_batch():
    """A batch is judged whole before any of it is applied."""
    good, bad = Add([record()]), Add([record(), record(id="")])
    with pytest.raises(InvalidRecord):
        prepare([good, bad])
    with pytest.raises(InvalidQuery):
        prepare([good, Remove(Query(collection="messages", limit=-1))])
    with pytest.raises(InvalidRecord):
        prepare([good, Change(query=Query(collection="messages"), merge={"a": float("inf")})])
    assert len(prepare([good, good])) == 2


@pytest.mark.parametrize(
    ("fields", "possible"),
    [
        ({}, True),
        ({"text": "x"}, True),
        ({"text": "\0"}, False),
        ({"text": HALF}, False),
        ({"limit": 0}, False),
        ({"ids": ()}, False),
        ({"ids": ("\0",)}, False),
        ({"ids": ("\0", "a")}, True),
        ({"kinds": (HALF,)}, False),
        ({"marks": (HALF, "m")}, True),
        ({"without": ("\0",)}, True),
        ({"where": {"a": float("nan")}}, False),
        ({"where": {"a": "\0"}}, False),
        ({"where": {HALF: 1}}, False),
        ({"where": {"a": 2**70}}, True),
        ({"scope": Scope(user="\0")}, False),
    ],
)
def test_questions_nothing_can_answer(fields, possible):
    """What names no possible record is known before a backend is asked; a write with such a query asks for nothing."""
    query = Query(collection="messages", **fields)
    assert is_answerable(check_query(query)) is possible
    for op in prepare([Remove(query), Change(query=query, text="x")]):
        assert (op.query.limit == 0) is not possible
        if not possible:
            assert op.query == Query(collection="messages", limit=0)


def test_impossible_names_are_dropped():
    """Beside possible names an impossible one is no match, and among those excluded it excludes nothing."""
    query = check_query(
        Query(collection="messages", ids=("\0", "a"), kinds=("k", HALF), marks=("m",), without=("\0",))
    )
    assert query == Query(collection="messages", ids=("a",), kinds=("k",), marks=("m",))
    (change,) = prepare([Change(query=Query(collection="messages"), unmark=("\0", "m", HALF))])
    assert change.unmark == ("m",)
    (change,) = prepare([Change(query=Query(collection="messages"), unmark=None)])
    assert change.unmark is None


@pytest.mark.parametrize(
    "asked", [{"scope": Scope(session=5)}, {"ids": ("a", 5)}, {"kinds": (5,)}, {"where": {5: "x"}}]
)
def test_names_are_strings(asked):
    """The number of a row is none: no record has it."""
    with pytest.raises(InvalidQuery, match="a name in a query is a string; got 5"):
        is_answerable(check_query(Query(collection="messages", **asked)))


@pytest.mark.parametrize(
    "cursor", [Cursor(at=NOON, id="\0"), Cursor(at=NOON, scope_key=HALF), Cursor(at=NOON, seq=2**53)]
)
def test_forged_cursors(cursor):
    """A cursor no record can have given is refused."""
    with pytest.raises(InvalidQuery, match="after is no position between records"):
        check_query(Query(collection="messages", after=cursor))


decode_ops = msgspec.json.Decoder(list[Op]).decode

OPS = [
    Add(
        [
            record(),
            record(
                id="b", scope=Scope(tenant="t", user="u"), marks=("m",), expires_at=NOON, data={"a": [1.0]}
            ),
        ]
    ),
    Change(query=Query(collection="messages", ids=("a",)), text="x", merge={"n": None}, updated_at=NOON),
    Change(query=Query(collection="messages"), expires_at=None, unmark=None, mark=("m",), updated_at=NOON),
    Change(query=Query(collection="messages"), updated_at=NOON),
    Remove(
        Query(collection="messages", where={"k": True}, since=NOON, newest_first=True, limit=1, after=START)
    ),
    Remove(Query(collection="messages", kinds=(), after=record().cursor)),
]


def test_writes_as_json():
    """Writes come back from JSON as they were, told apart by their name."""
    assert decode_ops(encode_ops(OPS)) == OPS
    assert [msgspec.json.decode(encode_ops([op]))[0]["op"] for op in OPS[::2]] == ["add", "change", "remove"]
    assert decode_record(encode_record(OPS[0].records[1])) == OPS[0].records[1]


@given(programs())
def test_any_write_as_json(program: Program):
    """Any generated write survives being written down."""
    ops = [op for step in program.steps if isinstance(step, Write) for op in step.ops]
    assert encode_ops(decode_ops(encode_ops(ops))) == encode_ops(ops)
    assert [type(op) for op in decode_ops(encode_ops(ops))] == [type(op) for op in ops]
