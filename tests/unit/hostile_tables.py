"""Every input that the edge refuses, and what it says; the contract of stores asks about one of each kind."""

from datetime import UTC, datetime, timedelta, timezone

from octavo import Cursor
from octavo.kernel.codec import MAX_RECORD_BYTES

HALF = "half \ud83d of an emoji"
#: A name that no store keeps, and what its refusal must say.
BAD_TEXTS = (("a\0b", "holds a NUL character"), (HALF, "holds half a surrogate pair"))
BAD_NAMES = (*BAD_TEXTS, ("x" * 256, "is 256 bytes long, at most 255 are kept"))


def _make_deep(levels):
    body = {}
    for _ in range(levels - 1):
        body = {"a": body}
    return body


def _make_shared(levels):
    """A few lists, each of which stands twice in the next: written out they are 2**levels."""
    body = [None]
    for _ in range(levels - 2):
        body = [body, body]
    return {"a": body}


_LARGE = "more than the 16777216 a record may have"
#: Fields of a record, and what its refusal must say.
RECORDS = (
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
CHANGES = (
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
NEVER = (
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
NONSENSE = (
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
