"""Facts found by rules and compared with what is known: no model, no network, the same answer every time."""

import re
from collections.abc import Generator, Sequence
from datetime import datetime

from octavo.layers import reasons
from octavo.layers.rules import profile_en, profile_zh
from octavo.layers.rules.comparing import Match, Memories, compare, memories_of
from octavo.layers.rules.facts import Fact, has_han
from octavo.layers.rules.profile_en import ENGLISH
from octavo.layers.rules.profile_zh import CHINESE
from octavo.layers.rules.reading import read, reading
from octavo.layers.rules.sentences import LONGEST_CLAUSE, MOST_CHARACTERS
from octavo.layers.values import Decision, Known, Layer, OwnerType
from octavo.util.turns import at_once, in_turns

_ACTIONS = {"new": "insert", "same": "ignore", "vaguer": "ignore", "changed": "update", "denied": "update", "finer": "update"}  # fmt: skip
#: What a word or two that are no sentence are about.
_BARE = (
    (CHINESE.OCCUPATIONS, "career"),
    (
        re.compile(
            rf"{CHINESE.SCHOOL.pattern}|{CHINESE.DEGREE.pattern}|{CHINESE.STUDENT.pattern}|专业|[\u3400-\u9fff]系$"
        ),
        "education",
    ),
    (CHINESE.TRAITS, "personality"),
    (CHINESE.LANGUAGES, "ability"),
    (ENGLISH.OCCUPATION, "career"),
    (re.compile(r"\b(?:university|college|degree|phd|school|student)\b", re.IGNORECASE), "education"),
    (re.compile(rf"\b{ENGLISH.TRAITS.pattern}\b", re.IGNORECASE), "personality"),
    (re.compile(rf"\b{ENGLISH.LANGUAGES.pattern}\b", re.IGNORECASE), "ability"),
)
_CATEGORISED = 1000  # characters; what kind of thing a text tells is told by its beginning
_ANY_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 - a category does not depend on the time


class RuleExtractor:
    """Decides by rules, in Chinese and English; it holds nothing open."""

    most_characters = MOST_CHARACTERS

    async def decide(
        self, text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime
    ) -> list[Decision]:
        """What to do with each fact of the text, in its order."""
        return await in_turns(_deciding(text, known, owner_type, at))

    async def close(self) -> None:
        """Nothing to close."""


def decide(text: str, known: Sequence[Known], *, owner_type: OwnerType, at: datetime) -> list[Decision]:
    """What `RuleExtractor.decide` answers, without waiting."""
    return at_once(_deciding(text, known, owner_type, at))


def _deciding(
    text: str, known: Sequence[Known], owner_type: OwnerType, at: datetime
) -> Generator[None, None, list[Decision]]:
    memories = yield from memories_of(known, owner_type)
    facts = yield from _once((yield from reading(text, owner_type, at)), at)
    matches: list[Match] = []
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
            match = Match("new")  # one text supersedes a memory once
        found.append(_decision(fact, match, memories.count, changed))
        if match.known and found[-1].action == "update":
            superseded.add(match.known.id)
        if (moved := _implied(fact, memories, at, superseded)) is not None:
            found.append(moved)
            superseded.add(moved.target or "")
    return found


def _once(facts: list[Fact], at: datetime) -> Generator[None, None, list[Fact]]:
    """The facts of a text, each once; of two that contradict each other the later one."""
    kept: dict[str, Fact] = {}
    before = Memories()
    stated = {key for fact in facts for key in fact.slots}
    for n, fact in enumerate(facts):
        if fact.slots and all(key.startswith("not ") and key[4:] in stated for key in fact.slots):
            continue  # 我不是老师，是医生: what is so says it all
        match = compare(fact, before, at)
        yield
        if match.likeness in ("same", "vaguer"):
            continue
        if match.known is not None:
            kept.pop(match.known.id, None)
        kept[str(n)] = fact
        known = Known(
            id=str(n), layer=fact.layer, category=fact.category, content="", happened_at=fact.happened_at
        )
        before.add(known, (fact,))
    return list(kept.values())


def _decision(fact: Fact, match: Match, compared: int, changed: Sequence[Fact | None] = ()) -> Decision:
    action = _ACTIONS[match.likeness]
    layer, category, content = fact.layer, fact.category, fact.content
    if match.known is not None:
        if match.known.layer != layer:  # a memory stays in the layer where it is
            layer, category = match.known.layer, match.known.category
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
        reason=reasons.compared(
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
    )


def _implied(fact: Fact, memories: Memories, at: datetime, superseded: set[str]) -> Decision | None:
    """What a happening changes in the profile: who moved to Lisbon no longer lives in Berlin."""
    if not fact.implied or fact.negated:
        return None
    match = compare(fact.implied, memories, at)
    if match.known is None or match.likeness not in ("changed", "finer") or match.known.id in superseded:
        return None
    return _decision(fact.implied, match, memories.count)


def categorise(text: str, layer: Layer) -> str | None:
    """The category of a text that is to be kept in a layer, or None when no rule knows it."""
    text = text[:_CATEGORISED]
    for fact in read(text, "user", _ANY_TIME):
        if fact.layer == layer:
            return fact.category
    if layer == "event":
        return None
    text = text[:LONGEST_CLAUSE]
    statement = profile_zh.profile_statement(text) if has_han(text) else profile_en.profile_statement(text)
    if statement is not None:
        return statement.category
    return next((category for pattern, category in _BARE if pattern.search(text)), None)
