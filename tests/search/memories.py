"""What the tests of recall remember, and short ways to say it."""

from datetime import UTC, datetime, timedelta

import msgspec

import octavo
from octavo import Add, Record, Scope
from octavo.kernel.ports import EntryKey, Near
from octavo.kernel.terms.matching import digest

KINDS = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def inside(home: Scope, **parts: str) -> Scope:
    """A part of this scope."""
    return msgspec.structs.replace(home, **parts)


def note(home: Scope, name: str, text: str, minutes: float = 0, **more) -> Record:
    """A message; those without a time of their own were all written at the same moment."""
    given = {"collection": "messages", "id": name, "scope": home, "text": text, "seq": 1}
    return Record(**{**given, "created_at": NOON + timedelta(minutes=minutes), **more})


def talk(home: Scope, session: str, *lines: str, at: datetime = NOON, apart: int = 1) -> list[Record]:
    """A conversation: its lines so many minutes apart, named `session-0`, `session-1` and so on."""
    scope = inside(home, session=session)
    return [
        note(scope, f"{session}-{n}", line, seq=n, created_at=at + timedelta(minutes=apart * n))
        for n, line in enumerate(lines)
    ]


async def keep(store, *records: Record) -> None:
    """Keep these records; all of them must be new."""
    assert await store.apply([Add(records)]) == [len(records)]


def ids(hits) -> list[str]:
    """The ids of hits, best first."""
    return [hit.record.id for hit in hits]


def near(record: Record, score: float, text: str | None = None) -> Near:
    """What an index says of a record; `text` is what it was made from, when that is not what it holds now."""
    key = EntryKey.of(record)
    return Near(key, digest(record.text if text is None else text), score)


def naming(store, *named: Near) -> list[str]:
    """Make this store one that also finds by meaning, and always names these; the list fills with what it is asked."""
    asked: list[str] = []

    async def resembling(text, scope, collections, limit):
        asked.append(text)
        return list(named)[:limit]

    store.resembling = resembling
    return asked


class Recall(octavo.Recall):
    """Recall over all that a test keeps: each test has a tenant of its own, in which everyone is meant."""

    def _queries(self, scope, filters):
        return super()._queries(scope, {"everyone": True, **filters})


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at
