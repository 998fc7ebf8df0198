"""Facts as the rules know them: the tables they are read by, what a fact is, and how equal ones are found equal.

A table is a text file beside this one. `NAME = one|two` is a list of words; `NAME ~ …` is a regular expression, in which
{OTHER} stands for what was given above; `kind slot: …` under a [category] is a way to state a fact of that category. An
indented line continues the line before it, and a line that begins with # is a comment.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from importlib import resources
from typing import NamedTuple

from octavo.kernel.terms.dates import (
    FESTIVAL_NAMES,
    MONTH_NAMES,
    NUMBER_NAMES,
    ORDINAL_NAMES,
    WEEKDAY_NAMES,
    YEARS_CHINESE,
)
from octavo.kernel.terms.english import STOP_WORDS, stem
from octavo.kernel.terms.terms import terms
from octavo.kernel.terms.topics import topic_name, topics
from octavo.kernel.text import fold, lazy_pattern
from octavo.layers.values import Layer

#: What people tell of themselves only, what they mostly tell of themselves, and what they have.
PERSONAL = frozenset({"allergy", "injury", "medication", "disability", "eyesight", "pregnancy", "diet", "birthday", "name", "contact", "appearance", "religion", "retirement", "military", "language", "skills"})  # fmt: skip
OF_LIFE = PERSONAL | {"health", "mentalhealth", "teeth", "partner", "siblings", "children", "pets", "hometown", "home", "dwelling", "car", "bike", "debt", "work", "education", "hobby", "quitting", "dislike", "fear"}  # fmt: skip
OF_SELF = frozenset({"health", "injury", "medication", "disability", "mentalhealth", "pregnancy", "bloodtype", "size", "instrument", "zodiac"})  # fmt: skip
#: What is so from then on when it was done, and what has passed.
_LASTING = frozenset({"work", "education", "skills", "language", "family", "home", "health", "diet", "pets", "disability", "religion", "military", "things", "car", "bike"})  # fmt: skip
_PASSING = frozenset({"purchase", "travel", "appointment", "event", "delivery", "gift", "money", "commute", "business"})  # fmt: skip
_CATEGORY_OF = {"work": "career", "education": "education", "skills": "ability", "language": "ability", "personality": "personality", "religion": "value", "politics": "value", "disability": "preference"}  # fmt: skip
_BESIDES = re.compile(r",| (?:after|since|when|because|while|until|before|from|for|with)\b")
_ON_THE_WAY = lazy_pattern(
    r"\b(?:to|from|after|before) (?:work|school)\b|\bat the office\b|\b(?:speak|spoken?) (?:to|with)\b|\d degrees\b|(?<=[一二两三四五六七八九几])百度|佛山|[骑坐开乘搭].{1,6}上下?班|上下?班路上"
)
_DEFINITION = re.compile(r"([A-Z_]+) ([=~]) (.+)")
_REFERENCE = re.compile(r"\{([A-Z_]+)\}")


class FactPattern(NamedTuple):
    """How a fact is stated: the pattern, which kind of statement it is, and what it is about."""

    pattern: "re.Pattern[str]"
    kind: str
    slot: str
    category: str


class RuleTable:
    """One language as the rules know it, or what is of none; its patterns are attributes, under their names.

    A pattern is compiled when it is first asked for: all of them together take most of a second, and who writes in one
    language never needs the other's.
    """

    def __init__(self, name: str, flags: re.RegexFlag = re.NOFLAG, **given: str) -> None:
        self.words: dict[str, tuple[str, ...]] = {}
        self._flags = flags
        self._texts = dict(given)
        self._stated: list[tuple[str, str, str, str]] = []
        category = ""
        for line in _lines(name):
            if line.startswith("["):
                category = line.strip("[]")
            elif (match := _DEFINITION.match(line)) is None:
                how, _, pattern = line.partition(": ")
                kind, _, slot = how.partition(" ")
                self._stated.append((self._filled(pattern), kind, slot, category))
            elif match[2] == "=":
                self.words[match[1]] = tuple(match[3].split("|"))
                self._texts[match[1]] = _alternatives(self.words[match[1]])
            else:
                self._texts[match[1]] = self._filled(match[3])

    def _filled(self, text: str) -> str:
        return _REFERENCE.sub(lambda match: self._texts[match[1]], text)

    def __getattr__(self, name: str) -> "re.Pattern[str]":
        """Called once for each pattern, which is an attribute like others from then on."""
        if name.startswith("_") or name not in self._texts:
            raise AttributeError(f"the table has no pattern {name}")
        pattern = self.__dict__[name] = lazy_pattern(self._texts[name], self._flags)
        return pattern

    @cached_property
    def facts(self) -> list[FactPattern]:
        """The ways to state a fact, in their order."""
        return [FactPattern(lazy_pattern(text, self._flags), *of) for text, *of in self._stated]

    def pairs(self, name: str) -> dict[str, str]:
        """A list of words that are written as `this:that`."""
        return dict(word.split(":") for word in self.words[name])


def _lines(table: str) -> Iterator[str]:
    """The lines of a table, each with those that continue it."""
    whole = ""
    for line in resources.files(__package__).joinpath(f"{table}.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            whole += line[4:]
            continue
        if whole:
            yield whole
        whole = "" if line.startswith("#") else line
    if whole:
        yield whole


def _alternatives(words: tuple[str, ...]) -> str:
    """A pattern of any of the words, longest first: of 爸 and 爸爸 the longer is read."""
    longest_first = sorted(set(words), key=len, reverse=True)
    return "(?:" + "|".join(re.escape(word).replace(r"\ ", " ") for word in longest_first) + ")"


CHINESE = RuleTable("chinese")
ENGLISH = RuleTable("english", re.IGNORECASE, WEEKDAYS=WEEKDAY_NAMES)
COMMON = RuleTable(
    "common", re.IGNORECASE,
    MONTHS=MONTH_NAMES, WEEKDAYS=WEEKDAY_NAMES, COUNTS=NUMBER_NAMES, ORDINALS=ORDINAL_NAMES, YEARS=YEARS_CHINESE,
    FESTIVALS=FESTIVAL_NAMES, PAST=ENGLISH.PAST.pattern,
)  # fmt: skip
#: Words that mean the same, or nearly so, by the one that stands for them.
SYNONYMS = COMMON.pairs("SYNONYMS")
_WEAK = STOP_WORDS.union(COMMON.words["WEAK"])

YES, NO = "yes", "no"
#: Of these there is one, and "not this one" is worth knowing.
_DENIED = frozenset({"occupation", "employer", "workplace", "residence", "home town", "name", "student", "study", "civil status"})  # fmt: skip


class StatedFact(NamedTuple):
    """One statement: what it is about and what it says of it (`slots`), or, for what happened, its words.

    A slot of something that can have one value only is {"occupation": "nurse"}; of something that can have many,
    the value is part of the name: {"like:coffee": "yes"}. So a denial is a changed value and never the same fact.
    """

    layer: Layer
    category: str
    content: str
    slots: dict[str, str]
    words: frozenset[str] = frozenset()
    negated: bool = False
    happened_at: datetime | None = None
    time_text: str = ""
    implied: "StatedFact | None" = None  # what changes with what happened: who moved lives elsewhere now
    quote: str = ""  # the sentence that says so


class ProfileStatement(NamedTuple):
    """A category, and the slots of each fact of it; `items` are the things of a list as they were written."""

    category: str
    slots: list[dict[str, str]]
    items: tuple[str, ...] = ()


def plain(value: str) -> str:
    """A value as it is compared: case, particles, articles and word forms aside; near synonyms are one."""
    value = fold(value).strip(" \t.,;:!?。，；：！？、\"'“”‘’()（）")
    if found := SYNONYMS.get(value):
        return found
    if COMMON.HAN.search(value):
        short = COMMON.EMPTY_CHINESE.sub("", value).replace(" ", "")
        return SYNONYMS.get(short, short) or value
    strong = [word for word in COMMON.WORD.findall(value) if word not in _WEAK]
    if found := SYNONYMS.get(" ".join(strong)):
        return found
    return " ".join(stem(word) for word in strong) or value


def words(text: str) -> frozenset[str]:
    """What a happening is compared by: pairs of Chinese characters and stems of English words, the empty ones aside."""
    found: set[str] = set()
    for run in COMMON.WORD.findall(COMMON.EMPTY_CHINESE.sub("", COMMON.OWNER_CHINESE.sub("", fold(text)))):
        if COMMON.HAN.match(run):
            found.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif run not in _WEAK:
            found.add(stem(run))
    return frozenset(found)


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two happenings are told in nearly the same words."""
    if not one or not other:
        return one == other
    shared = len(one & other)
    if not shared or any(word.isdigit() for word in one ^ other):
        return False  # five kilometres are not ten
    fewer = min(len(one), len(other))
    return shared / len(one | other) >= 0.72 or (fewer >= 3 and shared / fewer >= 0.9)


def category_of(text: str) -> str:
    """The category of what somebody says of themselves, by what it is about."""
    text = _ON_THE_WAY.sub("", text)  # "rides a Vespa to work" is not about the work, nor 佛山 about Buddha
    about = {_CATEGORY_OF.get(topic, "") for topic in _topic_names(text)} - {""}
    return about.pop() if len(about) == 1 else "preference"


def is_personal(text: str, wanted: frozenset[str] = PERSONAL) -> bool:
    """Whether a text that names nobody is about something that people tell of themselves: an injury, a birthday."""
    return not wanted.isdisjoint(_topic_names(text))


def lasting_category(text: str) -> str:
    """The category of what was done and is so from then on: a trade learnt, a home found; none of what has passed."""
    if is_personal(text, _PASSING):
        return ""
    about = _topic_names(_BESIDES.split(text.partition(" ")[2], maxsplit=1)[0])
    kinds = {_CATEGORY_OF.get(topic, "preference") for topic in about & _LASTING}
    kinds = kinds - {"preference"} or kinds
    if kinds == {"career", "education"}:
        return "education"  # an apprenticeship is both
    return kinds.pop() if len(kinds) == 1 else ""


def _topic_names(text: str) -> set[str]:
    return {topic_name(topic) for topic in topics(text, terms(text))}


def has_han(text: str) -> bool:
    """Whether a text is read by the Chinese rules; "my name is 王芳" is not."""
    return COMMON.HAN.search(text) is not None and COMMON.SPOKEN_ENGLISH.match(text) is None


def denied(statement: ProfileStatement | None) -> ProfileStatement | None:
    """That something is not so, or no more; None where that says nothing."""
    if statement is None or not all(
        ":" in key or key in _DENIED for slots in statement.slots for key in slots
    ):
        return None
    return statement._replace(slots=[dict(map(_not, slots.items())) for slots in statement.slots])


def _not(slot: tuple[str, str]) -> tuple[str, str]:
    key, value = slot
    return (key, NO if value == YES else YES) if ":" in key else (f"not {key}", value)
