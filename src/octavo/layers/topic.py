"""What a memory is about, finer than its category: name, birthday, family, home, health, contact, work and the like.

Where a rule has read the fact, the rule knows. Otherwise its words and the topics of its words are weighed, as learned from
labelled sentences: "The user has had tinnitus since their twenties" tells of no birthday. `python -m bench.learn_clauses` makes
the weights.
"""

import math
import zlib
from collections.abc import Iterable
from functools import cache
from importlib import resources

from octavo.kernel.terms import is_topic
from octavo.kernel.terms.terms import simplify, terms
from octavo.kernel.terms.topics import topic_name, topics
from octavo.kernel.text import lazy_pattern

#: What the slots of a fact are about, as the rules name them; of those that are not here the words decide.
_OF_SLOTS = {
    "name": ("name", "nickname", "surname", "last name", "middle name", "昵称", "网名", "英文名", "花名", "小名", "笔名"),
    "birthday": ("birthday", "age", "生肖", "星座", "zodiac sign", "star sign"),
    "contact": ("phone number", "number", "email", "email address", "address", "手机号", "电话", "邮箱", "微信", "微信号", "地址", "qq", "username"),
    "home": ("residence", "not residence"),
    "hometown": ("home town", "祖籍", "nationality", "民族", "国籍"),
    "family": ("civil status", "not civil status"),
    "health": ("allergy", "health", "血型", "blood type"),
    "work": ("occupation", "employer", "workplace", "work", "works with", "works from", "leads", "business", "experience", "salary", "training", "not occupation", "not employer"),
    "education": ("school", "degree", "study", "student", "studied", "major"),
    "skills": ("can", "licence"),
    "language": ("mother tongue", "language test"),
    "personality": ("trait",),
    "opinion": ("value", "creed"),
}  # fmt: skip
_TOPIC_OF = {slot: topic for topic, slots in _OF_SLOTS.items() for slot in slots}
#: Of several topics of one text the first counts: what is said of nothing but one thing comes before what is said of many.
ORDER = (
    "family", "pets", "friends", "name", "birthday", "contact", "wedding", "death", "work", "education", "health", "home", "hometown", "language", "skills",
    "religion", "politics", "personality", "appointment", "travel", "purchase", "money", "transport", "diet", "food", "drink", "smoking", "hobby", "team", "sleep",
    "technology", "clothes", "holidays", "gift", "event", "accident", "legal", "military", "volunteering", "appearance", "fear", "plan", "routine", "answers", "opinion",
    "insurance", "delivery", "things", "furniture", "neighbours", "animals", "lost", "celebrity", "weather", "mood", "problem", "dislike", "like",
)  # fmt: skip
_OTHERS = ORDER[:3]
#: What makes somebody who they are, and mostly stays so for years; what should be known first comes first.
LASTING_TOPICS = (
    *("name", "home", "work", "family", "health", "education", "language", "birthday", "pets", "hometown"),
    "contact",
)
#: What is learned, in the order of the weights, and the finer topics that are told instead where the words name one of them.
LEARNED = (
    "work", "family", "health", "home", "hobby", "education", "food", "things", "pets", "skills", "personality", "routine", "purchase", "appointment",
    "language", "like", "opinion", "name", "travel", "contact", "birthday", "appearance",
)  # fmt: skip
_FINER = {
    "things": ("transport", "technology", "furniture", "clothes"), "hobby": ("team",), "food": ("diet", "drink"), "routine": ("smoking", "sleep"),
    "like": ("dislike", "food", "drink", "weather"), "appearance": ("clothes",), "opinion": ("politics", "religion"),
}  # fmt: skip
BITS = 13  # of a word's hash: how many rows of weights there are
SCALE = 16  # a weight is a byte, in sixteenths
_SURE = 0.5  # of what is learned; below it the first topic of ORDER counts
_MOST_CHARACTERS = 2000  # of a memory; a longer one is about everything
_HEALER = "(?:dentist|doctor|gp|therapist|physio(?:therapist)?|optician|midwife|orthodontist|dermatologist)"
#: Whoever goes to somebody at work is not at work there.
_PATIENT = lazy_pattern(
    rf"(?i)\b(?:their|my|the user's) (?:\w+ )?{_HEALER}\b|\b{_HEALER}(?:'s)? (?:appointment|visit|at \d|on )|"
    rf"\b(?:see|sees|seeing|saw|visit\w*|appointment with|appointment at) (?:an?|the) {_HEALER}\b|"
    "看(?:牙|医生|病|中医)|约了?(?:牙医|医生)"
)


def topic_of(content: str, slots: Iterable[str] = ()) -> str:
    """The topic of a memory, by the slots of its fact where the rules know them, else by its words; "" when none is known."""
    if topic := _topic_of_slots(content, slots):
        return topic
    found = _terms_of(content)
    about = set(map(topic_name, filter(is_topic, found)))
    topic, chance = _likeliest(_rows(found))
    if chance < _SURE:
        return "health" if _PATIENT.search(content[:_MOST_CHARACTERS]) else _first(about, ORDER)
    return _first(about, _FINER.get(topic, ())) or topic


def names_topic(content: str, slots: Iterable[str]) -> bool:
    """Whether the slots of a fact or one of its words name a topic; nothing is guessed."""
    return bool(_topic_of_slots(content, slots) or _first(_topics_in(content), ORDER))


def _topic_of_slots(content: str, slots: Iterable[str]) -> str:
    for slot in slots:
        kind = slot.partition(":")[0].removeprefix("former ")
        # What is said of somebody's wife is about the family, whatever it is.
        if topic := _TOPIC_OF.get(kind) or _first(_topics_in(kind.rpartition(" ")[0]), _OTHERS):
            return "language" if topic == "skills" and "language" in _topics_in(content) else topic
    return ""


def rows_of(content: str) -> list[int]:
    """Which rows of the weights a text is weighed by: those of its words, and of the topics of these."""
    return _rows(_terms_of(content))


def _terms_of(content: str) -> list[str]:
    content = simplify(content[:_MOST_CHARACTERS])
    found = terms(content)
    return [*found, *topics(content, found), "any"]


def _rows(found: list[str]) -> list[int]:
    return list({zlib.crc32(term.encode()) % (1 << BITS) for term in found})


@cache
def _weights() -> memoryview:
    return memoryview(resources.files(__package__).joinpath("topic.bin").read_bytes()).cast("b")


def _likeliest(rows: list[int]) -> tuple[str, float]:
    """The likeliest topic, and how likely it is, from 0 to 1."""
    weights, width, size = _weights(), len(LEARNED), SCALE * math.sqrt(len(rows))
    columns = zip(*[weights[row * width : (row + 1) * width] for row in rows], strict=True)
    sums = [sum(column) / size for column in columns]
    best = max(sums)
    return LEARNED[sums.index(best)], 1 / sum(math.exp(each - best) for each in sums)


def _topics_in(text: str) -> set[str]:
    return set(map(topic_name, filter(is_topic, _terms_of(text)))) if text else set()


def _first(about: set[str], order: Iterable[str]) -> str:
    return next((topic for topic in order if topic in about), "")
