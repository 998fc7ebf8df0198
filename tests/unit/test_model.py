"""The kernel's values: what a query means, how pages are cut, what a change does, and what importing it costs."""

import ast
import importlib
import itertools
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import octavo.erasing
import octavo.layers
import octavo.wraps
from octavo import START, Add, Change, Cursor, InvalidQuery, Query, Record, Remove, Scope, Tally, new_id
from octavo.kernel.ids import next_seq
from octavo.kernel.model import to_utc

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
NAIVE = datetime(2024, 6, 1, 12)  # noqa: DTZ001 - local time, as callers give it
LATER = NOON + timedelta(hours=1)


def record(**fields):
    return Record(**{"collection": "messages", "id": "a", "created_at": NOON, "seq": 1, **fields})


def query(**fields):
    return Query(collection="messages", **fields)


FULL = record(
    kind="user",
    scope=Scope(tenant="t", user="u", session="s"),
    text="Hello World",
    metadata={"k": 1, "none": None, "list": [1]},
    marks=("hint", "x"),
    expires_at=LATER,
)


@pytest.mark.parametrize(
    ("clauses", "matched"),
    [
        ({}, True),
        ({"ids": ("b", "a")}, True),
        ({"ids": ("A",)}, False),
        ({"ids": ()}, False),
        ({"kinds": ("user",)}, True),
        ({"kinds": ("User",)}, False),
        ({"kinds": ()}, False),
        ({"scope": Scope()}, False),
        ({"scope": Scope(tenant="t", user="u", session="s", agent="")}, True),
        ({"scope": Scope(tenant="t", agent="a")}, False),
        ({"scope": Scope(tenant="t", session="")}, False),
        ({"marks": ("y", "hint")}, True),
        ({"marks": ("y",)}, False),
        ({"marks": ()}, False),
        ({"without": ("y",)}, True),
        ({"without": ("y", "x")}, False),
        ({"text": "LO w"}, True),
        ({"text": "low"}, False),
        ({"text": ""}, True),
        ({"since": NOON}, True),
        ({"since": NOON + timedelta(microseconds=1)}, False),
        ({"until": NOON}, False),
        ({"until": NOON + timedelta(microseconds=1)}, True),
        ({"where": {"k": 1}}, True),
        ({"where": {"k": 1.0}}, True),
        ({"where": {"k": True}}, False),
        ({"where": {"k": "1"}}, False),
        ({"where": {"none": None}}, True),
        ({"where": {"missing": None}}, False),
        ({"where": {"k": 1, "none": 0}}, False),
        ({"alive_at": LATER}, False),
        ({"alive_at": LATER - timedelta(microseconds=1)}, True),
        ({"expired_at": LATER}, True),
        ({"expired_at": LATER - timedelta(microseconds=1)}, False),
        ({"expired_at": LATER, "alive_at": LATER}, False),
    ],
)
def test_matches(clauses, matched):
    """Each clause holds or fails as its line says."""
    clauses = {"scope": Scope(tenant="t"), **clauses}
    assert query(**clauses).matches(FULL) is matched
    assert not Query(**{"collection": "events", **clauses}).matches(FULL)


def test_what_never_ends_has_not_ended():
    """Every record is alive or has ended; what has no end is alive for ever."""
    endless = record()
    assert not query(expired_at=datetime.max.replace(tzinfo=UTC)).matches(endless)
    assert query(alive_at=datetime.max.replace(tzinfo=UTC)).matches(endless)
    assert not query(expired_at=NOON).plain


TEN = [record(id=str(number), created_at=NOON + timedelta(seconds=number)) for number in range(10)]
AT_4 = TEN[4].cursor


@pytest.mark.parametrize(
    ("paging", "expected"),
    [
        # Without a cursor: the newest ones, given oldest first unless asked otherwise; offset skips the newest.
        ({}, "0123456789"),
        ({"newest_first": True}, "9876543210"),
        ({"limit": 3}, "789"),
        ({"limit": 3, "newest_first": True}, "987"),
        ({"limit": 3, "offset": 2}, "567"),
        ({"limit": 3, "offset": 2, "newest_first": True}, "765"),
        ({"offset": 9}, "0"),
        ({"offset": 10}, ""),
        ({"limit": 0}, ""),
        ({"limit": 99}, "0123456789"),
        # From the start: pages in reading direction.
        ({"after": START}, "0123456789"),
        ({"after": START, "limit": 3}, "012"),
        ({"after": START, "limit": 3, "offset": 2}, "234"),
        ({"after": START, "limit": 3, "newest_first": True}, "987"),
        # From a record: what follows it in reading direction, never itself.
        ({"after": AT_4}, "56789"),
        ({"after": AT_4, "limit": 2}, "56"),
        ({"after": AT_4, "limit": 2, "offset": 1}, "67"),
        ({"after": AT_4, "newest_first": True}, "3210"),
        ({"after": AT_4, "newest_first": True, "limit": 2}, "32"),
        ({"after": TEN[9].cursor}, ""),
        ({"after": TEN[0].cursor, "newest_first": True}, ""),
        # From a position between records.
        ({"after": Cursor(at=NOON + timedelta(milliseconds=4500)), "limit": 1}, "5"),
        ({"after": Cursor(at=NOON - timedelta(days=1)), "limit": 1}, "0"),
        # Together with a clause.
        ({"after": AT_4, "until": TEN[7].created_at}, "56"),
        ({"limit": 2, "until": TEN[7].created_at}, "56"),
    ],
)
def test_paging(paging, expected):
    """The page is the one spelled out, whatever order the records are in."""
    for records in (TEN, TEN[::-1], TEN[3:] + TEN[:3]):
        assert "".join(found.id for found in query(**paging).over(records)) == expected


def test_ties_are_ordered_by_seq_then_id_then_scope_key():
    """Equal times are told apart by seq, id and scope, so a cursor never skips or repeats one."""
    scopes = [Scope(session=name) for name in "pqr"]
    tied = [record(id=i, seq=s, scope=c) for i, s, c in itertools.product("ab", (1, 2), scopes)]
    ordered = query().over(tied)
    assert [found.rank for found in ordered] == sorted(one.rank for one in tied)
    for index, found in enumerate(ordered):
        assert query(after=found.cursor).over(tied) == ordered[index + 1 :]
        assert query(after=found.cursor, newest_first=True).over(tied) == ordered[:index][::-1]


def test_many_ids_are_looked_up_not_searched():
    """Asking for as many ids as there are records costs their number, not its square."""
    many = [record(id=str(number)) for number in range(20_000)]
    assert len(query(ids=tuple(one.id for one in many)).over(many)) == 20_000


def test_unpaged_and_plain():
    """`unpaged` keeps every clause and no page; `plain` is what counters can answer."""
    asked = query(kinds=("a",), limit=1, offset=2, after=START, newest_first=True)
    assert asked.unpaged == query(kinds=("a",))
    assert asked.plain
    for clause in (
        {"ids": ()},
        {"marks": ()},
        {"without": ("x",)},
        {"text": "x"},
        {"since": NOON},
        {"where": {"a": 1}},
    ):
        assert not query(**clause).plain


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"limit": -1}, "limit must be 0 or more"),
        ({"offset": -1}, "offset must be 0 or more"),
        ({"limit": True}, "limit must be 0 or more.*; got True"),
        ({"offset": False}, "offset must be 0 or more; got False"),
        ({"where": {"a": {}}}, r"where\['a'\] must be"),
        ({"since": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, "cannot be said in UTC"),
        (
            {"after": Cursor(at=datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))))},
            "cannot be said in UTC",
        ),
    ],
)
def test_queries_without_meaning(fields, words):
    """They are refused in words."""
    with pytest.raises(InvalidQuery, match=words):
        query(**fields).checked()


def test_times_of_a_query_are_brought_to_utc():
    """A query given in another zone, or in local time, asks about the same moments."""
    east = timezone(timedelta(hours=8))
    asked = query(since=NOON.astimezone(east), until=NAIVE, after=Cursor(at=NOON.astimezone(east)))
    checked = asked.checked()
    assert checked.since == NOON
    assert checked.since.tzinfo is UTC
    assert checked.until == NAIVE.astimezone()
    assert checked.after.at.tzinfo is UTC
    plain = query(since=NOON)
    assert plain.checked() is plain
    assert query(limit=2**70, offset=2**70).checked() == query(offset=2**53)


def test_scope_covers():
    """None is any, "" is none, a name is that name; the tenant is always exact."""
    inner = Scope(tenant="t", user="u")
    for outer in (Scope(tenant="t"), inner, Scope(tenant="t", user="u", agent="", session="")):
        assert outer.covers(inner)
    for other in (
        Scope(),
        Scope(tenant="T", user="u"),
        Scope(tenant="t", user=""),
        Scope(tenant="t", agent="u"),
    ):
        assert not other.covers(inner)


_parts = st.text(st.sampled_from("a1:|/\\ \0"), max_size=4)
_scopes = st.builds(
    Scope, tenant=_parts, user=st.none() | _parts, agent=st.none() | _parts, session=st.none() | _parts
)


@given(_scopes, _scopes)
def test_scope_keys_never_collide(one, other):
    """Two scopes share a key only if they hold the same records, whatever separators their names imitate."""
    alike = [(s.tenant, s.user or "", s.agent or "", s.session or "") for s in (one, other)]
    assert (one.key == other.key) is (alike[0] == alike[1])
    assert len(one.key) == 20


def test_a_cursor_as_text_keeps_its_form():
    """Cursors are handed out as text, and come back later."""
    cursor = Cursor(at=NOON, seq=7, id="a", scope_key="k")
    text = b'{"at":"2024-06-01T12:00:00Z","seq":7,"id":"a","place":"k"}'
    assert msgspec.json.encode(cursor) == text
    assert msgspec.json.decode(text, type=Cursor) == cursor


CHANGES = [
    ({}, {}),
    ({"kind": "k"}, {"kind": "k"}),
    ({"kind": "user"}, {}),
    ({"text": ""}, {"text": ""}),
    ({"data": {"a": 1}}, {"data": {"a": 1}}),
    ({"merge": {"b": 2}}, {"data": {"n": 1, "b": 2}}),
    ({"merge": {"n": True}}, {"data": {"n": True}}),
    ({"merge": {"n": 1.0}}, {"data": {"n": 1.0}}),
    ({"merge": {"n": 1}}, {}),
    ({"data": {}, "merge": {"b": 2}}, {"data": {"b": 2}}),
    ({"metadata": {"m": 1}}, {"metadata": {"m": 1}}),
    ({"expires_at": None}, {"expires_at": None}),
    ({"expires_at": LATER}, {}),
    ({"mark": ("b", "a", "b")}, {"marks": ("a", "b")}),
    ({"mark": ("a",)}, {}),
    ({"unmark": ("a", "z")}, {"marks": ()}),
    ({"unmark": ("z",)}, {}),
    ({"unmark": None}, {"marks": ()}),
    ({"unmark": None, "mark": ("c", "a")}, {"marks": ("c", "a")}),
    ({"unmark": ("a",), "mark": ("a",)}, {}),
]


@pytest.mark.parametrize(("fields", "altered"), CHANGES)
def test_changes(fields, altered):
    """Only what differs is altered; then `updated_at` moves, and otherwise the very same record is answered."""
    before = record(kind="user", text="t", data={"n": 1}, marks=("a",), expires_at=LATER, updated_at=NOON)
    after = Change(query=query(), updated_at=LATER, **fields).applied_to(before)
    if not altered:
        assert after is before
        return
    expected = msgspec.structs.replace(before, updated_at=LATER, **altered)
    assert after == expected
    assert repr(after.data) == repr(expected.data)


def test_tally():
    """Counts by kind with the times at both ends; paging is not looked at, and nothing is an empty tally."""
    records = [record(id=str(n), kind="ab"[n % 2], created_at=NOON + timedelta(seconds=n)) for n in range(5)]
    everything = Tally(total=5, by_kind={"a": 3, "b": 2}, first=NOON, last=NOON + timedelta(seconds=4))
    assert Tally.of(query(limit=1, offset=3), records) == everything
    assert (
        Tally.of(query(kinds=("c",)), records) == Tally() == Tally(total=0, by_kind={}, first=None, last=None)
    )


def test_ids_sort_by_birth():
    """Ids made one after the other sort so (to the microsecond), are 32 characters and carry their prefix."""
    assert len({new_id() for _ in range(10_000)}) == 10_000
    assert new_id("evt_").startswith("evt_")
    assert len(new_id()) == 32
    first = new_id()
    while next_seq() <= int(first[:14], 16):
        pass
    assert new_id()[:14] >= first[:14]
    seqs = [next_seq() for _ in range(10_000)]
    assert sorted(set(seqs)) == seqs
    assert seqs[-1] < 2**53


def test_naive_times_are_local():
    """A naive time is taken as Python itself takes it."""
    assert to_utc(NAIVE) == NAIVE.astimezone()
    assert to_utc(NAIVE).tzinfo is UTC
    assert to_utc(NOON) is NOON


#: What people import from `octavo` itself; everything else has its home in the module of its face.
PUBLIC = {
    "open_store", "Store", "walk", "new_id", "START", "Add", "Change", "Cursor", "Op", "Query", "Record", "Remove", "Scope",
    "Tally", "OctavoError", "ConfigError", "Conflict", "InvalidQuery", "InvalidRecord", "ModelError", "NotFound",
    "StoreClosed", "StoreError", "StoreUnavailable", "Memory", "AsyncMemory", "with_memory",
}  # fmt: skip


def test_public_names():
    """`__all__` and `dir()` are the public API, each name once; classes and functions of it say what they are."""
    assert sorted(octavo.__all__) == sorted(PUBLIC)
    assert dir(octavo) == sorted({*PUBLIC, "__version__"})
    for name in ("Record", "Query", "Scope", "Add", "Change", "Remove", "Tally", "open_store", "walk"):
        assert getattr(octavo, name).__doc__, name


@pytest.mark.parametrize("package", [octavo, octavo.erasing, octavo.layers, octavo.wraps])
def test_names_are_loaded_on_first_use(package):
    """Every name that a package hands out is what its own module has, and type checkers see the same names."""
    [seen] = [node for node in ast.parse(Path(package.__file__).read_text()).body if isinstance(node, ast.If)]
    imported = {name.asname or name.name for node in seen.body for name in node.names}
    homes = {name: module for module, names in package._HOMES.items() for name in names.split()}
    assert imported == {*homes}
    assert {*package.__all__} <= imported
    for name, module in homes.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)


def test_import_is_light():
    """`import octavo`, with its first use, costs under 100 ms of CPU and loads no driver, web, command-line or test module.

    That is 100 ms where half a million additions take 40: on a machine that is slower than that, as many times more.
    """
    program = (
        "import json, sys, time; before = {*sys.modules}; start = time.process_time(); import octavo; octavo.open_store, octavo.Record;"
        "took = time.process_time() - start; start = time.process_time(); exec('x = 0\\nfor i in range(500_000): x += i', {});"
        "slow = max((time.process_time() - start) / 0.04, 1.0);"
        "print(json.dumps([took / slow, sorted({m.partition('.')[0] for m in {*sys.modules} - before})]))"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    heavy = "apsw asyncpg asyncmy pymysql redis sqlalchemy sqlite3 fastapi starlette uvicorn httpx click rich pytest hypothesis"
    for _, loaded in runs:
        assert not {*heavy.split()} & {*loaded}
    assert min(seconds for seconds, _ in runs) < 0.1


def test_ops_are_values():
    """Writes compare by what they say, so that they can be queued, replayed and tested."""
    assert Add([FULL]) == Add([FULL])
    assert Remove(query(limit=1)) == Remove(query(limit=1))
    assert Change(query=query(), text="x", updated_at=NOON) == Change(
        query=query(), text="x", updated_at=NOON
    )
    with pytest.raises(AttributeError):
        FULL.text = "other"
