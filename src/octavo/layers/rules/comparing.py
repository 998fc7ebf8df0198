"""Whether a fact is known already, changes something known, or is new."""

import re
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from octavo.layers.rules.facts import Fact, alike, words
from octavo.layers.rules.moments import without_times
from octavo.layers.rules.reading import reading
from octavo.layers.values import Known, OwnerType
from octavo.util.cache import Cache, size_of

Likeness = Literal["new", "same", "vaguer", "changed", "denied", "finer"]

MOST_CHARACTERS = 2000  # of one memory there is; it is compared by what it says first
MOST_COMPARED = 100_000  # characters of all of them together; the nearest come first
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)  # memories bring their own time; this one is never looked at
#: What contents were found to say: each is asked for again whenever its owner says something.
_read: Cache[tuple[str, OwnerType], tuple[Fact, ...]] = Cache()
_NEGATED = re.compile(r"不(?!错|过)|没|别|\b(?:not|never|no longer)\b|n't", re.IGNORECASE)
#: Of these a longer value says more of the same thing, and a shorter one less.
_GRADED = ("occupation", "employer", "residence", "workplace", "study", "student", "major", "home town")
_GRADED_MANY = ("school:", "degree:", "has:", "business:")
_LATELY = timedelta(days=2)


class Match(NamedTuple):
    """What a fact is beside what is known, and the memory and the fact in it that say so."""

    likeness: Likeness
    known: Known | None = None
    fact: Fact | None = None
    facts: tuple[Fact, ...] = ()  # all that the memory says


class Entry(NamedTuple):
    """One fact of a memory there is."""

    known: Known
    fact: Fact
    facts: tuple[Fact, ...]


class Memories:
    """The facts that are known, found by what they are about: a fact is compared with few of them."""

    def __init__(self) -> None:
        self.count = 0
        self._by_topic: dict[str, list[Entry]] = {}
        self._events: list[Entry] = []  # what has no slots is compared by its words

    def add(self, known: Known, facts: tuple[Fact, ...]) -> None:
        self.count += 1
        for fact in facts:
            entry = Entry(known, fact, facts)
            if not fact.slots:
                self._events.append(entry)
            for key in fact.slots:
                self._by_topic.setdefault(_topic(key), []).append(entry)

    def near(self, fact: Fact) -> Iterator[Entry]:
        """The facts that may be the same as this one, or be changed by it."""
        for key in fact.slots:
            yield from self._by_topic.get(_topic(key), ())
        for entry in self._events:
            # Who somebody is, and what happened, are two things; but a text no rule read may be either.
            if not fact.slots or entry.fact.category == "other":
                yield entry


def _topic(key: str) -> str:
    """Things of which a longer name says more are found together, and what is with what is not."""
    return key.partition(":")[0] if key.startswith(_GRADED_MANY) else key.removeprefix("not ")


def memories_of(known: Sequence[Known], owner_type: OwnerType) -> Generator[None, None, Memories]:
    """The memories there are with what they say, in steps."""
    found = Memories()
    room = MOST_COMPARED
    for one in known:
        content = one.content[:MOST_CHARACTERS]
        room -= len(content)
        if room < 0:
            break
        found.add(one, (yield from facts_of(content, owner_type)))
    return found


def facts_of(content: str, owner_type: OwnerType) -> Generator[None, None, tuple[Fact, ...]]:
    """What a memory says, in steps; read once, then remembered."""
    known = _read.get((content, owner_type))
    if known is not None:
        return known
    found = tuple((yield from reading(content, owner_type, _ANY_TIME)))
    if not found:  # what no rule understands is still compared by its words
        left = words(without_times(content, _ANY_TIME))
        found = (Fact("event", "other", content, {}, left, _NEGATED.search(content) is not None),)
    _read.put((content, owner_type), found, size_of(content) + sum(map(_size, found)))
    return found


def _size(fact: Fact) -> int:
    """The bytes a fact takes, about; its words are mostly the same few objects."""
    return 600 + size_of(fact.content, *fact.slots) + 64 * len(fact.words)


def compare(fact: Fact, memories: Memories, at: datetime) -> Match:
    """The nearest match of a fact among the memories: the same one before one that changes."""
    changed: Match | None = None
    own_words = fact.words or words(fact.content)
    for known, other, facts in memories.near(fact):
        likeness = (
            _by_slots(fact.slots, other.slots)
            if other.slots
            else _by_words(fact, own_words, other, known, at)
        )
        if likeness in ("same", "vaguer"):
            return Match(likeness, known, other, facts)
        # Of a memory that was not read to its end, what was not read would be lost with the change.
        if likeness != "new" and changed is None and len(known.content) <= MOST_CHARACTERS:
            changed = Match(likeness, known, other, facts)
    return changed or Match("new")


def _by_slots(new: dict[str, str], old: dict[str, str]) -> Likeness:
    found: Likeness = "new"
    shared, exact = 0, True
    for key, value in new.items():
        before = old.get(key)
        if before is None:
            likeness = _contrary(key, value, old) or _of_many(key, value, old)
        elif before == value:
            likeness = "same"
        elif ":" in key:
            likeness = "denied"
        else:
            likeness = _graded(value, before) if key in _GRADED else "changed"
        if likeness in ("changed", "denied", "finer"):
            found = likeness
        exact = exact and likeness == "same"
        shared += likeness in ("same", "vaguer")
    if found == "new" and shared == len(new):
        return "same" if exact and len(old) == len(new) else "vaguer"
    if found == "new" and shared and _single(new):
        return "finer"  # the job that was known, and now also where
    return found


def _contrary(key: str, value: str, old: dict[str, str]) -> Likeness | None:
    """Whether one says what something is, and the other what it is not."""
    if key.startswith("not "):
        was = old.get(key.removeprefix("not "))
        # Who does not live in Paris may well live in Berlin, as was known.
        return None if was is None or _graded(value, was) == "changed" else "denied"
    denied = old.get(f"not {key}")
    return None if denied is None else "denied" if denied == value else "changed"


def _single(slots: dict[str, str]) -> bool:
    return all(":" not in key for key in slots)


def _of_many(key: str, new: str, old: dict[str, str]) -> Likeness:
    if not key.startswith(_GRADED_MANY):
        return "new"
    kind, _, value = key.partition(":")
    for other, said in old.items():
        if (
            other.startswith(f"{kind}:")
            and (likeness := _graded(value, other.partition(":")[2])) != "changed"
        ):
            # "No kids" is shorter than "two kids", but it does not say less of the same.
            return likeness if new == said else "denied"
    return "new"


def _graded(new: str, old: str) -> Likeness:
    """Whether a value says more than the one before (finer), less (vaguer) or something else."""
    if new == old:
        return "same"
    if not new or not old:
        return "changed"
    ascii_only = new.isascii() and old.isascii()
    if (set(old.split()) <= set(new.split())) if ascii_only else old in new:
        return "finer"
    if (set(new.split()) <= set(old.split())) if ascii_only else new in old:
        return "vaguer"
    return "changed"


def _by_words(fact: Fact, own_words: frozenset[str], other: Fact, known: Known, at: datetime) -> Likeness:
    if not alike(own_words, other.words) or (not fact.slots and not _same_day(fact, known, at)):
        return "new"
    negated = fact.negated if not fact.slots else _NEGATED.search(fact.content) is not None
    return "same" if negated == other.negated else "denied"


def _same_day(fact: Fact, known: Known, at: datetime) -> bool:
    new, old = fact.happened_at, known.happened_at
    if new is None:
        # Told without a time: the happening of these days that was told with one, if there is one.
        return old is None or abs(_aware(at) - _aware(old)) <= _LATELY
    if old is None:
        return False
    return new.date() == (old.astimezone(new.tzinfo) if new.tzinfo and old.tzinfo else old).date()


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
