"""Facts found by rules and compared with what is known: no model, no network, the same answer every time."""

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from octavo.kernel.terms.terms import simplify
from octavo.layers import reasons
from octavo.layers.rules.endings import describe_ended, find_ended
from octavo.layers.rules.facts import (
    CHINESE,
    COMMON,
    ENGLISH,
    NO,
    YES,
    StatedFact,
    alike,
    has_han,
    words,
)
from octavo.layers.rules.profile import CHINESE_PROFILE, ENGLISH_PROFILE
from octavo.layers.rules.reading import (
    GRADED_MANY,
    MOST_OF_MEMORY,
    KnownFacts,
    memories_of,
    read,
    reading,
    topic_of_slot,
)
from octavo.layers.rules.sentences import LONGEST_CLAUSE, MOST_CHARACTERS
from octavo.layers.topic import topic_of
from octavo.layers.values import Decision, Known, Layer, OwnerType
from octavo.util.sync import run_in_turns, run_steps

Likeness = Literal["new", "same", "vaguer", "changed", "denied", "finer", "ended"]
_GRADED = ("occupation", "employer", "residence", "workplace", "study", "student", "major", "home town")
#: Of these two may be told in one breath: 主业写代码，副业跟拍.
_BESIDE = frozenset({"work", "major", "degree", "study", "leads", "experience"})
_LATELY = timedelta(days=2)
_ACTIONS = {"new": "insert", "same": "ignore", "vaguer": "ignore", "changed": "update", "denied": "update", "finer": "update", "ended": "update"}  # fmt: skip
#: What a word or two that are no sentence are about.
_BARE = (
    (CHINESE.OCCUPATIONS, "career"),
    (CHINESE.BARE_EDUCATION, "education"),
    (CHINESE.TRAITS, "personality"),
    (CHINESE.LANGUAGES, "ability"),
    (ENGLISH.OCCUPATION, "career"),
    (ENGLISH.BARE_EDUCATION, "education"),
    (ENGLISH.BARE_TRAIT, "personality"),
    (ENGLISH.BARE_LANGUAGE, "ability"),
)
_FIRST = 5  # texts of a language that are read in a thread: they compile its patterns, for which no event loop should stand still
_read: Counter[tuple[str, bool]] = Counter()  # what was done so often with texts in Chinese, and with others
_CATEGORISED = 1000  # characters; what kind of thing a text tells is told by its beginning
_ANY_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 - a category does not depend on the time


class FactMatch(NamedTuple):
    """What a fact is beside what is known, and the memory and the fact in it that say so."""

    likeness: Likeness
    known: Known | None = None
    fact: StatedFact | None = None
    facts: tuple[StatedFact, ...] = ()  # all that the memory says


class RuleExtractor:
    """Decides by rules, in Chinese and English; it holds nothing open."""

    most_characters = MOST_CHARACTERS

    async def decide(
        self, text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime
    ) -> list[Decision]:
        """What to do with each fact of the text, in its order."""
        if _read[which := ("decide", has_han(text))] >= _FIRST:
            return await run_in_turns(_deciding(text, known, owner_type, at))
        decided = await asyncio.to_thread(decide, text, known, owner_type=owner_type, at=at)
        _read[which] += 1
        return decided

    async def close(self) -> None:
        """Nothing to close."""


def decide(text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime) -> list[Decision]:
    """What `RuleExtractor.decide` answers, without waiting."""
    return run_steps(_deciding(text, known, owner_type, at))


def _deciding(
    text: str, known: Sequence[Known], owner_type: OwnerType, at: datetime
) -> Generator[None, None, list[Decision]]:
    memories = yield from memories_of(known, owner_type)
    facts = yield from _once((yield from reading(text, owner_type, at, known, weighed=True)), at)
    matches: list[FactMatch] = []
    for fact in facts:
        matches.append(compare(fact, memories, at))
        yield
    # By which facts of a memory it is changed: what is no longer so must not be kept beside it.
    changed = [match.fact for match in matches if _ACTIONS[match.likeness] == "update"]
    found: list[Decision] = []
    superseded: set[str] = set()
    for fact, first in zip(facts, matches, strict=True):
        match = first
        if match.known and _ACTIONS[match.likeness] == "update" and match.known.id in superseded:
            match = FactMatch("new")  # one text supersedes a memory once
        found.append(_decision(fact, match, memories.count, changed))
        if match.known and found[-1].action == "update":
            superseded.add(match.known.id)
        told_again = match.likeness in ("same", "vaguer")  # what it changed, it changed then
        if not told_again and (moved := _implied(fact, memories, at, superseded)) is not None:
            found.append(moved)
            superseded.add(moved.target or "")
    return found


def _once(facts: list[StatedFact], at: datetime) -> Generator[None, None, list[StatedFact]]:
    """The facts of a text, each once; of two that contradict each other the later one."""
    kept: dict[str, StatedFact] = {}
    before = KnownFacts()
    stated = {key for fact in facts for key in fact.slots}
    for n, fact in enumerate(facts):
        if fact.slots and all(key.startswith("not ") and key[4:] in stated for key in fact.slots):
            continue  # 我不是老师，是医生: what is so says it all
        match = compare(fact, before, at)
        yield
        if match.likeness in ("same", "vaguer"):
            continue
        # "I'm a lifeguard in summer and a ski instructor in winter": one sentence may tell of two trades.
        both = match.fact and match.fact.quote == fact.quote != "" and "occupation" in fact.slots
        beside = both or match.likeness == "ended"
        beside = beside or (match.likeness == "changed" and fact.slots.keys() <= _BESIDE)
        if match.known is not None and not beside:
            kept.pop(match.known.id, None)
        kept[str(n)] = fact
        known = Known(
            id=str(n), layer=fact.layer, category=fact.category, content="", happened_at=fact.happened_at
        )
        before.add(known, (fact,))
    return list(kept.values())


def _decision(
    fact: StatedFact, match: FactMatch, compared: int, changed: Sequence[StatedFact | None] = ()
) -> Decision:
    action = _ACTIONS[match.likeness]
    layer, category, content = fact.layer, fact.category, fact.content
    if match.known is not None:
        if match.known.layer != layer:  # a memory stays in the layer where it is
            layer, category = match.known.layer, match.known.category
        if match.likeness == "ended" and match.fact is not None:
            alone = len(match.facts) == 1 and match.known.content
            content = describe_ended(fact, match.known.content if alone else match.fact.content)
        gone = [match.fact, *changed]
        rest = [other.content for other in match.facts if not any(other is one for one in gone)]
        if action == "update" and rest:
            # A memory of several facts keeps those that did not change.
            content = ("，" if has_han(content) else "; ").join([content, *rest])
    return Decision(
        action=action,  # type: ignore[arg-type]
        layer=layer,
        category=category,
        content=content,
        reason=reasons.describe_comparison(
            fact.category,
            fact.content,
            match.known.content if match.known else "",
            match.likeness,
            compared,
            zh=has_han(fact.content),
        ),
        target=match.known.id if match.known else None,
        happened_at=fact.happened_at,
        time_text=fact.time_text,
        topic=topic_of(fact.content, fact.slots),
        quote=fact.quote,
    )


def _implied(fact: StatedFact, memories: KnownFacts, at: datetime, superseded: set[str]) -> Decision | None:
    """What a happening changes in the profile: who moved to Lisbon no longer lives in Berlin."""
    if not fact.implied or fact.negated:
        return None
    match = compare(fact.implied, memories, at)
    if (
        match.known is None
        or match.likeness not in ("changed", "finer", "denied")
        or match.known.id in superseded
    ):
        return None
    return _decision(fact.implied, match, memories.count)


async def find_category(text: str, layer: Layer) -> str | None:
    """What `categorise` answers."""
    if _read[which := ("categorise", has_han(text))] >= _FIRST:
        return categorise(text, layer)
    category = await asyncio.to_thread(categorise, text, layer)
    _read[which] += 1
    return category


def categorise(text: str, layer: Layer) -> str | None:
    """The category of a text that is to be kept in a layer, or None when no rule knows it."""
    text = simplify(text[:_CATEGORISED])
    for fact in read(text, "user", _ANY_TIME):
        if fact.layer == layer:
            return fact.category
    if layer == "event":
        return None
    text = text[:LONGEST_CLAUSE]
    statement = (CHINESE_PROFILE if has_han(text) else ENGLISH_PROFILE).statement(text)
    if statement is not None:
        return statement.category
    return next((category for pattern, category in _BARE if pattern.search(text)), None)


# --- comparing


def compare(fact: StatedFact, memories: KnownFacts, at: datetime) -> FactMatch:
    """The nearest match of a fact among the memories: the same one before one that changes."""
    if (same := memories.same(fact)) is not None:
        return FactMatch("same", *same)
    changed: FactMatch | None = None
    own_words = fact.words or words(fact.content)
    for known, other, facts in memories.near(fact):
        likeness = (
            _by_slots(fact.slots, other.slots)
            if other.slots
            else _by_words(fact, own_words, other, known, at)
        )
        if likeness in ("same", "vaguer"):
            return FactMatch(likeness, known, other, facts)
        # Of a memory that was not read to its end, what was not read would be lost with the change.
        if likeness != "new" and changed is None and len(known.content) <= MOST_OF_MEMORY:
            changed = FactMatch(likeness, known, other, facts)
    # A resignation or a move changes what it implies.
    implies = fact.implied and compare(fact.implied, memories, at).likeness not in ("new", "ended")
    if not changed and not implies and (ended := find_ended(fact, memories, at)) is not None:
        return FactMatch("ended", *ended)
    return changed or FactMatch("new")


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
            likeness = "vaguer" if value == YES and before != NO else "denied"  # 每天跑步, at whatever hour
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
        if not value:  # the old one, whatever it was
            return None if was is None else "denied"
        # Who does not live in Paris may well live in Berlin, as was known.
        return None if was is None or _graded(value, was) == "changed" else "denied"
    denied = old.get(f"not {key}")
    return None if denied is None else "denied" if denied == value else "changed"


def _single(slots: dict[str, str]) -> bool:
    return all(":" not in key for key in slots)


def _of_many(key: str, new: str, old: dict[str, str]) -> Likeness:
    kind, _, value = key.partition(":")
    if kind == "like" and new == NO:
        # Who drinks no coffee does not drink it black; who does not drink it black may well drink it.
        liked = key in [topic_of_slot(other) for other, said in old.items() if said == YES]
        return "denied" if liked else "new"
    if not key.startswith(GRADED_MANY):
        return "new"
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


def _by_words(
    fact: StatedFact, own_words: frozenset[str], other: StatedFact, known: Known, at: datetime
) -> Likeness:
    if not alike(own_words, other.words) or (not fact.slots and not _same_day(fact, known, at)):
        return "new"
    negated = fact.negated if not fact.slots else COMMON.NEGATED.search(simplify(fact.content)) is not None
    return "same" if negated == other.negated else "denied"


def _same_day(fact: StatedFact, known: Known, at: datetime) -> bool:
    new, old = fact.happened_at, known.happened_at
    if new is None:
        # Told without a time: the happening of these days that was told with one, if there is one.
        return old is None or abs(_aware(at) - _aware(old)) <= _LATELY
    if old is None:
        return False
    return new.date() == (old.astimezone(new.tzinfo) if new.tzinfo and old.tzinfo else old).date()


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
