"""Generated programs: sequences of writes and questions that find where two stores disagree.

Names, times and values come from small pools, so that ids collide, times tie and questions find something. A query has
at most two clauses (with more, nothing is ever found) and looks for pieces of text that were written before.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st
from msgspec import NODEFAULT
from msgspec.structs import replace

from octavo.kernel.model import START, Add, Change, Cursor, Op, Query, Record, Remove, Scope
from octavo.kernel.terms.terms import terms as terms_of
from octavo.kernel.text import content, haystack

COLLECTIONS = ("events", "messages", "profile")
IDS = ("a", "A", "á", "b", "b ", "c:1")
KINDS = ("", "user", "User", "tool")
MARKS = ("hint", "Hint", "重要", "x%")
TENANTS = ("", "2")
NAMES = (None, "u", "U", "v|w")
FACT_NAMES = ("k", "K", "a.b", 'q"', "项")
FACTS = ("x", "X", "1", "", "null", 1, 1.0, 0, -0.0, 0.5, 2**53 + 1, True, False, None, "50%", 'say "hi"\n')
BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"n": 1},
    {"n": 1.0},
    {"n": True},
    {"b": {"deep": ["Straße", None, {"": 5e-324}]}, "a": 2},
    {"a": 2, "b": "两"},
)
TEXTS = (
    "",
    "Hello World",
    "HELLO wörld",
    "打开计算器。",
    "Straße 100% _sure_",
    "cafe\u0301\nİstanbul",
    "ﬁn 👍🏽",
    "I painted the calculator on 7 May 2023",
    "getUserName() 打开 user_name.py",
    "tap, tap, tap: 打打 hello",
)
BIRTH = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
TIMES = (
    BIRTH,
    BIRTH + timedelta(microseconds=1),
    BIRTH + timedelta(microseconds=2),
    BIRTH + timedelta(seconds=1),
    BIRTH - timedelta(days=400),
    datetime(1000, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)

SCOPES = tuple(
    Scope(tenant=tenant, user=user, agent=agent, session=session)
    for tenant, user, agent, session in itertools.product(TENANTS, NAMES, NAMES, NAMES)
)

# Whole values are drawn from ready pools rather than built part by part: each draw costs more than a store's answer.
_pair = tuple(itertools.product(FACT_NAMES, FACTS))
_times = st.sampled_from(TIMES)
_times_or_none = st.sampled_from((None, *TIMES))
_ids = st.sampled_from(IDS)
_kinds = st.sampled_from(KINDS)
_marks = st.sampled_from([(), *((mark,) for mark in MARKS), *itertools.permutations(MARKS, 2)])
_facts = st.sampled_from(
    [{}, *({name: fact} for name, fact in _pair), *({"k": 1, name: fact} for name, fact in _pair)]
)
_texts = st.sampled_from(TEXTS) | st.text(
    max_size=8, alphabet=st.characters(codec="utf-8", exclude_characters="\0")
)
_bodies = st.sampled_from(BODIES)
_scopes = st.sampled_from(SCOPES)
_seqs = st.integers(0, 2)
_flags = st.booleans()
_some_ids = st.lists(_ids, max_size=3).map(tuple)
_some_kinds = st.lists(_kinds, max_size=2).map(tuple)
_mostly = st.sampled_from((True, True, True, False))
_limits = st.sampled_from((None, 1, 2, 3, 5, 0, 2**70))
_offsets = st.sampled_from((0, 0, 0, 0, 1, 2, 2**70))
_clauses = st.lists(
    st.sampled_from(
        ("ids", "kinds", "marks", "without", "text", "since", "until", "where", "alive_at", "expired_at")
    ),
    max_size=2,
    unique=True,
)


class Write(msgspec.Struct, frozen=True):
    """Apply these ops in one call."""

    ops: tuple[Op, ...]


class Ask(msgspec.Struct, frozen=True):
    """Find and tally; `behind` says after which record to read, since a cursor holds a tenant that is only known later."""

    query: Query
    behind: Record | Cursor | None = None


class Seek(msgspec.Struct, frozen=True):
    """Search by these terms."""

    query: Query
    terms: tuple[str, ...]


Step: TypeAlias = Write | Ask | Seek


class Program:
    """Steps to take on two stores; printed as the code one would type."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)

    def __repr__(self) -> str:
        return "Program([\n" + "".join(f"    {spell_code(step)},\n" for step in self.steps) + "])"

    def under(self, tenant: str) -> list[Step]:
        """The same steps with every tenant name put behind this one, so that programs never meet in one store."""
        return [_move(step, tenant) for step in self.steps]


def spell_code(value: Any) -> str:
    """A value as code, without the fields that were left as they are by default."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        shown = [(each.name, getattr(value, each.name)) for each in fields if not _is_default(each, value)]
        return f"{type(value).__name__}({', '.join(f'{name}={spell_code(inner)}' for name, inner in shown)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(spell_code, value))}]"
    if isinstance(value, datetime) and value in TIMES:
        return f"TIMES[{TIMES.index(value)}]"
    return repr(value)


def _is_default(field: msgspec.structs.FieldInfo, value: msgspec.Struct) -> bool:
    kept = getattr(value, field.name)
    if field.default is not NODEFAULT:
        return kept is field.default or (kept == field.default and type(kept) is type(field.default))
    return field.default_factory is dict and kept == {}


def _move(value: Any, tenant: str) -> Any:
    """The same with every tenant in it put behind this one, and every cursor with its record."""
    if isinstance(value, Scope):
        return replace(value, tenant=tenant + value.tenant)
    if isinstance(value, tuple | list):
        return tuple(_move(each, tenant) for each in value)
    if not isinstance(value, Write | Ask | Seek | Add | Change | Remove | Query | Record):
        return value
    fields = {name: _move(getattr(value, name), tenant) for name in value.__struct_fields__}
    if isinstance(value, Ask):
        behind = fields["behind"]
        after = behind.cursor if isinstance(behind, Record) else behind
        fields["query"] = replace(fields["query"], after=after)
    return type(value)(**fields)


@st.composite
def records(draw: st.DrawFn, collection: str, scopes: Sequence[Scope]) -> Record:
    """A record whose id, time and sequence often collide with another's."""
    return Record(
        collection=collection,
        id=draw(_ids),
        kind=draw(_kinds),
        scope=_one_of(draw, scopes),
        text=draw(_texts),
        data=draw(_bodies),
        metadata=draw(_facts),
        marks=draw(_marks),
        created_at=draw(_times),
        updated_at=draw(_times_or_none),
        expires_at=draw(_times_or_none),
        seq=draw(_seqs),
    )


def _one_of(draw: st.DrawFn, values: Sequence[Any]) -> Any:
    return values[draw(st.integers(0, len(values) - 1))]


@st.composite
def queries(draw: st.DrawFn, collection: str, stored: Sequence[Record]) -> Query:
    """A question with at most two clauses, most of them true of some stored record, and any form of paging."""
    mine = [record for record in stored if record.collection == collection]
    model = _one_of(draw, mine or stored)
    wanted: dict[str, Any] = {"collection": collection, "newest_first": draw(_flags)}
    wanted["scope"] = _widen(draw, model.scope)
    for clause in draw(_clauses):
        wanted[clause] = _clause(draw, clause, model)
    if not draw(_mostly):
        wanted["limit"] = draw(_limits)
        wanted["offset"] = draw(_offsets)
    return Query(**wanted)


def _widen(draw: st.DrawFn, scope: Scope) -> Scope:
    """A scope that covers this one: each part as it is, any, or (when the record has none) exactly none."""
    if draw(_flags):
        return Scope(tenant=scope.tenant)
    parts = {name: getattr(scope, name) for name in ("user", "agent", "session")}
    return Scope(
        tenant=scope.tenant, **{name: None if draw(_flags) else value or "" for name, value in parts.items()}
    )


def _clause(draw: st.DrawFn, clause: str, model: Record) -> Any:
    if clause == "ids":
        return (*draw(_some_ids), model.id) if draw(_mostly) else draw(_some_ids)
    if clause == "kinds":
        return (*draw(_some_kinds), model.kind) if draw(_mostly) else draw(_some_kinds)
    if clause == "marks" and model.marks and draw(_mostly):
        return model.marks
    if clause in {"marks", "without"}:
        return draw(_marks)
    if clause == "where":
        return model.metadata if draw(_mostly) else draw(_facts)
    if clause == "text":
        return _needle(draw, model.text or haystack("", model.data))
    return draw(_times)


def _needle(draw: st.DrawFn, text: str) -> str:
    if not text:
        return text
    start = draw(st.integers(0, len(text) - 1))
    piece = text[start : start + draw(st.integers(1, 4))]
    return piece.swapcase() if draw(_flags) else piece


_changed: dict[str, st.SearchStrategy[Any]] = {
    "kind": _kinds,
    "text": _texts,
    "data": _bodies,
    "merge": _bodies,
    "metadata": _facts,
    "expires_at": _times_or_none,
    "mark": _marks,
    "unmark": st.none() | _marks,
}
_some_fields = st.lists(st.sampled_from(sorted(_changed)), min_size=1, max_size=2, unique=True)


@st.composite
def changes(draw: st.DrawFn, query: Query) -> Change:
    """A change of one or two fields of what the query finds."""
    fields = {name: draw(_changed[name]) for name in draw(_some_fields)}
    return Change(query=query, updated_at=draw(_times), **fields)


_verbs = st.sampled_from(("add", "add", "add", "change", "change", "change", "remove"))


@st.composite
def programs(draw: st.DrawFn, collections: Sequence[str] = COLLECTIONS) -> Program:
    """A program over one or two of the collections and a few scopes; what it asks is drawn knowing what it wrote."""
    used = draw(st.lists(st.sampled_from(collections), min_size=1, max_size=2, unique=True))
    scopes = draw(st.lists(_scopes, min_size=1, max_size=4))
    batches = [st.lists(records(collection, scopes), min_size=1, max_size=6) for collection in used]
    stored = draw(batches[0])
    steps: list[Step] = [Write((Add(tuple(stored)),))]
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 3))):
            collection = _one_of(draw, stored).collection
            behind = [None, START, *(record for record in stored if record.collection == collection)]
            steps.append(
                Ask(draw(queries(collection, stored)), None if draw(_mostly) else _one_of(draw, behind))
            )
        ops: list[Op] = []
        for _ in range(draw(st.integers(1, 3))):
            collection = _one_of(draw, stored).collection
            verb = draw(_verbs)
            if verb == "add":
                added = draw(_one_of(draw, batches))
                stored.extend(added)
                ops.append(Add(tuple(added)))
            elif verb == "change":
                ops.append(draw(changes(draw(queries(collection, stored)))))
            else:
                ops.append(Remove(draw(queries(collection, stored))))
        if not draw(_mostly):
            ops[-1] = msgspec.structs.replace(ops[-1], expect=draw(st.integers(0, 3)))
        steps.append(Write(tuple(ops)))
    return Program(steps)


@st.composite
def searching_programs(
    draw: st.DrawFn, collections: Sequence[str] = ("messages", "episodes", "exchanges")
) -> Program:
    """A program whose questions are searches, by terms of what it writes and now and then by others."""
    program = draw(programs(collections))
    writes = [step for step in program.steps if isinstance(step, Write)]
    texts = [
        content(r.text, r.data) for step in writes for op in step.ops for r in getattr(op, "records", ())
    ]
    texts += [op.text for step in writes for op in step.ops if isinstance(op, Change) and op.text]
    held = Counter(term for text in texts for term in set(terms_of(text)))
    # Mostly terms of several texts: only of those can a search find too many.
    shared = [term for term in sorted(held) if held[term] > 1]
    some = st.lists(
        st.sampled_from([*sorted(held), "none", "*", ""]) | st.sampled_from(shared or ["none"]),
        min_size=1,
        max_size=4,
    ).map(tuple)
    steps: list[Step] = [
        Seek(step.query, draw(some)) if isinstance(step, Ask) else step for step in program.steps
    ]
    # Programs begin with what they add and end with a write; what that left must be found too.
    asked = next(step.query for step in steps if isinstance(step, Seek))
    steps.append(Seek(Query(collection=asked.collection, scope=Scope(tenant=asked.scope.tenant)), draw(some)))
    return Program(steps)
